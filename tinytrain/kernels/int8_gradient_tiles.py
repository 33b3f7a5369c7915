"""Gradients of layers with int8 weights or int8 inputs in register tiles, written as LLVM instructions.

A tile keeps sums of some rows and columns of a result in registers. Term after term, a factor of each row
meets the values of the columns.
"""

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
TERMS = 256  # channels whose factors lie on the stack at a time, 16 kB at most


def _tile(target: Target) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of the tiles that are tried one after another, by what the registers hold.

    ARM has an instruction to spread a factor and multiply, so that more rows take less than more columns.
    """
    if target.arm:
        return (16, 4, 1), (4, 1)
    return ((8, 1), (32, 16, 8, 1)) if target.register == 64 else ((4, 1), (16, 8, 1))


@intrinsic
def gradient_products(typing, arrays, sizes, starts):
    """gx[i, c] += the sum over j of g[i, j] * scale[j] * w[j, c], in the order of j.

    - `arrays`: (gx, g, w, scale): (m, k), (m, n), int8 rows of `width`, one for each channel.
    - `sizes`: m, n, k, `width`.
    - `starts`: the channel that j = 0 is, the column of w that c = 0 is, whether gx starts at zero.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (m, n, k, width), (channel, column, fresh) = (
            cgutils.unpack_tuple(builder, a) for a in arguments
        )
        gx, g, w, scale = pointers(context, builder, kinds, arrays)

        def factors(place, rows, terms):
            (row, count), (term, some) = rows, terms
            own = builder.gep(g, [builder.add(builder.mul(row, n), term)])
            first = builder.gep(scale, [builder.add(channel, term)])
            # x86 takes longer to turn fours of channels than to load channel after channel.
            widths = (4, 1) if target_of(context).arm else (1,)
            _scale(builder, place, own, first, (some, n, count), widths)

        line = builder.gep(w, [builder.add(builder.mul(channel, width), column)])
        _tiles(context, builder, (gx, line), (m, n, k, k, width), factors, fresh)
        return context.get_dummy_value()

    return types.void(arrays, sizes, starts), emit


@intrinsic
def weight_products(typing, arrays, sizes, scale, zero):
    """gw[k, j] += the sum over i of scale * (x[i, k] - zero) * g[i, j], in the order of i.

    `arrays`: (gw, x, g): rows of `width`, the codes (m, k), (m, n). `sizes`: m, k, n, `width`.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (m, k, n, width) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        gw, x, g = pointers(context, builder, kinds, arrays)
        scale, zero = arguments[2], builder.trunc(arguments[3], WORD)

        def factors(place, rows, terms):
            (row, count), (term, some) = rows, terms
            with cgutils.for_range(builder, some) as loop:
                at = builder.add(builder.mul(builder.add(term, loop.index), k), row)
                codes = load(builder, ir.VectorType(BYTE, count), builder.gep(x, [at]))
                wide, vector = ir.VectorType(WORD, count), ir.VectorType(FLOAT, count)
                steps = builder.sub(builder.sext(codes, wide), spread(builder, zero, wide))
                values = builder.fmul(spread(builder, scale, vector), builder.sitofp(steps, vector))
                store(builder, values, builder.gep(place, [builder.mul(loop.index, INDEX(count))]))

        _tiles(context, builder, (gw, g), (k, m, n, width, n), factors, ir.Constant(ir.IntType(1), 0))
        return context.get_dummy_value()

    return types.void(arrays, sizes, scale, zero), emit


def _tiles(context, builder, starts, sizes, factors, fresh) -> None:
    """All tiles of a result. `factors` writes those of some rows and terms: for every term those of all rows.

    - `starts`: the first number of the result and of the values.
    - `sizes`: rows, terms and columns, and the distances from row to row of the result and of the values.
    - `fresh`: whether the result starts at zero.
    """
    (out, line), (m, n, k, out_step, line_step) = starts, sizes
    rows, columns = _tile(target_of(context))
    place = room(builder, FLOAT, rows[0] * TERMS)
    chunks = builder.udiv(builder.add(n, INDEX(TERMS - 1)), INDEX(TERMS))
    done = INDEX(0)
    for count in rows:
        many = builder.udiv(builder.sub(m, done), INDEX(count))
        with cgutils.for_range(builder, many) as tiles, cgutils.for_range(builder, chunks) as chunk:
            row = builder.add(done, builder.mul(tiles.index, INDEX(count)))
            term = builder.mul(chunk.index, INDEX(TERMS))
            left = builder.sub(n, term)
            some = builder.select(builder.icmp_signed("<", left, INDEX(TERMS)), left, INDEX(TERMS))
            factors(place, (row, count), (term, some))
            zero = builder.and_(fresh, builder.icmp_signed("==", term, INDEX(0)))
            own = builder.gep(out, [builder.mul(row, out_step)])
            values = builder.gep(line, [builder.mul(term, line_step)])
            tile = (place, count), (values, line_step), (own, out_step)
            _rows(context, builder, tile, (some, k), columns, zero)
        done = builder.add(done, builder.mul(many, INDEX(count)))


def _scale(builder, factors, g, scale, sizes, widths) -> None:
    """Rows of g times `scale`: for every channel those of all rows, of so many channels at a time."""
    some, n, count = sizes
    rows, done = [builder.gep(g, [builder.mul(INDEX(p), n)]) for p in range(count)], INDEX(0)
    for width in widths:
        many = builder.udiv(builder.sub(some, done), INDEX(width))
        with cgutils.for_range(builder, many) as loop:
            start = builder.add(done, builder.mul(loop.index, INDEX(width)))
            kind = ir.VectorType(FLOAT, width) if width > 1 else FLOAT
            own = load(builder, kind, builder.gep(scale, [start]))
            found = [builder.fmul(load(builder, kind, builder.gep(row, [start])), own) for row in rows]
            if width == 4 and count > 1:
                fours = [_transposed(builder, found[k : k + 4]) for k in range(0, count, 4)]
                found = [four[c] for c in range(4) for four in fours]
            for k, one in enumerate(found):
                at = builder.add(builder.mul(start, INDEX(count)), INDEX(width * k))
                store(builder, one, builder.gep(factors, [at]))
        done = builder.add(done, builder.mul(many, INDEX(width)))


def _transposed(builder, rows):
    """Four vectors of four."""
    for _ in range(2):
        pairs = (rows[0], rows[2]), (rows[1], rows[3])
        rows = [shuffled(builder, *pair, lanes) for pair in pairs for lanes in ((0, 4, 1, 5), (2, 6, 3, 7))]
    return rows


def _rows(context, builder, tile, sizes, columns, zero) -> None:
    """All columns of some rows: as many of the widest tile as there are, the rest in narrower ones."""
    (factors, (line, line_step), (out, out_step)), (some, k) = tile, sizes
    done = INDEX(0)
    for wide in columns:
        many = builder.udiv(builder.sub(k, done), INDEX(wide))
        with cgutils.for_range(builder, many) as loop:
            start = builder.add(done, builder.mul(loop.index, INDEX(wide)))
            own = factors, (builder.gep(line, [start]), line_step), (builder.gep(out, [start]), out_step)
            _add(context, builder, own, (some, wide), zero)
        done = builder.add(done, builder.mul(many, INDEX(wide)))


def _add(context, builder, tile, sizes, zero) -> None:
    ((factors, count), (line, line_step), (out, out_step)), (some, wide) = tile, sizes
    vector, target = ir.VectorType(FLOAT, wide), target_of(context)
    places = [builder.gep(out, [builder.mul(INDEX(p), out_step)]) for p in range(count)]
    sums = [cgutils.alloca_once(builder, vector) for _ in range(count)]
    for one, place in zip(sums, places, strict=True):
        before = load(builder, vector, place)
        builder.store(builder.select(zero, ir.Constant(vector, None), before), one)
    with cgutils.for_range(builder, some) as terms:
        own = builder.gep(line, [builder.mul(terms.index, line_step)])
        values = load(builder, ir.VectorType(line.type.pointee, wide), own)
        if line.type.pointee == BYTE:
            values = builder.sitofp(builder.sext(values, ir.VectorType(WORD, wide)), vector)
        own = builder.gep(factors, [builder.mul(terms.index, INDEX(count))])
        for one, factor in zip(sums, _spread(builder, target, own, vector, count), strict=True):
            builder.store(emit_fused(context, builder, factor, values, builder.load(one)), one)
    for one, place in zip(sums, places, strict=True):
        store(builder, builder.load(one), place)


def _spread(builder, target: Target, factors, vector, count: int):
    """Each of `count` factors in every lane. ARM multiplies by one lane, x86 spreads from memory."""
    if target.arm and count % 4 == 0:
        fours = parts(builder, load(builder, ir.VectorType(FLOAT, count), factors), 4)
        return [shuffled(builder, four, four, [lane] * vector.count) for four in fours for lane in range(4)]
    own = (builder.load(builder.gep(factors, [INDEX(p)])) for p in range(count))
    return [spread(builder, one, vector) for one in own]
