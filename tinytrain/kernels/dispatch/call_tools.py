"""Object code that all kernels share, built by llvmlite when the first kernel is compiled: `TOOLS`."""

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from tinytrain.kernels.dispatch.call_stubs import (
    POINTER,
    STATUS,
    STUB,
    WORD,
    begin,
    new_module,
    object_code,
)
from tinytrain.kernels.dispatch.machine_code import FREE, RESHAPE, RUNNER

STEP_WORDS = 3
WORDS = WORD.as_pointer()
# Of numba's function by that name: axes, shape and strides, the same of the result, bytes of a number, order.
RESHAPE_TYPE = ir.FunctionType(STATUS, [WORD, WORDS, WORDS, WORD, WORDS, WORDS, WORD, STATUS])


def tools() -> bytes:
    """The object file."""
    module = new_module()
    _add_runner(module)
    _add_reshape(module)
    # Numba frees arrays of its own so. A kernel has none: it would end the process here.
    builder = begin(module, ir.FunctionType(ir.VoidType(), [POINTER]), FREE)
    builder.call(module.declare_intrinsic("llvm.trap", (), ir.FunctionType(ir.VoidType(), [])), [])
    builder.unreachable()
    return object_code(module)


def _add_runner(module) -> None:
    """``int64 runner(steps, count)``: call `count` stubs. Returns 0, or the number of the failed one, from 1.

    `steps` is the address of a table of (stub, function, cells).
    """
    builder = begin(module, ir.FunctionType(WORD, [WORD.as_pointer(), WORD]), RUNNER)
    steps, count = builder.function.args
    loop, body, after, failed, done = (
        builder.function.append_basic_block(n) for n in ("loop", "body", "next", "failed", "done")
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


def _add_reshape(module) -> None:
    """What numba asks for strides of another shape: 1 and the strides if the array is in C's order, else 0.

    Numba's own also knows other orders, in which no kernel reshapes.
    """
    builder = begin(module, RESHAPE_TYPE, RESHAPE)
    axes, shape, strides, new_axes, new_shape, new_strides, itemsize, in_f_order = builder.function.args
    step, wrong = (builder.alloca(kind) for kind in (WORD, ir.IntType(1)))
    builder.store(itemsize, step)
    builder.store(builder.icmp_unsigned("!=", in_f_order, ir.Constant(STATUS, 0)), wrong)
    with _from_the_last(builder, axes) as axis:
        length, stride = (builder.load(builder.gep(start, [axis])) for start in (shape, strides))
        matters = builder.icmp_unsigned("!=", length, ir.Constant(WORD, 1))
        differs = builder.icmp_unsigned("!=", stride, builder.load(step))
        builder.store(builder.or_(builder.load(wrong), builder.and_(matters, differs)), wrong)
        builder.store(builder.mul(builder.load(step), length), step)
    empty = builder.icmp_unsigned("==", builder.load(step), ir.Constant(WORD, 0))
    builder.store(itemsize, step)
    with _from_the_last(builder, new_axes) as axis:
        builder.store(builder.load(step), builder.gep(new_strides, [axis]))
        builder.store(builder.mul(builder.load(step), builder.load(builder.gep(new_shape, [axis]))), step)
    builder.ret(builder.zext(builder.or_(empty, builder.not_(builder.load(wrong))), STATUS))


@contextmanager
def _from_the_last(builder: ir.IRBuilder, count) -> Iterator:
    """The block inside is repeated with each number below `count`, the greatest first."""
    test, body, done = (builder.append_basic_block(name) for name in ("test", "body", "done"))
    left = builder.alloca(WORD)
    builder.store(count, left)
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(builder.icmp_unsigned("!=", builder.load(left), ir.Constant(WORD, 0)), body, done)
    builder.position_at_end(body)
    builder.store(builder.sub(builder.load(left), ir.Constant(WORD, 1)), left)
    yield builder.load(left)
    builder.branch(test)
    builder.position_at_end(done)
