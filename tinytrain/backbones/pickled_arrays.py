"""Checks of what a pickle says about its arrays. They raise ValueError or TypeError."""

import math

import numpy as np

MAX_SIZE = 2**24  # of an axis


def typed(values, *kinds: type) -> tuple:
    """`values`, which must be a tuple of exactly these types."""
    if type(values) is not tuple or [type(value) for value in values] != list(kinds):
        raise TypeError(f"arguments other than {', '.join(kind.__name__ for kind in kinds)}")
    return values


def checked_shape(sizes: tuple) -> tuple[int, ...]:
    """`sizes`, which must be those of an array that is not empty."""
    if len(sizes) > 8 or not all(type(size) is int and 1 <= size <= MAX_SIZE for size in sizes):
        raise ValueError(f"a shape other than at most 8 numbers of 1 to {MAX_SIZE}")
    return sizes


def axes_by_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The axes from the widest stride to the narrowest: in this order they must lie without gaps."""
    axes = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    packed = 1
    for axis in reversed(axes):
        if shape[axis] > 1:
            if strides[axis] != packed:
                raise ValueError("a tensor that is not a contiguous part of its storage")
            packed *= shape[axis]
    return axes


def numbers(raw: bytes, dtype: str, shape: tuple, order: str = "C") -> np.ndarray:
    """Read-only view of exactly all bytes of `raw`."""
    need = np.dtype(dtype).itemsize * math.prod(shape)
    if need != len(raw):
        raise ValueError(f"an array that needs {need} bytes and has {len(raw)}")
    return np.ndarray(shape, dtype, buffer=raw, order=order)
