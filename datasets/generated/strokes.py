"""Invented characters: strokes as curves in glyph coordinates, x right and y down, about -1..1.

A stroke is (POINTS, 2). A character is drawn at random from its number and drawn again if its
strokes crowd together or leave a side of the field empty.
"""

from functools import cache

import numpy as np

from tinytrain.base.random_streams import rng_for

POINTS = 19  # per stroke
ANCHORS = np.array([(x, y) for y in (-0.9, -0.3, 0.3, 0.9) for x in (-0.75, 0.0, 0.75)])


@cache
def glyph(class_id: int) -> np.ndarray:
    """The strokes of a character as its inventor meant them, (n, POINTS, 2)."""
    rng = rng_for(0, "glyphs", "class", class_id)
    while True:
        strokes = _invent(rng)
        if _is_legible(strokes):
            return _centred(strokes)


def _invent(rng) -> list[np.ndarray]:
    """Two to four strokes; most begin where another one passes, as in grown scripts."""
    strokes: list[np.ndarray] = []
    for _ in range(rng.choice((2, 3, 4), p=(0.25, 0.5, 0.25))):
        start, end = ANCHORS[rng.choice(len(ANCHORS), 2, replace=False)]
        if strokes and rng.random() < 0.75:
            start = strokes[rng.integers(len(strokes))][rng.choice((0, POINTS // 2, POINTS - 1))]
        if np.hypot(*(end - start)) < 0.55:
            end = start + np.where(start > 0, -1, 1) * rng.uniform(0.5, 1.3, 2)
        kind = KINDS[rng.integers(len(KINDS))]
        strokes.append(kind(start, end, rng))
    if rng.random() < 0.3:
        strokes.append(_dot(ANCHORS[rng.integers(len(ANCHORS))]))
    return strokes


def _is_legible(strokes: list[np.ndarray]) -> bool:
    """Whether the character fills its field and every stroke keeps some distance to the others."""
    extent = np.ptp(np.concatenate(strokes), axis=0)
    if extent.min() < 0.5 * extent.max() or extent.max() > 2.6:
        return False
    if any(s is not strokes[-1] and np.ptp(s, axis=0).max() < 0.35 * extent.max() for s in strokes):
        return False
    for i, stroke in enumerate(strokes):
        others = np.concatenate(strokes[:i] + strokes[i + 1 :])
        distance = np.hypot(*(stroke[:, None] - others).transpose(2, 0, 1)).min(axis=1)
        if (distance < 0.16).mean() > 0.4:
            return False
    return True


def _centred(strokes: list[np.ndarray]) -> np.ndarray:
    """Moved to the middle and scaled to -1..1 along the longer side."""
    together = np.stack(strokes)
    low, high = together.min(axis=(0, 1)), together.max(axis=(0, 1))
    return (together - (low + high) / 2) * (2 / (high - low).max())


def _frame(start, end, x, y) -> np.ndarray:
    """Points at x (0 at `start`, 1 at `end`) along the way and y to its side, in units of its length."""
    along = end - start
    side = np.array((-along[1], along[0]))
    return start + x[:, None] * along + y[:, None] * side


T = np.linspace(0, 1, POINTS)


def _line(start, end, rng):
    return _frame(start, end, T, 0 * T)


def _arc(start, end, rng):
    return _frame(start, end, T, rng.choice((-1, 1)) * rng.uniform(0.25, 0.6) * np.sin(np.pi * T))


def _swing(start, end, rng):
    return _frame(start, end, T, rng.choice((-1, 1)) * rng.uniform(0.2, 0.38) * np.sin(2 * np.pi * T))


def _angle(start, end, rng):
    """Straight to a corner and straight on."""
    corner, height = rng.uniform(0.1, 0.9), rng.choice((-1, 1)) * rng.uniform(0.45, 0.8)
    return _frame(start, end, T, height * np.interp(T, (0, corner, 1), (0, 1, 0)))


def _zigzag(start, end, rng):
    height = rng.choice((-1, 1)) * rng.uniform(0.22, 0.4)
    return _frame(start, end, T, height * np.interp(T, (0, 0.25, 0.5, 0.75, 1), (0, 1, -0.2, 1, 0)))


def _hook(start, end, rng):
    """Straight, then back around a bend."""
    bend, width = np.clip((T - 0.5) * 2, 0, 1) * np.pi * 1.15, rng.choice((-1, 1)) * rng.uniform(0.22, 0.34)
    straight = np.minimum(T * 2, 1)
    return _frame(start, end, straight * 0.75 + 0.3 * np.sin(bend), width * (1 - np.cos(bend)))


def _loop(start, end, rng):
    """A line that runs once around a loop in its middle."""
    side, radius = rng.choice((-1, 1)), rng.uniform(0.22, 0.32)
    turn = np.clip((T - 0.25) * 2, 0, 1) * 2 * np.pi
    x = np.interp(T, (0, 0.25, 0.75, 1), (0, 0.5, 0.5, 1)) + radius * np.sin(turn)
    return _frame(start, end, x, side * radius * (1 - np.cos(turn)))


def _ring(start, end, rng):
    """A closed or open ring between the two points."""
    turn = T * np.deg2rad(rng.choice((250, 300, 360))) + rng.choice((0, 0.5, 1, 1.5)) * np.pi
    flat = rng.uniform(0.6, 1.1)
    return _frame(start, end, 0.5 - 0.42 * np.cos(turn), 0.42 * flat * np.sin(turn))


def _spiral(start, end, rng):
    turn = T * 2 * np.pi * rng.uniform(1.3, 1.7)
    radius = 0.1 + 0.42 * T
    side = rng.choice((-1, 1))
    return _frame(start, end, 0.5 + radius * np.cos(turn), side * radius * np.sin(turn))


def _dot(at) -> np.ndarray:
    turn = T * 2 * np.pi
    return at + 0.06 * np.stack([np.cos(turn), np.sin(turn)], axis=1)


KINDS = (_line, _line, _arc, _arc, _swing, _angle, _angle, _zigzag, _hook, _loop, _ring, _spiral)
