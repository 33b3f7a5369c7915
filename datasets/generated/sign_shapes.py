"""What road signs are made of: outlines and symbols as polygons in sign coordinates.

x runs right and y down, the sign fills about -1..1. A symbol is a list of (inked, polygon):
inked parts take the symbol's colour, the others the colour of the face, which cuts holes.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Part = tuple[bool, np.ndarray]


def regular(corners: int, radius: float = 1.0, turn: float = 0.0, centre=(0.0, 0.0)) -> np.ndarray:
    """A regular polygon, (corners, 2); many corners make a disc. `turn` is in degrees, 0 puts one on top."""
    angle = np.deg2rad(turn) + 2 * np.pi * np.arange(corners) / corners
    return np.stack([centre[0] + radius * np.sin(angle), centre[1] - radius * np.cos(angle)], axis=1)


def poly(*points) -> np.ndarray:
    return np.array(points, dtype=float)


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return poly((left, top), (right, top), (right, bottom), (left, bottom))


def disc(x: float, y: float, radius: float) -> np.ndarray:
    return regular(24, radius, centre=(x, y))


def stroke(*points, width: float = 0.28) -> list[Part]:
    """A line through the points with round joints."""
    parts: list[Part] = []
    for start, end in pairwise(points):
        a, b = np.array(start, float), np.array(end, float)
        along = (b - a) / np.hypot(*(b - a))
        side = np.array([-along[1], along[0]]) * width / 2
        parts.append((True, np.array([a + side, b + side, b - side, a - side])))
    return parts + [(True, disc(x, y, width / 2)) for x, y in points[1:-1]]


def ink(*polygons: np.ndarray) -> list[Part]:
    return [(True, p) for p in polygons]


def mirrored(parts: list[Part]) -> list[Part]:
    return [(inked, p * (-1, 1)) for inked, p in parts]


def turned(parts: list[Part], degrees: float) -> list[Part]:
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return [(inked, p @ np.array([[c, s], [-s, c]])) for inked, p in parts]


ARROW = ink(box(-0.16, -0.2, 0.16, 0.9), poly((-0.55, -0.15), (0, -0.95), (0.55, -0.15)))
BEND = [
    *stroke((-0.45, 0.9), (-0.45, -0.25), (0.3, -0.25), width=0.3),
    *ink(poly((0.25, -0.75), (0.95, -0.25), (0.25, 0.25))),
]
CHEVRON = ink(poly((-0.5, -0.9), (0.0, -0.9), (0.6, 0), (0.0, 0.9), (-0.5, 0.9), (0.1, 0)))
STAR = regular(10) * np.resize((0.95, 0.4), 10)[:, None]

SYMBOLS: dict[str, list[Part]] = {
    "arrow-up": ARROW,
    "arrow-right": turned(ARROW, 90),
    "arrow-left": turned(ARROW, -90),
    "bend-right": BEND,
    "bend-left": mirrored(BEND),
    "chevron-right": CHEVRON,
    "chevron-left": mirrored(CHEVRON),
    "bar": ink(box(-0.9, -0.24, 0.9, 0.24)),
    "two-bars": ink(box(-0.85, -0.55, 0.85, -0.2), box(-0.85, 0.2, 0.85, 0.55)),
    "plus": ink(box(-0.2, -0.9, 0.2, 0.9), box(-0.9, -0.2, 0.9, 0.2)),
    "cross": turned(ink(box(-0.2, -0.95, 0.2, 0.95), box(-0.95, -0.2, 0.95, 0.2)), 45),
    "exclamation": ink(poly((-0.2, -0.95), (0.2, -0.95), (0.11, 0.35), (-0.11, 0.35)), disc(0, 0.72, 0.19)),
    "two-dots": ink(disc(-0.5, 0, 0.34), disc(0.5, 0, 0.34)),
    "three-dots": ink(disc(0, -0.5, 0.31), disc(-0.52, 0.42, 0.31), disc(0.52, 0.42, 0.31)),
    "ring": [(True, disc(0, 0, 0.85)), (False, disc(0, 0, 0.48))],
    "crescent": [(True, disc(0, 0, 0.85)), (False, disc(0.4, -0.1, 0.68))],
    "star": ink(STAR),
    "zigzag": stroke((-0.85, 0.35), (-0.4, -0.45), (0.05, 0.35), (0.45, -0.45), (0.85, 0.35), width=0.26),
    "steps": ink(box(-0.85, 0.3, -0.2, 0.8), box(-0.3, -0.2, 0.35, 0.8), box(0.25, -0.7, 0.85, 0.8)),
    "house": [*ink(poly((-0.9, -0.05), (0, -0.9), (0.9, -0.05)), box(-0.6, -0.1, 0.6, 0.85)),
              (False, box(-0.16, 0.3, 0.16, 0.85))],
    "tree": ink(poly((-0.7, 0.4), (0, -0.95), (0.7, 0.4)), box(-0.13, 0.35, 0.13, 0.95)),
    "hourglass": ink(poly((-0.6, -0.9), (0.6, -0.9), (0, 0)), poly((-0.6, 0.9), (0.6, 0.9), (0, 0))),
    "checks": ink(box(-0.8, -0.8, 0, 0), box(0, 0, 0.8, 0.8)),
    "letter-t": ink(box(-0.7, -0.85, 0.7, -0.5), box(-0.2, -0.85, 0.2, 0.9)),
    "letter-h": ink(box(-0.65, -0.85, -0.3, 0.85), box(0.3, -0.85, 0.65, 0.85), box(-0.5, -0.2, 0.5, 0.2)),
    "letter-n": [*ink(box(-0.65, -0.85, -0.3, 0.85), box(0.3, -0.85, 0.65, 0.85)),
                 *ink(poly((-0.65, -0.85), (-0.3, -0.85), (0.65, 0.85), (0.3, 0.85)))],
    "letter-p": [*ink(box(-0.5, -0.9, -0.12, 0.9), disc(0.08, -0.38, 0.52)), (False, disc(0.1, -0.38, 0.2))],
    "person": [*ink(disc(0, -0.72, 0.22), poly((-0.22, -0.42), (0.22, -0.42), (0.12, 0.25), (-0.12, 0.25))),
               *stroke((-0.02, 0.2), (-0.35, 0.92), width=0.2), *stroke((0.02, 0.2), (0.35, 0.92), width=0.2),
               *stroke((-0.5, 0.0), (0, -0.32), (0.5, 0.0), width=0.18)],
}  # fmt: skip


@dataclass(frozen=True)
class Body:
    """Outline, colours (RGB), where the face ends, where the symbol sits and how large it is."""

    outline: np.ndarray
    border: tuple[int, int, int]
    face: tuple[int, int, int]
    symbol: tuple[int, int, int]
    face_scale: float
    symbol_scale: float
    symbol_y: float = 0.0
    face_y: float = 0.0
    slashed: bool = False


RED, WHITE, BLACK, BLUE = (190, 25, 35), (238, 238, 232), (22, 22, 24), (25, 75, 165)
YELLOW, GREEN, BROWN, ORANGE = (240, 200, 40), (25, 115, 70), (112, 70, 40), (232, 125, 30)
CIRCLE, SQUARE = regular(40), box(-0.88, -0.88, 0.88, 0.88)
SINK = np.array((0, 0.25))  # a triangle's centroid lies below the middle of its height
UP, DOWN = regular(3, 1.2) + SINK, regular(3, 1.2, 180) - SINK
DIAMOND, OCTAGON = regular(4, 1.1), regular(8, 1.02, 22.5)
SHIELD = poly((-0.85, -0.9), (0.85, -0.9), (0.85, 0.15), (0.5, 0.65), (0, 1.0), (-0.5, 0.65), (-0.85, 0.15))

BODIES: dict[str, Body] = {
    "warning": Body(UP, RED, WHITE, BLACK, 0.72, 0.38, 0.38, 0.07),
    "order": Body(CIRCLE, WHITE, BLUE, WHITE, 0.92, 0.60),
    "limit": Body(CIRCLE, RED, WHITE, BLACK, 0.78, 0.52),
    "ban": Body(CIRCLE, RED, WHITE, BLACK, 0.80, 0.52, slashed=True),
    "priority": Body(DIAMOND, BLACK, YELLOW, BLACK, 0.90, 0.48),
    "place": Body(SQUARE, WHITE, BLUE, WHITE, 0.92, 0.62),
    "stop": Body(OCTAGON, WHITE, RED, WHITE, 0.90, 0.60),
    "yield": Body(DOWN, RED, YELLOW, BLACK, 0.72, 0.38, -0.38, -0.07),
    "tourist": Body(box(-1.1, -0.75, 1.1, 0.75), WHITE, BROWN, WHITE, 0.92, 0.55),
    "rescue": Body(box(-0.75, -1.0, 0.75, 1.0), WHITE, GREEN, WHITE, 0.90, 0.58),
    "works": Body(SQUARE, BLACK, ORANGE, BLACK, 0.88, 0.60),
    "route": Body(SHIELD, BLACK, WHITE, BLUE, 0.88, 0.50, -0.08),
}
