"""Rows of a depthwise convolution with the sums of many pixels in registers, as LLVM instructions.

Eight vectors are summed up at the same time, because a processor can begin eight products before the first
one is done, and each input is loaded once for all pixels that meet it. That takes code of its own for every
filter. Loops compiled by numba do not get there: LLVM unrolls short ones before it looks for vectors in them.
"""

import platform
from contextlib import contextmanager, nullcontext

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.fused import emit_fused

# (taps, stride) along a row that there is code for: filters of 3, 5 and 7 taps, and the parts of them that
# are met by every second position, which gradients are made of.
FILTERS = ((1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2))
REGISTERS = 8  # of sums

INDEX, FLOAT = ir.IntType(64), ir.FloatType()


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
    """The number by which compiled code knows a filter: its own for all strides below 65,536."""
    return taps << 16 | stride


def strips(pixels: int):
    """Intrinsic that computes a row of outputs, `pixels` of them and ``lanes(pixels)`` channels at a time.

    ``f(arrays, places, steps, sizes, rows, key, bounds)``. `arrays` are (y, b, x, w), flat; `places` the
    offsets in y of the first output, in x of the input under its first tap and in w of that tap. `steps` lead
    from output to output, in x from column to column and from row to row, and in w the same. `sizes` are how
    many outputs and channels there are, no fewer than are computed at a time, the column of that first input
    and the width of the image. `rows` of the filter are met; `key` is the `key_of` one of FILTERS (for any
    other nothing is written), and half of its taps at most lie beside the image on either side. `bounds`:
    lowest and highest result.

    Where the numbers do not divide, the last outputs and the last channels overlap with those before: the
    same is written twice. All channels of a strip come first: x and y are met in the order of memory, which
    matters once they no longer lie in the cache. Every output adds up its taps row by row, left to right, and
    the bias last.
    """
    vector = ir.VectorType(FLOAT, lanes(pixels))

    def emit(context, builder, signature, arguments):
        arrays, places, steps, sizes, rows, key, bounds = (
            cgutils.unpack_tuple(builder, value) if isinstance(kind, types.BaseTuple) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        kinds = signature.args[0]
        y, b, x, w = (
            context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)
        )
        y, x, w = (builder.gep(start, [place]) for start, place in zip((y, x, w), places, strict=True))
        sums = [cgutils.alloca_once(builder, vector) for _ in range(pixels)]
        bounds = [_spread(builder, vector, value) for value in bounds]
        done = builder.append_basic_block("done")
        choice = builder.switch(key, done)
        for taps, stride in FILTERS:
            block = builder.append_basic_block(f"taps{taps}stride{stride}")
            choice.add_case(INDEX(key_of(taps, stride)), block)
            builder.position_at_end(block)
            _one_filter(
                context, builder, vector, sums, (y, b, x, w), steps, sizes, rows, (taps, stride), bounds
            )
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    @intrinsic
    def compute(typing, arrays, places, steps, sizes, rows, key, bounds):
        return types.void(arrays, places, steps, sizes, rows, key, bounds), emit

    return compute


def _one_filter(context, builder, vector, sums, starts, steps, sizes, rows, shape, bounds) -> None:
    """The row for a filter of this `shape`, (taps, stride)."""
    (y, b, x, w), (y_step, x_tap, *_), (count, channels, column, width) = starts, steps, sizes
    with _blocks(builder, count, len(sums)) as k:
        across = builder.mul(k, INDEX(shape[1]))
        first = builder.add(column, across)
        inside = builder.neg(first), builder.sub(width, first)
        y0, x0 = _at(builder, y, k, y_step), _at(builder, x, across, x_tap)
        with _blocks(builder, channels, vector.count) as c:
            own_y, own_b, own_x, own_w = (builder.gep(start, [c]) for start in (y0, b, x0, w))
            for one in sums:
                builder.store(ir.Constant(vector, None), one)
            _add_rows(context, builder, vector, sums, (own_x, own_w), steps[1:], rows, shape, inside)
            _finish(builder, vector, sums, own_y, y_step, own_b, bounds)


@contextmanager
def _blocks(builder, count, size: int):
    """Loop over the first of every `size` numbers below `count`; the last ones overlap with those before."""
    more = builder.sdiv(builder.add(count, INDEX(size - 1)), INDEX(size))
    with cgutils.for_range(builder, more) as loop:
        start, last = builder.mul(loop.index, INDEX(size)), builder.sub(count, INDEX(size))
        yield builder.select(builder.icmp_signed("<", start, last), start, last)


def _add_rows(context, builder, vector, sums, starts, steps, rows, shape, inside) -> None:
    """Add the products of all `rows` that are met to `sums`: every input times each tap that it meets."""
    (x, w), (x_tap, x_row, w_tap, w_row), (taps, stride) = starts, steps, shape
    span = (len(sums) - 1) * stride + taps
    with cgutils.for_range(builder, rows) as loop:
        x_line, w_line = _at(builder, x, loop.index, x_row), _at(builder, w, loop.index, w_row)
        weights = [_load(builder, vector, _at(builder, w_line, INDEX(t), w_tap)) for t in range(taps)]
        for i in range(span):
            read = nullcontext()
            if i < taps // 2:
                read = builder.if_then(builder.icmp_signed(">=", INDEX(i), inside[0]), likely=True)
            elif i >= span - taps // 2:
                read = builder.if_then(builder.icmp_signed("<", INDEX(i), inside[1]), likely=True)
            with read:
                value = _load(builder, vector, _at(builder, x_line, INDEX(i), x_tap))
                for p, one in enumerate(sums):
                    tap = i - p * stride
                    if 0 <= tap < taps:
                        builder.store(
                            emit_fused(context, builder, value, weights[tap], builder.load(one)), one
                        )


def _finish(builder, vector, sums, y, y_step, bias, bounds) -> None:
    """Write `sums` with their bias, within `bounds`."""
    low, high = bounds
    bias = _load(builder, vector, bias)
    for p, one in enumerate(sums):
        # As Python's max and min: of a bound and what is not a number it is the latter.
        value = builder.fadd(builder.load(one), bias)
        value = builder.select(builder.fcmp_ordered(">", low, value), low, value)
        value = builder.select(builder.fcmp_ordered("<", high, value), high, value)
        out = builder.bitcast(_at(builder, y, INDEX(p), y_step), vector.as_pointer())
        builder.store(value, out, align=4)


def _at(builder, start, index, step):
    return builder.gep(start, [builder.mul(index, step)])


def _load(builder, vector, pointer):
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def _spread(builder, vector, value):
    nothing, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(nothing, value, first(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(first, vector.count), None))
