"""Taps of the depthwise tiles of `int8_depthwise` for 64-bit ARM processors.

Two neighbouring products of bytes of a row fit 16 bits together, because no weight is -128; their sums are
added to sums of 32 bits. Rows outside of the image are not read: for each row of taps it is known what they
add up to.
"""

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels import vectors as v

CHANNELS = 16
CODES, SHORTS, WORDS = (ir.VectorType(kind, CHANNELS) for kind in (v.BYTE, v.SHORT, v.WORD))
EIGHT = ir.VectorType(v.SHORT, 8)


class ArmTaps:
    """Of a filter of `size` x `size` taps, `stride` pixels apart; the methods are those of taps for x86."""

    lanes = 4  # channels of a sum

    def __init__(self, builder, shape, fill):
        self.builder, self.fill, (self.size, self.stride) = builder, fill, shape
        self.kept = v.room(builder, v.WORD, CHANNELS * self.size)
        self.outside = v.room(builder, v.BYTE, CHANNELS)
        v.store(builder, v.spread(builder, fill, CODES), self.outside)

    def pack(self, w, channels, bias) -> None:
        """Keep, for each row of taps, what it adds up to outside of the image."""
        builder, self.w, self.bias = self.builder, w, bias
        fill = v.spread(builder, builder.sext(self.fill, v.WORD), WORDS)
        with cgutils.for_range(builder, v.INDEX(self.size)) as rows:
            first = builder.gep(w, [builder.mul(rows.index, builder.mul(channels, v.INDEX(self.size)))])
            taps = self._taps(first, channels, range(self.size))
            total = builder.sext(taps[0], SHORTS)
            for tap in taps[1:]:
                total = builder.add(total, builder.sext(tap, SHORTS))
            v.store(builder, builder.mul(builder.sext(total, WORDS), fill), self._row(rows.index))

    def _row(self, row):
        return self.builder.gep(self.kept, [self.builder.mul(row, v.INDEX(CHANNELS))])

    def _taps(self, line, channels, taps):
        places = (self.builder.gep(line, [self.builder.mul(channels, v.INDEX(t))]) for t in taps)
        return [v.load(self.builder, CODES, place) for place in places]

    def start(self, row, height):
        """What the sums of pixels begin with whose first row of taps is `row` of the image."""
        builder, total = self.builder, cgutils.alloca_once_value(self.builder, self.bias)
        with cgutils.for_range(builder, v.INDEX(self.size)) as loop:
            inside = builder.icmp_unsigned("<", builder.add(row, loop.index), height)
            with builder.if_then(builder.not_(inside)):
                more = v.load(builder, WORDS, self._row(loop.index))
                builder.store(builder.add(builder.load(total), more), total)
        return v.parts(builder, builder.load(total), self.lanes)

    def add(self, sums, x, sizes, place) -> None:
        """To the `sums` of neighbouring pixels; the first tap of the first one is at `place`."""
        builder, (height, width, channels), (row, column) = self.builder, sizes, place
        last = builder.sub(height, row)
        last = builder.select(builder.icmp_signed("<", last, v.INDEX(self.size)), last, v.INDEX(self.size))
        first = builder.sub(v.INDEX(0), row)
        first = builder.select(builder.icmp_signed("<", first, v.INDEX(0)), v.INDEX(0), first)
        with cgutils.for_range(builder, last, first) as loop:
            at = builder.add(builder.mul(builder.add(row, loop.index), width), column)
            # Otherwise LLVM moves a pointer to each column and tap from row to row.
            line = v.pinned(builder, builder.gep(x, [builder.mul(at, channels)]), "r")
            at = builder.mul(loop.index, builder.mul(channels, v.INDEX(self.size)))
            taps = v.pinned(builder, builder.gep(self.w, [at]), "r")
            self._add_row(sums, self._places(line, (column, width, channels), len(sums)), taps, channels)

    def _places(self, line, where, pixels: int):
        """Of all codes of a row that pixels meet."""
        builder, (column, width, channels) = self.builder, where
        span, places = (pixels - 1) * self.stride + self.size, []
        for i in range(span):
            places.append(builder.gep(line, [builder.mul(v.INDEX(i), channels)]))
            if not self.size // 2 <= i < span - self.size // 2:
                inside = builder.icmp_unsigned("<", builder.add(column, v.INDEX(i)), width)
                places[i] = builder.select(inside, places[i], self.outside)
        return places

    def _add_row(self, sums, places, w, channels) -> None:
        builder = self.builder
        for tap in range(0, self.size, 2):
            some = range(tap, min(tap + 2, self.size))
            weights, codes = self._taps(w, channels, some), {}
            for p, pixel in enumerate(sums):
                read = [p * self.stride + t for t in some]
                codes = {i: codes.get(i) or v.load(builder, CODES, places[i]) for i in read}
                pairs = [(codes[i], one) for i, one in zip(read, weights, strict=True)]
                for k, half in enumerate(self._products(pairs)):
                    for one, more in zip(pixel[2 * k : 2 * k + 2], v.parts(builder, half, 4), strict=True):
                        total = builder.add(builder.load(one), builder.sext(more, one.type.pointee))
                        builder.store(v.pinned(builder, total), one)

    def _products(self, pairs):
        """Sums of products of 16 bits, in two halves."""
        builder, halves = self.builder, []
        for first in (0, 8):
            products = [
                builder.mul(
                    *(builder.sext(v.shuffled(builder, a, a, range(first, first + 8)), EIGHT) for a in pair)
                )
                for pair in pairs
            ]
            halves.append(builder.add(*products) if len(products) == 2 else products[0])
        return halves
