"""Generated domains of drawings: printed characters, circuits and flags. For development.

A class is what is shown. An image of it has its own colours, pose, sheet, light, blur, noise and compression.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features

from tinytrain.base.errors import InputError
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
from tinytrain.datasets.generated.sign_shapes import box, disc

N_CLASSES = 48
LETTERS = "ABDEFGHJKLMNPQRTUYabdefghkmnpqrty23456789&%@#?$!"
EMBLEMS = ("plain", "disc", "star", "crescent")


def inks(rng) -> tuple[np.ndarray, np.ndarray]:
    """Two colours that differ in brightness, in any order."""
    pair = rng.uniform(150, 255, 3), rng.uniform(0, 95, 3)
    return pair if rng.random() < 0.6 else pair[::-1]


def sheet(rng, colour: np.ndarray, side: int) -> Image.Image:
    return patchwork(rng, colour, int(rng.integers(2, 7)), (12, 7), side)


# Letters.


def _font() -> ImageFont.FreeTypeFont:
    """The font that is part of pillow. Raises InputError ``package-missing``."""
    if not features.check("freetype2"):
        what = "drawn-letters needs a pillow with FreeType"
        raise InputError("package-missing", f"{what}; run pip install --force-reinstall pillow")
    return ImageFont.load_default(120)


def _letter(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """A character of the font in pillow: stretched, slanted, as a stencil, an outline or embossed."""
    rng, side = rng_for(seed, "drawn-letters", class_id, image_id), 2 * size
    paper, ink = inks(rng)
    canvas, mask = sheet(rng, paper, side), Image.new("L", (240, 240))
    style, fat = rng.choice(("fat", "outline", "stencil", "bitten")), int(rng.integers(0, 9))
    font, middle = _font(), (120, 120)
    pen = ImageDraw.Draw(mask)
    pen.text(middle, LETTERS[class_id], 255, font, "mm", stroke_width=fat + 4 * (style == "outline"))
    if style == "outline":
        pen.text(middle, LETTERS[class_id], 0, font, "mm", stroke_width=max(fat - 3, 0))
    for _ in range(int(rng.integers(2, 6)) if style in ("stencil", "bitten") else 0):
        a, b = rng.uniform(50, 190, (2, 2))
        pen.line((*a, *(b if style == "bitten" else (a[0] + 9, a[1] + 120))), 0, int(rng.integers(3, 8)))
    turn = rotation(rng.normal(0, 0.2)) @ np.array(
        [(np.exp(rng.normal(0, 0.25)), rng.normal(0, 0.25)), (0, 1)]
    )
    turn = turn * 150 / side / rng.uniform(0.65, 1.1)
    shift = 120 - turn @ (side / 2 + rng.uniform(-0.1, 0.1, 2) * side)
    matrix = (*turn[0], shift[0], *turn[1], shift[1])
    mask = mask.transform((side, side), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    if rng.random() < 0.4:
        canvas.paste(as_bytes(ink * 0.4 + paper * 0.3), (side // 30, side // 40), mask)
    canvas.paste(as_bytes(ink), mask=mask)
    return through_camera(canvas.reduce(2), rng)


# Circuits: parts as lines between leads at (-1, 0) and (1, 0).

_ARC = np.stack([-np.cos(np.linspace(0, np.pi, 9)), -np.sin(np.linspace(0, np.pi, 9))], axis=1)
_ROUND = disc(0, 0, 0.5)[[*range(24), 0]]
_LEFT, _RIGHT = [(-1, 0), (-0.5, 0)], [(0.5, 0), (1, 0)]  # leads to something round
PARTS = {
    "resistor": [[(-1, 0), (-0.6, 0), *((0.2 * k - 0.5, 0.3 * (-1) ** k) for k in range(6)), (0.6, 0),
                  (1, 0)]],
    "fuse": [[(-1, 0), (1, 0)], box(-0.6, -0.25, 0.6, 0.25)[[0, 1, 2, 3, 0]]],
    "capacitor": [[(-1, 0), (-0.15, 0)], [(-0.15, -0.5), (-0.15, 0.5)], [(0.15, -0.5), (0.15, 0.5)],
                  [(0.15, 0), (1, 0)]],
    "battery": [[(-1, 0), (-0.15, 0)], [(-0.15, -0.55), (-0.15, 0.55)], [(0.15, -0.25), (0.15, 0.25)],
                [(0.15, 0), (1, 0)]],
    "coil": [[(-1, 0), (-0.6, 0)], *(_ARC * 0.2 + (x, 0) for x in (-0.4, 0.0, 0.4)), [(0.6, 0), (1, 0)]],
    "diode": [[(-1, 0), (1, 0)], [(-0.3, -0.4), (-0.3, 0.4), (0.3, 0), (-0.3, -0.4)],
              [(0.3, -0.4), (0.3, 0.4)]],
    "lamp": [_LEFT, _ROUND, [(-0.35, -0.35), (0.35, 0.35)], [(-0.35, 0.35), (0.35, -0.35)], _RIGHT],
    "motor": [_LEFT, _ROUND, [(-0.2, 0.25), (-0.2, -0.25), (0, 0.05), (0.2, -0.25), (0.2, 0.25)], _RIGHT],
    "switch": [[(-1, 0), (-0.5, 0), (0.4, -0.5)], _RIGHT],
    "crystal": [[(-1, 0), (-0.4, 0)], [(-0.4, -0.4), (-0.4, 0.4)], box(-0.2, -0.5, 0.2, 0.5)[[0, 1, 2, 3, 0]],
                [(0.4, -0.4), (0.4, 0.4)], [(0.4, 0), (1, 0)]],
    "gate": [_LEFT, [(-0.5, -0.5), (-0.5, 0.5), (0.4, 0), (-0.5, -0.5)], disc(0.52, 0, 0.12),
             [(0.64, 0), (1, 0)]],
    "current": [_LEFT, _ROUND, [(-0.3, 0), (0.3, 0), (0.1, -0.15), (0.3, 0), (0.1, 0.15)], _RIGHT],
}  # fmt: skip


def _pair(class_id: int) -> tuple[str, str, bool]:
    """The two parts of a circuit, and whether they lie side by side."""
    names, (step, first) = list(PARTS), divmod(class_id, len(PARTS))
    return names[first], names[(first + 1 + 2 * step) % len(names)], step % 2 == 1


def _circuit_name(class_id: int) -> str:
    first, second, parallel = _pair(class_id)
    return f"{first} {'beside' if parallel else 'before'} {second}"


def _circuit(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    rng, side = rng_for(seed, "drawn-circuits", class_id, image_id), 3 * size
    first, second, parallel = _pair(class_id)
    reach = rng.uniform(0.5, 0.65)
    places = ((0, -reach), (0, reach)) if parallel else ((-0.9, 0), (0.9, 0))
    lines = [
        np.array(p) * 0.9 + at for name, at in zip((first, second), places, strict=True) for p in PARTS[name]
    ]
    if parallel:
        lines += [np.array([(s * 0.9, -reach), (s * 0.9, reach)]) for s in (-1, 1)]
        lines += [np.array([(s * 0.9, 0), (s * 1.8, 0)]) for s in (-1, 1)]
    lines.append(np.array([(1.8, 0), (1.8, 0.9), (rng.uniform(0.9, 1.5), 0.9)]) * rng.choice((-1, 1), 2))
    project = pose(rng, side, degrees=(4, 9, 9), scale=(0.2, 0.26), shift=0.06)
    turn = rotation(rng.integers(4) * np.pi / 2)
    paper, ink = inks(rng)
    canvas, width = sheet(rng, paper, side), max(1, round(side * rng.uniform(0.01, 0.025)))
    draw, shaky = ImageDraw.Draw(canvas), rng.uniform(0, 0.03)
    for line in lines:
        path = project(line @ turn + rng.normal(0, shaky, line.shape))
        draw.line(corners(path), as_bytes(ink), width, joint="curve")
    return through_camera(canvas.reduce(3), rng)


# Flags.

FIELDS = {  # which of three colours is where, of x and y in 0..1
    "two rows": lambda x, y: y > 0.5,
    "three rows": lambda x, y: y * 3,
    "two columns": lambda x, y: x > 0.5,
    "three columns": lambda x, y: x * 3,
    "diagonal": lambda x, y: x > y,
    "cross": lambda x, y: np.minimum(abs(x - 0.5), abs(y - 0.5)) < 0.1,
    "left cross": lambda x, y: np.minimum(abs(x - 0.3), abs(y - 0.5)) < 0.09,
    "saltire": lambda x, y: abs(abs(x - 0.5) - abs(y - 0.5)) < 0.1,
    "corner": lambda x, y: (x < 0.45) & (y < 0.5),
    "frame": lambda x, y: np.maximum(abs(x - 0.5), abs(y - 0.5)) > 0.36,
    "quarters": lambda x, y: (x > 0.5) ^ (y > 0.5),
    "wedge": lambda x, y: np.where(x < 0.5 - abs(y - 0.5), 2, y > 0.5),
}


def _flag_name(class_id: int) -> str:
    return f"{list(FIELDS)[class_id % len(FIELDS)]}, {EMBLEMS[class_id // len(FIELDS)]}"


def _flag(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Any colours, waving before a sky."""
    rng, side = rng_for(seed, "drawn-flags", class_id, image_id), 2 * size
    at = (np.indices((side, side)) + 0.5) / side - 0.5
    y, x = np.einsum("ij,jhw->ihw", rotation(rng.normal(0, 0.2)), at) / rng.uniform(0.55, 0.85) + 0.5
    x = x + rng.uniform(-0.15, 0.15)
    waves = 2 * np.pi * (rng.uniform(0.6, 1.6) * x + rng.uniform(-0.3, 0.3) * y) + rng.uniform(0, 6)
    y = (y - 0.5 + rng.uniform(0.02, 0.08) * np.sin(waves)) / rng.uniform(0.6, 0.85) + 0.5
    colours = rng.permuted(np.linspace((30,) * 4, (225,) * 4, 4)[:, :3] + rng.normal(0, 45, (4, 3)), axis=0)
    field = FIELDS[list(FIELDS)[class_id % len(FIELDS)]](np.clip(x, 0, 0.999), np.clip(y, 0, 0.999)).astype(
        int
    )
    u, v = (x - 0.5) * 1.4, y - 0.5
    far, beam = np.hypot(u, v), np.cos(5 * np.arctan2(u, -v))
    emblem = {
        "plain": far < 0, "disc": far < 0.2, "star": far < 0.17 + 0.09 * beam,
        "crescent": (far < 0.23) & (np.hypot(u - 0.09, v) > 0.19),
    }[EMBLEMS[class_id // len(FIELDS)]]  # fmt: skip
    cloth = colours[np.where(emblem, 3, field)] * (1 + 0.2 * np.cos(waves))[..., None]
    inside = (np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y)) > 0)[..., None]
    scene = np.where(inside, cloth, np.asarray(sheet(rng, rng.uniform(60, 230, 3), side)))
    return through_camera(Image.fromarray(np.clip(scene, 0, 255).astype(np.uint8)).reduce(2), rng)


DRAWINGS = {
    domain.name: domain
    for domain in (
        Domain("drawn-letters", N_CLASSES, LETTERS.__getitem__, _letter, may_flip=False),
        Domain("drawn-circuits", N_CLASSES, _circuit_name, _circuit, may_flip=True),
        Domain("drawn-flags", N_CLASSES, _flag_name, _flag, may_flip=False),
    )
}
