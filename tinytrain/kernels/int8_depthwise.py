"""Depthwise convolution of int8 codes in register tiles, written as LLVM instructions.

A tile is four neighbouring pixels of sixteen channels; every code is loaded once for all of them. One
instruction adds products of a tap and of those below it. What is below a filter has weights of 0, what is
outside of the image the code of the padding. The weights of sixteen channels are packed once for an image and
lie on the stack, 1.8 kB at most. On 64-bit ARM processors it is as `int8_arm_depthwise` says.

A number is taken from every code, and its share added to the bias.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels import vectors as v
from tinytrain.kernels.depthwise_rows import key_of
from tinytrain.kernels.int8_arm_depthwise import ArmTaps
from tinytrain.kernels.int8_codes import Rescaling, as_code, rescaled
from tinytrain.kernels.jit import inlined, kernel

FILTERS = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2))  # (size, stride) with tiles
KEYS = tuple(key_of(*shape) for shape in FILTERS)
PIXELS, CHANNELS = 4, 16
CODES, SHORTS, WORDS = (ir.VectorType(kind, CHANNELS) for kind in (v.BYTE, v.SHORT, v.WORD))
GROUP, GROUPS = 64, 4 * 7  # bytes of packed weights of a tap and of those below it, and how many there are
# Lanes of two or of four vectors in turn.
TURNS = {n: [CHANNELS * t + c for c in range(CHANNELS) for t in range(n)] for n in (2, 4)}
_key_of = inlined(key_of)


class _Taps:
    """Of a filter of `size` x `size` taps, `stride` pixels apart; an instruction adds up `rows` of them.

    With `Target.dots` these are four products of bytes, those of the image without a sign: 128 is added to
    their codes. Otherwise they are two of int16, and the code of the padding is taken from every code, so
    that nothing outside of the image need be added. `kept` takes the packed weights.
    """

    def __init__(self, builder, target, shape, fill, kept):
        self.builder, self.target, self.kept, (self.size, self.stride) = builder, target, kept, shape
        self.rows = 4 if target.dots else 2
        self.lanes = 16 if target.dots else 8 if target.wide else 4  # channels of a sum
        self.kind = WORDS if target.dots else ir.VectorType(v.SHORT, 2 * self.lanes)
        self.origin = v.WORD(-128) if target.dots else builder.sext(fill, v.WORD)
        self.outside = builder.bitcast(v.room(builder, CODES, 1), v.BYTE.as_pointer())
        v.store(builder, v.spread(builder, fill, CODES), self.outside)

    def pack(self, w, channels, bias) -> None:
        """Keep the weights w."""
        builder, total = self.builder, cgutils.alloca_once(self.builder, SHORTS)
        builder.store(ir.Constant(SHORTS, None), total)
        for first in range(0, self.size, self.rows):
            with cgutils.for_range(builder, v.INDEX(self.size)) as taps:
                codes = [ir.Constant(CODES, None)] * self.rows
                for n in range(min(self.rows, self.size - first)):
                    at = builder.add(taps.index, v.INDEX((first + n) * self.size))
                    codes[n] = v.load(builder, CODES, builder.gep(w, [builder.mul(at, channels)]))
                    builder.store(builder.add(builder.load(total), builder.sext(codes[n], SHORTS)), total)
                at = builder.add(taps.index, v.INDEX(first // self.rows * self.size))
                place = builder.gep(self.kept, [builder.mul(at, v.INDEX(GROUP))])
                packed = self._factors(codes)
                for k, part in enumerate(packed):
                    v.store(builder, part, builder.gep(place, [v.INDEX(GROUP // len(packed) * k)]))
        more = builder.mul(builder.sext(builder.load(total), WORDS), v.spread(builder, self.origin, WORDS))
        self.bias = v.parts(builder, builder.add(bias, more), self.lanes)

    def start(self, row, height):
        """What the sums of pixels begin with."""
        return self.bias

    def add(self, sums, x, sizes, place) -> None:
        """To the `sums` of neighbouring pixels; the first tap of the first one is at `place`."""
        builder, (height, width, channels), (row, column) = self.builder, sizes, place
        with cgutils.for_range(builder, v.INDEX(-(-self.size // self.rows))) as loop:
            lines, met = [], v.TRUTH(self.target.dots)
            for n in range(self.rows):
                r = builder.add(row, builder.add(builder.mul(loop.index, v.INDEX(self.rows)), v.INDEX(n)))
                inside = builder.icmp_unsigned("<", r, height)
                own = builder.gep(x, [builder.mul(builder.add(builder.mul(r, width), column), channels)])
                step = builder.select(inside, channels, v.INDEX(0))
                lines.append((builder.select(inside, own, self.outside), step))
                met = builder.or_(met, inside)
            with builder.if_then(met, likely=True):
                kept = builder.gep(self.kept, [builder.mul(loop.index, v.INDEX(GROUP * self.size))])
                self._add_rows(sums, lines, kept, (column, width))

    def _add_rows(self, sums, lines, kept, where) -> None:
        """`lines`: where rows of the image begin, and how far their columns are apart."""
        builder, (column, width) = self.builder, where
        span = (len(sums) - 1) * self.stride + self.size
        for i in range(span):
            places, inside = (
                [builder.gep(start, [builder.mul(v.INDEX(i), step)]) for start, step in lines],
                v.TRUTH(1),
            )
            if not self.size // 2 <= i < span - self.size // 2:
                inside = builder.icmp_unsigned("<", builder.add(column, v.INDEX(i)), width)
            if self.target.dots:
                places, inside = [builder.select(inside, own, self.outside) for own in places], v.TRUTH(1)
            with builder.if_then(inside, likely=True):
                codes = self._shifted(self._factors([v.load(builder, CODES, own) for own in places]))
                for p, pixel in enumerate(sums):
                    tap = i - p * self.stride
                    for k, one in enumerate(pixel if 0 <= tap < self.size else ()):
                        at = builder.gep(kept, [v.INDEX(GROUP * tap + GROUP // len(pixel) * k)])
                        builder.store(self._added(builder.load(one), codes[k], at), one)

    def _factors(self, codes):
        """Of `rows` vectors of sixteen codes, those of each sum."""
        if self.target.dots:
            every = v.joined(self.builder, codes)
            return [self.builder.bitcast(v.shuffled(self.builder, every, every, TURNS[4]), WORDS)]
        lanes = TURNS[2][:CHANNELS], TURNS[2][CHANNELS:]
        halves = (v.shuffled(self.builder, *codes, some) for some in lanes)
        halves = (self.builder.sext(half, SHORTS) for half in halves)
        return [part for half in halves for part in v.parts(self.builder, half, 2 * self.lanes)]

    def _shifted(self, factors):
        """Minus `origin`."""
        if self.target.dots:
            return [self.builder.xor(factors[0], v.constant(WORDS, 0x80808080))]
        less = v.spread(self.builder, self.builder.trunc(self.origin, v.SHORT), self.kind)
        return [self.builder.sub(one, less) for one in factors]

    def _added(self, total, codes, weights):
        if self.target.dots:
            return v.add_dots(self.builder, total, codes, v.load(self.builder, self.kind, weights))
        weights = v.reloaded(self.builder, self.kind, weights)
        return self.builder.add(total, v.pairs_of_products(self.builder, self.target, codes, weights))


@intrinsic
def _depthwise_block(typing, arrays, places, sizes, shape, fill, zero):
    """The codes of all pixels of an image and of sixteen channels.

    - `arrays`: (y, x, w, b, factor, shift).
    - `places`: offsets of the image in y and in x, the first channel.
    - `sizes`: height and width of the image, channels, rows and columns of y.
    - `shape`: `key_of` the size and stride of one of FILTERS, padding above.
    - `fill`: the code of pixels outside of the image, `zero` that of 0 in y.
    """

    def emit(context, builder, signature, arguments):
        target = v.target_of(context)
        arrays, places, sizes, (key, top) = (cgutils.unpack_tuple(builder, a) for a in arguments[:4])
        y, x, w, *scaled = v.pointers(context, builder, signature.args[0], arrays)
        out, image, channel = places
        bias, *scale = (v.load(builder, WORDS, builder.gep(a, [channel])) for a in scaled)
        rescaling = Rescaling(builder, target, *scale, arguments[5])
        starts = [
            builder.gep(a, [builder.add(n, channel)]) for a, n in ((y, out), (x, image), (w, v.INDEX(0)))
        ]
        fill = builder.trunc(arguments[4], v.BYTE)
        kept = v.room(builder, v.BYTE, GROUP * GROUPS)
        done = builder.append_basic_block("done")
        choice = builder.switch(key, done)
        for shape in FILTERS:
            block = builder.append_basic_block("size{}stride{}".format(*shape))
            choice.add_case(v.INDEX(key_of(*shape)), block)
            builder.position_at_end(block)
            taps = ArmTaps(builder, shape, fill) if target.arm else _Taps(builder, target, shape, fill, kept)
            _one_filter(taps, starts, sizes, top, (bias, rescaling))
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(arrays, places, sizes, shape, fill, zero), emit


def _one_filter(taps, starts, sizes, top, numbers) -> None:
    builder, (y, x, w), (*image, channels, down, across) = taps.builder, starts, sizes
    bias, rescaling = numbers
    taps.pack(w, channels, bias)
    many = builder.icmp_signed(">=", across, v.INDEX(PIXELS))
    with builder.if_else(many, likely=True) as branches:
        for branch, pixels in zip(branches, (PIXELS, 1), strict=True):
            kind = ir.VectorType(v.WORD, taps.lanes)
            sums = [
                [cgutils.alloca_once(builder, kind) for _ in range(CHANNELS // taps.lanes)]
                for _ in range(pixels)
            ]
            with branch, cgutils.for_range(builder, down) as rows:
                row = builder.sub(builder.mul(rows.index, v.INDEX(taps.stride)), top)
                begin = taps.start(row, image[0])
                with v.blocks(builder, across, pixels) as start:
                    for pixel in sums:
                        for one, part in zip(pixel, begin, strict=True):
                            builder.store(part, one)
                    column = builder.sub(builder.mul(start, v.INDEX(taps.stride)), v.INDEX(taps.size // 2))
                    taps.add(sums, x, (*image, channels), (row, column))
                    place = builder.add(builder.mul(rows.index, across), start)
                    for p, pixel in enumerate(sums):
                        codes = rescaling.codes(
                            builder, [v.joined(builder, [builder.load(one) for one in pixel])]
                        )
                        out = builder.mul(builder.add(place, v.INDEX(p)), channels)
                        v.store(builder, codes, builder.gep(y, [out]))


@inlined
def _pixel(arrays, places, sizes, shape, fill, zero):
    """One pixel, channel by channel: few channels, or a filter without tiles."""
    y, x, w, b, factor, shift = arrays
    (out, image), (height, width, channels), (row, column, size) = places, sizes, shape
    for c in range(channels):
        total = np.int64(b[c])
        for t in range(size * size):
            r, q = row + t // size, column + t % size
            code = np.int64(fill)
            if 0 <= r < height and 0 <= q < width:
                code = np.int64(x[image + (r * width + q) * channels + c])
            total += code * np.int64(w[t * channels + c])
        y[out + c] = as_code(rescaled(total, factor[c], shift[c]), zero)


@kernel
def depthwise_codes(y, x, w, b, factor, shift, size, stride, top, fill, zero):
    """y (n, out height, out width, c) int8 of codes x (n, height, width, c) and weights w (size * size, c).

    b, factor, shift (c,) int32. `top` is the padding above x; pixels outside of x have the code `fill`.
    """
    n, height, width, channels = x.shape
    down, across = y.shape[1], y.shape[2]
    arrays = y, x, w, b, factor, shift
    key = _key_of(size, stride)
    for k in range(n):
        out, image = k * down * across * channels, k * height * width * channels
        if key in KEYS and channels >= CHANNELS:
            for c in range(0, channels, CHANNELS):
                sizes = height, width, channels, down, across
                _depthwise_block(
                    arrays, (out, image, min(c, channels - CHANNELS)), sizes, (key, top), fill, zero
                )
            continue
        flat = y.reshape(-1), x.reshape(-1), w.reshape(-1), b, factor, shift
        for i in range(down):
            for j in range(across):
                places = out + (i * across + j) * channels, image
                shape = i * stride - top, j * stride - (size - 1) // 2, size
                _pixel(flat, places, (height, width, channels), shape, fill, zero)
