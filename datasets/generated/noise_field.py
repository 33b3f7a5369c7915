"""The random side of one piece of material: values by cell, smooth noise, scattered points."""

import numpy as np

MASK = 63  # the random values of a field repeat every 64 cells


class NoiseField:
    """Random values of one piece of material, by cell, and how wide an edge is drawn, in cells."""

    def __init__(self, rng, soft: float):
        self.table = rng.random((5, (MASK + 1) ** 2), dtype=np.float32)
        self.soft = np.float32(soft)

    def step(self, x):
        """0 below zero, 1 above, and a slope of the width of a pixel in between."""
        return np.clip(x / self.soft + np.float32(0.5), 0, 1)

    def of_cell(self, column, row, which: int = 0):
        """A random value in 0..1 for every cell, given as int32 (side, side)."""
        return self.table[which].take(((row & MASK) << 6) | (column & MASK))

    def smooth(self, u, v, which: int = 0):
        """Smooth noise in 0..1 with features of about one cell."""
        column, row, x, y = *whole(u, v), part(u), part(v)
        x, y = x * x * (3 - 2 * x), y * y * (3 - 2 * y)
        top = self.of_cell(column, row, which) * (1 - x) + self.of_cell(column + 1, row, which) * x
        below = self.of_cell(column, row + 1, which) * (1 - x) + self.of_cell(column + 1, row + 1, which) * x
        return top * (1 - y) + below * y

    def rough(self, u, v):
        """Noise in 0..1 with features of one cell and of a third of it."""
        return self.smooth(u, v, 0) * np.float32(0.67) + self.smooth(u * 3, v * 3, 1) * np.float32(0.33)

    def nearest(self, u, v, jitter: float):
        """Distances to the nearest and second nearest of jittered points, and a value per point."""
        column, row, x, y = *whole(u, v), part(u), part(v)
        first, second = np.full_like(x, 9), np.full_like(x, 9)
        own = np.zeros_like(x)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                cell = ((row + down & MASK) << 6) | (column + right & MASK)
                dx = self.table[0].take(cell) * jitter + (right + (1 - jitter) / 2) - x
                dy = self.table[1].take(cell) * jitter + (down + (1 - jitter) / 2) - y
                distance = dx * dx + dy * dy
                second = np.minimum(second, np.maximum(first, distance))
                own = np.where(distance < first, self.table[2].take(cell), own)
                first = np.minimum(first, distance)
        return np.sqrt(first), np.sqrt(second), own


def whole(u, v):
    return np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)


def part(u):
    return u - np.floor(u)
