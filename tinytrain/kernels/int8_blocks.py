"""Products of int8 codes in blocks of output channels, written as LLVM instructions.

The weights of a block are packed once for all pixels: groups of neighbouring inputs lie side by side for
every channel. So a group of inputs, spread over a register, meets the weights of all channels, and the sums
need not be added up at the end.

A group has 32 bits: two inputs as int16, or four bytes for x86 processors that add up four products of bytes
in one instruction. That multiplies a byte without a sign by one with a sign. So 128 is added to every code
of x, and 128 times the sum of its weights taken from the sum of a channel. What is packed lies on the stack:
15 kB at most. Groups of 64-bit ARM processors are those of `int8_arm_tiles`.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_arm_tiles import LEAST_INPUTS, ArmBlock
from tinytrain.kernels.int8_arm_tiles import MOST_INPUTS as MOST_ON_ARM
from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    TRUTH,
    WORD,
    add_dots,
    blocks,
    constant,
    joined,
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

MOST_INPUTS = 640
SIGNS = 0x80808080  # what turns four codes into bytes without a sign


@intrinsic
def takes_blocks(typing, size):
    """Whether there are blocks for `size` inputs."""

    def emit(context, builder, signature, arguments):
        target, (size,) = target_of(context), arguments
        least, most = (LEAST_INPUTS, MOST_ON_ARM) if target.arm else (0, MOST_INPUTS if target.x86 else -1)
        enough = builder.icmp_signed(">=", size, INDEX(least))
        return builder.and_(enough, builder.icmp_signed("<=", size, INDEX(most)))

    return types.boolean(size), emit


@intrinsic
def takes_dots(typing):
    """Whether blocks may have dot products."""

    def emit(context, builder, signature, arguments):
        return TRUTH(target_of(context).dots)

    return types.boolean(), emit


def product_block(dots: bool = False):
    """Intrinsic for the codes of all pixels and of eight output channels, with `dots` of sixteen.

    ``f(arrays, sizes, channel, zero)``:

    - `arrays`: (y, x, w, b, factor, shift); x is int8 or int16.
    - `sizes`: numbers of pixels (at least 4), of inputs (so many that it `takes_blocks`; with `dots` a
      multiple of 4) and of all channels.
    - `channel`: the first one.

    If the number of pixels is no multiple of those of a tile, the last tile overlaps with the one before.
    Nothing is written for other processors, and with `dots` for those without and for int16.
    """

    def emit(context, builder, signature, arguments):
        kinds, target = signature.args[0], target_of(context)
        narrow = kinds[1].dtype == types.int8
        if not (target.dots and narrow if dots else target.x86 or target.arm):
            return context.get_dummy_value()
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        channel, zero = arguments[2:]
        block = ArmBlock(builder, not narrow) if target.arm else _Block(builder, target, dots)
        bias, *scale = (load(builder, block.kind, builder.gep(a, [channel])) for a in scaled)
        rescaling = Rescaling(builder, target, *scale, zero)
        bias = block.pack(builder.gep(w, [builder.mul(channel, size)]), size, bias)
        fewer = TRUTH(1)
        for count in block.pixels:
            fits = builder.and_(fewer, builder.icmp_signed(">=", m, INDEX(count)))
            with builder.if_then(fits, likely=True), blocks(builder, m, count) as start:
                rows = builder.gep(x, [builder.mul(start, size)])
                place = builder.gep(y, [builder.add(builder.mul(start, n), channel)])
                for codes in _codes(builder, rescaling, block.totals(rows, bias, size, count)):
                    store(builder, codes, place)
                    place = builder.gep(place, [n])
            fewer = builder.not_(fits)
        return context.get_dummy_value()

    @intrinsic
    def compute(typing, arrays, sizes, channel, zero):
        return types.void(arrays, sizes, channel, zero), emit

    return compute


def _codes(builder, rescaling, totals):
    """Of every pixel; 32 are made at once."""
    lanes = totals[0].type.count
    some = 32 // lanes
    together = (rescaling.codes(builder, totals[p : p + some]) for p in range(0, len(totals), some))
    return [codes for both in together for codes in parts(builder, both, lanes)]


class _Block:
    """Weights of `lanes` channels and inputs of some pixels in groups."""

    def __init__(self, builder, target, dots: bool):
        self.builder, self.target, self.dots = builder, target, dots
        kind = (BYTE, 4, 16, (8, 4)) if dots else (SHORT, 2, 8, (4,))
        self.item, self.group, self.lanes, self.pixels = kind
        self.kind = ir.VectorType(WORD, self.lanes)
        self.words = MOST_INPUTS // self.group  # of a channel or pixel
        rooms = self.lanes, self.pixels[0]
        self.packed, self.widened = (room(builder, WORD, n * self.words) for n in rooms)

    def pack(self, w, size, bias):
        """Of rows of w, `size` long, for every group those of all channels. Gives the bias of sums."""
        builder, self.bias = self.builder, cgutils.alloca_once(self.builder, self.kind)
        builder.store(bias, self.bias)
        rows = [builder.gep(w, [builder.mul(INDEX(j), size)]) for j in range(self.lanes)]
        with cgutils.for_range(builder, builder.lshr(size, INDEX(4))) as loop:
            self._pack_some(rows, builder.shl(loop.index, INDEX(4)), 16)
        if self.dots:
            with cgutils.for_range(builder, builder.lshr(builder.and_(size, INDEX(15)), INDEX(2))) as loop:
                k = builder.add(builder.and_(size, INDEX(-16)), builder.shl(loop.index, INDEX(2)))
                self._pack_some(rows, k, 4)
            return builder.load(self.bias)
        with builder.if_then(builder.trunc(builder.lshr(size, INDEX(3)), TRUTH)):
            self._pack_some(rows, builder.and_(size, INDEX(-16)), 8)
        shorts = builder.bitcast(self.packed, SHORT.as_pointer())
        with cgutils.for_range(builder, builder.and_(size, INDEX(7))) as loop:
            k = builder.add(builder.and_(size, INDEX(-8)), loop.index)
            self._pack_one(shorts, k, [builder.load(builder.gep(row, [k])) for row in rows])
        with builder.if_then(builder.trunc(size, TRUTH)):
            self._pack_one(shorts, size, [BYTE(0)] * self.lanes)
        return bias

    def _pack_one(self, shorts, k, values) -> None:
        """Input k of every channel."""
        builder, first = self.builder, self.builder.and_(k, INDEX(-2))
        first = builder.add(builder.mul(first, INDEX(self.lanes)), builder.and_(k, INDEX(1)))
        for j, value in enumerate(values):
            builder.store(builder.sext(value, SHORT), builder.gep(shorts, [builder.add(first, INDEX(2 * j))]))

    def _pack_some(self, rows, k, count: int) -> None:
        """`count` inputs from k on."""
        builder, lanes = self.builder, self.lanes
        kind = ir.VectorType(WORD if self.dots else SHORT, count // self.group)
        own = [load(builder, kind, builder.gep(row, [k])) for row in rows]
        place = builder.gep(self.packed, [builder.mul(builder.udiv(k, INDEX(self.group)), INDEX(lanes))])
        if self.dots:
            for g, four in enumerate(_transposed_words(builder, own)):
                store(builder, four, builder.gep(place, [INDEX(lanes * g)]))
                own = add_dots(builder, ir.Constant(four.type, None), constant(four.type, SIGNS), four)
                builder.store(builder.sub(builder.load(self.bias), own), self.bias)
            return
        for g, line in enumerate(_transposed(builder, own)[: kind.count]):
            pairs = builder.sext(builder.bitcast(line, ir.VectorType(BYTE, 16)), ir.VectorType(SHORT, 16))
            store(builder, pairs, builder.gep(place, [INDEX(lanes * g)]))

    def _widen(self, x, size, count: int) -> None:
        """`count` rows of x in groups; an odd number of inputs ends with a 0. Bytes lie side by side."""
        builder, rows, step, length = self.builder, count, 8, size
        if self.dots:
            rows, step, length = 1, 4 * count, builder.mul(size, INDEX(count))
        lines = []
        for p in range(rows):
            out = builder.bitcast(builder.gep(self.widened, [INDEX(p * self.words)]), self.item.as_pointer())
            lines.append((builder.gep(x, [builder.mul(INDEX(p), size)]), out))
        with cgutils.for_range(builder, builder.udiv(length, INDEX(step))) as loop:
            self._widen_some(lines, builder.mul(loop.index, INDEX(step)), step)
        if self.dots:
            return
        done = builder.and_(size, INDEX(-step))
        with cgutils.for_range(builder, builder.sub(size, done)) as loop:
            self._widen_some(lines, builder.add(done, loop.index), 1)
        with builder.if_then(builder.trunc(size, TRUTH)):
            for _, out in lines:
                builder.store(SHORT(0), builder.gep(out, [size]))

    def _widen_some(self, lines, k, count: int) -> None:
        builder, kind = self.builder, ir.VectorType(self.item, count)
        for row, out in lines:
            value = load(builder, ir.VectorType(row.type.pointee, count), builder.gep(row, [k]))
            if self.dots:
                value = builder.xor(value, constant(kind, -128))
            store(builder, value if value.type == kind else builder.sext(value, kind), builder.gep(out, [k]))

    def totals(self, x, bias, size, count: int):
        """The sums of every pixel, of `count` rows of x."""
        self._widen(x, size, count)
        builder, sums = self.builder, [cgutils.alloca_once(self.builder, self.kind) for _ in range(count)]
        for one in sums:
            builder.store(bias, one)
        groups = builder.udiv(builder.add(size, INDEX(self.group - 1)), INDEX(self.group))
        step = groups if self.dots else INDEX(self.words)
        with cgutils.for_range(builder, groups) as loop:
            place = builder.gep(self.packed, [builder.mul(loop.index, INDEX(self.lanes))])
            weights = load(builder, self.kind, place)
            for p, one in enumerate(sums):
                at = builder.add(loop.index, builder.mul(INDEX(p), step))
                inputs = spread(builder, builder.load(builder.gep(self.widened, [at])), self.kind)
                builder.store(self._added(builder.load(one), inputs, weights), one)
        return [builder.load(one) for one in sums]

    def _added(self, total, inputs, weights):
        if self.dots:
            return add_dots(self.builder, total, inputs, weights)
        shorts = ir.VectorType(SHORT, 2 * self.lanes)
        inputs, weights = (self.builder.bitcast(v, shorts) for v in (inputs, weights))
        return self.builder.add(total, pairs_of_products(self.builder, self.target, inputs, weights))


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


def _transposed_words(builder, rows):
    """Sixteen vectors of four as four of sixteen, or of one as one."""
    if rows[0].type.count == 1:
        return [joined(builder, rows)]
    found = [joined(builder, rows[j : j + 4]) for j in range(0, 16, 4)]  # number 4 * row + input
    halves = []  # of eight rows: inputs 0 and 1, and inputs 2 and 3
    for a, b in (found[:2], found[2:]):
        lanes = [16 * (j // 4) + 4 * (j % 4) for j in range(8)]
        halves.append([shuffled(builder, a, b, [n + i + k for k in (0, 1) for n in lanes]) for i in (0, 2)])
    whole = []
    for a, b in zip(*halves, strict=True):
        whole += [shuffled(builder, a, b, [*range(i, i + 8), *range(i + 16, i + 24)]) for i in (0, 8)]
    return whole
