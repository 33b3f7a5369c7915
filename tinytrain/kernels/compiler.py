"""Numba as the compiler of kernels: from a function in Python to object files. Only this imports it, and what
kernels are written with.
"""

import hashlib
import re
from collections.abc import Callable, Sequence

import numba
from numba import types
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

from tinytrain.kernels.dispatch import machine_code
from tinytrain.kernels.dispatch.call_stubs import RESULT, ArrayCell, stub
from tinytrain.kernels.dispatch.call_tools import RESHAPE_TYPE
from tinytrain.kernels.dispatch.machine_code import RESHAPE, needed, packed
from tinytrain.kernels.dispatch.target import is_chosen, target

# No fast-math flags: kernels round and add in the order of the source, and `fused` says where to round once.
OPTIONS = {"nogil": True, "error_model": "numpy"}
# Nothing around a kernel for calls from Python or C: stubs call it.
BARE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if is_chosen():
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = target()[1:]
ARRAY_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")  # of numba


class Unexpected(Exception):  # noqa: N818 - nothing is wrong
    """Numba, LLVM or numpy lay something out in a way that stubs do not know."""


def types_of(arguments: Sequence, strided: bool = False) -> tuple:
    """Numba's types of arguments; if they are `strided`, arrays are neither in an order nor read-only."""
    kinds = tuple(map(numba.typeof, arguments))
    if not strided:
        return kinds
    return tuple(k.copy(layout="A", readonly=False) if isinstance(k, types.Array) else k for k in kinds)


def plain(function: Callable):
    """Numba's own dispatcher, which calls as it knows to and keeps nothing on disk."""
    return numba.njit(**OPTIONS)(function)


def compiled(function: Callable, arguments: Sequence, strided: bool = False) -> CompileResult:
    """What numba makes of `function` for `arguments`."""
    dispatcher, kinds = numba.njit(**OPTIONS | BARE)(function), types_of(arguments, strided)
    dispatcher.compile(kinds)
    return dispatcher.overloads[kinds]


def machine_code_of(function: Callable, arguments: Sequence, strided: bool = False) -> bytes:
    """The file of the kernel `function` for `arguments`. Raises Unexpected, and what numba raises."""
    _expect(machine_code.arrays_as_expected(), "numpy's arrays")
    cells = [_cell(a, kind) for a, kind in zip(arguments, types_of(arguments, strided), strict=True)]
    result = compiled(function, arguments, strided)
    try:
        made_for = result.target_context.codegen().magic_tuple()
        _expect(not is_chosen() or made_for == target(), f"another program's choice of {made_for[1]}")
        described, library = result.fndesc, result.library
        _expect(not (result.lifted or library.has_dynamic_globals), "addresses of this process in the code")
        _, how, (code, *_) = library.serialize_using_object_code()
        _expect(how == "object" and isinstance(code, bytes), "libraries of numba")
        kind = result.target_context.call_conv.get_function_type(described.restype, described.argtypes)
        returns = described.restype != types.none
        _expect(not returns or described.restype == types.int64, f"results of type {described.restype}")
        facts = {"kernel": described.llvm_func_name, "needs": needed(code), "returns": returns}
        _expect(RESHAPE not in facts["needs"] or _reshapes_as_known(library), "how numba reshapes")
        return _with_stub(facts, code, kind, cells + [RESULT] * returns)
    except (AttributeError, ValueError, TypeError, StopIteration) as error:
        raise Unexpected(str(error)) from error


def _reshapes_as_known(library) -> bool:
    """Whether numba's function has the type of the one in `TOOLS`."""
    declared = re.search(rf"declare.* i32 @{RESHAPE}\((.*)\)", library.get_llvm_str())
    kinds = re.findall(r"(?:^|, )(\w+\*?)", declared[1]) if declared else []  # attributes follow a type
    return [kind.replace("ptr", "i64*") for kind in kinds] == [*map(str, RESHAPE_TYPE.args)]


def _with_stub(facts: dict, code: bytes, kind, cells: Sequence) -> bytes:
    name = f"tinytrain_{hashlib.sha256(repr((str(kind), cells)).encode()).hexdigest()[:16]}"
    return packed(facts | {"stub": name}, code, stub(name, kind, cells, outputs=2))


def _cell(argument, kind):
    """How the stub passes an argument, for numba of type `kind`. Raises Unexpected."""
    if isinstance(kind, types.Array):
        fields = cpu_target.target_context.data_model_manager[kind]._fields
        _expect(fields == ARRAY_FIELDS, "arrays of numba")
        return ArrayCell(argument.ndim, argument.itemsize)
    number = isinstance(kind, types.Integer | types.Boolean) or kind in (types.float32, types.float64)
    _expect(number, f"arguments of type {kind}")
    return None


def _expect(found: bool, what: str) -> None:
    if not found:
        raise Unexpected(what)
