"""A generated domain: road signs as a cheap camera sees them. Nothing to download.

A class is a body (outline and colours) with a symbol; a picture of it has its own pose,
background, light, shadow, blur, noise and compression. A picture depends on (class, picture,
seed) alone; `size` only changes its resolution.
"""

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.symbols import BODIES, SYMBOLS, Body, box
from tinytrain.errors import UsageError
from tinytrain.seeds import rng_for

N_CLASSES = len(BODIES) * len(SYMBOLS)
OVERSAMPLING = 2
CLUTTER = 9


def signs(classes: range = range(48), per_class: int = 60, seed: int = 0) -> Dataset:
    """A dataset of `per_class` pictures of each of `classes`, drawn when they are read.

    Disjoint ranges out of 0..N_CLASSES - 1 make disjoint source and target domains.
    Raises UsageError for classes that do not exist.
    """
    if not classes or min(classes) < 0 or max(classes) >= N_CLASSES or per_class < 1:
        raise UsageError(
            "bad-classes", f"{classes} x {per_class} given; there are classes 0..{N_CLASSES - 1}"
        )
    usual = (classes, per_class, seed) == (range(48), 60, 0)
    name = "signs" if usual else f"signs-{classes.start}-{classes.stop}-{classes.step}x{per_class}-{seed}"

    def read(i: int, size: int) -> np.ndarray:
        return generate(classes[i // per_class], i % per_class, seed, size)

    return Dataset(
        name=name,
        labels=np.repeat(np.arange(len(classes), dtype=np.int32), per_class),
        class_names=tuple(class_name(c) for c in classes),
        names=tuple(f"{name}/{class_name(c)}/{p}" for c in classes for p in range(per_class)),
        read=read,
        may_flip=False,  # an arrow to the left is not one to the right
        licence="generated, no restrictions",
    )


def class_name(class_id: int) -> str:
    body, symbol = _parts(class_id)
    return f"{body} {symbol}"


def generate(class_id: int, picture_id: int, seed: int, size: int) -> np.ndarray:
    """Picture `picture_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "signs", class_id, picture_id)
    body, symbol = _parts(class_id)
    canvas = _background(rng, size * OVERSAMPLING)
    _draw_sign(canvas, BODIES[body], SYMBOLS[symbol], rng)
    return _through_camera(canvas.reduce(OVERSAMPLING), rng)


def _parts(class_id: int) -> tuple[str, str]:
    """Names of the body and the symbol of a class.

    The first 48 classes use every body four times and every symbol at least once, so that
    neither alone tells the class.
    """
    round_, body = divmod(class_id, len(BODIES))
    return list(BODIES)[body], list(SYMBOLS)[(round_ + 5 * body) % len(SYMBOLS)]


def _background(rng, side: int) -> Image.Image:
    """Sky, walls and leaves: a blurred patchwork, then clutter with hard edges."""
    cells = int(rng.integers(2, 9))
    base = rng.uniform(50, 200) + rng.normal(0, 22, 3)
    patches = base + rng.normal(0, 34, (cells, cells, 1)) + rng.normal(0, 11, (cells, cells, 3))
    patches = Image.fromarray(np.clip(patches, 0, 255).astype(np.uint8))
    canvas = patches.resize((side, side), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(canvas)
    for _ in range(rng.integers(2, CLUTTER)):
        colour = _bytes(base + rng.normal(0, 45) + rng.normal(0, rng.choice((8, 50)), 3))
        x, y = rng.uniform(-0.1, 1.1, 2) * side
        w, h = rng.uniform(0.02, 0.5, 2) * side
        if rng.random() < 0.3:
            draw.ellipse((x - w / 2, y - h / 2, x + w / 2, y + h / 2), fill=colour)
        else:
            turn = rng.uniform(-0.5, 0.5)
            corners = box(-w / 2, -h / 2, w / 2, h / 2) @ _rotation(turn) + (x, y)
            draw.polygon([tuple(c) for c in corners.tolist()], fill=colour)
    return canvas


def _bytes(colour: np.ndarray) -> tuple[int, ...]:
    """A colour as ImageDraw wants it."""
    return tuple(np.clip(colour, 0, 255).astype(int).tolist())


def _rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def _draw_sign(canvas: Image.Image, body: Body, symbol, rng) -> None:
    draw = ImageDraw.Draw(canvas)
    project = _pose(rng, canvas.width)
    paint = _worn_paint(rng)

    def fill(polygon, colour):
        draw.polygon([tuple(c) for c in project(polygon).tolist()], fill=colour)

    if rng.random() < 0.6:
        pole = int(rng.uniform(60, 150))
        fill(box(-0.07, 0.3, 0.07, 6.0), (pole, pole, pole))
    fill(body.outline, paint(body.border))
    face = paint(body.face)
    fill(body.outline * body.face_scale + (0, body.face_y), face)
    drawn = paint(body.symbol)
    for inked, polygon in symbol:
        fill(polygon * body.symbol_scale + (0, body.symbol_y), drawn if inked else face)
    if body.slashed:
        fill(box(-0.85, -0.08, 0.85, 0.08) @ _rotation(np.pi / 4), paint(body.border))
    if rng.random() < 0.25:  # a sticker, a leaf or a branch covers a part
        x, y = rng.uniform(-0.9, 0.9, 2)
        w, h = rng.uniform(0.1, 0.35, 2)
        corners = box(-w, -h, w, h) @ _rotation(rng.uniform(0, np.pi)) + (x, y)
        fill(corners, tuple(rng.integers(20, 220, 3).tolist()))


def _pose(rng, side: int):
    """A function from sign coordinates (n, 2) to pixels: turned in space, seen in perspective."""
    roll, pitch, yaw = np.deg2rad(rng.normal(0, (7, 14, 22)))
    scale = rng.uniform(0.24, 0.46) * side
    centre = side * (0.5 + rng.uniform(-0.14, 0.14, 2))

    def project(points: np.ndarray) -> np.ndarray:
        x, y = (points @ _rotation(roll)).T
        y, z = y * np.cos(pitch), y * np.sin(pitch)
        x, z = x * np.cos(yaw) + z * np.sin(yaw), z * np.cos(yaw) - x * np.sin(yaw)
        nearness = scale / np.maximum(1 + z / 4, 0.1)
        return centre + np.stack([x * nearness, y * nearness], axis=1)

    return project


def _worn_paint(rng):
    """A function from a colour as new to the colour on this sign: faded, dirty, of another maker."""
    faded, dirt = rng.uniform(0, 0.3), rng.uniform(0.7, 1.0)
    maker = rng.normal(0, 9, 3)

    def paint(colour) -> tuple[int, int, int]:
        new = np.array(colour, dtype=float)
        worn = (new + (new.mean() * 0.4 + 90 - new) * faded) * dirt + maker
        return _bytes(worn)

    return paint


def _through_camera(scene: Image.Image, rng) -> np.ndarray:
    """Light, lens, sensor and compression. Returns uint8 (size, size, 3)."""
    size = scene.width
    radius = rng.exponential(0.45) * size / 128
    if radius > 0.25:
        scene = scene.filter(ImageFilter.GaussianBlur(min(radius, 2.2 * size / 128)))
    light = _light(rng, size)
    tint = rng.normal(1, 0.07, 3).astype(np.float32)
    noise = rng.standard_normal((size, size, 3), dtype=np.float32) * np.float32(rng.uniform(1, 9))
    sensed = np.asarray(scene, dtype=np.float32) * light[..., None] * tint + noise
    taken = Image.fromarray(np.clip(sensed, 0, 255, out=sensed).astype(np.uint8))
    file = io.BytesIO()
    taken.save(file, "JPEG", quality=int(rng.integers(30, 92)))
    return np.array(Image.open(file))


def _light(rng, size: int) -> np.ndarray:
    """Brightness of every pixel, float32 (size, size): a gradient, sometimes a soft shadow."""
    at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.7)
    across = np.float32(np.cos(angle)) * at[None, :] + np.float32(np.sin(angle)) * at[:, None]
    light = np.float32(np.exp(rng.normal(-0.05, 0.28))) * (1 + np.float32(strength) * across)
    if rng.random() < 0.4:
        angle, offset, depth = rng.uniform(0, 2 * np.pi), rng.uniform(-0.25, 0.25), rng.uniform(0.25, 0.6)
        beyond = np.float32(np.cos(angle)) * at[None, :] + np.float32(np.sin(angle)) * at[:, None] - offset
        light *= 1 - np.float32(depth) * np.clip(beyond * rng.uniform(8, 60), 0, 1).astype(np.float32)
    return light
