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
from tinytrain.kernels.dispatch.code import BEFORE, NEEDED, OWN, SLEEP
from tinytrain.kernels.dispatch.machine_code import BEGIN_TURN, END_TURN, FREE, RESHAPE, RUNNER

STEP_WORDS = 3
LOOKS, PAUSE = 20_000, 20  # looks without a pause, tens of microseconds; then microseconds between looks
WORDS = WORD.as_pointer()
# Of numba's function by that name: axes, shape and strides, the same of the result, bytes of a number, order.
RESHAPE_TYPE = ir.FunctionType(STATUS, [WORD, WORDS, WORDS, WORD, WORDS, WORDS, WORD, STATUS])


def tools() -> bytes:
    """The object file."""
    module = new_module()
    _add_runner(module)
    _add_turns(module)
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


def _add_turns(module) -> None:
    """Two stubs, ``begin_turn(state, nothing)`` and ``end_turn(state, nothing)``.

    The first waits until as many turns of the one before are over as `state` says, and returns 0, or 1 if the
    count is below 0. What others wrote before they ended those turns is seen from then on.
    """
    builder = begin(module, STUB, BEGIN_TURN)
    state = builder.inttoptr(builder.function.args[0], WORDS)
    before, needed = builder.inttoptr(_word(builder, state, BEFORE), WORDS), _word(builder, state, NEEDED)
    pause = builder.inttoptr(_word(builder, state, SLEEP), ir.FunctionType(STATUS, [STATUS]).as_pointer())
    look, waiting, resting, over = (
        builder.append_basic_block(name) for name in ("look", "waiting", "resting", "over")
    )
    entry = builder.block
    builder.branch(look)
    builder.position_at_end(look)
    looks = builder.phi(WORD)
    done = builder.load_atomic(before, "acquire", 8)
    failed = builder.icmp_signed("<", done, ir.Constant(WORD, 0))
    builder.cbranch(builder.or_(failed, builder.icmp_signed(">=", done, needed)), over, waiting)
    builder.position_at_end(waiting)
    more = builder.add(looks, ir.Constant(WORD, 1))
    builder.cbranch(builder.icmp_unsigned("<", looks, ir.Constant(WORD, LOOKS)), look, resting)
    builder.position_at_end(resting)
    builder.call(pause, [ir.Constant(STATUS, PAUSE)])
    builder.branch(look)
    for count, block in ((ir.Constant(WORD, 0), entry), (more, waiting), (looks, resting)):
        looks.add_incoming(count, block)
    builder.position_at_end(over)
    builder.ret(builder.zext(failed, STATUS))

    builder = begin(module, STUB, END_TURN)
    state = builder.inttoptr(builder.function.args[0], WORDS)
    own, one = builder.inttoptr(_word(builder, state, OWN), WORDS), ir.Constant(WORD, 1)
    builder.store(
        builder.add(_word(builder, state, NEEDED), one), builder.gep(state, [ir.Constant(WORD, NEEDED)])
    )
    builder.store_atomic(builder.add(builder.load(own), one), own, "release", 8)
    builder.ret(ir.Constant(STATUS, 0))


def _word(builder: ir.IRBuilder, start, at: int):
    return builder.load(builder.gep(start, [ir.Constant(WORD, at)]))


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
