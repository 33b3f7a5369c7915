"""The shortest way into a kernel for arguments that stay what they are.

Numba's dispatcher looks at the types of all arguments in every call, and `np.matmul` has rules for any number
of axes. For one image and a small layer that takes as long as the work itself. Calls that are bound to an
arena never change the types of their arguments, so these are looked at once.
"""

import numpy as np

_CODE: dict = {}  # numba's results by the entry point that they gave


def direct(kernel, arguments: tuple) -> tuple:
    """(callable, its arguments) that does what ``kernel(*arguments)`` does, with arguments of these types.

    It is the kernel itself where no shorter way is known: a numpy twin, or what stands in for a kernel.
    """
    find = getattr(kernel, "direct", None)
    return find(arguments) if find else (kernel, arguments)


def product(arguments: tuple) -> tuple:
    """The same for a matrix product through BLAS: `np.dot` takes whole matrices without a copy."""
    y, x, w = arguments
    whole = y.flags.c_contiguous and x.flags.forc and w.flags.forc
    return np.dot if whole else np.matmul, (x, w, y)


def compiled_code(function):
    """What numba knows of the machine code behind `function`, one that `direct` found; None for others."""
    return _CODE.get(function)


def entry(compiled, instead):
    """The same for the numba kernel `compiled`; `instead` is what is called where it has no code."""
    known = {}

    def find(arguments: tuple) -> tuple:
        kinds = tuple(map(_kind, arguments))
        if kinds not in known:
            known[kinds] = _code(compiled, arguments) or instead
        return known[kinds], arguments

    return find


def _kind(argument):
    """What numba's type of an argument depends on."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    return type(argument)


def _code(compiled, arguments: tuple):
    """Machine code for arguments of these types; None where there is none: a call will say why."""
    from numba import typeof

    kinds = tuple(map(typeof, arguments))
    try:
        found = compiled.compile(kinds)
        _CODE[found] = compiled.overloads[kinds]
    except Exception:  # numba and LLVM raise anything
        return None
    return found
