"""A generated domain: leaves of invented plants where they grew, fell or were scanned. Nothing to download.

A class is a species: a shape with its margin and veins, and usual colours. An image of it has
its own leaf, season, damage, background, pose, shadow, light, blur, noise and compression.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    noise,
    pose,
    spread,
    through_camera,
)
from tinytrain.datasets.generated.leaf_backgrounds import background, cover
from tinytrain.datasets.generated.leaf_shapes import BASE, LENGTH, SHAPES, Blade

VARIANTS = 20
N_CLASSES = VARIANTS * len(SHAPES)
OVERSAMPLING = 2
GREENS = np.array(
    [(74, 118, 58), (100, 148, 58), (142, 168, 78), (84, 128, 100), (124, 132, 66), (126, 76, 74)]
)
AUTUMN = np.array([(205, 170, 55), (190, 105, 40), (160, 55, 40), (120, 85, 50), (165, 150, 95)])


@dataclass(frozen=True)
class Species:
    """A shape with its six parameters, colours as RGB, and how far the veins stand out (below 0: dark)."""

    shape: str
    parameters: np.ndarray
    green: np.ndarray
    autumn: np.ndarray
    veins: float
    stalk: float
    spotted: float


def class_name(class_id: int) -> str:
    return f"{species(class_id).shape} {class_id // len(SHAPES)}"


@cache
def species(class_id: int) -> Species:
    """The shapes take turns, so that any range of classes has most of them."""
    variant, number = divmod(class_id, len(SHAPES))
    rng = rng_for(0, "leaves", "class", class_id)
    return Species(
        shape=list(SHAPES)[number],
        parameters=spread(variant * 5 + number, 6),
        green=GREENS[rng.choice(len(GREENS), p=(0.25, 0.25, 0.15, 0.15, 0.1, 0.1))] + rng.normal(0, 8, 3),
        autumn=AUTUMN[rng.integers(len(AUTUMN))],
        veins=rng.choice((-1, 1)) * rng.uniform(8, 45),
        stalk=rng.uniform(0.1, 0.6),
        spotted=rng.uniform(0.3, 1.0) if rng.random() < 0.2 else 0.0,
    )


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "leaves", class_id, image_id)
    kind = species(class_id)
    scene = background(rng, size)
    own = np.clip(kind.parameters + rng.normal(0, 0.05, 6), 0, 1)
    leaf, mask = _leaf(kind, SHAPES[kind.shape](own, kind.parameters), rng, size)
    _cast_shadow(scene, mask, rng)
    scene.paste(leaf, mask=mask)
    cover(scene, rng)
    return through_camera(scene, rng)


leaves = Domain("leaves", N_CLASSES, class_name, generate, may_flip=True)


def _leaf(kind: Species, blades: list[Blade], rng, size: int) -> tuple[Image.Image, Image.Image]:
    """The leaf, RGB, and where it is, "L", both (size, size)."""
    side = size * OVERSAMPLING
    project = _bent(rng, pose(rng, side, degrees=(22, 13, 15), scale=(0.44, 0.55), shift=0.07))
    colour = _season(kind, rng)
    leaf, mask = Image.new("RGB", (side, side), as_bytes(colour)), Image.new("L", (side, side))
    surface, cut = ImageDraw.Draw(leaf), ImageDraw.Draw(mask)
    vein = as_bytes(colour + kind.veins * rng.uniform(0.5, 1.2))
    stalk = corners(project(np.array([(0, -0.45 * (len(blades) > 3)), (0, BASE + kind.stalk)])))
    thick = max(1, round(0.012 * side))
    cut.line(stalk, fill=255, width=2 * thick)
    surface.line(stalk, fill=vein, width=2 * thick)
    shaded, blades = as_bytes(colour * rng.uniform(0.78, 0.97)), _placed(blades, project)
    for blade in blades:
        cut.polygon(corners(blade.outline), fill=255)
        surface.polygon(corners(blade.half), fill=shaded)
    for blade in blades:
        for number, line in enumerate(blade.veins.reshape(-1, 4).tolist()):
            surface.line(line, fill=vein, width=thick if number == 0 else max(1, thick // 2))
    for _ in range(rng.integers(1, 6) if rng.random() < 0.25 else 0):  # eaten by insects
        x, y = side * rng.uniform(0.2, 0.8, 2)
        r = side * rng.uniform(0.008, 0.035)
        cut.ellipse((x - r, y - r, x + r, y + r), fill=0)
    return _mottled(kind, leaf.reduce(OVERSAMPLING), colour, rng), mask.reduce(OVERSAMPLING)


def _placed(blades: list[Blade], project) -> list[Blade]:
    """The blades in pixels. All points at once: many small calls would take longer than the drawing."""
    parts = [part for b in blades for part in (b.outline, b.half, b.veins.reshape(-1, 2))]
    moved = np.split(project(np.concatenate(parts)), np.cumsum([len(part) for part in parts])[:-1])
    grouped = zip(moved[::3], moved[1::3], moved[2::3], strict=True)
    return [Blade(outline, half, veins.reshape(-1, 2, 2)) for outline, half, veins in grouped]


def _bent(rng, project):
    """`project` after the leaf was bent sideways and grew a little unevenly."""
    bend, uneven, wave = rng.normal(0, 0.12), rng.normal(0, 0.06), rng.normal(0, 0.02)
    phase = rng.uniform(0, 2 * np.pi)

    def grown(points: np.ndarray) -> np.ndarray:
        x, y = np.asarray(points, dtype=float).T
        up = (BASE - y) / LENGTH
        x = x * (1 + uneven * np.sign(x)) + bend * up**2 + wave * np.sin(5 * y + phase)
        return project(np.stack([x, y + 0.5 * bend * x], axis=1))

    return grown


def _season(kind: Species, rng) -> np.ndarray:
    """The colour of this leaf: of its class in summer, more or less turned, brighter or darker."""
    autumn = AUTUMN[rng.integers(len(AUTUMN))] if rng.random() < 0.35 else kind.autumn
    turned = min(rng.exponential(0.24), 1.0) if rng.random() < 0.5 else 0.0
    colour = kind.green + (autumn - kind.green) * turned
    return colour * np.exp(rng.normal(0, 0.13)) + rng.normal(0, 7, 3)


def _mottled(kind: Species, leaf: Image.Image, colour: np.ndarray, rng) -> Image.Image:
    """Folds, fine structure and the spots of some species."""
    size = leaf.width
    folds, fine = noise(rng, 5, size), noise(rng, 56, size)
    dark = np.clip(45 + 40 * folds + 28 * fine, 0, 180).astype(np.uint8)
    leaf.paste(as_bytes(colour * rng.uniform(0.4, 0.75)), mask=Image.fromarray(dark))
    if kind.spotted:
        spots = np.clip(500 * (noise(rng, 16, size) - 0.8), 0, 255 * kind.spotted)
        leaf.paste(as_bytes(colour + 60), mask=Image.fromarray(spots.astype(np.uint8)))
    return leaf


def _cast_shadow(scene: Image.Image, mask: Image.Image, rng) -> None:
    far, strength = rng.uniform(-0.05, 0.05, 2), rng.uniform(0, 0.65)
    soft = mask.filter(ImageFilter.BoxBlur(rng.uniform(0.005, 0.03) * scene.width))
    shadow = soft.point([round(strength * v) for v in range(256)])
    scene.paste((14, 14, 18), tuple(round(d * scene.width) for d in far), shadow)
