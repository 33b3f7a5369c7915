"""Products of int8 codes in blocks of output channels, written as LLVM instructions.

The weights of a block are packed once for all pixels: neighbouring pairs of inputs lie side by side for every
channel. So a pair of inputs, spread over a register, meets the pairs of weights of eight channels, and the
sums need not be added up at the end. This is faster than `product_strip` where sums are short. What is packed
lies on the stack: 8 kB at most.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    TRUTH,
    WORD,
    blocks,
    load,
    pairs_of_products,
    parts,
    pointers,
    room,
    shuffled,
    spread,
    store,
    target_of,
)

PIXELS, MOST_INPUTS = 4, 256
EIGHT, SIXTEEN = ir.VectorType(WORD, 8), ir.VectorType(SHORT, 16)


@intrinsic
def takes_blocks(typing):
    """Whether `product_block` is fast on the processor that is compiled for."""

    def emit(context, builder, signature, arguments):
        return TRUTH(target_of(context).wide)

    return types.boolean(), emit


def product_block(lanes: int):
    """Intrinsic for the codes of all pixels and of `lanes` output channels, 8 or 16.

    ``f(arrays, sizes, channel, zero)``:

    - `arrays`: (y, x, w, b, factor, shift), flat; x is int8 or int16.
    - `sizes`: numbers of pixels (at least 4), of inputs (at most `MOST_INPUTS`) and of all channels.
    - `channel`: the first one.

    If the number of pixels is no multiple of four, the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds, target = signature.args[0], target_of(context)
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        channel, zero = arguments[2:]
        packed = room(builder, SHORT, lanes * MOST_INPUTS)
        widened = room(builder, SHORT, PIXELS * MOST_INPUTS)
        _pack(builder, packed, builder.gep(w, [builder.mul(channel, size)]), size, lanes)
        own = [load(builder, ir.VectorType(WORD, lanes), builder.gep(a, [channel])) for a in scaled]
        bias, factors, shifts = (parts(builder, vector, 8) for vector in own)
        rescalings = [Rescaling(builder, target, f, s, zero) for f, s in zip(factors, shifts, strict=True)]
        with blocks(builder, m, PIXELS) as start:
            _widen(builder, widened, builder.gep(x, [builder.mul(start, size)]), size)
            totals = _totals(builder, target, (packed, widened), bias, size)
            for half, rescaling in enumerate(rescalings):
                codes = rescaling.codes(builder, totals[half])
                for p, eight in enumerate(parts(builder, codes, 8)):
                    place = builder.mul(builder.add(start, INDEX(p)), n)
                    place = builder.add(place, builder.add(channel, INDEX(8 * half)))
                    store(builder, eight, builder.gep(y, [place]))
        return context.get_dummy_value()

    @intrinsic
    def compute(typing, arrays, sizes, channel, zero):
        return types.void(arrays, sizes, channel, zero), emit

    return compute


def _pack(builder, packed, w, size, lanes: int) -> None:
    """Weights of `lanes` rows of w, `size` long: for every pair of inputs those of all lanes, int16.

    An odd number of inputs is filled up with a 0.
    """
    rows = [builder.gep(w, [builder.mul(INDEX(j), size)]) for j in range(lanes)]
    with cgutils.for_range(builder, builder.lshr(size, INDEX(4))) as loop:
        _pack_pairs(builder, packed, rows, builder.shl(loop.index, INDEX(4)), 8)
    with builder.if_then(builder.trunc(builder.lshr(size, INDEX(3)), TRUTH)):
        _pack_pairs(builder, packed, rows, builder.and_(size, INDEX(-16)), 4)
    done = builder.and_(size, INDEX(-8))
    with cgutils.for_range(builder, builder.and_(size, INDEX(7))) as loop:
        k = builder.add(done, loop.index)
        place = builder.add(
            builder.mul(builder.lshr(k, INDEX(1)), INDEX(2 * lanes)), builder.and_(k, INDEX(1))
        )
        for j, row in enumerate(rows):
            value = builder.sext(builder.load(builder.gep(row, [k])), SHORT)
            builder.store(value, builder.gep(packed, [builder.add(place, INDEX(2 * j))]))
    with builder.if_then(builder.trunc(size, TRUTH)):
        place = builder.mul(builder.lshr(size, INDEX(1)), INDEX(2 * lanes))
        for j in range(lanes):
            builder.store(SHORT(0), builder.gep(packed, [builder.add(place, INDEX(2 * j + 1))]))


def _pack_pairs(builder, packed, rows, k, count: int) -> None:
    """`count` pairs from input k on."""
    pairs, lanes = ir.VectorType(SHORT, count), len(rows)
    own = [load(builder, pairs, builder.gep(row, [k])) for row in rows]
    place = builder.gep(packed, [builder.mul(k, INDEX(lanes))])
    for first in range(0, lanes, 8):
        for pair, line in enumerate(_transposed(builder, own[first : first + 8])[:count]):
            value = builder.sext(builder.bitcast(line, ir.VectorType(BYTE, 16)), SIXTEEN)
            store(builder, value, builder.gep(place, [INDEX(2 * (lanes * pair + first))]))


def _transposed(builder, rows):
    """Eight vectors of eight, or of four: the second half of the result is then the first one once more."""
    if rows[0].type.count == 4:
        rows = [shuffled(builder, r, r, (0, 1, 2, 3, 0, 1, 2, 3)) for r in rows]
    low = [n for k in range(4) for n in (k, 8 + k)]
    for _ in range(3):
        found = []
        for a, b in zip(rows[:4], rows[4:], strict=True):
            found += [shuffled(builder, a, b, low), shuffled(builder, a, b, [n + 4 for n in low])]
        rows = found
    return rows


def _widen(builder, widened, x, size) -> None:
    """Four rows of x as int16, each in `MOST_INPUTS` places; an odd number of inputs ends with a 0."""
    rows = [builder.gep(x, [builder.mul(INDEX(p), size)]) for p in range(PIXELS)]
    outs = [builder.gep(widened, [INDEX(p * MOST_INPUTS)]) for p in range(PIXELS)]
    with cgutils.for_range(builder, builder.lshr(size, INDEX(3))) as loop:
        _widen_some(builder, outs, rows, builder.shl(loop.index, INDEX(3)), 8)
    done = builder.and_(size, INDEX(-8))
    with cgutils.for_range(builder, builder.and_(size, INDEX(7))) as loop:
        _widen_some(builder, outs, rows, builder.add(done, loop.index), 1)
    with builder.if_then(builder.trunc(size, TRUTH)):
        for out in outs:
            builder.store(SHORT(0), builder.gep(out, [size]))


def _widen_some(builder, outs, rows, k, count: int) -> None:
    for out, row in zip(outs, rows, strict=True):
        value = load(builder, ir.VectorType(row.type.pointee, count), builder.gep(row, [k]))
        wide = ir.VectorType(SHORT, count)
        store(builder, value if value.type == wide else builder.sext(value, wide), builder.gep(out, [k]))


def _totals(builder, target, places, bias, size):
    """Sums <8 x i32>: for every eight channels a list of those of every pixel."""
    (packed, widened), lanes = places, 8 * len(bias)
    sums = [[cgutils.alloca_once(builder, EIGHT) for _ in range(PIXELS)] for _ in bias]
    for start, some in zip(bias, sums, strict=True):
        for one in some:
            builder.store(start, one)
    pairs = builder.lshr(builder.add(size, INDEX(1)), INDEX(1))
    with cgutils.for_range(builder, pairs) as loop:
        place = builder.gep(packed, [builder.mul(loop.index, INDEX(2 * lanes))])
        weights = [load(builder, SIXTEEN, builder.gep(place, [INDEX(16 * h)])) for h in range(len(bias))]
        for p in range(PIXELS):
            pair = builder.gep(
                widened, [builder.add(builder.shl(loop.index, INDEX(1)), INDEX(p * MOST_INPUTS))]
            )
            pair = builder.load(builder.bitcast(pair, WORD.as_pointer()), align=2)
            pair = builder.bitcast(spread(builder, pair, EIGHT), SIXTEEN)
            for w, some in zip(weights, sums, strict=True):
                found = pairs_of_products(builder, target, pair, w)
                builder.store(builder.add(builder.load(some[p]), found), some[p])
    return [[builder.load(one) for one in some] for some in sums]
