"""A generated domain: invented characters, written by many hands. Nothing to download.

A class is a character of a few strokes. An image of it has its own hand, pen, ink, sheet or
board, pose, light, blur, noise and compression; colours say nothing about the class.
"""

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    noise,
    pose,
    rotation,
    through_camera,
)
from tinytrain.datasets.generated.strokes import POINTS, glyph

N_CLASSES = 4096
NEIGHBOURS = 512  # characters that may stand beside the one that is meant
OVERSAMPLING = 2
PENS = ("ballpoint", "felt", "nib", "brush", "dry")


def class_name(class_id: int) -> str:
    return f"glyph {class_id:03d}"


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "glyphs", class_id, image_id)
    background, ink = _colours(rng)
    project = pose(rng, size * OVERSAMPLING, degrees=(5, 11, 11), scale=(0.32, 0.42), shift=0.05)
    sheet = _sheet(rng, background, project, size)
    written = _written(class_id, rng, project, size)
    sheet.paste(as_bytes(ink), mask=written)
    return through_camera(sheet, rng)


# No flips: scripts have characters that mirror each other.
glyphs = Domain("glyphs", N_CLASSES, class_name, generate, may_flip=False)


def _colours(rng) -> tuple[np.ndarray, np.ndarray]:
    """Colours of the sheet and the ink: mostly dark on light, at times chalk on a board."""
    light = rng.uniform(165, 240) + rng.normal(0, 1, 3) * rng.choice((3, 5, 12)) + (6, 2, -10)
    dark = rng.uniform(8, 60) + rng.normal(0, 1, 3) * rng.choice((6, 30))
    return (dark, light) if rng.random() < 0.12 else (light, dark)


def _sheet(rng, background: np.ndarray, project, size: int) -> Image.Image:
    """Paper, cardboard or board: fibres, stains, at times ruled, creased or ending at the desk."""
    fine = noise(rng, 64, size) * rng.uniform(0, 6)
    stains = noise(rng, 5, size) * rng.uniform(0, 8)
    tone = (fine + stains)[..., None] + background.astype(np.float32)
    sheet = Image.fromarray(np.clip(tone, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(sheet)

    def lines(ends, colour, width=0.012):
        for pair in (project(np.array(ends).reshape(-1, 2)) / OVERSAMPLING).reshape(-1, 4).tolist():
            draw.line(pair, fill=as_bytes(colour), width=max(1, round(width * size)))

    kind, step = rng.choice(("none", "lines", "squares"), p=(0.84, 0.08, 0.08)), rng.uniform(0.35, 1.1)
    ats = (np.arange(-9, 9) + rng.uniform(0, 1)) * step
    ruled = background + rng.choice((-1, 0.6)) * rng.uniform(12, 45) + rng.normal(0, 12, 3)
    if kind != "none":
        lines([((-4, at), (4, at)) for at in ats], ruled)
    if kind == "squares":
        lines([((at, -4), (at, 4)) for at in ats], ruled)
    if rng.random() < 0.15:
        top, bottom = rng.uniform(-1.6, 1.6, 2)
        lines([((top, -4), (bottom, 4))], background + rng.choice((-45, 25)), rng.uniform(0.01, 0.03))
    if rng.random() < 0.15:
        edge, turn = rng.uniform(1.25, 1.7), rotation(rng.choice(4) * np.pi / 2 + rng.normal(0, 0.15))
        desk = np.array([(-6, edge), (6, edge), (6, 6), (-6, 6)]) @ turn
        wood = rng.uniform(20, 200) + rng.normal(0, 25, 3)
        draw.polygon(corners(project(desk) / OVERSAMPLING), fill=as_bytes(wood))
    return sheet


def _written(class_id: int, rng, project, size: int) -> Image.Image:
    """How much ink lies where: the character and at times parts of its neighbours, "L" (size, size)."""
    mask = Image.new("L", (size * OVERSAMPLING, size * OVERSAMPLING))
    hand, pen = _hand(rng), rng.choice(PENS)
    strokes = [hand(glyph(class_id))]
    if rng.random() < 0.15:
        for away in rng.permutation(((2.5, 0.0), (-2.5, 0.0), (0.0, 2.7), (0.0, -2.7)))[: rng.integers(1, 4)]:
            strokes.append(hand(glyph(int(rng.integers(NEIGHBOURS)))) + away)
    together = np.concatenate(strokes)
    _ink(mask, project, together, _widths(rng, pen, together))
    mask = mask.reduce(OVERSAMPLING)
    strength = rng.uniform(0.85, 1.0)
    if pen != "dry":
        return mask.point([round(strength * v) for v in range(256)])
    # Chalk, pencil and worn brushes leave the grain of the background blank.
    grain = 0.85 + noise(rng, 80, size) * rng.uniform(0.08, 0.2)
    covering = np.clip(255 * strength * grain, 0, 255).astype(np.uint8)
    return ImageChops.multiply(mask, Image.fromarray(covering))


def _hand(rng):
    """A function from strokes (n, POINTS, 2) as they are meant to what this writer makes of them."""
    slant, aspect = rng.normal(0, 0.13), np.exp(rng.normal(0, 0.1))
    frame = np.array([(aspect, 0.0), (slant, 1 / aspect)])
    sloppiness, haste = rng.uniform(0.01, 0.05), int(rng.integers(1, 4))
    bend = rng.normal(0, 0.07, (2, 2, 2))

    def write(meant: np.ndarray) -> np.ndarray:
        n = len(meant)
        centre = meant.mean(axis=1, keepdims=True)
        stretch = np.exp(rng.normal(0, 1.5 * sloppiness, (n, 1, 2)))
        shift = rng.normal(0, sloppiness, (n, 1, 2))
        trembling = np.cumsum(rng.normal(0, 0.12 * sloppiness, meant.shape), axis=1)
        placed = (meant - centre) * stretch + centre + shift + trembling
        ends = (placed[:, :1].repeat(haste, 1), placed[:, -1:].repeat(haste, 1))
        sums = np.cumsum(np.concatenate([placed[:, :1] * 0, ends[0], placed, ends[1]], axis=1), axis=1)
        window = 2 * haste + 1
        rounded = (sums[:, window:] - sums[:, :-window]) / window  # who writes fast cuts corners
        return (rounded + np.einsum("sni,snj,ijk->snk", rounded, rounded, bend)) @ frame

    return write


def _widths(rng, pen: str, strokes: np.ndarray) -> np.ndarray:
    """Width of the line at every point of the strokes (n, POINTS, 2), (n, POINTS) in glyph units."""
    base = {"ballpoint": 0.12, "felt": 0.17, "nib": 0.17, "brush": 0.2, "dry": 0.15}[pen]
    base *= np.exp(rng.normal(0, 0.25))
    angle, swell, taper = rng.uniform(0.2, 1.2), rng.uniform(0.1, 0.6), rng.uniform(0.1, 0.8)
    if pen == "nib":  # its edge keeps one direction
        along = np.gradient(strokes, axis=1)
        return base * (0.3 + np.abs(np.sin(np.arctan2(along[..., 1], along[..., 0]) + angle)))
    if pen == "brush":  # pressed in the middle of a stroke and lifted at its end
        way = np.linspace(0, 1, POINTS)
        return np.tile(base * (1 - taper * way**2) * (1 - swell * np.cos(way * 2 * np.pi)), (len(strokes), 1))
    return np.full(strokes.shape[:2], base)


def _ink(mask: Image.Image, project, strokes: np.ndarray, widths: np.ndarray) -> None:
    """Lines of changing width: a polygon between neighbouring points and discs along the way."""
    path = project(strokes.reshape(-1, 2)).reshape(strokes.shape)
    left, right = project(np.array([(-0.5, 0.0), (0.5, 0.0)]))
    half = np.maximum(widths * np.hypot(*(right - left)) / 2, 0.6)[..., None]
    along = np.gradient(path, axis=1)
    length = np.linalg.norm(along, axis=-1, keepdims=True) + 1e-9
    side = np.stack([-along[..., 1], along[..., 0]], axis=-1) / length * half
    left, right = path + side, path - side
    quads = np.concatenate([left[:, :-1], left[:, 1:], right[:, 1:], right[:, :-1]], axis=-1)
    draw = ImageDraw.Draw(mask)
    for quad in quads.reshape(-1, 8).tolist():
        draw.polygon(quad, fill=255)
    low, high = (path - half)[:, ::3], (path + half)[:, ::3]
    for disc in np.concatenate([low, high], axis=-1).reshape(-1, 4).tolist():
        draw.ellipse(disc, fill=255)
