"""What drawn objects are put together of: closed outlines and open lines, x right and y down."""

from dataclasses import dataclass

import numpy as np

POINTS = 40  # of an outline
TURN = np.linspace(0, 2 * np.pi, POINTS)
WAY = np.linspace(0, 1, POINTS)


@dataclass(frozen=True)
class Part:
    """One line, (n, 2), of a limb; `closed` outlines hide what is behind them, details may be left out."""

    points: np.ndarray
    limb: int = 0
    closed: bool = True
    detail: bool = False


@dataclass(frozen=True)
class Sketch:
    """Parts from the hindmost to the foremost. Limb k turns around `pivots[k]`, limb 0 not at all."""

    kind: str
    parts: tuple[Part, ...]
    pivots: np.ndarray


class Plan:
    """What an object is put together of, while it is invented."""

    def __init__(self, rng):
        self.rng = rng
        self.parts: list[Part] = []
        self.pivots = [np.zeros(2)]

    def limb(self, pivot) -> int:
        self.pivots.append(np.array(pivot, dtype=float))
        return len(self.pivots) - 1

    def add(self, points, limb: int = 0, closed: bool = True, detail: bool = False) -> None:
        self.parts.append(Part(np.asarray(points, dtype=float), limb, closed, detail))

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def one_of(self, *values):
        return values[self.rng.integers(len(values))]


def blob(centre, wide: float, high: float, turn: float = 0.0, power: float = 1.0, egg: float = 0.0):
    """A closed curve: a lens at power 2, an ellipse at 1, nearly a box at 0.3; `egg` fattens one end."""
    x = np.sign(np.cos(TURN)) * np.abs(np.cos(TURN)) ** power
    y = np.sign(np.sin(TURN)) * np.abs(np.sin(TURN)) ** power * (1 + egg * x)
    return np.stack([x * wide, y * high], axis=1) @ turned(turn) + centre


def tube(path, first: float, last: float, middle: float = 1.0):
    """A closed outline around a path (n, 2), of half the width `first` at its start and `last` at its end."""
    path = smooth(np.asarray(path, dtype=float))
    along = np.gradient(path, axis=0)
    side = np.stack([-along[:, 1], along[:, 0]], axis=1) / (np.hypot(*along.T)[:, None] + 1e-9)
    width = (first + (last - first) * WAY) * (1 + (middle - 1) * np.sin(np.pi * WAY))
    side *= width[:, None]
    return np.concatenate([path + side, (path - side)[::-1], path[:1] + side[:1]])


def beside(point, x: float, y: float) -> np.ndarray:
    """The point (2,) that lies (x, y) from another one."""
    return np.array((point[0] + x, point[1] + y))


def polygon(points):
    """Straight edges between the corners, closed."""
    points = np.asarray(points, dtype=float)
    return np.concatenate([points, points[:1]])


def turned(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def smooth(path: np.ndarray) -> np.ndarray:
    """POINTS points on the quadratic curve that three points span, or on the line of two."""
    if len(path) == 2:
        path = np.stack([path[0], path.mean(axis=0), path[1]])
    t = WAY[:, None]
    return (1 - t) ** 2 * path[0] + 2 * t * (1 - t) * path[1] + t**2 * path[2]
