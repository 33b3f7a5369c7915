"""A block of `int8_blocks` for 64-bit ARM processors: eight channels in lanes, two of them for each sum.

An instruction loads eight neighbouring codes of a pixel and spreads them in pairs over four registers, where
they meet the weights of the same inputs. Two products of bytes fit 16 bits together, because no weight is
-128; pairs of such sums are added to sums of 32 bits. Codes of int16 meet the weights one by one. What is
packed lies on the stack: 16 bytes for each input, 64 kB at most.
"""

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    WORD,
    call,
    constant,
    load,
    parts,
    pinned,
    room,
    spread,
    store,
)

LANES, GROUP = 8, 8  # channels, inputs
LEAST_INPUTS, MOST_INPUTS = GROUP, 4096
SHORTS, CODES, FOUR = ir.VectorType(SHORT, 8), ir.VectorType(BYTE, 16), ir.VectorType(WORD, 4)
QUARTET = ir.LiteralStructType([SHORTS] * 4)


class ArmBlock:
    """Weights of eight channels and inputs of some pixels; the methods are those of a block for x86."""

    lanes, pixels, kind = LANES, (8, 4), ir.VectorType(WORD, LANES)

    def __init__(self, builder, wide: bool):
        self.builder, self.wide = builder, wide
        self.packed = room(builder, SHORT if wide else BYTE, LANES * MOST_INPUTS)

    def pack(self, w, size, bias):
        """Of rows of w, `size` long, for every group of inputs those of all channels. Gives the bias."""
        builder, left = self.builder, self.builder.and_(size, INDEX(GROUP - 1))
        whole = builder.sub(size, left)
        with cgutils.for_range(builder, builder.udiv(size, INDEX(GROUP))) as loop:
            start = builder.mul(loop.index, INDEX(GROUP))
            self._pack_some(start, self._pairs(w, size, start))
        with builder.if_then(builder.icmp_unsigned("!=", left, INDEX(0)), likely=False):
            # The last eight, with weights of 0 for those that were added before.
            known = spread(builder, builder.trunc(builder.sub(INDEX(GROUP), left), BYTE), CODES)
            pairs = self._pairs(w, size, builder.sub(size, INDEX(GROUP)))
            for k, pair in enumerate(pairs):
                inputs = ir.Constant(CODES, [2 * k, 2 * k + 1] * LANES)
                new = builder.icmp_signed(">=", inputs, known)
                pairs[k] = builder.select(new, pair, ir.Constant(CODES, None))
            self._pack_some(whole, pairs)
        return bias

    def _pairs(self, w, size, start):
        """Eight inputs of all channels: four vectors of two neighbours for each channel."""
        builder, found = self.builder, ir.Constant(QUARTET, ir.Undefined)
        for lane in range(LANES):
            place = builder.gep(w, [builder.add(builder.mul(INDEX(lane), size), start)])
            before = [builder.extract_value(found, k) for k in range(4)]
            place = builder.bitcast(place, SHORT.as_pointer())
            found = call(builder, "llvm.aarch64.neon.ld4lane.v8i16.p0", QUARTET, *before, INDEX(lane), place)
        return [builder.bitcast(builder.extract_value(found, k), CODES) for k in range(4)]

    def _pack_some(self, start, pairs) -> None:
        builder, place = self.builder, self.builder.gep(self.packed, [self.builder.mul(start, INDEX(LANES))])
        if self.wide:
            by, pairs = constant(SHORTS, 8), [builder.bitcast(pair, SHORTS) for pair in pairs]
            pairs = [builder.ashr(v, by) for pair in pairs for v in (builder.shl(pair, by), pair)]
        for k, vector in enumerate(pairs):
            store(builder, vector, builder.gep(place, [INDEX((8 if self.wide else 16) * k)]))

    def totals(self, x, bias, size, count: int):
        """The sums of every pixel, of `count` rows of x."""
        builder, sums = self.builder, []
        for _ in range(count):
            sums.append([cgutils.alloca_once(builder, FOUR) for _ in range(2)])
            for one, part in zip(sums[-1], parts(builder, bias, 4), strict=True):
                builder.store(part, one)
        places = (builder.gep(x, [builder.mul(INDEX(p), size)]) for p in range(count))
        places = [cgutils.alloca_once_value(builder, place) for place in places]
        groups = builder.udiv(builder.add(size, INDEX(GROUP - 1)), INDEX(GROUP))
        with cgutils.for_range(builder, groups) as loop:
            start = builder.mul(loop.index, INDEX(GROUP))
            left = builder.sub(size, builder.add(start, INDEX(GROUP)))
            packed = builder.gep(self.packed, [builder.mul(start, INDEX(LANES))])
            # Otherwise LLVM adds to every row where the group begins.
            rows = [pinned(builder, builder.load(place), "r") for place in places]
            (self._add_shorts if self.wide else self._add_bytes)(sums, rows, packed)
            # The last eight may begin among those before.
            step = builder.select(builder.icmp_signed("<", left, INDEX(GROUP)), left, INDEX(GROUP))
            for place, row in zip(places, rows, strict=True):
                builder.store(builder.gep(row, [step]), place)
        halves = [[builder.load(one) for one in pixel] for pixel in sums]
        return [builder.shuffle_vector(*pixel, ir.Constant(self.kind, list(range(8)))) for pixel in halves]

    def _add_bytes(self, sums, rows, place) -> None:
        builder = self.builder
        weights = [load(builder, CODES, builder.gep(place, [INDEX(16 * k)])) for k in range(4)]
        weights = [[builder.sext(half, SHORTS) for half in parts(builder, v, 8)] for v in weights]
        found = [self._spread(rows[0])]
        for row, pixel in zip([*rows[1:], None], sums, strict=True):
            found += [row and self._spread(row)]
            codes = found.pop(0)
            for half, one in enumerate(pixel):
                total = builder.load(one)
                for k in (0, 2):
                    both = [builder.mul(codes[n][half], weights[n][half]) for n in (k, k + 1)]
                    both = call(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", FOUR, builder.add(*both))
                    total = builder.add(total, both)
                builder.store(pinned(builder, total), one)

    def _spread(self, row):
        """Eight codes of a pixel in pairs: four vectors, each in two halves."""
        builder, row = self.builder, self.builder.bitcast(row, SHORT.as_pointer())
        four = call(builder, "llvm.aarch64.neon.ld4r.v8i16.p0", QUARTET, row)
        codes = (builder.bitcast(builder.extract_value(four, k), CODES) for k in range(4))
        return [[builder.sext(half, SHORTS) for half in parts(builder, v, 8)] for v in codes]

    def _add_shorts(self, sums, rows, place) -> None:
        builder = self.builder
        codes = [load(builder, SHORTS, row) for row in rows]
        for k in range(GROUP):
            weights = parts(builder, load(builder, SHORTS, builder.gep(place, [INDEX(8 * k)])), 4)
            for values, pixel in zip(codes, sums, strict=True):
                own = builder.shuffle_vector(values, values, ir.Constant(FOUR, [k] * 4))
                for half, one in zip(weights, pixel, strict=True):
                    more = call(builder, "llvm.aarch64.neon.smull.v4i32", FOUR, half, own)
                    builder.store(builder.add(builder.load(one), more), one)
