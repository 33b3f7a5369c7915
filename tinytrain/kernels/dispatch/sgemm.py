"""The BLAS function that numpy calls for matrix products, and the arguments that numpy passes."""

import ctypes
import importlib

import numpy as np

ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112  # constants of CBLAS
# The names in numpy's wheels and in system packages. Integers are passed in 64 bits; a function with 32-bit
# integers reads the lower half.
NAMES = ("scipy_cblas_sgemm64_", "cblas_sgemm64_", "scipy_cblas_sgemm", "cblas_sgemm")


def sgemm() -> int | None:
    """Address of the cblas_sgemm that numpy was linked with, or None."""
    package = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
    try:
        # The lookup also covers the libraries that the extension was linked with.
        extension = ctypes.CDLL(importlib.import_module(f"{package}._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    found = (getattr(extension, name, None) for name in NAMES)
    return next((ctypes.cast(f, ctypes.c_void_p).value for f in found if f), None)


def product_arguments(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> list | None:
    """Arguments of cblas_sgemm for y (m, n) = x (m, k) @ w (k, n), with arrays in place of addresses.

    None if numpy would refuse the product, copy an array or call another function: for vectors, a matrix
    times its own transpose, other types and layouts.
    """
    if not all(a.ndim == 2 and a.dtype == np.float32 and a.flags.aligned for a in (x, w, y)):
        return None
    (m, k), n = x.shape, w.shape[1]
    if w.shape[0] != k or y.shape != (m, n) or min(m, k, n) < 2 or not y.flags.writeable:
        return None
    if any(np.may_share_memory(a, b) for a, b in ((x, w), (x, y), (w, y))):
        return None
    first, second, (how, across) = map(_lines, (x, w, y))
    if not (first[0] and second[0] and how == AS_IS):
        return None
    return [
        ROW_MAJOR, first[0], second[0], m, n, k, np.float32(1), x, first[1], w, second[1],
        np.float32(0), y, across,
    ]  # fmt: skip


def _lines(matrix: np.ndarray) -> tuple[int, int]:
    """(AS_IS or TRANSPOSED, elements from line to line); (0, 0) if neither axis is contiguous."""
    down, along = (s // matrix.itemsize for s in matrix.strides)
    if along == 1 and down >= matrix.shape[1]:
        return AS_IS, down
    return (TRANSPOSED, along) if down == 1 and along >= matrix.shape[0] else (0, 0)
