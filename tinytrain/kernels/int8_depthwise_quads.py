"""The taps of a depthwise convolution for x86 processors with sums of four products of bytes.

Four taps, one below the other, are added in one instruction. It multiplies a byte without a sign by one with
a sign, so 128 is added to every code. Taps outside of the image are added like others, with the code of the
padding.
"""

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.int8_depthwise_taps import CHANNELS, CODES, WIDE, Taps
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    WORD,
    add_dots,
    constant,
    joined,
    load,
    shuffled,
    store,
)

TURNS = [CHANNELS * t + c for c in range(CHANNELS) for t in range(4)]  # four taps of every channel in turn


class Quads(Taps):
    """Sums of four products in one instruction, 64 bytes of weights for each four taps."""

    count = 4 * 7  # of 16 lanes of 16 bits

    def origin(self, builder, fill):
        return WORD(-128)

    def split(self, builder, vector):
        return [vector]

    def join(self, builder, vectors):
        return vectors[0]

    def _groups(self) -> list[int]:
        """How many rows of the filter are added at once, from above."""
        return [min(4, self.size - first) for first in range(0, self.size, 4)]

    def _place(self, number: int, tap: int):
        return INDEX(2 * CHANNELS * (number * self.size + tap))

    def pack(self, builder, w, channels):
        total = ir.Constant(WIDE, None)
        for number, rows in enumerate(self._groups()):
            for tap in range(self.size):
                at = (INDEX((4 * number + r) * self.size + tap) for r in range(rows))
                codes = [load(builder, CODES, builder.gep(w, [builder.mul(n, channels)])) for n in at]
                quad = self._in_turn(builder, codes)
                store(builder, quad, builder.gep(self.kept, [self._place(number, tap)]))
                total = add_dots(builder, total, constant(WIDE, 0x01010101), quad)
        return total

    def _in_turn(self, builder, codes):
        """<16 x i32>: a byte of each of up to four vectors of bytes in every lane."""
        if len(codes) == 1:
            return builder.zext(codes[0], WIDE)
        codes = codes + [ir.Constant(CODES, None)] * (4 - len(codes))
        every = joined(builder, codes)
        return builder.bitcast(shuffled(builder, every, every, TURNS), WIDE)

    def add(self, builder, sums, x, sizes, place, fill) -> None:
        (height, width, channels), (row, column) = sizes, place
        fill = builder.trunc(fill, CODES)
        outside = cgutils.alloca_once(builder, CODES)
        builder.store(fill, outside)
        padding = self._unsigned(builder, self._in_turn(builder, [fill] * 4))
        outside = builder.bitcast(outside, BYTE.as_pointer())
        for number, rows in enumerate(self._groups()):
            lines = []
            for r in (builder.add(row, INDEX(4 * number + k)) for k in range(rows)):
                inside = builder.icmp_unsigned("<", r, height)
                own = builder.mul(builder.add(builder.mul(r, width), column), channels)
                start = builder.select(inside, builder.gep(x, [own]), outside)
                lines.append((start, builder.select(inside, channels, INDEX(0))))
            self._add_rows(builder, sums, lines, (number, column, width), padding)

    def _unsigned(self, builder, value):
        return builder.xor(value, constant(WIDE, 0x80808080))

    def _add_rows(self, builder, sums, lines, where, padding) -> None:
        number, column, width = where
        span = (len(sums) - 1) * self.stride + self.size
        value = cgutils.alloca_once(builder, WIDE)
        for i in range(span):
            if not self.always_inside(span, i):
                builder.store(padding, value)
            with self.if_inside(builder, span, i, column, width):
                codes = [load(builder, CODES, builder.gep(s, [builder.mul(INDEX(i), by)])) for s, by in lines]
                builder.store(self._unsigned(builder, self._in_turn(builder, codes)), value)
            for p, (one,) in enumerate(sums):
                tap = i - p * self.stride
                if 0 <= tap < self.size:
                    weights = load(builder, WIDE, builder.gep(self.kept, [self._place(number, tap)]))
                    found = add_dots(builder, builder.load(one), builder.load(value), weights)
                    builder.store(found, one)
