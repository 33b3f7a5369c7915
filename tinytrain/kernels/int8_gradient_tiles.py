"""Gradient of the input of a layer with int8 weights in register tiles, written as LLVM instructions."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.fused import emit_fused
from tinytrain.kernels.vectors import BYTE, INDEX, WORD, blocks, load, pointers, room, spread, store

ROWS, COLUMNS, MOST = 4, 16, 1024  # of a tile; numbers of output channels whose factors lie on the stack
FLOATS = ir.VectorType(ir.FloatType(), COLUMNS)


@intrinsic
def gradient_rows(typing, arrays, sizes, row):
    """Rows `row` to `row` + 3 of gx = (g * scale) times w, summed in the order of the channels.

    - `arrays`: (gx, g, w, scale), flat: (m, k), (m, n), int8 (n, k), (n,).
    - `sizes`: n, at most MOST, and k, at least COLUMNS.

    If the columns are no multiple of sixteen, the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (n, k) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        gx, g, w, scale = pointers(context, builder, kinds, arrays)
        row = arguments[2]
        factors = room(builder, ir.FloatType(), ROWS * MOST)
        _scale(builder, factors, builder.gep(g, [builder.mul(row, n)]), scale, n)
        sums = [cgutils.alloca_once(builder, FLOATS) for _ in range(ROWS)]
        with blocks(builder, k, COLUMNS) as start:
            for one in sums:
                builder.store(ir.Constant(FLOATS, None), one)
            with cgutils.for_range(builder, n) as channels:
                own = builder.gep(w, [builder.add(builder.mul(channels.index, k), start)])
                codes = builder.sext(
                    load(builder, ir.VectorType(BYTE, COLUMNS), own), ir.VectorType(WORD, COLUMNS)
                )
                values = builder.sitofp(codes, FLOATS)
                for p, one in enumerate(sums):
                    at = builder.add(builder.shl(channels.index, INDEX(2)), INDEX(p))
                    factor = spread(builder, builder.load(builder.gep(factors, [at])), FLOATS)
                    builder.store(emit_fused(context, builder, factor, values, builder.load(one)), one)
            for p, one in enumerate(sums):
                out = builder.add(builder.mul(builder.add(row, INDEX(p)), k), start)
                store(builder, builder.load(one), builder.gep(gx, [out]))
        return context.get_dummy_value()

    return types.void(arrays, sizes, row), emit


def _scale(builder, factors, g, scale, n) -> None:
    """Four rows of g times `scale`: for every channel those of all rows."""
    with cgutils.for_range(builder, n) as loop:
        own = builder.load(builder.gep(scale, [loop.index]))
        for p in range(ROWS):
            value = builder.load(builder.gep(g, [builder.add(builder.mul(INDEX(p), n), loop.index)]))
            at = builder.add(builder.shl(loop.index, INDEX(2)), INDEX(p))
            builder.store(builder.fmul(value, own), builder.gep(factors, [at]))
