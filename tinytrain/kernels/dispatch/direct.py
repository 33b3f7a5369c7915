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
    """The kernel `product` as a function of (y, x, w)."""

    def multiply(y, x, w):
        product(y, x, w, *NOTHING, how)

    multiply.direct = lambda arguments: direct(product, (*arguments, *NOTHING, how))
    return multiply
