"""What lies behind leaves, and what hides a part of them."""

import numpy as np
from PIL import Image, ImageDraw

from tinytrain.datasets.generated.camera import as_bytes, corners, noise, patchwork, rotation
from tinytrain.datasets.generated.sign_shapes import poly


def background(rng, size: int) -> Image.Image:
    """Paper, stone, soil, litter, lawn or greenery out of focus, RGB (size, size)."""
    kind = rng.choice(("paper", "stone", "litter", "lawn", "blur"), p=(0.36, 0.18, 0.14, 0.14, 0.18))
    bases = {"paper": 205, "stone": 140, "litter": (84, 70, 56), "lawn": (58, 78, 40), "blur": (66, 84, 58)}
    base = np.array(bases[kind]) * np.exp(rng.normal(0, 0.16)) + rng.normal(0, 9, 3)
    cells, deep = (int(rng.integers(3, 8)), 15) if kind != "paper" else (3, 6)
    scene = patchwork(rng, base, cells, (deep, deep / 3), size)
    draw = ImageDraw.Draw(scene)
    for _ in range({"litter": 16, "lawn": 22, "stone": 4}.get(kind, 0)):
        at, turn = rng.uniform(-0.1, 1.1, 2), rng.normal(0, 0.5 if kind == "lawn" else 3)
        long, wide = (0.3, 0.02) if kind == "lawn" else rng.uniform((0.05, 0.02), (0.25, 0.12))
        colour = as_bytes(base + rng.normal(0, 18) + rng.normal(0, 6, 3))
        piece = poly((0, -long), (wide, -0.3 * long), (wide, 0.3 * long), (0, long), (-wide, 0))
        draw.polygon(corners((piece @ rotation(turn) + at) * size), fill=colour)
    if kind == "stone":
        grain = noise(rng, 90, size)[..., None] * np.float32(12)
        scene = Image.fromarray(np.clip(np.asarray(scene) + grain, 0, 255).astype(np.uint8))
    return scene


def cover(scene: Image.Image, rng) -> None:
    """At times a blade of grass, a twig or a finger hides a part."""
    if rng.random() > 0.2:
        return
    wide, at = rng.uniform(0.01, 0.05), rng.uniform(0.1, 0.9, 2)
    strip = poly((-wide, -1.5), (wide, -1.5), (wide / 2, rng.uniform(0, 1.5)), (-wide / 2, 0.1))
    colour = as_bytes(rng.uniform(40, 150) + rng.normal(0, 20, 3) + (5, 12, -10))
    strip = strip @ rotation(rng.uniform(0, 2 * np.pi)) + at
    ImageDraw.Draw(scene).polygon(corners(strip * scene.width), fill=colour)
