"""Generated domains of specimens: front panels, molecules, cells and fractals. For development.

A class is what is shown. An image of it has its own colours, pose, sheet, light, blur, noise and compression.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain, as_bytes, corners, pose, rotation, through_camera
from tinytrain.datasets.generated.drawings import N_CLASSES, inks, sheet
from tinytrain.datasets.generated.sign_shapes import disc

# Front panels of machines: what lies in each place of a grid.

WIDGETS = ("none", "none", "lamps", "digits", "buttons", "slider", "socket", "grille", "label")
# Of a digit, from corner to corner.
SEGMENTS = [
    ((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2), (1, 2)), ((0, 0), (0, 1)), ((1, 0), (1, 1)),
    ((0, 1), (0, 2)), ((1, 1), (1, 2)),
]  # fmt: skip


def _panel(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    rng, side = rng_for(seed, "drawn-panels", class_id, image_id), 3 * size
    layout = rng_for(0, "drawn-panels", "class", class_id).choice(WIDGETS, (3, 3)).tolist()
    case, mark = inks(rng)
    canvas = sheet(rng, rng.uniform(40, 200, 3), side)
    draw = ImageDraw.Draw(canvas)
    project = pose(rng, side, degrees=(12, 24, 24), scale=(0.2, 0.4), shift=0.12)

    def shape(points, colour):
        draw.polygon(corners(project(np.asarray(points, float))), as_bytes(np.asarray(colour)))

    def box(x, y, w, h):
        return [(x, y), (x + w, y), (x + w, y + h), (x, y + h)]

    shape(box(-1.1, -1.1, 2.2, 2.2), case)
    lit = rng.uniform(120, 255, 3) * rng.permutation((1, 0.4, 0.2))
    for row, column in np.ndindex(3, 3):
        x, y, kind = 0.7 * column - 1, 0.7 * row - 1, layout[row][column]
        if kind == "lamps":
            for k in range(4):
                lamp = disc(x + 0.12 + 0.3 * (k % 2), y + 0.15 + 0.3 * (k // 2), 0.11)
                shape(lamp, lit if rng.random() < 0.5 else lit * 0.3)
        elif kind == "digits":
            shape(box(x, y, 0.6, 0.5), (15, 15, 20))
            for k, ((a, b), (c, d)) in enumerate(SEGMENTS * 2):
                left = x + 0.08 + 0.28 * (k // len(SEGMENTS))
                line = np.array(
                    [(left + 0.16 * a, y + 0.07 + 0.18 * b), (left + 0.16 * c, y + 0.07 + 0.18 * d)]
                )
                if rng.random() < 0.65:
                    draw.line(corners(project(line)), as_bytes(lit), max(1, side // 60))
        elif kind == "buttons":
            for k in range(6):
                shape(
                    box(x + 0.21 * (k % 3), y + 0.28 * (k // 3), 0.15, 0.2), mark * rng.uniform(0.85, 1) + 15
                )
        elif kind == "slider":
            shape(box(x + 0.25, y, 0.06, 0.55), mark)
            shape(box(x + 0.13, y + rng.uniform(0, 0.42), 0.3, 0.13), case * 0.6 + mark * 0.4)
        elif kind == "socket":
            shape(disc(x + 0.28, y + 0.28, 0.27), mark)
            for dx, dy in ((-0.1, 0), (0.1, 0), (0, 0.12)):
                shape(disc(x + 0.28 + dx, y + 0.25 + dy, 0.05), case)
        elif kind == "grille":
            for k in range(5):
                shape(box(x, y + 0.12 * k, 0.58, 0.05), mark)
        elif kind == "label":
            shape(box(x, y + 0.15, 0.58, 0.25), case * 0.5 + 120)
            shape(box(x + 0.06, y + 0.22, rng.uniform(0.2, 0.45), 0.09), (30, 30, 30))
    return through_camera(canvas.reduce(3), rng)


# Molecules: a ring and what hangs on it.


def _new_molecule(rng) -> tuple[np.ndarray, list[tuple[int, int, int]], np.ndarray]:
    """Places (n, 2), bonds (from, to, how many lines) and the kind of each atom, 0 to 3."""
    ring = int(rng.choice((5, 6, 6)))
    turn = 2 * np.pi * np.arange(ring) / ring
    places = list(np.stack([np.cos(turn), np.sin(turn)], axis=1) / (2 * np.sin(np.pi / ring)))
    bonds = [(k, (k + 1) % ring, 1 + (k % 2) * int(rng.random() < 0.6)) for k in range(ring)]
    tips = list(range(ring))
    for _ in range(int(rng.integers(4, 9))):
        base = int(rng.choice(tips))
        out = np.arctan2(*(places[base] - np.mean(places[:ring], axis=0))[::-1])
        bend = 0 if base < ring else rng.choice((-1, 1)) * np.pi / 3
        place = places[base] + (np.cos(out + bend), np.sin(out + bend))
        if min(np.hypot(*(place - p)) for p in places) > 0.7:
            bonds.append((base, len(places), int(rng.choice((1, 1, 2)))))
            tips.append(len(places))
            places.append(place)
    kinds = rng.choice(4, len(places), p=(0.6, 0.15, 0.15, 0.1))
    return np.array(places) - np.mean(places, axis=0), bonds, kinds


def _molecule(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Balls and sticks, or lines alone with balls for the rarer atoms."""
    rng, side = rng_for(seed, "drawn-molecules", class_id, image_id), 3 * size
    places, bonds, kinds = _new_molecule(rng_for(0, "drawn-molecules", "class", class_id))
    paper, ink = inks(rng)
    canvas = sheet(rng, paper, side)
    draw, extent = ImageDraw.Draw(canvas), np.abs(places).max()
    project = pose(rng, side, degrees=(25, 14, 14), scale=(0.34, 0.44), shift=0.05)
    at = project((places + rng.normal(0, 0.05, places.shape)) / extent)
    unit, width = np.hypot(*(at[0] - at[1])), max(1, round(side * rng.uniform(0.008, 0.018)))
    for a, b, lines in bonds:
        aside = rotation(np.pi / 2) @ (at[b] - at[a]) * 0.09
        for k in (-1, 1) if lines == 2 else (0,):
            draw.line(corners(at[[a, b]] + k * aside), as_bytes(ink), width)
    balls = rng.random() < 0.5
    shades = np.concatenate([ink[None], rng.uniform(40, 230, (3, 3))])
    for place, kind in zip(at, kinds, strict=True):
        if balls or kind:
            radius = unit * (0.2 + 0.04 * kind)
            draw.ellipse([*(place - radius), *(place + radius)], as_bytes(shades[kind]))
    return through_camera(canvas.reduce(3), rng)


# Cells under a microscope.


def _cells(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Many cells of a kind: its size, length, lobes, nuclei, grains and wall are those of the class."""
    rng, side = rng_for(seed, "drawn-cells", class_id, image_id), 2 * size
    large, long, lobed, grains, wall, crowd = rng_for(0, "drawn-cells", "class", class_id).random(6)
    nuclei, lobes = class_id % 3 + (class_id % 2), 2 + class_id % 4
    paper, stain = rng.uniform(180, 250, 3), rng.uniform(60, 190, 3)
    canvas = sheet(rng, paper, side)
    draw, turn = ImageDraw.Draw(canvas), np.linspace(0, 2 * np.pi, 40)
    for _ in range(6 + round(22 * crowd)):
        radius = side * (0.05 + 0.1 * large) * np.exp(rng.normal(0, 0.12))
        outline = 1 + 0.45 * lobed * np.sin(lobes * turn + rng.uniform(0, 6)) + rng.normal(0, 0.02, 40)
        frame = np.diag((1 + 1.5 * long, 1 / (1 + 0.5 * long))) @ rotation(rng.uniform(0, 6.3)) * radius
        place = rng.uniform(0, side, 2)
        body = np.stack([np.cos(turn), np.sin(turn)], axis=1) * outline[:, None] @ frame + place
        tone = stain + rng.normal(0, 12)
        draw.polygon(
            corners(body),
            as_bytes(tone),
            as_bytes(tone * (1 - 0.6 * wall)),
            max(1, round(side * 0.02 * wall)),
        )
        for k in range(nuclei):
            spot = place + np.array(((k - (nuclei - 1) / 2) * 0.8, rng.normal(0, 0.1))) @ frame
            draw.ellipse([*(spot - radius * 0.3), *(spot + radius * 0.3)], as_bytes(tone * 0.45))
        for grain in rng.normal(0, 0.4, (round(14 * grains), 2)) @ frame + place:
            draw.ellipse([*(grain - side * 0.007), *(grain + side * 0.007)], as_bytes(tone * 0.6))
    return through_camera(canvas.filter(ImageFilter.GaussianBlur(rng.uniform(0, side / 96))).reduce(2), rng)


# Fractals: what is left of a point that one of a few maps moves again and again.


def _new_maps(rng) -> np.ndarray:
    """Three or four contractions, (n, 2, 3)."""
    maps = [
        np.c_[rotation(rng.uniform(0, 6.3)) * rng.uniform(0.35, 0.75, 2), rng.uniform(-1, 1, 2)]
        for _ in range(4)
    ]
    return np.array(maps[: rng.integers(3, 5)])


def _fractal(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    rng, grid = rng_for(seed, "drawn-fractals", class_id, image_id), 192
    maps = _new_maps(rng_for(0, "drawn-fractals", "class", class_id))
    maps = maps + rng.normal(0, 0.03, maps.shape)
    points, found = np.zeros((400, 2)), []
    for step in range(60):
        chosen = maps[rng.integers(len(maps), size=400)]
        points = np.einsum("nij,nj->ni", chosen[:, :, :2], points) + chosen[:, :, 2]
        found += [points] if step > 8 else []
    cloud = np.concatenate(found)
    low, high = np.quantile(cloud, (0.01, 0.99), axis=0)
    cloud = (cloud - (low + high) / 2) / (high - low).max() @ rotation(rng.normal(0, 0.5))
    cloud = ((cloud * rng.uniform(0.7, 0.95) + 0.5 + rng.uniform(-0.06, 0.06, 2)) * grid).astype(int)
    cloud = cloud[(cloud >= 0).all(axis=1) & (cloud < grid).all(axis=1)]
    count = np.bincount(cloud[:, 0] * grid + cloud[:, 1], minlength=grid**2).reshape(grid, grid)
    paper, ink = inks(rng)
    much = Image.fromarray((255 * np.clip(count / 2, 0, 1)).astype(np.uint8)).resize(
        (size, size), Image.Resampling.BOX
    )
    canvas = sheet(rng, paper, size)
    canvas.paste(as_bytes(ink), mask=much.point([min(255, 2 * v) for v in range(256)]))
    return through_camera(canvas, rng)


SPECIMENS = {
    domain.name: domain
    for domain in (
        Domain("drawn-panels", N_CLASSES, "panel {:02d}".format, _panel, may_flip=False),
        Domain("drawn-molecules", N_CLASSES, "molecule {:02d}".format, _molecule, may_flip=False),
        Domain("drawn-cells", N_CLASSES, "cells {:02d}".format, _cells, may_flip=True),
        Domain("drawn-fractals", N_CLASSES, "fractal {:02d}".format, _fractal, may_flip=False),
    )
}
