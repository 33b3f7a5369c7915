"""Depthwise convolution of int8 codes in blocks of channels, written as LLVM instructions.

A block is sixteen channels of an image. Its weights are widened once and lie on the stack, 1.6 kB at most. A
register tile is four neighbouring pixels; every code is loaded once for all of them. A number is taken from
every code and its share added to the bias. If it is the code of the padding, taps outside of the image are
left out.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.depthwise_rows import key_of
from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.int8_depthwise_quads import Quads
from tinytrain.kernels.int8_depthwise_singles import Singles
from tinytrain.kernels.int8_depthwise_taps import CHANNELS, Pairs
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    WORD,
    blocks,
    load,
    pointers,
    spread,
    store,
    target_of,
)

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
    - `shape`: `key_of` the size and stride of one of FILTERS (nothing is written for another), padding above.
    - `fill`: the code of pixels outside of the image, `zero` that of 0 in y.

    If the columns are no multiple of four, the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds, target = signature.args[0], target_of(context)
        arrays, places, sizes, (key, top) = (cgutils.unpack_tuple(builder, a) for a in arguments[:4])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        out, image, channel = places
        bias, factor, shift = (load(builder, WIDE, builder.gep(a, [channel])) for a in scaled)
        rescaling = Rescaling(builder, target, factor, shift, arguments[5])
        starts = [builder.gep(a, [builder.add(n, channel)]) for a, n in ((y, out), (x, image), (w, INDEX(0)))]
        fill = builder.trunc(arguments[4], BYTE)
        done = builder.append_basic_block("done")
        choice = builder.switch(key, done)
        for number in FILTERS:
            block = builder.append_basic_block("size{}stride{}".format(*number))
            choice.add_case(INDEX(key_of(*number)), block)
            builder.position_at_end(block)
            kind = Quads if target.dots else Pairs if target.wide else Singles
            taps = kind(builder, target, *number)
            _one_filter(builder, taps, starts, sizes, top, (bias, fill, rescaling))
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(arrays, places, sizes, shape, fill, zero), emit


def _one_filter(builder, taps, starts, sizes, top, numbers) -> None:
    (y, x, w), (height, width, channels, down, across) = starts, sizes
    bias, fill, rescaling = numbers
    total = taps.pack(builder, w, channels)
    total = total if total.type == WIDE else builder.sext(total, WIDE)
    bias = builder.add(bias, builder.mul(total, spread(builder, taps.origin(builder, fill), WIDE)))
    fill = spread(builder, builder.sext(fill, SHORT), ir.VectorType(SHORT, CHANNELS))
    sums = [[cgutils.alloca_once(builder, p.type) for p in taps.split(builder, bias)] for _ in range(PIXELS)]
    with cgutils.for_range(builder, down) as rows:
        row = builder.sub(builder.mul(rows.index, INDEX(taps.stride)), top)
        with blocks(builder, across, PIXELS) as start:
            column = builder.sub(builder.mul(start, INDEX(taps.stride)), INDEX((taps.size - 1) // 2))
            for pixel in sums:
                for one, part in zip(pixel, taps.split(builder, bias), strict=True):
                    builder.store(part, one)
            taps.add(builder, sums, x, (height, width, channels), (row, column), fill)
            place = builder.add(builder.mul(rows.index, across), start)
            for p, pixel in enumerate(sums):
                codes = rescaling.codes(builder, [taps.join(builder, [builder.load(one) for one in pixel])])
                out = builder.mul(builder.add(place, INDEX(p)), channels)
                store(builder, codes, builder.gep(y, [out]))
