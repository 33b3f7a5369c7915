"""Gradients of inputs through int8 weights in register tiles, written as LLVM instructions."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.fused import emit_fused
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    WORD,
    Target,
    load,
    parts,
    pointers,
    room,
    shuffled,
    spread,
    store,
    target_of,
)

FLOAT = ir.FloatType()
TERMS = 256  # channels whose factors lie on the stack at a time, 8 kB at most


def _tile(target: Target) -> tuple[int, tuple[int, ...]]:
    """Rows of a tile, and columns of those that are tried one after another, by what the registers hold."""
    if target.arm:
        return 8, (8, 1)
    return (8, (32, 16, 8, 1)) if target.register == 64 else (4, (16, 8, 1))


@intrinsic
def gradient_products(typing, arrays, sizes, starts):
    """gx[i, c] += the sum over j of g[i, j] * scale[j] * w[j, c], in the order of j.

    - `arrays`: (gx, g, w, scale), flat: (m, k), (m, n), int8 rows of `width`, one for each channel.
    - `sizes`: m, n, k, `width`.
    - `starts`: the channel that j = 0 is, the column of w that c = 0 is, whether gx starts at zero.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (m, n, k, width), (channel, column, fresh) = (
            cgutils.unpack_tuple(builder, a) for a in arguments
        )
        gx, g, w, scale = pointers(context, builder, kinds, arrays)
        rows, columns = _tile(target_of(context))
        factors = room(builder, FLOAT, rows * TERMS)
        chunks = builder.udiv(builder.add(n, INDEX(TERMS - 1)), INDEX(TERMS))
        done = INDEX(0)
        for count in (rows, 1):
            many = builder.udiv(builder.sub(m, done), INDEX(count))
            with cgutils.for_range(builder, many) as tiles, cgutils.for_range(builder, chunks) as chunk:
                row = builder.add(done, builder.mul(tiles.index, INDEX(count)))
                term = builder.mul(chunk.index, INDEX(TERMS))
                left = builder.sub(n, term)
                some = builder.select(builder.icmp_signed("<", left, INDEX(TERMS)), left, INDEX(TERMS))
                first = builder.add(channel, term)
                own = builder.gep(g, [builder.add(builder.mul(row, n), term)])
                _scale(builder, factors, own, builder.gep(scale, [first]), (some, n, count))
                line = builder.gep(w, [builder.add(builder.mul(first, width), column)])
                zero = builder.and_(fresh, builder.icmp_signed("==", term, INDEX(0)))
                out = builder.gep(gx, [builder.mul(row, k)])
                tile = factors, line, out, zero
                _rows(context, builder, tile, (count, some, k, width), columns)
            done = builder.add(done, builder.mul(many, INDEX(count)))
        return context.get_dummy_value()

    return types.void(arrays, sizes, starts), emit


def _scale(builder, factors, g, scale, sizes) -> None:
    """Rows of g times `scale`: for every channel those of all rows."""
    some, n, count = sizes
    with cgutils.for_range(builder, some) as loop:
        own = builder.load(builder.gep(scale, [loop.index]))
        for p in range(count):
            value = builder.load(builder.gep(g, [builder.add(builder.mul(INDEX(p), n), loop.index)]))
            at = builder.add(builder.mul(loop.index, INDEX(count)), INDEX(p))
            builder.store(builder.fmul(value, own), builder.gep(factors, [at]))


def _rows(context, builder, tile, sizes, columns) -> None:
    """All columns of some rows: as many of the widest tile as there are, the rest in narrower ones."""
    factors, line, out, zero = tile
    count, some, k, width = sizes
    done = INDEX(0)
    for wide in columns:
        many = builder.udiv(builder.sub(k, done), INDEX(wide))
        with cgutils.for_range(builder, many) as loop:
            start = builder.add(done, builder.mul(loop.index, INDEX(wide)))
            own = factors, builder.gep(line, [start]), builder.gep(out, [start]), zero
            _add(context, builder, own, sizes, wide)
        done = builder.add(done, builder.mul(many, INDEX(wide)))


def _add(context, builder, tile, sizes, wide: int) -> None:
    factors, line, out, zero = tile
    count, some, k, width = sizes
    vector, target = ir.VectorType(FLOAT, wide), target_of(context)
    places = [builder.gep(out, [builder.mul(INDEX(p), k)]) for p in range(count)]
    sums = [cgutils.alloca_once(builder, vector) for _ in range(count)]
    for one, place in zip(sums, places, strict=True):
        before = load(builder, vector, place)
        builder.store(builder.select(zero, ir.Constant(vector, None), before), one)
    with cgutils.for_range(builder, some) as terms:
        codes = load(builder, ir.VectorType(BYTE, wide), builder.gep(line, [builder.mul(terms.index, width)]))
        values = builder.sitofp(builder.sext(codes, ir.VectorType(WORD, wide)), vector)
        own = builder.gep(factors, [builder.mul(terms.index, INDEX(count))])
        for one, factor in zip(sums, _spread(builder, target, own, vector, count), strict=True):
            builder.store(emit_fused(context, builder, factor, values, builder.load(one)), one)
    for one, place in zip(sums, places, strict=True):
        store(builder, builder.load(one), place)


def _spread(builder, target: Target, factors, vector, count: int):
    """Each of `count` factors in every lane. ARM multiplies by a lane of a register, x86 spreads from memory."""
    if target.arm and count % 4 == 0:
        fours = parts(builder, load(builder, ir.VectorType(FLOAT, count), factors), 4)
        return [shuffled(builder, four, four, [lane] * vector.count) for four in fours for lane in range(4)]
    own = (builder.load(builder.gep(factors, [INDEX(p)])) for p in range(count))
    return [spread(builder, one, vector) for one in own]
