"""A generated domain: road signs as a cheap camera sees them. Nothing to download.

A class is a body (outline and colours) with a symbol; an image of it has its own pose,
background, light, shadow, blur, noise and compression. An image depends on (class, image,
seed) alone; `size` only changes its resolution.
"""

import numpy as np
from PIL import Image, ImageDraw

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    patchwork,
    pose,
    rotation,
    through_camera,
)
from tinytrain.datasets.generated.sign_shapes import BODIES, SYMBOLS, Body, box

N_CLASSES = len(BODIES) * len(SYMBOLS)
OVERSAMPLING = 2
CLUTTER = 9


def class_name(class_id: int) -> str:
    body, symbol = _parts(class_id)
    return f"{body} {symbol}"


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "signs", class_id, image_id)
    body, symbol = _parts(class_id)
    canvas = _background(rng, size * OVERSAMPLING)
    _draw_sign(canvas, BODIES[body], SYMBOLS[symbol], rng)
    return through_camera(canvas.reduce(OVERSAMPLING), rng)


# No flips: an arrow to the left is not one to the right.
signs = Domain("signs", N_CLASSES, class_name, generate, may_flip=False)


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
    canvas = patchwork(rng, base, cells, (34, 11), side)
    draw = ImageDraw.Draw(canvas)
    for _ in range(rng.integers(2, CLUTTER)):
        colour = as_bytes(base + rng.normal(0, 45) + rng.normal(0, rng.choice((8, 50)), 3))
        x, y = rng.uniform(-0.1, 1.1, 2) * side
        w, h = rng.uniform(0.02, 0.5, 2) * side
        if rng.random() < 0.3:
            draw.ellipse((x - w / 2, y - h / 2, x + w / 2, y + h / 2), fill=colour)
        else:
            turn = rng.uniform(-0.5, 0.5)
            patch = box(-w / 2, -h / 2, w / 2, h / 2) @ rotation(turn) + (x, y)
            draw.polygon(corners(patch), fill=colour)
    return canvas


def _draw_sign(canvas: Image.Image, body: Body, symbol, rng) -> None:
    draw = ImageDraw.Draw(canvas)
    project = pose(rng, canvas.width)
    paint = _worn_paint(rng)

    def fill(polygon, colour):
        draw.polygon(corners(project(polygon)), fill=colour)

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
        fill(box(-0.85, -0.08, 0.85, 0.08) @ rotation(np.pi / 4), paint(body.border))
    if rng.random() < 0.25:  # a sticker, a leaf or a branch covers a part
        x, y = rng.uniform(-0.9, 0.9, 2)
        w, h = rng.uniform(0.1, 0.35, 2)
        cover = box(-w, -h, w, h) @ rotation(rng.uniform(0, np.pi)) + (x, y)
        fill(cover, tuple(rng.integers(20, 220, 3).tolist()))


def _worn_paint(rng):
    """A function from a colour as new to the colour on this sign: faded, dirty, of another maker."""
    faded, dirt = rng.uniform(0, 0.3), rng.uniform(0.7, 1.0)
    maker = rng.normal(0, 9, 3)

    def paint(colour) -> tuple[int, int, int]:
        new = np.array(colour, dtype=float)
        worn = (new + (new.mean() * 0.4 + 90 - new) * faded) * dirt + maker
        return as_bytes(worn)

    return paint
