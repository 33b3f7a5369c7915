"""The taps of a depthwise convolution of int8 codes one by one, as products of 16 bits."""

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.int8_depthwise_taps import CHANNELS, CODES, SHORTS, Taps
from tinytrain.kernels.vectors import INDEX, SHORT, WORD, call, joined, load, parts, reloaded

FOUR, EIGHT = ir.VectorType(WORD, 4), ir.VectorType(SHORT, 8)


class Singles(Taps):
    """Products of 16 bits, added to sums of 32."""

    count = 49

    def split(self, builder, vector):
        return parts(builder, vector, 4)

    def join(self, builder, vectors):
        return joined(builder, vectors)

    def pack(self, builder, w, channels):
        total = cgutils.alloca_once(builder, SHORTS)
        builder.store(ir.Constant(SHORTS, None), total)
        with cgutils.for_range(builder, INDEX(self.size**2)) as loop:
            codes = load(builder, CODES, builder.gep(w, [builder.mul(loop.index, channels)]))
            value = builder.sext(codes, SHORTS)
            self._keep(builder, loop.index, value)
            builder.store(builder.add(builder.load(total), value), total)
        return builder.load(total)

    def _weights(self, builder, number):
        place = builder.gep(self.kept, [builder.mul(number, INDEX(CHANNELS))])
        return [load(builder, EIGHT, builder.gep(place, [INDEX(8 * h)])) for h in range(2)]

    def add(self, builder, sums, x, sizes, place, fill) -> None:
        (height, width, channels), (row, column) = sizes, place
        span, fills = (len(sums) - 1) * self.stride + self.size, parts(builder, fill, 8)
        left = cgutils.alloca_once(builder, INDEX)
        builder.store(builder.mul(column, channels), left)
        with cgutils.for_range(builder, INDEX(self.size)) as loop:
            r = builder.add(row, loop.index)
            with builder.if_then(builder.icmp_unsigned("<", r, height), likely=True):
                line = builder.gep(x, [builder.mul(r, builder.mul(width, channels))])
                # LLVM would multiply the number of every column by the channels, for each tile anew.
                line = builder.gep(line, [reloaded(builder, INDEX, left)])
                first = builder.mul(loop.index, INDEX(self.size))
                weights = [self._weights(builder, builder.add(first, INDEX(t))) for t in range(self.size)]
                for i in range(span):
                    with self.if_inside(builder, span, i, column, width):
                        own = load(builder, CODES, builder.gep(line, [builder.mul(INDEX(i), channels)]))
                        value = [
                            builder.sub(builder.sext(half, EIGHT), less)
                            for half, less in zip(parts(builder, own, 8), fills, strict=True)
                        ]
                        for p, pixel in enumerate(sums):
                            tap = i - p * self.stride
                            if 0 <= tap < self.size:
                                self._add(builder, pixel, value, weights[tap])

    def _add(self, builder, pixel, value, weight) -> None:
        """Four products at a time: ARM has an instruction for either half of two registers of eight."""
        pairs = zip(*([q for h in v for q in parts(builder, h, 4)] for v in (value, weight)), strict=True)
        for one, (a, b) in zip(pixel, pairs, strict=True):
            if self.target.arm:  # LLVM may widen what several products share, and multiply 32 bits by 32
                found = call(builder, "llvm.aarch64.neon.smull.v4i32", FOUR, a, b)
            else:
                found = builder.mul(builder.sext(a, FOUR), builder.sext(b, FOUR))
            builder.store(builder.add(builder.load(one), found), one)
