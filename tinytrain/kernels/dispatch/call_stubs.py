"""Call stubs: machine code, built by llvmlite, that calls functions with arguments from memory.

A stub belongs to one function type. It loads the arguments from cells of 8 bytes and calls the function; LLVM
knows the calling convention of the processor. `runner` is the loop over (stub, function, cells). A process
builds about 20 stubs, in one or two milliseconds each.
"""

import ctypes
import itertools
from collections.abc import Callable
from threading import RLock

from llvmlite import binding, ir

WORD, BYTE = ir.IntType(64), ir.IntType(8)
POINTER = BYTE.as_pointer()
STUB = ir.FunctionType(ir.IntType(32), [WORD, WORD.as_pointer()])
STEP_WORDS = 3

_LOCK = RLock()
_numbers = itertools.count()
_made: dict = {}  # kept for the lifetime of the process


def _once(key, build):
    """The result of the first ``build()`` for `key`, kept for ever: code in use must not be freed."""
    with _LOCK:
        if key not in _made:
            _made[key] = build()
        return _made[key]


def stub(kind: ir.FunctionType, outputs: int = 0) -> int:
    """Address of ``int32 stub(function, cells)`` for functions of type `kind`; it returns 0 on success.

    The first `outputs` arguments are pointers to results; the stub allocates room for them. For a function
    without a return value the stub always returns 0.
    """
    return _once((str(kind), outputs), lambda: _stub(kind, outputs))


def product_stub() -> int:
    """The stub for cblas_sgemm, with all integers in 64 bits."""
    number, matrix = ir.FloatType(), [POINTER, WORD]
    return stub(ir.FunctionType(ir.VoidType(), [*[WORD] * 6, number, *matrix, *matrix, number, *matrix]))


def runner() -> Callable[[int, int], int]:
    """``runner(steps, count)``: call `count` stubs. Returns 0, or the number of the failed one, from 1.

    `steps` is the address of a table of (stub, function, cells). Python's lock is not held.
    """
    return _once("runner", _runner)


def _stub(kind: ir.FunctionType, outputs: int) -> int:
    module, builder, function = _begin(STUB)
    address, cells = function.args
    given = [builder.alloca(t.pointee) for t in kind.args[:outputs]]
    for k, wanted in enumerate(kind.args[outputs:]):
        cell = builder.load(builder.gep(cells, [ir.Constant(WORD, k)]))
        given.append(_converted(builder, cell, wanted))
    status = builder.call(builder.inttoptr(address, kind.as_pointer()), given)
    void = isinstance(kind.return_type, ir.VoidType)
    builder.ret(ir.Constant(STUB.return_type, 0) if void else status)
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
    status = builder.call(builder.inttoptr(address, STUB.as_pointer()), arguments)
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
    """The 8 bytes of `cell` as an argument of type `wanted`; a shorter type uses the low bytes."""
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
