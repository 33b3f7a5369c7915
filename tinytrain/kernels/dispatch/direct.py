"""Direct entry points of kernels, for calls whose argument types never change.

Numba's dispatcher examines the types of all arguments in every call, and `np.matmul` has rules for any number
of axes. For one image and a small layer that takes as long as the work itself. Calls that are bound to an
arena never change the types of their arguments, so one examination is enough.
"""

import numpy as np

_CODE: dict = {}  # entry point -> numba's compile result


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


def compiled_code(function):
    """Numba's compile result of `function`, an entry point that `direct` returned; None for others."""
    return _CODE.get(function)


def entry(compiled, instead):
    """`direct` for the numba kernel `compiled`; `instead` is called if it cannot be compiled."""
    known = {}

    def find(arguments: tuple) -> tuple:
        kinds = tuple(map(_kind, arguments))
        if kinds not in known:
            known[kinds] = _code(compiled, arguments) or instead
        return known[kinds], arguments

    return find


def _kind(argument):
    """The properties of an argument that decide its numba type."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    return type(argument)


def _code(compiled, arguments: tuple):
    """Entry point for arguments of these types; None if it cannot be compiled: a call reports the reason."""
    from numba import typeof

    kinds = tuple(map(typeof, arguments))
    try:
        found = compiled.compile(kinds)
        _CODE[found] = compiled.overloads[kinds]
    except Exception:  # numba and LLVM raise anything
        return None
    return found
