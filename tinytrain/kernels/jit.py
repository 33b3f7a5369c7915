"""How kernels are written: what makes a function one, and what makes it a part of others.

Nothing is compiled at import.
"""

import numba

from tinytrain.kernels.compiler import OPTIONS
from tinytrain.kernels.kernel import Kernel, kernel_of


def kernel(function) -> Kernel:
    """The kernel whose source is `function`: compiled at its first call, kept on disk where possible."""
    found = kernel_of(f"{function.__module__}.{function.__qualname__}")
    if found.function is not None:  # the module is executed a second time
        found = Kernel(found.name)
    found.function = function
    return found


def inlined(function):
    """Compile `function` into every kernel that calls it.

    Otherwise LLVM optimises it twice, alone and inside the kernel, and which version runs is left open.
    """
    return numba.njit(forceinline=True, **OPTIONS)(function)


def copied(function):
    """Copy the code of `function` into every kernel that calls it, before compilation.

    An `inlined` function is also compiled alone with all functions that it calls, which may take long.
    """
    return numba.njit(inline="always", **OPTIONS)(function)


def ordered(function):
    """Compile `function` to be called by kernels; for functions that make kernels slower if inlined."""
    return numba.njit(**OPTIONS)(function)
