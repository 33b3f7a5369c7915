"""Pixels of a turned image of three channels, several at once, written as LLVM instructions.

The bits are those of the loop over single pixels in `image`.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.fused import emit_fused
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    WORD,
    blocks,
    constant,
    load,
    shuffled,
    spread,
    store,
    target_of,
)

FLOAT = ir.FloatType()
THIRD = float(np.float32(1) / np.float32(3))
# A pixel and the next one are read as two words, which begin at its first byte and at its third. Of each
# channel of both: the word that it is in, and from which bit on.
HERE, NEXT = ((0, 0), (0, 8), (0, 16)), ((0, 24), (1, 16), (1, 24))


@intrinsic
def turned_pixels(typing, row, values, width, place, colours, fill):
    """Write `row`, pixels of three channels, from `values`, those of an image; returns how many were written.

    That is 0 if the row is too short, else all `width`. `place` is where the first pixel comes from, row and
    column, the step to the next one, and the last row and column. `colours` are `shift`, `mean`, `spread`
    and `contrast` of `recolour`; what comes from elsewhere is `fill`.
    """

    def emit(context, builder, signature, arguments):
        written, read = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        place, colours = (cgutils.unpack_tuple(builder, given) for given in arguments[3:5])
        lanes = target_of(context).register // 4 or 4
        row, width = _Row(context, builder, lanes, place, colours, arguments[5]), arguments[2]
        enough = builder.icmp_signed(">=", width, INDEX(lanes))
        with builder.if_then(enough), blocks(builder, width, lanes) as start:
            row.write(builder.gep(written, [builder.mul(start, INDEX(3))]), read, start, width)
        return builder.select(enough, width, INDEX(0))

    return types.int64(row, values, width, place, colours, fill), emit


class _Row:
    def __init__(self, context, builder, lanes: int, place, colours, fill):
        self.context, self.b, self.lanes = context, builder, lanes
        self.floats, self.words = (ir.VectorType(kind, lanes) for kind in (FLOAT, WORD))
        *self.start, self.step_r, self.step_q, self.bottom, self.end = (self.every(v) for v in place)
        self.colours = [self.every(v) for v in colours]
        self.fill = spread(builder, builder.zext(fill, WORD), self.words)

    def every(self, value):
        """A number in every lane."""
        return spread(self.b, value, self.floats)

    def fused(self, a, b, c):
        return emit_fused(self.context, self.b, a, b, c)

    def write(self, to, read, start, width) -> None:
        """Pixels from `start` on."""
        b, zero = self.b, constant(self.floats, 0.0)
        numbers = b.add(
            spread(b, b.trunc(start, WORD), self.words), ir.Constant(self.words, list(range(self.lanes)))
        )
        j = b.sitofp(numbers, self.floats)
        places = [
            self.fused(step, j, first)
            for step, first in zip((self.step_r, self.step_q), self.start, strict=True)
        ]
        inside = None
        for place, most in zip(places, (self.bottom, self.end), strict=True):
            for one in (b.fcmp_ordered(">=", place, zero), b.fcmp_ordered("<", place, most)):
                inside = one if inside is None else b.and_(inside, one)
        places = [b.select(inside, place, zero) for place in places]
        above, left = (b.fptosi(place, self.words) for place in places)
        low, far = (
            b.fsub(place, b.sitofp(whole, self.floats))
            for place, whole in zip(places, (above, left), strict=True)
        )
        line = spread(b, b.trunc(width, WORD), self.words)
        at = b.mul(b.add(b.mul(above, line), left), constant(self.words, 3))
        upper, lower = (self.pairs(start, at) for start in (read, b.gep(read, [b.mul(width, INDEX(3))])))
        corner = b.fmul(far, low)
        here = b.fadd(b.fsub(b.fsub(constant(self.floats, 1.0), far), low), corner)
        right, below = b.fsub(far, corner), b.fsub(low, corner)
        channels = []
        for (x, after), (under, last) in zip(upper, lower, strict=True):
            near = self.fused(here, x, b.fmul(right, after))
            channels.append(self.fused(corner, last, self.fused(below, under, near)))
        self.store(to, self.recoloured(channels), inside)

    def pairs(self, read, at):
        """Of each channel of the pixels at the bytes `at`, and of the pixels after them, as float32.

        Six bytes are read of both: two words that overlap.
        """
        b, found = self.b, []
        for start in (0, 2):
            words = ir.Constant(self.words, ir.Undefined)
            for lane in range(self.lanes):
                place = b.zext(b.extract_element(at, WORD(lane)), INDEX)
                word = load(b, WORD, b.gep(read, [b.add(place, INDEX(start))]))
                words = b.insert_element(words, word, WORD(lane))
            found.append(words)

        def channel(word: int, bits: int):
            byte = b.and_(b.lshr(found[word], constant(self.words, bits)), constant(self.words, 255))
            return b.sitofp(byte, self.floats)

        return [(channel(*here), channel(*after)) for here, after in zip(HERE, NEXT, strict=True)]

    def recoloured(self, channels):
        """As `recolour`: words of 0 to 255."""
        b, (shift, mean, spread, contrast) = self.b, self.colours
        total = b.fadd(b.fadd(channels[0], channels[1]), channels[2])
        grey = b.fmul(total, constant(self.floats, THIRD))
        centre = self.fused(b.fsub(b.fadd(grey, shift), mean), contrast, mean)
        centre = b.fadd(centre, constant(self.floats, 0.5))
        found, least, most = [], constant(self.floats, 0.0), constant(self.floats, 255.0)
        for channel in channels:
            value = self.fused(b.fsub(channel, grey), spread, centre)
            value = b.select(b.fcmp_ordered("<", value, least), least, value)
            value = b.select(b.fcmp_ordered(">", value, most), most, value)
            found.append(b.fptosi(value, self.words))
        return found

    def store(self, to, channels, inside) -> None:
        b, pixel = self.b, None
        for k, channel in enumerate(channels):
            byte = b.shl(b.select(inside, channel, self.fill), constant(self.words, 8 * k))
            pixel = byte if pixel is None else b.or_(pixel, byte)
        as_bytes = b.bitcast(pixel, ir.VectorType(BYTE, 4 * self.lanes))
        some = [4 * lane + k for lane in range(self.lanes) for k in range(3)]
        store(b, shuffled(b, as_bytes, as_bytes, some), to)
