"""Arrays for tests of kernels: outputs, matrices in every layout, and arrays between canaries."""

import ctypes
from dataclasses import dataclass

import numpy as np

from tinytrain import kernels

EDGE = 64  # bytes of canary on each side of an array
BESIDE = 3  # columns of canaries on either side of some columns
NOTHING = 0xFF  # what canaries consist of: read as float32 it is NaN, so that a stray read shows as well


@dataclass(frozen=True)
class Output:
    """An argument that the kernel writes to. `fresh`: every element, so that it may start as NaN.

    `compared` is "close", "equal", "codes" (integers that may differ by one), "moments" (bfloat16) or "no"
    (scratch).
    """

    start: np.ndarray
    fresh: bool = False
    compared: str = "close"


def cases_in(module: dict) -> dict:
    """The functions of a module that are called like a kernel, and make arguments for it."""
    return {name: module[name] for name in kernels.NAMES if name in module}


def normal(random, *shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def out_hw(height, width, stride):
    return -(-height // stride), -(-width // stride)


def fresh(*shape, dtype=np.float32, compared="close") -> Output:
    """An output of which nothing may be left as it was."""
    return Output(np.frombuffer(bytes([NOTHING]) * (np.dtype(dtype).itemsize * int(np.prod(shape))), dtype)
                  .reshape(shape), True, compared)  # fmt: skip


def layouts(matrix):
    """The same numbers whole, transposed, and as columns of a wider matrix and of its transpose."""
    wide = np.full((len(matrix), matrix.shape[1] + 3), np.nan, np.float32)
    wide[:, 1:-2] = matrix
    return matrix, np.asfortranarray(matrix), wide[:, 1:-2], np.asfortranarray(wide)[:, 1:-2]


class Guarded:
    """A copy of `array`, `shift` elements from an even address, between two canaries.

    One that is some columns of a matrix becomes columns of a matrix of canaries.
    """

    def __init__(self, array: np.ndarray, shift: int):
        turned = array.ndim == 2 and not array.flags.c_contiguous and array.strides[0] == array.itemsize
        straight, beside = array.T if turned else array, 0 if array.flags.forc else BESIDE
        shape = (*straight.shape[:-1], straight.shape[-1] + 2 * beside) if beside else straight.shape
        size = EDGE + 16 * array.itemsize + int(np.prod(shape)) * array.itemsize + EDGE
        self.bytes = np.full(size + EDGE, NOTHING, np.uint8)
        self.first = -ctypes.addressof(ctypes.c_char.from_buffer(self.bytes)) % EDGE + EDGE
        self.first += shift * array.itemsize
        self.last = self.first + int(np.prod(shape)) * array.itemsize
        whole = self.bytes[self.first : self.last].view(array.dtype).reshape(shape)
        inner = whole[..., beside:-beside] if beside else whole
        self.beside = (whole[..., :beside], whole[..., -beside:]) if beside else ()
        inner[...] = straight
        self.array = inner.T if turned else inner

    @property
    def untouched(self) -> bool:
        return bool(
            (self.bytes[: self.first] == NOTHING).all()
            and (self.bytes[self.last :] == NOTHING).all()
            and all(set(part.tobytes()) == {NOTHING} for part in self.beside)
        )
