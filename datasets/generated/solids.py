"""A generated domain: invented things in front of a camera, on a table or a floor. Nothing to download.

A class is a thing in space: its shape and usual materials. An image of it has its own viewpoint, lens, light,
shadow, dye, surroundings, what stands before it, blur, noise and compression.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain, as_bytes, corners, noise, rotation, through_camera
from tinytrain.datasets.generated.sign_shapes import box, disc
from tinytrain.datasets.generated.solid_shapes import BODIES, Material, Solid, new_material, pattern, solid

N_CLASSES = 7000
OVERSAMPLING = 2
AMBIENT = 0.45  # light from everywhere, as a fraction


def class_name(class_id: int) -> str:
    return f"{list(BODIES)[class_id % len(BODIES)]} {class_id:04d}"


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "solids", class_id, image_id)
    side = size * OVERSAMPLING
    kind, view = solid(class_id), _viewpoint(rng)
    sun = _unit(np.array((rng.uniform(-1, 1), rng.uniform(0.3, 1.2), rng.uniform(0.1, 1.0))))
    canvas = _surroundings(rng, side, horizon=0.5 - view[2, 1] * rng.uniform(0.2, 0.9))
    quads = [_quads(s.points @ view.T) for s in kind.surfaces]
    centre = side * (0.5 + rng.uniform(-0.1, 0.1, 2))
    scale, nearness = side * rng.uniform(0.32, 0.5), rng.uniform(0.05, 0.28)

    def project(points):
        return centre + points[..., :2] * (1, -1) * scale / (1 - nearness * points[..., 2:])

    _shadow(canvas, quads, view @ sun, view @ (0, 1, 0), project, rng)
    _draw(canvas, quads, _dyed(kind, rng), view @ sun, project)
    _before(canvas, rng)
    return through_camera(canvas.reduce(OVERSAMPLING), rng)


# Flips: a mirrored thing is no stranger than the same thing seen from its other side.
solids = Domain("solids", N_CLASSES, class_name, generate, may_flip=True, families=len(BODIES))


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def _viewpoint(rng) -> np.ndarray:
    """A rotation (3, 3): from all sides but mostly from the front, from a little above, at times tilted."""
    turn, lift, roll = rng.normal(0, 0.6), rng.uniform(-0.1, 0.9), rng.normal(0, 0.1)
    c, s = np.cos([turn, lift, roll]), np.sin([turn, lift, roll])
    about_y = np.array([(c[0], 0, s[0]), (0, 1, 0), (-s[0], 0, c[0])])
    about_x = np.array([(1, 0, 0), (0, c[1], -s[1]), (0, s[1], c[1])])
    about_z = np.array([(c[2], -s[2], 0), (s[2], c[2], 0), (0, 0, 1)])
    return about_z @ about_x @ about_y


def _quads(points: np.ndarray) -> np.ndarray:
    """The corners of all quadrangles of a surface, (ALONG, AROUND, 4, 3)."""
    return np.stack([points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]], axis=2)


def _dyed(kind: Solid, rng) -> list[tuple[Material, np.ndarray]]:
    """For each surface the material of this piece, and its colour everywhere, (ALONG, AROUND, 3)."""
    own = [new_material(rng) if rng.random() < 0.35 else m for m in kind.materials]
    cast = rng.normal(0, 14, 3)
    tones = []
    for surface in kind.surfaces:
        material = own[surface.material]
        low, high = material.colours + cast
        tones.append((material, low + (high - low) * pattern(material)[..., None]))
    return tones


def _draw(canvas: Image.Image, quads, tones, sun: np.ndarray, project) -> None:
    """All quadrangles that face the camera or show their inside, from the farthest to the nearest."""
    eye = np.array((0.0, 0.0, 1.0))
    halfway = _unit(sun + eye)
    shown, colours = [], []
    for surface, (material, tone) in zip(quads, tones, strict=True):
        normal = np.cross(surface[:, :, 2] - surface[:, :, 0], surface[:, :, 3] - surface[:, :, 1])
        normal = normal / (np.linalg.norm(normal, axis=-1, keepdims=True) + 1e-12)
        normal = normal * np.sign(normal[..., 2:] + 1e-9)  # the inside of an open vessel is lit as well
        lit = np.clip(normal @ sun, 0, 1)[..., None]
        rim = AMBIENT * (0.75 + 0.25 * normal[..., 1:2])
        gleam = material.shine * np.clip(normal @ halfway, 0, 1)[..., None] ** (8 + 40 * material.shine)
        colours.append((tone * (rim + 0.75 * lit) + 200 * gleam).reshape(-1, 3))
        shown.append(surface.reshape(-1, 4, 3))
    corners_, colour = np.concatenate(shown), np.clip(np.concatenate(colours), 0, 255).astype(int)
    order = np.argsort(corners_[..., 2].mean(axis=1), kind="stable")
    flat = project(corners_[order]).reshape(-1, 8).tolist()
    draw = ImageDraw.Draw(canvas)
    for corner, fill in zip(flat, map(tuple, colour[order].tolist()), strict=True):
        draw.polygon(corner, fill=fill)


def _shadow(canvas: Image.Image, quads, sun, up, project, rng) -> None:
    """What stands between the sun and the floor, which lies at the lowest point of the thing."""
    together = np.concatenate([q[::2, ::2].reshape(-1, 4, 3) for q in quads])
    floor = (together @ up).min()
    fall = ((together @ up) - floor)[..., None] * sun / max(float(sun @ up), 0.25)
    shrink = 4
    mask = Image.new("L", (canvas.width // shrink, canvas.height // shrink))
    draw = ImageDraw.Draw(mask)
    for corner in (project(together - fall) / shrink).reshape(-1, 8).tolist():
        draw.polygon(corner, fill=255)
    mask = mask.filter(ImageFilter.BoxBlur(rng.uniform(0.01, 0.05) * mask.width)).resize(canvas.size)
    strength = rng.uniform(0.2, 0.75)
    canvas.paste((10, 10, 14), mask=mask.point([round(strength * v) for v in range(256)]))


def _surroundings(rng, side: int, horizon: float) -> Image.Image:
    """A floor, a wall and what stands there, out of focus; at times one plain backdrop."""
    wall, floor = (rng.uniform(40, 235) + rng.normal(0, 25, 3) for _ in range(2))
    if rng.random() < 0.2:
        plain = rng.uniform(150, 255) + rng.normal(0, 4, 3)
        return Image.new("RGB", (side, side), as_bytes(plain))
    small = max(side // 4, 8)
    y = (np.arange(small, dtype=np.float32)[:, None] / small - np.float32(horizon)) > 0
    grain = noise(rng, int(rng.integers(3, 14)), small) * np.float32(rng.uniform(2, 22))
    tone = np.where(y[..., None], floor.astype(np.float32), wall.astype(np.float32)) + grain[..., None]
    scene = Image.fromarray(np.clip(tone, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(rng.integers(0, 9)):
        _patch(draw, small, rng, (0.05, 0.35))
    scene = scene.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 2.5) * small / 48))
    return scene.resize((side, side), Image.Resampling.BICUBIC)


def _patch(draw, side: int, rng, extent) -> None:
    colour = as_bytes(rng.uniform(20, 230) + rng.normal(0, 40, 3))
    outline = disc(0, 0, 1.0) if rng.random() < 0.4 else box(-1, -1, 1, 1)
    placed = outline * rng.uniform(*extent, 2) @ rotation(rng.uniform(0, np.pi)) + rng.uniform(-0.1, 1.1, 2)
    draw.polygon(corners(placed * side), fill=colour)


def _before(canvas: Image.Image, rng) -> None:
    """At times something stands before the thing."""
    if rng.random() < 0.2:
        _patch(ImageDraw.Draw(canvas), canvas.width, rng, (0.04, 0.16))
