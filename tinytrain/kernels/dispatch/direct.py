"""Direct entry points of kernels, for calls whose argument types never change.

A kernel examines the types of all arguments in every call. For one image and a small layer that takes as long
as the work itself. Calls that are bound to an arena never change the types of their arguments, so one
examination is enough.
"""

import numpy as np

ADDS, BIAS, SKIP, CLAMP = 1, 2, 4, 8  # what the kernel `product` does beside multiplying
NOTHING = np.zeros(1, np.float32), np.zeros((1, 1), np.float32)  # in the place of a bias, of another input


def direct(kernel, arguments: tuple) -> tuple:
    """(callable, its arguments), equivalent to ``kernel(*arguments)`` for arguments of these types.

    The callable is the kernel itself if it has no direct entry point, for example a numpy reference.
    """
    find = getattr(kernel, "direct", None)
    return find(arguments) if find else (kernel, arguments)


def products(product, how: int):
    """The kernel `product` as a function of (y, x, w), of a matrix x or of windows."""

    def whole(y, x, w):
        return y, windows(x), w, *NOTHING, how

    def multiply(y, x, w):
        product(*whole(y, x, w))

    multiply.direct = lambda arguments: direct(product, whole(*arguments))
    return multiply


def windows(x: np.ndarray) -> np.ndarray:
    """A matrix (m, k) as the kernel `product` takes it; windows of four axes as they are."""
    return x if x.ndim == 4 else x[None, :, None]
