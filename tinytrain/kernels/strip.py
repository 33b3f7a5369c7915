"""Neighbouring pixels of a depthwise convolution with all their sums in registers, as LLVM instructions.

Eight vectors are summed up at the same time, because a processor can begin eight products before the first
one is done, and each input is loaded once for all pixels that meet it. That takes code of its own for every
filter. Loops compiled by numba do not get there: LLVM unrolls short ones before it looks for vectors in them.
"""

import platform
from contextlib import nullcontext

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.jit import PORTABLE

# (taps, stride) along a row that there is code for: filters of 3, 5 and 7 taps, and the parts of them that
# are met by every second position, which gradients are made of.
FILTERS = ((1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2))
REGISTERS = 8  # of sums

INDEX, FLOAT = ir.IntType(64), ir.FloatType()
# A product and the sum that it goes to may become one instruction, which rounds once. No more than that:
# numba gives instructions without flags those of the kernel, which let LLVM add in another order.
FUSED = () if PORTABLE else ("contract",)


def _register() -> int:
    """Floats in a vector register of this processor. A wrong number costs time and changes no bit.

    Where numba is told to compile for an older processor, it is that of this one all the same.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return 4
    return 16 if binding.get_host_cpu_features().get("avx512f") else 8


REGISTER = _register()


def lanes(pixels: int) -> int:
    """Channels of a strip of so many pixels."""
    return REGISTER * REGISTERS // pixels


def key_of(taps: int, stride: int) -> int:
    """The number by which compiled code knows a filter; no other has it."""
    return taps << 16 | stride


def strip(pixels: int):
    """Intrinsic that computes ``lanes(pixels)`` channels of `pixels` outputs along a row.

    ``f(arrays, places, steps, rows, key, inside, bounds)``. `arrays` are (y, b, x, w), flat; `places` the
    offsets in them of the first output, of its bias, of the input under its first tap and of that tap.
    `steps` lead from output to output, in x from column to column and from row to row, and in w the same.
    `rows` of the filter are met; `key` is the `key_of` one of FILTERS. Inputs before `inside[0]` and
    from `inside[1]` on, counted from the one under the first tap, are outside of the picture and not read:
    half of the taps at most on either side. `bounds` are the lowest and the highest result.

    Every output adds up its taps row by row, left to right, and the bias last.
    """
    vector = ir.VectorType(FLOAT, lanes(pixels))
    zero = ir.Constant(vector, None)

    def emit(context, builder, signature, arguments):
        arrays, places, steps, rows, key, inside, bounds = (
            cgutils.unpack_tuple(builder, value) if isinstance(kind, types.BaseTuple) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        kinds = signature.args[0]
        starts = [context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)]
        y, b, x, w = (builder.gep(s, [p]) for s, p in zip(starts, places, strict=True))
        y_step, x_tap, x_row, w_tap, w_row = steps
        sums = [cgutils.alloca_once(builder, vector) for _ in range(pixels)]
        for one in sums:
            builder.store(zero, one)
        done = builder.append_basic_block("done")
        choice = builder.switch(key, done)
        for taps, stride in FILTERS:
            block = builder.append_basic_block(f"taps{taps}stride{stride}")
            choice.add_case(INDEX(key_of(taps, stride)), block)
            builder.position_at_end(block)
            with cgutils.for_range(builder, rows) as loop:
                lines = _at(builder, x, loop.index, x_row), _at(builder, w, loop.index, w_row)
                _one_row(builder, vector, sums, lines, (x_tap, w_tap), (taps, stride), inside)
            builder.branch(done)
        builder.position_at_end(done)
        bias = _load(builder, vector, b)
        low, high = (_spread(builder, vector, value) for value in bounds)
        for p, one in enumerate(sums):
            # As Python's max and min: of a bound and what is not a number it is the latter.
            value = builder.fadd(builder.load(one), bias, flags=FUSED)
            value = builder.select(builder.fcmp_ordered(">", low, value), low, value)
            value = builder.select(builder.fcmp_ordered("<", high, value), high, value)
            out = builder.bitcast(_at(builder, y, INDEX(p), y_step), vector.as_pointer())
            builder.store(value, out, align=4)
        return context.get_dummy_value()

    @intrinsic
    def compute(typing, arrays, places, steps, rows, key, inside, bounds):
        return types.void(arrays, places, steps, rows, key, inside, bounds), emit

    return compute


def _one_row(builder, vector, sums, lines, steps, shape, inside) -> None:
    """One row of the filter: every input times each tap that it meets, added to the output of that tap."""
    (x, w), (x_tap, w_tap), (taps, stride) = lines, steps, shape
    weights = [_load(builder, vector, _at(builder, w, INDEX(t), w_tap)) for t in range(taps)]
    span = (len(sums) - 1) * stride + taps
    for i in range(span):
        read = nullcontext()
        if i < taps // 2:
            read = builder.if_then(builder.icmp_signed(">=", INDEX(i), inside[0]), likely=True)
        elif i >= span - taps // 2:
            read = builder.if_then(builder.icmp_signed("<", INDEX(i), inside[1]), likely=True)
        with read:
            value = _load(builder, vector, _at(builder, x, INDEX(i), x_tap))
            for p, one in enumerate(sums):
                tap = i - p * stride
                if 0 <= tap < taps:
                    product = builder.fmul(value, weights[tap], flags=FUSED)
                    builder.store(builder.fadd(builder.load(one), product, flags=FUSED), one)


def _at(builder, start, index, step):
    return builder.gep(start, [builder.mul(index, step)])


def _load(builder, vector, pointer):
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def _spread(builder, vector, value):
    nothing, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(nothing, value, first(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(first, vector.count), None))
