"""Products of int8 codes in register tiles for 64-bit ARM processors, written as LLVM instructions.

A tile is four rows of x times four rows of w, which are contiguous in k. Two products of bytes fit 16 bits
together, because no weight is -128; their sums are added to sums of 32 bits in pairs.
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
    WORD,
    blocks,
    call,
    load,
    parts,
    pointers,
    spread,
    store,
    target_of,
)

ROWS, COLUMNS = 4, 4
FOUR, EIGHT_SHORTS = ir.VectorType(WORD, 4), ir.VectorType(SHORT, 8)


@intrinsic
def product_strip(typing, arrays, sizes, channel, zero):
    """Codes of all pixels and of four output channels from `channel` on; nothing for other processors.

    `arrays`: (y, x, w, b, factor, shift), flat; x is int8 or int16. `sizes`: pixels (at least four), k (at
    least eight), and the number of channels. If the pixels are no multiple of four, the last tile overlaps
    with the one before.
    """

    def emit(context, builder, signature, arguments):
        target = target_of(context)
        if not target.arm:
            return context.get_dummy_value()
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, *scaled = pointers(context, builder, signature.args[0], arrays)
        channel, zero = arguments[2:]
        bias, *scale = (load(builder, FOUR, builder.gep(a, [channel])) for a in scaled)
        rescaling = Rescaling(builder, target, *scale, zero)
        first = builder.gep(w, [builder.mul(channel, size)])
        columns = [builder.gep(first, [builder.mul(INDEX(j), size)]) for j in range(COLUMNS)]
        sums = [[cgutils.alloca_once(builder, FOUR) for _ in range(COLUMNS)] for _ in range(ROWS)]
        with blocks(builder, m, ROWS) as start:
            places = [builder.add(start, INDEX(i)) for i in range(ROWS)]
            rows = [builder.gep(x, [builder.mul(place, size)]) for place in places]
            _add_up(builder, sums, (rows, columns), size)
            totals = [builder.add(_across(builder, [builder.load(one) for one in row]), bias) for row in sums]
            made = parts(builder, rescaling.codes(builder, totals), COLUMNS)
            for place, codes in zip(places, made, strict=True):
                store(builder, codes, builder.gep(y, [builder.add(builder.mul(place, n), channel)]))
        return context.get_dummy_value()

    return types.void(arrays, sizes, channel, zero), emit


def _add_up(builder, sums, lines, size) -> None:
    for row in sums:
        for one in row:
            builder.store(ir.Constant(FOUR, None), one)
    step = 16 if lines[0][0].type.pointee == BYTE else 8
    with cgutils.for_range(builder, builder.udiv(size, INDEX(step))) as loop:
        _add_some(builder, sums, lines, builder.mul(loop.index, INDEX(step)), step)
    if step == 16:
        with builder.if_then(builder.icmp_unsigned("!=", builder.and_(size, INDEX(8)), INDEX(0))):
            _add_some(builder, sums, lines, builder.and_(size, INDEX(-16)), 8)
    left = builder.and_(size, INDEX(7))
    with builder.if_then(builder.icmp_unsigned("!=", left, INDEX(0)), likely=False):
        # The last eight, with weights of 0 for those that were added before.
        known = spread(builder, builder.trunc(builder.sub(INDEX(8), left), BYTE), ir.VectorType(BYTE, 8))
        new = builder.icmp_signed(">=", ir.Constant(known.type, list(range(8))), known)
        _add_some(builder, sums, lines, builder.sub(size, INDEX(8)), 8, new)


def _add_some(builder, sums, lines, k, count: int, new=None) -> None:
    """`count` products from k on of every row with every column; only those of lanes that are `new`."""
    xs, ws = (
        [load(builder, ir.VectorType(p.type.pointee, count), builder.gep(p, [k])) for p in line]
        for line in lines
    )
    if new is not None:
        ws = [builder.select(new, w, ir.Constant(w.type, None)) for w in ws]
    for x, row in zip(xs, sums, strict=True):
        for w, one in zip(ws, row, strict=True):
            add = _add_bytes if x.type.element == BYTE else _add_shorts
            builder.store(add(builder, builder.load(one), x, w), one)


def _add_bytes(builder, total, x, w):
    products = [
        builder.mul(builder.sext(a, EIGHT_SHORTS), builder.sext(b, EIGHT_SHORTS))
        for a, b in zip(parts(builder, x, 8), parts(builder, w, 8), strict=True)
    ]
    both = builder.add(*products) if len(products) == 2 else products[0]
    return builder.add(total, call(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", FOUR, both))


def _add_shorts(builder, total, x, w):
    w = builder.sext(w, EIGHT_SHORTS)
    for a, b in zip(parts(builder, x, 4), parts(builder, w, 4), strict=True):
        total = builder.add(total, builder.mul(builder.sext(a, FOUR), builder.sext(b, FOUR)))
    return total


def _across(builder, vectors):
    """The sums over each of four vectors."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [call(builder, "llvm.aarch64.neon.addp.v4i32", FOUR, a, b) for a, b in pairs]
    return vectors[0]
