"""Machine code, built by llvmlite, that calls functions with arguments that lie in memory.

A thunk is made for one type of function: it loads the arguments from cells of 8 bytes and calls, and LLVM
knows how the processor wants them passed. `runner` is the loop over (thunk, function, cells). A process
builds some 20 of them, in a millisecond or two each.
"""

import ctypes
import itertools
from collections.abc import Callable
from threading import RLock

from llvmlite import binding, ir

WORD, BYTE = ir.IntType(64), ir.IntType(8)
POINTER = BYTE.as_pointer()
THUNK = ir.FunctionType(ir.IntType(32), [WORD, WORD.as_pointer()])
STEP_WORDS = 3

_LOCK = RLock()
_numbers = itertools.count()
_made: dict = {}  # all that was built, for as long as the process runs


def _once(key, build):
    """What `build()` gave when it was first asked for as `key`: code that is in use must never be freed."""
    with _LOCK:
        if key not in _made:
            _made[key] = build()
        return _made[key]


def thunk(kind: ir.FunctionType, outputs: int = 0) -> int:
    """Address of ``int32 thunk(function, cells)`` for functions of type `kind`; 0 means that all went well.

    The first `outputs` arguments point to what the function returns by reference; the thunk has room for
    them. A function that returns nothing always does well.
    """
    return _once((str(kind), outputs), lambda: _thunk(kind, outputs))


def product_thunk() -> int:
    """The same for cblas_sgemm, with all of its integers in 64 bits."""
    number, matrix = ir.FloatType(), [POINTER, WORD]
    return thunk(ir.FunctionType(ir.VoidType(), [*[WORD] * 6, number, *matrix, *matrix, number, *matrix]))


def runner() -> Callable[[int, int], int]:
    """``runner(steps, count)``: call `count` thunks; the number of the one that failed, from 1, or 0.

    `steps` is the address of (thunk, function, cells) for each. Python's lock is not held.
    """
    return _once("runner", _runner)


def _thunk(kind: ir.FunctionType, outputs: int) -> int:
    module, builder, function = _begin(THUNK)
    address, cells = function.args
    given = [builder.alloca(t.pointee) for t in kind.args[:outputs]]
    for k, wanted in enumerate(kind.args[outputs:]):
        cell = builder.load(builder.gep(cells, [ir.Constant(WORD, k)]))
        given.append(_converted(builder, cell, wanted))
    status = builder.call(builder.inttoptr(address, kind.as_pointer()), given)
    void = isinstance(kind.return_type, ir.VoidType)
    builder.ret(ir.Constant(THUNK.return_type, 0) if void else status)
    return _compiled(module, function)


def _runner() -> Callable[[int, int], int]:
    module, builder, function = _begin(ir.FunctionType(WORD, [WORD.as_pointer(), WORD]))
    steps, count = function.args
    loop, body, after, failed, done = (
        function.append_basic_block(n) for n in ("loop", "body", "next", "failed", "done")
    )
    entry = builder.block
    builder.branch(loop)
    builder.position_at_end(loop)
    number = builder.phi(WORD)
    number.add_incoming(ir.Constant(WORD, 0), entry)
    builder.cbranch(builder.icmp_unsigned("<", number, count), body, done)
    builder.position_at_end(body)
    first = builder.mul(number, ir.Constant(WORD, STEP_WORDS))
    places = [builder.add(first, ir.Constant(WORD, k)) for k in range(STEP_WORDS)]
    address, called, cells = (builder.load(builder.gep(steps, [place])) for place in places)
    arguments = [called, builder.inttoptr(cells, WORD.as_pointer())]
    status = builder.call(builder.inttoptr(address, THUNK.as_pointer()), arguments)
    following = builder.add(number, ir.Constant(WORD, 1))
    builder.cbranch(builder.icmp_unsigned("==", status, ir.Constant(status.type, 0)), after, failed)
    builder.position_at_end(after)
    number.add_incoming(following, after)
    builder.branch(loop)
    builder.position_at_end(failed)
    builder.ret(following)
    builder.position_at_end(done)
    builder.ret(ir.Constant(WORD, 0))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_compiled(module, function))


def _begin(kind: ir.FunctionType):
    module = ir.Module()
    module.triple = binding.get_process_triple()
    function = ir.Function(module, kind, f"tinytrain_{next(_numbers)}")
    return module, ir.IRBuilder(function.append_basic_block("entry")), function


def _converted(builder: ir.IRBuilder, cell, wanted):
    """The 8 bytes of `cell` as an argument of type `wanted`; a shorter one lies in the low bytes."""
    if isinstance(wanted, ir.PointerType):
        return builder.inttoptr(cell, wanted)
    if isinstance(wanted, ir.FloatType):
        return builder.bitcast(builder.trunc(cell, ir.IntType(32)), wanted)
    if isinstance(wanted, ir.DoubleType):
        return builder.bitcast(cell, wanted)
    return builder.trunc(cell, wanted) if wanted.width < WORD.width else cell


def _engine():
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(opt=0)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target)


def _compiled(module: ir.Module, function: ir.Function) -> int:
    engine, code = _once("engine", _engine), binding.parse_assembly(str(module))
    code.verify()
    engine.add_module(code)
    engine.finalize_object()
    return engine.get_function_address(function.name)
