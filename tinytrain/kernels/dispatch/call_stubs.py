"""Call stubs: machine code, built by llvmlite, that calls functions with arguments from memory.

A stub belongs to one function type. It loads the arguments from cells of 8 bytes and calls the function; LLVM
knows the calling convention of the processor. Of an array the cell has the address of numpy's object, from
which the stub reads where the values lie, the shape and the strides. A stub is made when a kernel is compiled
and kept with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import binding, ir

from tinytrain.kernels.dispatch.machine_code import target_machine
from tinytrain.kernels.dispatch.target import target

WORD, BYTE = ir.IntType(64), ir.IntType(8)
POINTER = BYTE.as_pointer()
STATUS = ir.IntType(32)
STUB = ir.FunctionType(STATUS, [WORD, WORD.as_pointer()])
RESULT = "result"
# Words of numpy's array object behind the head that every Python object has.
DATA, SHAPE, STRIDES = 0, 2, 3
HEAD = object.__basicsize__


@dataclass(frozen=True)
class ArrayCell:
    """An argument that is an array with `ndim` axes and `itemsize` bytes per number."""

    ndim: int
    itemsize: int


def stub(
    name: str, kind: ir.FunctionType, cells: Sequence[ArrayCell | str | None], outputs: int = 0
) -> bytes:
    """Object code of ``int32 name(function, cells)`` for functions of type `kind`; it returns 0 on success.

    The first `outputs` arguments are pointers to results; the stub allocates room for them. `cells` says
    which of the others are arrays. If the last is RESULT, the first result is written where that cell points.
    For a function without a return value the stub always returns 0.
    """
    module = new_module()
    add_stub(module, name, kind, cells, outputs)
    return object_code(module)


def add_stub(module, name: str, kind: ir.FunctionType, cells, outputs: int) -> None:
    builder = begin(module, STUB, name)
    address, start = builder.function.args
    given, wanted = [builder.alloca(t.pointee) for t in kind.args[:outputs]], iter(kind.args[outputs:])
    place = None
    for k, cell in enumerate(cells):
        value = builder.load(builder.gep(start, [ir.Constant(WORD, k)]))
        if cell is RESULT:
            place = builder.inttoptr(value, kind.args[0])
        elif cell is None:
            given.append(_converted(builder, value, next(wanted)))
        else:
            given += [_converted(builder, part, next(wanted)) for part in _array(builder, value, cell)]
    status = builder.call(builder.inttoptr(address, kind.as_pointer()), given)
    if place is not None:
        builder.store(builder.load(given[0]), place)
    void = isinstance(kind.return_type, ir.VoidType)
    builder.ret(ir.Constant(STATUS, 0) if void else status)


def _array(builder: ir.IRBuilder, address, cell: ArrayCell) -> list:
    """An array as numba passes it: two unused words, numbers, bytes of each, address, shape, strides."""
    words = builder.inttoptr(builder.add(address, ir.Constant(WORD, HEAD)), WORD.as_pointer())

    def word(start, at: int):
        return builder.load(builder.gep(start, [ir.Constant(WORD, at)]))

    def axes(at: int) -> list:
        start = builder.inttoptr(word(words, at), WORD.as_pointer())
        return [word(start, axis) for axis in range(cell.ndim)]

    shape, count = axes(SHAPE), ir.Constant(WORD, 1)
    for length in shape:
        count = builder.mul(count, length)
    nothing = ir.Constant(WORD, 0)
    return [
        nothing, nothing, count, ir.Constant(WORD, cell.itemsize), word(words, DATA), *shape, *axes(STRIDES)
    ]  # fmt: skip


def new_module() -> ir.Module:
    module = ir.Module()
    module.triple = target().triple
    return module


def begin(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.IRBuilder:
    return ir.IRBuilder(ir.Function(module, kind, name).append_basic_block("entry"))


def _converted(builder: ir.IRBuilder, cell, wanted):
    """The 8 bytes of `cell` as an argument of type `wanted`; a shorter type uses the low bytes."""
    if isinstance(wanted, ir.PointerType):
        return builder.inttoptr(cell, wanted)
    if isinstance(wanted, ir.FloatType):
        return builder.bitcast(builder.trunc(cell, ir.IntType(32)), wanted)
    if isinstance(wanted, ir.DoubleType):
        return builder.bitcast(cell, wanted)
    return builder.trunc(cell, wanted) if wanted.width < WORD.width else cell


def object_code(module: ir.Module) -> bytes:
    code = binding.parse_assembly(str(module))
    code.verify()
    return target_machine().emit_object(code)
