"""Products of int8 codes for x86 processors that add up four products of bytes in one instruction.

That instruction multiplies a byte without a sign by one with a sign. So 128 is added to every code of x, and
128 times the sum of its weights taken from the sum of a channel. The weights of sixteen channels are packed
once for all pixels: four inputs of every channel lie side by side. What is packed lies on the stack: 15 kB
at most.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    TRUTH,
    WORD,
    add_dots,
    blocks,
    constant,
    joined,
    load,
    pointers,
    room,
    shuffled,
    spread,
    store,
    target_of,
)

LANES, PIXELS, MOST_INPUTS = 16, (8, 4), 640
SIXTEEN = ir.VectorType(WORD, LANES)
SIGNS = 0x80808080  # what turns four codes into bytes without a sign


@intrinsic
def takes_dots(typing):
    """Whether the processor that is compiled for has what `product_dots` needs."""

    def emit(context, builder, signature, arguments):
        return TRUTH(target_of(context).dots)

    return types.boolean(), emit


@intrinsic
def product_dots(typing, arrays, sizes, channel, zero):
    """The codes of all pixels and of sixteen output channels from `channel` on.

    `arrays`: (y, x, w, b, factor, shift), flat; x is int8. `sizes`: numbers of pixels (at least 4), of
    inputs (a multiple of 4, at most `MOST_INPUTS`) and of all channels. The last tile may overlap with the
    one before. Nothing is written for a processor without the instruction.
    """

    def emit(context, builder, signature, arguments):
        target, kinds = target_of(context), signature.args[0]
        if not target.dots or kinds[1].dtype != types.int8:
            return context.get_dummy_value()
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        channel, zero = arguments[2:]
        packed, biased = (
            room(builder, BYTE, LANES * MOST_INPUTS),
            room(builder, BYTE, PIXELS[0] * MOST_INPUTS),
        )
        bias, factor, shift = (load(builder, SIXTEEN, builder.gep(a, [channel])) for a in scaled)
        surplus = _pack(builder, packed, builder.gep(w, [builder.mul(channel, size)]), size)
        bias = builder.sub(bias, surplus)
        rescaling = Rescaling(builder, target, factor, shift, zero)
        many = builder.icmp_signed(">=", m, INDEX(PIXELS[0]))
        with builder.if_else(many, likely=True) as branches:
            for branch, count in zip(branches, PIXELS, strict=True):
                with branch, blocks(builder, m, count) as start:
                    _bias(builder, biased, builder.gep(x, [builder.mul(start, size)]), size, count)
                    totals = _totals(builder, (packed, biased), bias, size, count)
                    for p, total in enumerate(totals):
                        place = builder.add(builder.mul(builder.add(start, INDEX(p)), n), channel)
                        store(builder, rescaling.codes(builder, [total]), builder.gep(y, [place]))
        return context.get_dummy_value()

    return types.void(arrays, sizes, channel, zero), emit


def _pack(builder, packed, w, size):
    """Sixteen rows of w, `size` long: for every four inputs those of all rows. Gives 128 times their sums."""
    sums = cgutils.alloca_once(builder, SIXTEEN)
    builder.store(ir.Constant(SIXTEEN, None), sums)
    rows = [builder.gep(w, [builder.mul(INDEX(j), size)]) for j in range(LANES)]

    def keep(k, fours):
        place, signs = builder.gep(packed, [builder.mul(k, INDEX(LANES))]), constant(SIXTEEN, SIGNS)
        for number, four in enumerate(fours):
            store(builder, four, builder.gep(place, [INDEX(4 * LANES * number)]))
            builder.store(add_dots(builder, builder.load(sums), signs, four), sums)

    with cgutils.for_range(builder, builder.lshr(size, INDEX(4))) as loop:
        k = builder.shl(loop.index, INDEX(4))
        keep(
            k,
            _transposed(builder, [load(builder, ir.VectorType(WORD, 4), builder.gep(r, [k])) for r in rows]),
        )
    done = builder.and_(size, INDEX(-16))
    with cgutils.for_range(builder, builder.lshr(builder.and_(size, INDEX(15)), INDEX(2))) as loop:
        k = builder.add(done, builder.shl(loop.index, INDEX(2)))
        four = ir.Constant(SIXTEEN, ir.Undefined)
        for j, row in enumerate(rows):
            own = builder.load(builder.bitcast(builder.gep(row, [k]), WORD.as_pointer()), align=1)
            four = builder.insert_element(four, own, WORD(j))
        keep(k, [four])
    return builder.load(sums)


def _transposed(builder, rows):
    """Sixteen vectors of four as four of sixteen."""
    found = [joined(builder, rows[j : j + 4]) for j in range(0, LANES, 4)]  # number 4 * row + input
    halves = []  # of eight rows: inputs 0 and 1, and inputs 2 and 3
    for a, b in (found[:2], found[2:]):
        lanes = [16 * (j // 4) + 4 * (j % 4) for j in range(8)]
        halves.append([shuffled(builder, a, b, [n + i + k for k in (0, 1) for n in lanes]) for i in (0, 2)])
    whole = []
    for a, b in zip(*halves, strict=True):
        whole += [shuffled(builder, a, b, [*range(i, i + 8), *range(i + 16, i + 24)]) for i in (0, 8)]
    return whole


def _bias(builder, biased, x, size, count: int) -> None:
    """`count` rows of x, which lie side by side, without a sign."""
    step = 4 * count  # divides what there is, because four divides `size`
    vector = ir.VectorType(BYTE, step)
    with cgutils.for_range(builder, builder.lshr(size, INDEX(2))) as loop:
        at = builder.mul(loop.index, INDEX(step))
        value = builder.xor(load(builder, vector, builder.gep(x, [at])), constant(vector, -128))
        store(builder, value, builder.gep(biased, [at]))


def _totals(builder, places, bias, size, count: int):
    """For each of `count` pixels the sums of all channels."""
    packed, biased = places
    sums = [cgutils.alloca_once(builder, SIXTEEN) for _ in range(count)]
    for one in sums:
        builder.store(bias, one)
    with cgutils.for_range(builder, builder.lshr(size, INDEX(2))) as loop:
        k = builder.shl(loop.index, INDEX(2))
        weights = load(builder, SIXTEEN, builder.gep(packed, [builder.mul(k, INDEX(LANES))]))
        for p, one in enumerate(sums):
            own = builder.gep(biased, [builder.add(k, builder.mul(INDEX(p), size))])
            four = builder.load(builder.bitcast(own, WORD.as_pointer()), align=1)
            builder.store(add_dots(builder, builder.load(one), spread(builder, four, SIXTEEN), weights), one)
    return [builder.load(one) for one in sums]
