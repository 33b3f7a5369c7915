"""A generated domain: line drawings of invented objects, by many hands. Nothing to download.

A class is an object of a few parts. An image of it has its own posture, proportions, pen, strokes, sheet,
pose and, at times, paint; colours say nothing about the class.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    noise,
    patchwork,
    pose,
    through_camera,
)
from tinytrain.datasets.generated.sketch_objects import KINDS, sketch
from tinytrain.datasets.generated.sketch_parts import Part, Sketch

N_CLASSES = 9000
OVERSAMPLING = 2
FINEST = 96  # smaller images are drawn this large and shrunk: thin lines would vanish
STYLES = ("lines", "painted", "silhouette", "see-through")


@dataclass(frozen=True)
class Pen:
    """Width as a fraction of the image, its variation, how often a line is drawn, and how unsteadily."""

    width: float
    pressure: float
    repeats: int
    wobble: float
    gaps: float


def class_name(class_id: int) -> str:
    return f"{list(KINDS)[class_id % len(KINDS)]} {class_id:04d}"


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "sketches", class_id, image_id)
    factor = OVERSAMPLING * max(1, -(-FINEST // (OVERSAMPLING * size)))
    side = size * factor
    style = rng.choice(STYLES, p=(0.55, 0.2, 0.07, 0.18))
    paper, ink = _colours(rng)
    canvas = _sheet(rng, paper, side)
    project = pose(rng, side, degrees=(9, 8, 14), scale=(0.3, 0.46), shift=0.07)
    _draw(canvas, sketch(class_id), (style, paper, ink), project, rng)
    scene = canvas.reduce(factor)
    return through_camera(scene, rng) if rng.random() < 0.5 else _scanned(scene, rng)


sketches = Domain("sketches", N_CLASSES, class_name, generate, may_flip=True, families=len(KINDS))


def _colours(rng) -> tuple[np.ndarray, np.ndarray]:
    """Colours of the sheet and the pen: mostly black on white, at times chalk on a board."""
    white = min(rng.normal(245, 14), 255) + rng.normal(0, 1, 3) * rng.choice((1, 2, 9))
    dark = rng.uniform(0, 70) + rng.normal(0, 1, 3) * rng.choice((2, 2, 35))
    return (dark, white) if rng.random() < 0.1 else (white, dark)


def _sheet(rng, paper: np.ndarray, side: int) -> Image.Image:
    """Mostly plain; at times with grain, stains or a scene behind."""
    kind = rng.random()
    stains, cells = rng.uniform(2, 12), int(rng.integers(2, 9))
    if kind < 0.6:
        return Image.new("RGB", (side, side), as_bytes(paper))
    if kind < 0.92:
        tone = (noise(rng, 5, side) + noise(rng, 48, side)) * np.float32(stains)
        return Image.fromarray(np.clip(tone[..., None] + paper.astype(np.float32), 0, 255).astype(np.uint8))
    return patchwork(rng, paper, cells, (25, 15), side)


def _draw(canvas: Image.Image, kind: Sketch, look, project, rng) -> None:
    style, paper, ink = look
    side, draw = canvas.width, ImageDraw.Draw(canvas)
    pen = _pen(rng)
    paints = rng.uniform(40, 235, (4, 3))
    shown = [p for p in kind.parts if not p.detail or rng.random() < 0.85]
    placed = [_grown(points) for points in placed_parts(kind, shown, rng)]
    for number, (part, points) in enumerate(zip(shown, placed, strict=True)):
        path = project(points)
        if part.closed and style != "see-through" and not (style == "lines" and part.detail):
            inks = {"painted": paints[3 if part.detail else part.limb % 4]}
            inks |= {} if part.detail else {"silhouette": ink}
            draw.polygon(corners(path), fill=as_bytes(inks.get(style, paper)))
        if style == "lines" and part.closed and number % 3 == 1 and pen.pressure > 0.75:
            _hatch(draw, path, round(pen.width * side * 0.4), as_bytes(ink + 25), rng)
        _stroke(draw, path, pen, as_bytes(ink), side, rng)


def _pen(rng) -> Pen:
    return Pen(
        width=float(np.clip(np.exp(rng.normal(-4.2, 0.4)), 0.008, 0.04)),
        pressure=rng.uniform(0, 1),
        repeats=int(rng.choice((1, 1, 1, 2, 3))),
        wobble=rng.uniform(0.002, 0.03),
        gaps=rng.uniform(0, 0.25) if rng.random() < 0.4 else 0.0,
    )


def placed_parts(kind: Sketch, parts: list[Part], rng) -> list[np.ndarray]:
    """The lines of the parts in the posture and with the proportions of this image, at times mirrored."""
    limbs = len(kind.pivots)
    angle, scale = rng.normal(0, 0.2, limbs), np.exp(rng.normal(0, 0.12, limbs))
    angle[0], scale[0] = 0, 1
    frame = np.array([(np.exp(rng.normal(0, 0.1)), rng.normal(0, 0.1)), (rng.normal(0, 0.1), 1.0)])
    frame[:, 0] *= rng.choice((-1, 1))
    bend = rng.normal(0, 0.07, (2, 2, 2))
    turned = np.stack([np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], 1).reshape(-1, 2, 2)
    turned *= scale[:, None, None]
    lines = []
    for part in parts:
        pivot = kind.pivots[part.limb]
        points = (part.points - pivot) @ turned[part.limb] + pivot
        lines.append((points + np.einsum("ni,nj,ijk->nk", points, points, bend)) @ frame)
    return lines


def _grown(points: np.ndarray) -> np.ndarray:
    """Enough points on straight edges, so that a hand can tremble along them."""
    if len(points) > 14:
        return points
    at = np.linspace(0, len(points) - 1, 5 * (len(points) - 1) + 1)
    return np.stack([np.interp(at, np.arange(len(points)), points[:, k]) for k in (0, 1)], axis=1)


def _stroke(draw, path: np.ndarray, pen: Pen, ink: tuple[int, ...], side: int, rng) -> None:
    """The line, drawn once or several times, each time a little beside the one that was meant."""
    n = len(path)
    for _ in range(pen.repeats):
        slow = rng.normal(0, pen.wobble, (4, 2)).cumsum(axis=0)
        at = np.linspace(0, 3, n)
        away = np.stack([np.interp(at, np.arange(4), slow[:, k]) for k in (0, 1)], axis=1)
        quick = rng.normal(0, pen.wobble * 0.2, (n, 2))
        line = path + (away - away.mean(axis=0) * 0.5 + quick) * side * 0.4
        pieces = max(2, n // 7)
        widths = pen.width * side * np.exp(rng.normal(0, 0.35 * pen.pressure, pieces))
        lifted = rng.random(pieces) < pen.gaps
        edges = np.linspace(0, n - 1, pieces + 1).astype(int)
        for k in np.flatnonzero(~lifted).tolist():
            stretch = corners(line[edges[k] : edges[k + 1] + 1])
            draw.line(stretch, fill=ink, width=max(1, round(widths[k])), joint="curve")


def _hatch(draw, path: np.ndarray, width: int, ink: tuple[int, ...], rng) -> None:
    """Parallel lines between opposite points of the outline."""
    half = len(path) // 2
    lean = int(rng.integers(0, 3))
    for k in range(1, half - 1, 2):
        other = path[(2 * half - k - lean) % len(path)]
        draw.line(corners(np.stack([path[k], other])), fill=ink, width=max(1, width))


def _scanned(scene: Image.Image, rng) -> np.ndarray:
    """Straight from the scanner: only contrast and a trace of noise differ."""
    size = scene.width
    contrast, noisy = rng.uniform(0.75, 1.1), rng.uniform(0, 3)
    grain = rng.standard_normal((size, size, 1), dtype=np.float32) * np.float32(noisy)
    sensed = (np.asarray(scene, dtype=np.float32) - 128) * np.float32(contrast) + 128 + grain
    return np.clip(sensed, 0, 255).astype(np.uint8)
