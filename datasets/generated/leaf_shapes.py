"""Shapes of leaves: outlines and veins in leaf coordinates, x right and y down, the tip on top, about -1..1.

A leaf is a list of blades. A shape is a function (p, q) of six parameters in 0..1 each: `q` are those of
the species and decide what is counted or there at all, `p` are near them and those of one leaf.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tinytrain.datasets.generated.camera import rotation

BASE, LENGTH = 0.8, 1.7  # where a simple blade begins, and how long it is
ALONG = np.linspace(0, 1, 90)
AROUND = np.linspace(-np.pi, np.pi, 180)


@dataclass(frozen=True)
class Blade:
    """`outline` (n, 2), the `half` of it on one side, (m, 2), and `veins` (k, 2, 2) from point to point."""

    outline: np.ndarray
    half: np.ndarray
    veins: np.ndarray

    def moved(self, scale, turn: float, to) -> "Blade":
        def move(points):
            return (points - (0, BASE)) * scale @ rotation(turn) + to

        return Blade(move(self.outline), move(self.half), move(self.veins))


class Margin(NamedTuple):
    """Number of `teeth` per side and their `depth`; `saw` leans them to the tip."""

    depth: float = 0.0
    teeth: float = 0.0
    saw: float = 0.5


SMOOTH = Margin()


def _simple(width, widest, blunt, margin=SMOOTH, heart=0.0, veins=6, way=ALONG) -> Blade:
    """A blade along a midrib."""
    depth, teeth, saw = margin
    rising, falling = blunt * widest, blunt * (1 - widest)
    half = way**rising * (1 - way) ** falling
    half = half / half.max()
    tooth = (teeth * way**0.9) % 1
    tooth = np.where(tooth < saw, tooth / saw, (1 - tooth) / (1 - saw))
    x = width * half * (1 - depth * (1 - tooth))
    y = BASE - LENGTH * way + heart * half * (1 - way) ** 6
    right = np.stack([x, y], axis=1)
    return Blade(
        np.concatenate([right, right[::-1] * (-1, 1)]), right, _pinnate_veins(right, veins, len(way))
    )


def _pinnate_veins(right: np.ndarray, pairs: int, n: int) -> np.ndarray:
    """A midrib and pairs of veins that rise from it to near the margin."""
    lines = [np.array([(0, BASE), (0, BASE - 0.97 * LENGTH)])]
    for i in range(pairs):
        start = (i + 0.6) / (pairs + 1)
        end = right[min(n - 1, round((start + 0.13) * n))] * (0.88, 1)
        root = np.array((0, BASE - LENGTH * start))
        lines += [np.array([root, end]), np.array([root, end]) * (-1, 1)]
    return np.stack(lines)


def _polar(radius: np.ndarray, centre, lobes: np.ndarray) -> Blade:
    """A blade around `centre` with a vein to each of the directions `lobes`; 0 points to the tip."""
    outline = centre + radius[:, None] * np.stack([np.sin(AROUND), -np.cos(AROUND)], axis=1)
    reach = 0.9 * np.interp(lobes, AROUND, radius)
    tips = centre + reach[:, None] * np.stack([np.sin(lobes), -np.cos(lobes)], axis=1)
    return Blade(outline, outline[AROUND >= 0], np.stack([np.stack([centre, tip]) for tip in tips]))


def _sinus(wide: float, deep: float) -> np.ndarray:
    """A factor for radii that opens the blade where the stalk meets it."""
    return 1 - deep * np.exp(-(((np.pi - np.abs(AROUND)) / wide) ** 2))


def lance(p, q):
    return [_simple(0.06 + 0.2 * p[0], 0.18 + 0.64 * p[1], 0.9 + 0.9 * p[2], veins=int(8 * q[3]))]


def oval(p, q):
    return [_simple(0.34 + 0.3 * p[0], 0.28 + 0.46 * p[1], 0.6 + 0.9 * p[2], veins=3 + int(8 * q[3]))]


def toothed(p, q):
    teeth = 6 * 3.0 ** p[3]
    depth = (0.28 - 0.16 * p[3]) * (0.7 + 0.5 * p[4])
    margin = Margin(depth, teeth, 0.78)
    return [_simple(0.26 + 0.36 * p[0], 0.28 + 0.4 * p[1], 0.7 + 0.8 * p[2], margin, 0.2 * p[5], 7)]


def heart(p, q):
    margin = Margin(0.12 * (q[4] > 0.55), 10 + 8 * p[5], 0.7)
    return [_simple(0.45 + 0.3 * p[0], 0.16 + 0.14 * p[1], 1.0 + 0.9 * p[2], margin, 0.25 + 0.3 * p[3], 5)]


def lobed(p, q):
    margin, veins = Margin(0.35 + 0.4 * p[3], 3 + 4 * p[4], 0.45 + 0.4 * p[5]), int(3 + 4 * q[4])
    return [_simple(0.4 + 0.25 * p[0], 0.4 + 0.3 * p[1], 0.5 + 0.6 * p[2], margin, veins=veins)]


def palmate(p, q):
    count = 3 + 2 * int(3 * q[0])
    spacing = np.deg2rad(270 / count + 12)
    lobe = np.abs(np.cos(np.pi * AROUND / spacing)) ** (0.6 + 1.4 * p[1])
    depth = 0.3 + 0.4 * p[2]
    envelope = 1 - (0.15 + 0.3 * p[3]) * (np.abs(AROUND) / np.pi) ** 1.5
    saw = 1 - (0.11 * (q[4] > 0.45)) * (np.abs(AROUND) * (7 + 6 * p[5]) % 1)
    radius = 1.1 * envelope * (1 - depth * (1 - lobe)) * saw * _sinus(0.35, 0.75)
    return [_polar(radius, np.array((0, 0.25)), (np.arange(count) - count // 2) * spacing)]


def rounded(p, q):
    """The superformula: discs, kidneys, rounded triangles and squares."""
    sides = 1 + int(5 * q[0])
    angle, power = sides * (AROUND + (np.pi if sides % 2 else np.pi / sides)) / 4, 1.4 + 3 * p[1]
    radius = (np.abs(np.cos(angle)) ** power + np.abs(np.sin(angle)) ** power) ** (-1 / (1.2 + 2.5 * p[2]))
    radius = radius / radius.max() * _sinus(0.1 + 0.5 * p[3], 0.9 * p[4])
    radius *= 1 - 0.07 * (q[5] > 0.5) * (1 + np.cos(AROUND * (12 + int(10 * q[5]))))
    return [_polar(0.9 * radius, np.array((0, 0.15)), np.deg2rad(np.arange(-120, 121, 40)))]


def fan(p, q):
    opening = np.deg2rad(45 + 55 * p[0])
    turn = np.linspace(-opening, opening, 120)
    radius = 1.35 * (1 - 0.25 * p[1] * (turn / opening) ** 2)
    radius = radius * (1 - (0.15 + 0.5 * p[2]) * np.exp(-((turn / 0.1) ** 2)))
    radius *= 1 - (0.03 + 0.1 * p[3]) * (1 + np.cos(turn * (6 + 22 * p[4]))) / 2
    edge = np.stack([radius * np.sin(turn), 0.7 - radius * np.cos(turn)], axis=1)
    outline = np.concatenate([[(0.0, 0.75)], edge])
    veins = np.stack([np.array([(0.0, 0.7), tip * 0.93 + (0, 0.05)]) for tip in edge[6::12]])
    return [Blade(outline, np.concatenate([[(0.0, 0.75)], edge[60:]]), veins)]


FEW = np.linspace(0, 1, 24)


def feather(p, q):
    """Leaflets in pairs along a stalk, and one at its end."""
    pairs = 2 + int(6 * q[0])
    leaflet = _simple(0.25 + 0.4 * p[1], 0.3 + 0.4 * p[2], 0.7 + 0.9 * p[3], veins=0, way=FEW)
    size, lean = min(0.48, 1.5 / (pairs + 1) * (0.5 + 0.2 * p[5])), np.deg2rad(40 + 45 * p[4])
    blades = []
    for at in np.linspace(0.65, -0.35, pairs):
        for side in (-1, 1):
            blades.append(leaflet.moved(size * (1 - 0.25 * (at < 0)), -side * lean, (0, at)))
    return [*blades, leaflet.moved(size, 0.0, (0, -0.45))]


def fingered(p, q):
    """Leaflets that spread from one point."""
    count = 4 + int(5 * q[0])
    margin = Margin(0.15 * (q[5] > 0.6), 6)
    leaflet = _simple(0.16 + 0.24 * p[1], 0.35 + 0.4 * p[2], 0.7 + 0.8 * p[3], margin, veins=4)
    opening = np.deg2rad(90 + 45 * p[4])
    turns = np.linspace(-opening, opening, count)
    return [leaflet.moved(0.62 * (1 - 0.25 * (t / opening) ** 2), -t, (0, 0.3)) for t in turns]


def trefoil(p, q):
    """Three broad leaflets, at times notched or toothed."""
    margin = Margin(0.16 * (q[5] > 0.5), 8, 0.7)
    leaflet = _simple(0.45 + 0.45 * p[0], 0.4 + 0.4 * p[1], 0.4 + 0.8 * p[2], margin, veins=4)
    turn = np.deg2rad(70 + 45 * p[3])
    top = leaflet.moved(0.55, 0.0, (0, 0.25 - 0.25 * p[4]))
    return [leaflet.moved(0.5, -turn, (0, 0.25)), leaflet.moved(0.5, turn, (0, 0.25)), top]


def fern(p, q):
    """Many narrow leaflets that shorten to the tip."""
    pairs = 7 + int(7 * q[0])
    leaflet = _simple(0.11 + 0.12 * p[1], 0.25 + 0.3 * p[2], 0.8, veins=0, way=FEW)
    spacing, lean, blades = 4 / pairs, np.deg2rad(50 + 35 * p[3]), []
    for at in np.linspace(0, 0.97, pairs):
        length = (0.2 + 0.25 * p[4]) * (1 - at) ** (0.5 + 0.6 * p[5]) * min(1, 0.5 + 3 * at) + 0.05
        spot = (0, BASE - 0.05 - at * (LENGTH - 0.1))
        blades += [leaflet.moved((1.4 * spacing, length), -side * lean, spot) for side in (-1, 1)]
    return blades


SHAPES = {
    shape.__name__: shape
    for shape in (oval, palmate, feather, toothed, lobed, fan, lance, rounded, fingered, heart, trefoil, fern)
}
