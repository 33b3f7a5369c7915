"""A generated domain: materials seen from near. Nothing to download.

A class is a family of patterns with parameters, a usual palette and a relief. An image of it has
its own piece of material, dye, wear, distance, pose, folds, light, blur, noise and compression.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    noise,
    rotation,
    spread,
    through_camera,
)
from tinytrain.datasets.generated.materials import FAMILIES
from tinytrain.datasets.generated.noise_field import NoiseField
from tinytrain.datasets.generated.sign_shapes import box, disc

VARIANTS = 64
N_CLASSES = VARIANTS * len(FAMILIES)
FINEST = 128  # smaller images are drawn this large and shrunk: patterns of a few pixels would alias


@dataclass(frozen=True)
class Material:
    """A family with its parameters; `across` cells fill an image, `palette` is (3, 3) RGB."""

    family: str
    parameters: np.ndarray
    across: float
    aspect: float
    relief: float
    roughness: float
    palette: np.ndarray


def class_name(class_id: int) -> str:
    return f"{material(class_id).family} {class_id // len(FAMILIES)}"


@cache
def material(class_id: int) -> Material:
    """The families take turns, so that any range of classes has most of them."""
    variant, number = divmod(class_id, len(FAMILIES))
    even = spread(variant * 7 + number, 6)
    rng = rng_for(0, "textures", "class", class_id)
    return Material(
        family=list(FAMILIES)[number],
        parameters=even[:3].astype(np.float32),
        across=4.0 * 3.0 ** even[3],
        aspect=0.7 * 2.0 ** even[4],
        relief=rng.uniform(0.15, 0.8),
        roughness=rng.uniform(0.02, 0.14),
        palette=_palette(rng, contrast=0.5 + even[5]),
    )


def _palette(rng, contrast: float) -> np.ndarray:
    """Three colours from the dark to the light one, or the other way round: (3, 3) RGB."""
    middle = rng.uniform(85, 165) + rng.normal(0, 16, 3)
    apart = contrast * (rng.uniform(55, 85) + rng.normal(0, 13, 3)) * rng.choice((-1, 1))
    between = middle + rng.normal(0, 12, 3)
    return np.stack([middle - apart, between, middle + apart])


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "textures", class_id, image_id)
    kind, factor = material(class_id), max(1, -(-FINEST // size))
    side = size * factor
    u, v = _coordinates(kind, rng, side)
    field = NoiseField(rng, soft=1.2 * kind.across / side)
    tone, height = FAMILIES[kind.family](u, v, kind.parameters, field)
    scene = _dyed(kind, tone, _relief_light(kind, height, rng), rng)
    _cover(scene, rng)
    return through_camera(scene.reduce(factor), rng)


textures = Domain("textures", N_CLASSES, class_name, generate, may_flip=True)


def _coordinates(kind: Material, rng, side: int):
    """(u, v) of every pixel in cells, float32 (side, side): distance, pose and folds of this image."""
    at = (np.arange(side, dtype=np.float32) + 0.5) / side - 0.5
    tilt = rng.normal(0, 0.22, 2)
    depth = (1 + np.float32(tilt[0]) * at[None, :] + np.float32(tilt[1]) * at[:, None]).astype(np.float32)
    cells = kind.across * np.exp(rng.normal(0, 0.22))
    turned = rotation(np.deg2rad(rng.normal(0, 18))) * cells * np.array([kind.aspect**0.5, kind.aspect**-0.5])
    turned = turned.astype(np.float32)
    folds = min(rng.exponential(0.016), 0.04) * cells
    start = rng.uniform(0, 50, 2).astype(np.float32)
    u = (turned[0, 0] * at[None, :] + turned[1, 0] * at[:, None]) / depth + start[0]
    v = (turned[0, 1] * at[None, :] + turned[1, 1] * at[:, None]) / depth + start[1]
    return tuple(x + noise(rng, 4, side) * np.float32(folds) for x in (u, v))


def _relief_light(kind: Material, height: np.ndarray, rng) -> np.ndarray:
    """Light that falls on slopes from one side, about 1 if the material is flat."""
    side = len(height)
    angle, slant = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 1.3)
    steep = np.float32(kind.relief * slant * side / kind.across / 8)
    slope = np.zeros_like(height)
    slope[:, 1:] += np.diff(height, axis=1) * np.float32(np.cos(angle) * steep)
    slope[1:] += np.diff(height, axis=0) * np.float32(np.sin(angle) * steep)
    worn = noise(rng, 100, side) * np.float32(kind.roughness * rng.uniform(0.5, 1.5))
    return 1 + np.clip(slope, -0.5, 0.5) + worn


def _dyed(kind: Material, tone: np.ndarray, light: np.ndarray, rng) -> Image.Image:
    """The tones in the colours of this piece: those of its class, faded, or another dye altogether."""
    palette = kind.palette
    if rng.random() < 0.5:
        palette = _palette(rng, contrast=rng.uniform(0.5, 1.3))
    faded = rng.uniform(0.65, 1.15)
    palette = palette.mean(axis=0) + (palette - palette.mean(axis=0)) * faded + rng.normal(0, 14, 3)
    steps = np.linspace(0, 2, 256)
    table = np.stack([np.interp(steps, (0, 1, 2), channel) for channel in palette.T], axis=1)
    colours = table.astype(np.float32).take(np.clip(tone * 255, 0, 255).astype(np.uint8), axis=0)
    return Image.fromarray(np.clip(colours * light[..., None], 0, 255).astype(np.uint8))


def _cover(scene: Image.Image, rng) -> None:
    """At times the material ends inside the image, or something lies on it."""
    side, draw = scene.width, ImageDraw.Draw(scene)
    where = rng.random()
    colour = as_bytes(rng.uniform(25, 210) + rng.normal(0, 25, 3))
    turn = rotation(rng.uniform(0, 2 * np.pi))
    if where < 0.15:
        beyond = box(-2, rng.uniform(0.2, 0.4), 2, 2) @ turn + 0.5
    elif where < 0.3:
        thing = disc(0, 0, 1.0) if rng.random() < 0.5 else box(-1, -1, 1, 1)
        beyond = thing * rng.uniform(0.04, 0.2, 2) @ turn + rng.uniform(0.1, 0.9, 2)
    else:
        return
    draw.polygon(corners(beyond * side), fill=colour)
