"""Invented things as surfaces in space: x right, y up, z to the viewer, in units of about half their height.

A thing is a turned or boxy body with what grows out of it: legs, handles, spouts, fins, knobs or another
body. It is drawn at random from its number.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from tinytrain.base.random_streams import rng_for

AROUND, ALONG = 26, 18  # quadrangles of a surface in each direction
U = np.linspace(0, 2 * np.pi, AROUND + 1)[None, :]
V = np.linspace(0, 1, ALONG + 1)[:, None]


@dataclass(frozen=True)
class Surface:
    """`points` (ALONG + 1, AROUND + 1, 3), and which of the materials of the thing it has."""

    points: np.ndarray
    material: int


@dataclass(frozen=True)
class Material:
    """A pattern with its scale, two colours (2, 3) RGB and how much the surface shines."""

    pattern: str
    scale: float
    colours: np.ndarray
    shine: float


@dataclass(frozen=True)
class Solid:
    body: str
    surfaces: tuple[Surface, ...]
    materials: tuple[Material, ...]


PATTERNS = ("plain", "plain", "rings", "staves", "checks", "half", "waves", "spots")


def _turned(radius: np.ndarray, height: np.ndarray, square: float = 1.0, flat: float = 1.0) -> np.ndarray:
    """A surface around the y axis; `square` below 1 makes its cross section a rounded box."""
    x = np.sign(np.cos(U)) * np.abs(np.cos(U)) ** square
    z = np.sign(np.sin(U)) * np.abs(np.sin(U)) ** square
    r, y = radius[:, None], np.broadcast_to(height[:, None], (ALONG + 1, AROUND + 1))
    return np.stack([r * x, y, r * z * flat], axis=-1)


def _pipe(path: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """A pipe along a path (ALONG + 1, 3) with a radius for each of its points."""
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True) + 1e-9
    aside = np.cross(along, (0.31, 0.24, 0.92))
    aside /= np.linalg.norm(aside, axis=1, keepdims=True) + 1e-9
    up = np.cross(along, aside)
    ring = np.cos(U)[..., None] * aside[:, None] + np.sin(U)[..., None] * up[:, None]
    return path[:, None] + ring * radius[:, None, None]


def _curve(*knots) -> np.ndarray:
    """A smooth path through the neighbourhood of three points, (ALONG + 1, 3)."""
    a, b, c = (np.array(k, dtype=float) for k in knots)
    return (1 - V) ** 2 * a + 2 * V * (1 - V) * b + V**2 * c


def _about_y(points: np.ndarray, angle: float) -> np.ndarray:
    (x, y, z), c, s = np.moveaxis(points, -1, 0), np.cos(angle), np.sin(angle)
    return np.stack([x * c + z * s, y, z * c - x * s], axis=-1)


T = V[:, 0]


def _capped(radius: np.ndarray, closed: bool = True) -> np.ndarray:
    return np.where((T == 0) | ((T == 1) & closed), 0, radius)


def _vase(rng):
    knots = rng.uniform(0.15, 0.8, 5)
    radius = np.interp(T, np.linspace(0, 1, 5), knots)
    radius = np.convolve(np.pad(radius, 2, mode="edge"), np.ones(5) / 5, mode="valid")
    return _turned(_capped(radius, rng.random() < 0.5), 2 * T - 1, rng.choice((1.0, 1.0, 0.5)))


def _box(rng):
    high, wide, taper = rng.uniform(0.4, 1.0), rng.uniform(0.35, 0.9), rng.uniform(0.5, 1.1)
    radius, level = wide * (1 + (taper - 1) * T), 2 * np.clip((T - 0.06) / 0.88, 0, 1) - 1
    return _turned(_capped(radius), level * high, 0.25, rng.uniform(0.4, 1.0))


def _ball(rng):
    high, wide, power = rng.uniform(0.5, 1.0), rng.uniform(0.5, 0.9), rng.uniform(0.6, 1.4)
    radius, square = wide * np.sin(np.pi * T) ** power, rng.choice((1.0, 0.6))
    return _turned(radius, -high * np.cos(np.pi * T), square, rng.uniform(0.5, 1.0))


def _fruit(rng):
    """A ball with lobes and dimples, or a long one that is bent."""
    lobes, deep, long = rng.integers(0, 8), rng.uniform(0.03, 0.16), rng.uniform(0.45, 1.0)
    radius = 0.75 * np.sin(np.pi * T) ** rng.uniform(0.4, 1.0) * (1 + rng.uniform(-0.5, 0.5) * (T - 0.5))
    points = _turned(radius * rng.uniform(0.4, 1.0), -long * np.cos(np.pi * T))
    points[..., ::2] *= (1 + deep * np.cos(lobes * U))[..., None]
    points[..., 0] += rng.uniform(-0.5, 0.5) * points[..., 1] ** 2
    return points


def _disc(rng):
    edge, high = rng.uniform(0.7, 1.0), rng.uniform(0.08, 0.35)
    radius = edge * np.interp(T, (0, 0.3, 0.7, 1), (0, 1, rng.uniform(0.5, 1.0), 0))
    level, square = high * (2 * np.clip((T - 0.2) / 0.6, 0, 1) - 1), rng.choice((1.0, 0.3, 0.7))
    return _turned(radius, level, square, rng.uniform(0.6, 1.0))


def _loop(rng):
    """A ring, standing or lying."""
    far, thick = rng.uniform(0.5, 0.8), rng.uniform(0.12, 0.35)
    turn = 2 * np.pi * T
    path = np.stack([far * np.cos(turn), far * np.sin(turn) * rng.uniform(0.6, 1.0), 0 * T], axis=1)
    points = _pipe(path, np.full(ALONG + 1, thick))
    return points if rng.random() < 0.6 else points[..., [0, 2, 1]]


def _branch(rng):
    """A thick bent pipe that gets thinner."""
    ends = rng.uniform(-0.9, 0.9, (3, 3)) * (1, 1, 0.5)
    ends[0, 1], ends[2, 1] = -1, 1
    radius = np.interp(T, (0, 0.06, 0.94, 1), (0, 1, rng.uniform(0.4, 1.5), 0)) * rng.uniform(0.15, 0.35)
    return _pipe(_curve(*ends), radius)


BODIES = {
    "vase": _vase,
    "box": _box,
    "ball": _ball,
    "fruit": _fruit,
    "disc": _disc,
    "loop": _loop,
    "branch": _branch,
}


def _legs(rng, reach: float, low: float) -> list[np.ndarray]:
    count, long, thick = int(rng.integers(2, 6)), rng.uniform(0.3, 0.9), rng.uniform(0.04, 0.12)
    out, bent = rng.uniform(0.3, 1.1) * reach, rng.uniform(-0.3, 0.4)
    path = _curve((out * 0.7, low + 0.2, 0), (out + bent, low - long / 2, 0), (out, low - long, 0))
    leg = _pipe(path, np.full(ALONG + 1, thick) * np.interp(T, (0, 1), (1, rng.uniform(0.4, 1.6))))
    return [_about_y(leg, 2 * np.pi * k / count) for k in range(count)]


def _handle(rng, reach: float, low: float) -> list[np.ndarray]:
    top, far, thick = rng.uniform(0.0, 0.7), rng.uniform(0.4, 0.9), rng.uniform(0.05, 0.13)
    path = _curve((reach * 0.6, top, 0), (reach + 2 * far, (top + low) / 2, 0), (reach * 0.6, low * 0.7, 0))
    handle = _pipe(path, np.full(ALONG + 1, thick))
    return [_about_y(handle, np.pi * k) for k in range(rng.choice((1, 1, 2)))]


def _spout(rng, reach: float, low: float) -> list[np.ndarray]:
    up, far = rng.uniform(-0.2, 1.0), rng.uniform(0.3, 0.9)
    path = _curve((-reach * 0.5, low * 0.3, 0), (-reach - far * 0.6, low * 0.2, 0), (-reach - far, up, 0))
    return [_pipe(path, np.interp(T, (0, 1), (rng.uniform(0.12, 0.3), rng.uniform(0.04, 0.2))))]


def _fins(rng, reach: float, low: float) -> list[np.ndarray]:
    count, long, wide = int(rng.integers(2, 7)), rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.4)
    at, lean, thin = rng.uniform(-0.7, 0.7), rng.uniform(-0.5, 0.5), rng.uniform(0.03, 0.08)
    blade = _turned(wide * np.sin(np.pi * T), long * (T - 0.1), 1.0, thin / wide)
    x, y, z = np.moveaxis(blade, -1, 0)
    blade = np.stack([y + reach * 0.7, x + at + lean * y, z], axis=-1)
    return [_about_y(blade, 2 * np.pi * k / count) for k in range(count)]


def _knob(rng, reach: float, low: float) -> list[np.ndarray]:
    size, neck = rng.uniform(0.12, 0.45), rng.uniform(0.05, 0.5)
    radius = np.interp(T, (0, 0.3, 1), (0.35, 0.3, 0)) * size
    ball = np.interp(T, (0, 0.3, 1), (0.3, 0.3, 0)) * 0 + size * np.sin(np.pi * T) ** rng.uniform(0.4, 1.5)
    return [_turned(np.maximum(radius, ball), -low - 0.1 + (neck + 2 * size) * T, rng.choice((1.0, 0.4)))]


def _second(rng, reach: float, low: float) -> list[np.ndarray]:
    body = BODIES[list(BODIES)[rng.integers(len(BODIES))]](rng)
    away = rng.uniform(-1, 1, 3) * (reach, 1.0, reach)
    return [body * rng.uniform(0.35, 0.7) + away]


GROWTHS = (_legs, _handle, _spout, _fins, _knob, _second)


@cache
def solid(class_id: int) -> Solid:
    """The thing of a class, centred, its longest side 2. The bodies take turns."""
    rng = rng_for(0, "solids", "class", class_id)
    name = list(BODIES)[class_id % len(BODIES)]
    body = BODIES[name](rng)
    surfaces = [Surface(body, 0)]
    reach, low = float(np.abs(body[..., 0]).max()), float(body[..., 1].min())
    for k, growth in enumerate(rng.choice(len(GROWTHS), rng.choice((2, 2, 3)), replace=False)):
        surfaces += [Surface(points, 1 + k % 2) for points in GROWTHS[growth](rng, reach, low)]
    together = np.concatenate([s.points.reshape(-1, 3) for s in surfaces])
    least, most = together.min(axis=0), together.max(axis=0)
    middle, scale = (least + most) / 2, 2 / (most - least).max()
    placed = tuple(Surface((s.points - middle) * scale, s.material) for s in surfaces)
    return Solid(name, placed, tuple(new_material(rng) for _ in range(3)))


def new_material(rng) -> Material:
    base = rng.uniform(30, 220) + rng.normal(0, 45, 3)
    return Material(
        pattern=PATTERNS[rng.integers(len(PATTERNS))],
        scale=rng.uniform(0.6, 1.6),
        colours=np.stack([base, base + rng.choice((-1, 1)) * rng.uniform(30, 120) + rng.normal(0, 30, 3)]),
        shine=rng.uniform(0, 1) ** 2,
    )


def pattern(material: Material) -> np.ndarray:
    """How much of the second colour each quadrangle of a surface has, 0..1, (ALONG, AROUND)."""
    v, u = (np.arange(ALONG)[:, None] + 0.5) / ALONG, (np.arange(AROUND)[None, :] + 0.5) / AROUND
    rings, staves = round(3 * material.scale), 2 * round(2.5 * material.scale)
    zeros = 0 * (u + v)
    along, around = np.sin(2 * np.pi * rings * v) > 0, np.sin(2 * np.pi * staves * u) > 0
    shades = {
        "plain": zeros,
        "rings": along + zeros,
        "staves": around + zeros,
        "checks": (along ^ around) + zeros,
        "half": (v > 0.5 / material.scale) + zeros,
        "waves": 0.5 + 0.5 * np.sin(2 * np.pi * (rings * v + np.sin(2 * np.pi * u))),
        "spots": (np.sin(2 * np.pi * rings * v) * np.sin(2 * np.pi * staves * u) > 0.45) + zeros,
    }
    return shades[material.pattern].astype(float)
