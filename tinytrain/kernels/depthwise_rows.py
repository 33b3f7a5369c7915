"""Rows of a depthwise convolution in register tiles, written as LLVM instructions.

A register tile keeps the sums of several pixels and channels in eight vector registers: a processor can start
eight products before the first one is done. Each input is loaded once for all pixels that use it. This takes
separate code for every filter. Loops compiled by numba do not reach this, because LLVM unrolls short loops
before it vectorises them.
"""

from contextlib import nullcontext

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.dispatch.target import target
from tinytrain.kernels.fused import emit_fused
from tinytrain.kernels.vectors import INDEX, blocks, load, pointers, spread, store

# (taps, stride) along a row with code: filters of 3, 5 and 7 taps, and every second tap of them, which the
# gradients of stride 2 need.
FILTERS = ((1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2))
REGISTERS = 8  # for sums

FLOAT = ir.FloatType()


def _register() -> int:
    """Floats in a vector register of this processor. A wrong number costs time but changes no bit.

    It is the number of the processor that is compiled for.
    """
    triple, name, features = target()
    if not triple.startswith("x86_64"):
        return 4
    return 16 if name == "x86-64-v4" or "+avx512f" in features else 8


REGISTER = _register()


def tile_channels(pixels: int) -> int:
    """Channels of a register tile of `pixels` pixels."""
    return REGISTER * REGISTERS // pixels


def key_of(taps: int, stride: int) -> int:
    """The number of a filter in compiled code; unique for strides below 65,536."""
    return taps << 16 | stride


def register_tile(pixels: int):
    """Intrinsic for a row of outputs in tiles of `pixels` pixels and ``tile_channels(pixels)`` channels.

    ``f(arrays, places, steps, sizes, rows, key, bounds)``:

    - `arrays`: (y, b, x, w), flat.
    - `places`: offsets of the first output in y, of the input under its first tap in x, of that tap in w.
    - `steps`: distances from output to output in y, from column to column and row to row in x and in w.
    - `sizes`: numbers of outputs and channels (at least one tile), column of that first input, image width.
    - `rows`: number of filter rows inside the image.
    - `key`: `key_of` one of FILTERS; nothing is written for another. On either side at most half of the taps
      may lie beside the image.
    - `bounds`: lowest and highest result.

    If outputs or channels do not divide into tiles, the last tile overlaps with the one before and writes the
    same values again. A tile takes all channels before the next pixels, so that x and y are read and written
    in the order of memory, which matters if they exceed the cache. Every output adds its taps row by row,
    left to right, and the bias last.
    """
    vector = ir.VectorType(FLOAT, tile_channels(pixels))

    def emit(context, builder, signature, arguments):
        arrays, places, steps, sizes, rows, key, bounds = (
            cgutils.unpack_tuple(builder, value) if isinstance(kind, types.BaseTuple) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        kinds = signature.args[0]
        y, b, x, w = pointers(context, builder, kinds, arrays)
        y, x, w = (builder.gep(start, [place]) for start, place in zip((y, x, w), places, strict=True))
        sums = [cgutils.alloca_once(builder, vector) for _ in range(pixels)]
        bounds = [spread(builder, value, vector) for value in bounds]
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
    """The row for a filter of `shape` (taps, stride)."""
    (y, b, x, w), (y_step, x_tap, *_), (count, channels, column, width) = starts, steps, sizes
    with blocks(builder, count, len(sums)) as k:
        across = builder.mul(k, INDEX(shape[1]))
        first = builder.add(column, across)
        inside = builder.neg(first), builder.sub(width, first)
        y0, x0 = _at(builder, y, k, y_step), _at(builder, x, across, x_tap)
        with blocks(builder, channels, vector.count) as c:
            own_y, own_b, own_x, own_w = (builder.gep(start, [c]) for start in (y0, b, x0, w))
            for one in sums:
                builder.store(ir.Constant(vector, None), one)
            _add_rows(context, builder, vector, sums, (own_x, own_w), steps[1:], rows, shape, inside)
            _finish(builder, vector, sums, own_y, y_step, own_b, bounds)


def _add_rows(context, builder, vector, sums, starts, steps, rows, shape, inside) -> None:
    """Add the products of `rows` filter rows to `sums`: every input times each tap that reads it."""
    (x, w), (x_tap, x_row, w_tap, w_row), (taps, stride) = starts, steps, shape
    span = (len(sums) - 1) * stride + taps
    with cgutils.for_range(builder, rows) as loop:
        x_line, w_line = _at(builder, x, loop.index, x_row), _at(builder, w, loop.index, w_row)
        weights = [load(builder, vector, _at(builder, w_line, INDEX(t), w_tap)) for t in range(taps)]
        for i in range(span):
            read = nullcontext()
            if i < taps // 2:
                read = builder.if_then(builder.icmp_signed(">=", INDEX(i), inside[0]), likely=True)
            elif i >= span - taps // 2:
                read = builder.if_then(builder.icmp_signed("<", INDEX(i), inside[1]), likely=True)
            with read:
                value = load(builder, vector, _at(builder, x_line, INDEX(i), x_tap))
                for p, one in enumerate(sums):
                    tap = i - p * stride
                    if 0 <= tap < taps:
                        builder.store(
                            emit_fused(context, builder, value, weights[tap], builder.load(one)), one
                        )


def _finish(builder, vector, sums, y, y_step, bias, bounds) -> None:
    """Write `sums` plus bias, limited to `bounds`."""
    low, high = bounds
    bias = load(builder, vector, bias)
    for p, one in enumerate(sums):
        # Like Python's max and min with the value second: a NaN stays a NaN.
        value = builder.fadd(builder.load(one), bias)
        value = builder.select(builder.fcmp_ordered(">", low, value), low, value)
        value = builder.select(builder.fcmp_ordered("<", high, value), high, value)
        store(builder, value, _at(builder, y, INDEX(p), y_step))


def _at(builder, start, index, step):
    return builder.gep(start, [builder.mul(index, step)])
