"""A generated domain: invented animals, figures, plants and things, formed and painted. Nothing to download.

A class is an object of the domain of sketches with a usual coat. An image of it has its own posture, pelt or
paint, light, shadow, surroundings, focus, noise and compression.
"""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain, as_bytes, corners, noise, pose, through_camera
from tinytrain.datasets.generated.leaf_backgrounds import background, cover
from tinytrain.datasets.generated.sketch_objects import KINDS, sketch
from tinytrain.datasets.generated.sketches import placed_parts

N_CLASSES = 9000
FINEST = 96  # smaller images are drawn this large and shrunk
COATS = 3  # of an object: limbs take turns, details have the last one
PATTERNS = ("plain", "plain", "spots", "stripes", "patches")


def class_name(class_id: int) -> str:
    return f"{list(KINDS)[class_id % len(KINDS)]} {class_id:04d}"


@cache
def coats(class_id: int) -> list[tuple[str, np.ndarray, float]]:
    """The usual pattern, colours (2, 3) and scale of the parts of an object."""
    return _new_coats(rng_for(0, "toys", "class", class_id))


def _new_coats(rng) -> list[tuple[str, np.ndarray, float]]:
    chosen = []
    base = rng.uniform(40, 215) + rng.normal(0, 35, 3)
    for _ in range(COATS):
        own = base + rng.normal(0, 30) + rng.normal(0, 18, 3)
        other = own + rng.choice((-1, 1)) * rng.uniform(40, 110) + rng.normal(0, 15, 3)
        chosen.append((PATTERNS[rng.integers(len(PATTERNS))], np.stack([own, other]), rng.uniform(8, 26)))
    return chosen


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "toys", class_id, image_id)
    factor = max(1, -(-FINEST // size))
    side = size * factor
    scene = background(rng, side)
    if rng.random() < 0.6:  # far behind, out of focus
        scene = scene.filter(ImageFilter.GaussianBlur(rng.uniform(1, 5) * side / 96))
    kind = sketch(class_id)
    shown = [part for part in kind.parts if part.closed]
    project = pose(rng, side, degrees=(7, 8, 20), scale=(0.32, 0.48), shift=0.08)
    outlines = [project(points) for points in placed_parts(kind, shown, rng)]
    worn = coats(class_id) if rng.random() < 0.6 else _new_coats(rng)
    pelts = [_pelt(coat, rng, side) for coat in worn]
    light = _light(rng)
    _shadow(scene, outlines, light, rng)
    for part, outline in zip(shown, outlines, strict=True):
        which = COATS - 1 if part.detail else part.limb % (COATS - 1)
        _form(scene, pelts[which], outline, light)
    cover(scene, rng)
    return through_camera(scene.reduce(factor) if factor > 1 else scene, rng)


toys = Domain("toys", N_CLASSES, class_name, generate, may_flip=True, families=len(KINDS))


def _light(rng) -> np.ndarray:
    """Where light comes from, (2,) in the image, as strongly as it forms the surface."""
    angle = rng.uniform(-np.pi, 0) if rng.random() < 0.8 else rng.uniform(0, np.pi)
    return np.array((np.cos(angle), np.sin(angle))) * rng.uniform(60, 190)


def _pelt(coat, rng, side: int) -> Image.Image:
    """The coat all over the image, RGB (side, side)."""
    pattern, colours, scale = coat
    own, other = colours + rng.normal(0, 10, 3)
    cells, fine = max(2, round(scale * rng.uniform(0.8, 1.25))), rng.uniform(2, 14)
    field, hair = noise(rng, cells, side), noise(rng, 60, side)
    lean = rng.normal(0, 0.3)
    at = (np.arange(side, dtype=np.float32) + 0.5) / side
    wave = np.sin((at[None, :] + np.float32(lean) * at[:, None]) * np.float32(3.5 * scale) + field)
    much = {
        "plain": np.zeros_like(field),
        "spots": np.clip(6 * (field - 0.7), 0, 1),
        "stripes": np.clip(5 * wave, 0, 1),
        "patches": np.clip(8 * noise(rng, 4, side), 0, 1),
    }[pattern]
    tone = own + (other - own) * much[..., None] + (hair * np.float32(fine))[..., None]
    return Image.fromarray(np.clip(tone, 0, 255).astype(np.uint8))


def _form(scene: Image.Image, pelt: Image.Image, outline: np.ndarray, light: np.ndarray) -> None:
    """A part as if it was swollen: its blurred mask is its height."""
    side = scene.width
    low = np.clip(np.floor(outline.min(axis=0)) - 2, 0, side).astype(int)
    high = np.clip(np.ceil(outline.max(axis=0)) + 3, 0, side).astype(int)
    if (high - low).min() < 2:
        return
    frame = (*low.tolist(), *high.tolist())
    mask = Image.new("L", tuple((high - low).tolist()))
    ImageDraw.Draw(mask).polygon(corners(outline - low), fill=255)
    swollen = mask.filter(ImageFilter.BoxBlur(max(1.0, 0.16 * float((high - low).min()))))
    height = np.asarray(swollen, dtype=np.float32) / 255
    across, down = np.gradient(height, axis=1), np.gradient(height, axis=0)
    steep = 0.16 * float((high - low).min())
    shade = -(across * light[0] + down * light[1]) * np.float32(steep) + 90 * (height - np.float32(0.8))
    colours = np.asarray(pelt.crop(frame), dtype=np.float32)
    formed = colours * (1 + np.clip(shade, -130, 130)[..., None] / 200)
    scene.paste(Image.fromarray(np.clip(formed, 0, 255).astype(np.uint8)), frame, mask)


def _shadow(scene: Image.Image, outlines: list[np.ndarray], light: np.ndarray, rng) -> None:
    """On the ground below or on the wall behind, away from the light."""
    mask = Image.new("L", scene.size)
    draw = ImageDraw.Draw(mask)
    ground = max(outline[:, 1].max() for outline in outlines)
    flat, away = rng.uniform(0.05, 0.4), -light / np.linalg.norm(light)
    on_wall = rng.random() < 0.3
    far = rng.uniform(0.02, 0.1) * scene.width
    for outline in outlines:
        if on_wall:
            cast = outline + away * far
        else:
            up = ground - outline[:, 1]
            cast = np.stack([outline[:, 0] + away[0] * up * 0.6, ground - up * flat], axis=1)
        draw.polygon(corners(cast), fill=255)
    soft = mask.filter(ImageFilter.BoxBlur(rng.uniform(0.005, 0.03) * scene.width))
    strength = rng.uniform(0.15, 0.7)
    scene.paste(as_bytes(np.array((12, 12, 16))), mask=soft.point([round(strength * v) for v in range(256)]))
