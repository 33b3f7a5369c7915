"""The taps of a register tile of a depthwise convolution of int8 codes: on any processor, and in pairs."""

from contextlib import contextmanager

from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    WORD,
    joined,
    load,
    pairs_of_products,
    parts,
    reloaded,
    room,
    shuffled,
    store,
)

CHANNELS = 16
CODES, SHORTS = (ir.VectorType(kind, CHANNELS) for kind in (BYTE, SHORT))
WIDE = ir.VectorType(WORD, CHANNELS)
LOW = [n for k in range(8) for n in (k, CHANNELS + k)]  # those of two vectors in turn
HIGH = [n + 8 for n in LOW]


class Taps:
    """Of a filter of `size` x `size` taps, `stride` pixels apart.

    `pack` keeps the weights of sixteen channels and gives their sums over the filter, int16 or int32.
    `origin` is what `add` takes from every code before it adds the products to the sums of the pixels of a
    tile. `split` gives int32 of all channels as the vectors in which sums are kept, `join` makes one of
    them.
    """

    count: int  # int16 vectors that are kept, of 16 lanes

    def __init__(self, builder, target, size: int, stride: int):
        self.target, self.size, self.stride = target, size, stride
        self.kept = room(builder, SHORT, CHANNELS * self.count)

    def origin(self, builder, fill):
        return builder.sext(fill, WORD)

    def _keep(self, builder, number, value) -> None:
        store(builder, value, builder.gep(self.kept, [builder.mul(number, INDEX(CHANNELS))]))

    def always_inside(self, span: int, i: int) -> bool:
        """Whether column `i` of `span` lies in the image wherever the tile is."""
        return self.size // 2 <= i < span - self.size // 2

    @contextmanager
    def if_inside(self, builder, span: int, i: int, column, width):
        """Code that runs if column `i` of `span` lies in the image, which is tested where it may not."""
        if self.always_inside(span, i):
            yield
        else:
            inside = builder.icmp_unsigned("<", builder.add(column, INDEX(i)), width)
            with builder.if_then(inside, likely=True):
                yield


class Pairs(Taps):
    """Sums of two products in one instruction: of a tap and the one below it, in the last row beside it."""

    count = 2 * (3 * 7 + 4)

    def split(self, builder, vector):
        return parts(builder, vector, 8)

    def join(self, builder, vectors):
        return joined(builder, vectors)

    def pack(self, builder, w, channels):
        total = cgutils.alloca_once(builder, SHORTS)
        builder.store(ir.Constant(SHORTS, None), total)

        def take(number, *codes):
            for half, lanes in enumerate((LOW, HIGH)):
                pair = shuffled(builder, codes[0], codes[-1] if len(codes) == 2 else nothing, lanes)
                self._keep(
                    builder,
                    builder.add(builder.mul(number, INDEX(2)), INDEX(half)),
                    builder.sext(pair, SHORTS),
                )
            for one in codes:
                builder.store(builder.add(builder.load(total), builder.sext(one, SHORTS)), total)

        def at(tap):
            return load(builder, CODES, builder.gep(w, [builder.mul(tap, channels)]))

        nothing, size = ir.Constant(CODES, None), INDEX(self.size)
        with (
            cgutils.for_range(builder, INDEX(self.size // 2)) as rows,
            cgutils.for_range(builder, size) as taps,
        ):
            first = builder.add(builder.mul(rows.index, INDEX(2 * self.size)), taps.index)
            number = builder.add(builder.mul(rows.index, size), taps.index)
            take(number, at(first), at(builder.add(first, size)))
        for t in range(0, self.size, 2):
            last = self.size * (self.size - 1) + t
            take(INDEX(self._lone(t)), *(at(INDEX(last + n)) for n in range(min(2, self.size - t))))
        return builder.load(total)

    def _lone(self, tap: int) -> int:
        """Number of the pair of `tap` and the one beside it in the last row."""
        return self.size // 2 * self.size + tap // 2

    def add(self, builder, sums, x, sizes, place, fill) -> None:
        row = place[0]
        outside = cgutils.alloca_once(builder, CODES)
        builder.store(builder.trunc(fill, CODES), outside)
        outside = builder.bitcast(outside, BYTE.as_pointer())
        with cgutils.for_range(builder, INDEX(self.size // 2)) as loop:
            above = builder.add(row, builder.mul(loop.index, INDEX(2)))
            lines = [
                self._line(builder, x, sizes, (r, place[1]), outside)
                for r in (above, builder.add(above, INDEX(1)))
            ]
            with builder.if_then(builder.or_(lines[0][2], lines[1][2]), likely=True):
                first = builder.mul(loop.index, INDEX(self.size))
                self._add_rows(builder, sums, lines, (first, place[1], sizes[1]), fill)
        line = self._line(builder, x, sizes, (builder.add(row, INDEX(self.size - 1)), place[1]), outside)
        with builder.if_then(line[2], likely=True):
            self._add_last(builder, sums, line, (place[1], sizes[1], outside), fill)

    def _line(self, builder, x, sizes, place, outside):
        """Where the first column of a row lies, the distance to the next one, whether it is in the image."""
        (height, width, channels), (row, column) = sizes, place
        inside = builder.icmp_unsigned("<", row, height)
        own = builder.mul(builder.add(builder.mul(row, width), column), channels)
        start = builder.select(inside, builder.gep(x, [own]), outside)
        return start, builder.select(inside, channels, INDEX(0)), inside

    def _pair(self, builder, a, b, fill):
        halves = (shuffled(builder, a, b, lanes) for lanes in (LOW, HIGH))
        return [builder.sub(builder.sext(half, SHORTS), fill) for half in halves]

    def _add(self, builder, sums, pair, number) -> None:
        for half, (one, value) in enumerate(zip(sums, pair, strict=True)):
            place = builder.add(builder.mul(number, INDEX(32)), INDEX(16 * half))
            weights = reloaded(builder, SHORTS, builder.gep(self.kept, [place]))
            found = pairs_of_products(builder, self.target, value, weights)
            builder.store(builder.add(builder.load(one), found), one)

    def _add_rows(self, builder, sums, lines, where, fill) -> None:
        first, column, width = where
        span = (len(sums) - 1) * self.stride + self.size
        for i in range(span):
            with self.if_inside(builder, span, i, column, width):
                codes = (
                    load(builder, CODES, builder.gep(s, [builder.mul(INDEX(i), step)]))
                    for s, step, _ in lines
                )
                pair = self._pair(builder, *codes, fill)
                for p, pixel in enumerate(sums):
                    tap = i - p * self.stride
                    if 0 <= tap < self.size:
                        self._add(builder, pixel, pair, builder.add(first, INDEX(tap)))

    def _add_last(self, builder, sums, line, where, fill) -> None:
        (start, step, _), (column, width, outside) = line, where
        span = (len(sums) - 1) * self.stride + self.size
        codes = []
        for i in range(span):
            own = builder.gep(start, [builder.mul(INDEX(i), step)])
            if not self.always_inside(span, i):
                inside = builder.icmp_unsigned("<", builder.add(column, INDEX(i)), width)
                own = builder.select(inside, own, outside)
            codes.append(load(builder, CODES, own))
        for i in range(span):
            met = [(p, i - p * self.stride) for p in range(len(sums))]
            met = [(p, tap) for p, tap in met if 0 <= tap < self.size and tap % 2 == 0]
            if met:
                pair = self._pair(builder, codes[i], codes[min(i + 1, span - 1)], fill)
                for p, tap in met:
                    self._add(builder, sums[p], pair, INDEX(self._lone(tap)))
