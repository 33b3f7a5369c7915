"""Products of int8 codes in register tiles, written as LLVM instructions.

A tile is two rows of x times four rows of w: both are contiguous in k, so the eight sums are vectors that run
over k and are added up at the end. Pairs of 16-bit products with their sum are one instruction of x86. 64-bit
ARM processors have tiles of their own.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_arm_tiles import arm_strip
from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.vectors import (
    INDEX,
    SHORT,
    WORD,
    blocks,
    joined,
    load,
    pairs_of_products,
    parts,
    pointers,
    shuffled,
    store,
    target_of,
)

ROWS, COLUMNS = 2, 4
FOUR, EIGHT = ir.VectorType(WORD, COLUMNS), ir.VectorType(WORD, 8)


@intrinsic
def product_strip(typing, arrays, sizes, channel, zero):
    """Codes of all pixels and of four output channels from `channel` on, two pixels at a time.

    `arrays`: (y, x, w, b, factor, shift), flat; x is int8 or int16. `sizes`: pixels (at least four), k, and
    the number of channels. For an odd number of pixels the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        channel, zero = arguments[2:]
        first = builder.gep(w, [builder.mul(channel, size)])
        columns = [builder.gep(first, [builder.mul(INDEX(j), size)]) for j in range(COLUMNS)]
        target = target_of(context)
        numbers = [load(builder, FOUR, builder.gep(a, [channel])) for a in scaled]
        if target.arm:
            arm_strip(builder, target, (y, x, first, channel), (m, size, n), (*numbers, zero))
            return context.get_dummy_value()
        b, factor, shift = (joined(builder, [four, four]) for four in numbers)
        rescaling = Rescaling(builder, target, factor, shift, zero)
        with blocks(builder, m, ROWS) as start:
            places = [builder.add(start, INDEX(i)) for i in range(ROWS)]
            rows = [builder.gep(x, [builder.mul(i, size)]) for i in places]
            totals = _totals(builder, target, (rows, columns), size)
            codes = rescaling.codes(builder, [builder.add(totals, b)])
            for place, own in zip(places, parts(builder, codes, COLUMNS), strict=True):
                store(builder, own, builder.gep(y, [builder.add(builder.mul(place, n), channel)]))
        return context.get_dummy_value()

    return types.void(arrays, sizes, channel, zero), emit


def _totals(builder, target, lines, size):
    """<8 x i32>: the sums of products of every row with every column, row by row."""
    rows, columns = lines
    sums = [cgutils.alloca_once(builder, EIGHT) for _ in range(ROWS * COLUMNS)]
    for one in sums:
        builder.store(ir.Constant(EIGHT, None), one)
    sixteens = builder.lshr(size, INDEX(4))
    with cgutils.for_range(builder, sixteens) as loop:
        k = builder.shl(loop.index, INDEX(4))
        _add_products(builder, target, sums, lines, (k, 16))
    done = builder.and_(size, INDEX(-16))
    with builder.if_then(builder.icmp_unsigned("!=", builder.and_(size, INDEX(8)), INDEX(0))):
        _add_products(builder, target, sums, lines, (done, 8))
    done = builder.and_(size, INDEX(-8))
    with cgutils.for_range(builder, builder.sub(size, done)) as loop:
        k = builder.add(done, loop.index)
        xs, ws = ([builder.sext(builder.load(builder.gep(p, [k])), WORD) for p in s] for s in (rows, columns))
        for one, (a, b) in zip(sums, ((a, b) for a in xs for b in ws), strict=True):
            alone = builder.insert_element(ir.Constant(EIGHT, None), builder.mul(a, b), WORD(0))
            builder.store(builder.add(builder.load(one), alone), one)
    return _added_up(builder, [builder.load(one) for one in sums])


def _add_products(builder, target, sums, lines, span):
    k, count = span
    narrow = ir.VectorType(SHORT, count)

    def widened(pointer):
        value = load(builder, ir.VectorType(pointer.type.pointee, count), builder.gep(pointer, [k]))
        return value if value.type == narrow else builder.sext(value, narrow)

    xs, ws = ([widened(p) for p in line] for line in lines)
    for one, (a, b) in zip(sums, ((a, b) for a in xs for b in ws), strict=True):
        pairs = pairs_of_products(builder, target, a, b)
        if count == 8:
            pairs = shuffled(builder, pairs, ir.Constant(pairs.type, None), range(8))
        builder.store(builder.add(builder.load(one), pairs), one)


def _added_up(builder, vectors):
    """<8 x i32>: the sum over each of eight vectors <8 x i32>."""
    even, odd = (0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15)
    for _ in range(2):  # neighbours, in each half of a register alone
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [builder.add(shuffled(builder, a, b, even), shuffled(builder, a, b, odd)) for a, b in pairs]
    a, b = vectors
    low, high = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
    return builder.add(shuffled(builder, a, b, low), shuffled(builder, a, b, high))
