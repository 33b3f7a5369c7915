"""Direct entry points of kernels, for calls whose argument types never change.

A kernel examines the types of all arguments in every call, and `np.matmul` has rules for any number of axes.
For one image and a small layer that takes as long as the work itself. Calls that are bound to an arena never
change the types of their arguments, so one examination is enough.
"""

import numpy as np


def direct(kernel, arguments: tuple) -> tuple:
    """(callable, its arguments), equivalent to ``kernel(*arguments)`` for arguments of these types.

    The callable is the kernel itself if it has no direct entry point, for example a numpy reference.
    """
    find = getattr(kernel, "direct", None)
    return find(arguments) if find else (kernel, arguments)


def product(arguments: tuple) -> tuple:
    """`direct` for a matrix product by BLAS: `np.dot` takes whole matrices without a copy."""
    y, x, w = arguments
    whole = y.flags.c_contiguous and x.flags.forc and w.flags.forc
    return np.dot if whole else np.matmul, (x, w, y)


def blas_matmul(y, x, w):
    """y (m, n) = x (m, k) @ w (k, n); each may be transposed or be columns of a wider matrix."""
    np.matmul(x, w, y)


blas_matmul.direct = product
