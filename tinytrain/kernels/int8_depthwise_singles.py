"""The taps of a depthwise convolution of int8 codes one by one, as products of 16 bits."""

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.int8_depthwise_taps import CHANNELS, CODES, SHORTS, Taps
from tinytrain.kernels.vectors import BYTE, INDEX, SHORT, WORD, call, joined, load, parts, reloaded


class Singles(Taps):
    """Products of 16 bits, added to sums of 32."""

    count = 49

    @property
    def lanes(self) -> int:
        """Of a vector of sums; two of them are added to at a time."""
        return 4 if self.target.arm else CHANNELS // 2

    def split(self, builder, vector):
        return parts(builder, vector, self.lanes)

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

    def add(self, builder, sums, x, sizes, place, fill) -> None:
        (height, width, channels), (row, column) = sizes, place
        left = cgutils.alloca_once(builder, INDEX)
        builder.store(builder.mul(column, channels), left)
        with cgutils.for_range(builder, INDEX(self.size)) as loop:
            r = builder.add(row, loop.index)
            with builder.if_then(builder.icmp_unsigned("<", r, height), likely=True):
                line = builder.gep(x, [builder.mul(r, builder.mul(width, channels))])
                # LLVM would multiply the number of every column by the channels, for each tile anew.
                line = builder.gep(line, [reloaded(builder, INDEX, left)])
                first = builder.mul(loop.index, INDEX(self.size))
                for channel in range(0, CHANNELS, 2 * self.lanes):
                    some = slice(channel // self.lanes, channel // self.lanes + 2)
                    own = builder.gep(line, [INDEX(channel)])
                    row = own, channels, first, channel
                    self._add_row(builder, [pixel[some] for pixel in sums], row, (column, width), fill)

    def _add_row(self, builder, sums, row, where, fill) -> None:
        """The products of a row of the filter, for channels that the registers have room for."""
        (line, channels, first, channel), (column, width) = row, where
        span, lanes = (len(sums) - 1) * self.stride + self.size, self.lanes * len(sums[0])
        codes, shorts = (ir.VectorType(kind, lanes) for kind in (BYTE, SHORT))
        taps = (builder.mul(builder.add(first, INDEX(t)), INDEX(CHANNELS)) for t in range(self.size))
        kept = [builder.gep(self.kept, [builder.add(tap, INDEX(channel))]) for tap in taps]
        weights, fill = [load(builder, shorts, at) for at in kept], parts(builder, fill, lanes)[0]
        for i in range(span):
            with self.if_inside(builder, span, i, column, width):
                own = load(builder, codes, builder.gep(line, [builder.mul(INDEX(i), channels)]))
                value = builder.sub(builder.sext(own, shorts), fill)
                for p, pixel in enumerate(sums):
                    tap = i - p * self.stride
                    if 0 <= tap < self.size:
                        self._add(builder, pixel, value, weights[tap])

    def _add(self, builder, pixel, value, weight) -> None:
        kind = ir.VectorType(WORD, self.lanes)
        pairs = zip(*(parts(builder, v, self.lanes) for v in (value, weight)), strict=True)
        for one, (a, b) in zip(pixel, pairs, strict=True):
            if (
                self.target.arm
            ):  # LLVM widens what several products have in common, and then multiplies 32 bits
                found = call(builder, "llvm.aarch64.neon.smull.v4i32", kind, a, b)
            else:
                found = builder.mul(builder.sext(a, kind), builder.sext(b, kind))
            builder.store(builder.add(builder.load(one), found), one)
