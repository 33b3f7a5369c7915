"""Depthwise convolution of int8 codes in blocks of channels, written as LLVM instructions.

A block is sixteen channels of an image. Its weights are widened once and lie on the stack, 1.6 kB at most.
A register tile is four neighbouring pixels; every code is loaded once for all of them. The code of the
padding is taken from every code and its share added to the bias, so that taps outside of the image are left
out.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.int8_depthwise_taps import CHANNELS, Pairs, Singles
from tinytrain.kernels.int8_vectors import BYTE, INDEX, SHORT, WORD, load, spread, store, target_of

# (size, stride) of filters with code.
FILTERS = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2))
PIXELS = 4
WIDE, CODES = ir.VectorType(WORD, CHANNELS), ir.VectorType(BYTE, CHANNELS)


@intrinsic
def depthwise_block(typing, arrays, places, sizes, shape, fill, zero):
    """The codes of all pixels of an image and of sixteen channels.

    - `arrays`: (y, x, w, b, factor, shift), flat.
    - `places`: offsets of the image in y and in x, the first channel.
    - `sizes`: height and width of the image, channels, rows and columns of y (at least four).
    - `shape`: size and stride of the filter, one of FILTERS (nothing is written for another), padding above.
    - `fill`: the code of pixels outside of the image, `zero` that of 0 in y.

    If the columns are no multiple of four, the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds, target = signature.args[0], target_of(context)
        arrays, places, sizes, (size, stride, top) = (cgutils.unpack_tuple(builder, a) for a in arguments[:4])
        y, x, w, b, factor, shift = (
            context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)
        )
        out, image, channel = places
        bias, factor, shift = (load(builder, WIDE, builder.gep(a, [channel])) for a in (b, factor, shift))
        scaling = Rescaling(builder, target, factor, shift, arguments[5])
        starts = [builder.gep(a, [builder.add(n, channel)]) for a, n in ((y, out), (x, image), (w, INDEX(0)))]
        fill = builder.trunc(arguments[4], BYTE)
        done = builder.append_basic_block("done")
        choice = builder.switch(builder.or_(builder.shl(size, INDEX(16)), stride), done)
        for number in FILTERS:
            block = builder.append_basic_block("size{}stride{}".format(*number))
            choice.add_case(INDEX(number[0] << 16 | number[1]), block)
            builder.position_at_end(block)
            taps = (Pairs if target.wide else Singles)(builder, target, *number)
            _one_filter(builder, taps, starts, sizes, top, (bias, fill, scaling))
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(arrays, places, sizes, shape, fill, zero), emit


def _one_filter(builder, taps, starts, sizes, top, numbers) -> None:
    (y, x, w), (height, width, channels, down, across) = starts, sizes
    bias, fill, scaling = numbers
    total = taps.pack(builder, w, channels)
    wide = spread(builder, builder.sext(fill, WORD), WIDE)
    bias = builder.add(bias, builder.mul(builder.sext(total, WIDE), wide))
    fill = spread(builder, builder.sext(fill, SHORT), ir.VectorType(SHORT, CHANNELS))
    sums = [[cgutils.alloca_once(builder, p.type) for p in taps.parts(builder, bias)] for _ in range(PIXELS)]
    more = builder.lshr(builder.add(across, INDEX(PIXELS - 1)), INDEX(2))
    with cgutils.for_range(builder, down) as rows:
        row = builder.sub(builder.mul(rows.index, INDEX(taps.stride)), top)
        with cgutils.for_range(builder, more) as loop:
            start, last = builder.mul(loop.index, INDEX(PIXELS)), builder.sub(across, INDEX(PIXELS))
            start = builder.select(builder.icmp_signed("<", start, last), start, last)
            column = builder.sub(builder.mul(start, INDEX(taps.stride)), INDEX((taps.size - 1) // 2))
            for pixel in sums:
                for one, part in zip(pixel, taps.parts(builder, bias), strict=True):
                    builder.store(part, one)
            taps.add(builder, sums, x, (height, width, channels), (row, column), fill)
            place = builder.add(builder.mul(rows.index, across), start)
            for p, pixel in enumerate(sums):
                codes = scaling.codes(builder, [taps.whole(builder, [builder.load(one) for one in pixel])])
                out = builder.mul(builder.add(place, INDEX(p)), channels)
                store(builder, codes, builder.gep(y, [out]))
