"""Depthwise convolution of int8 codes pixel by pixel, written as LLVM instructions.

For what blocks do not take: images of less than four columns, and filters of one tap. Two products of codes
and weights fit 16 bits together, because no weight is -128; their sum is widened to 32 bits.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    TRUTH,
    WORD,
    load,
    pointers,
    spread,
    store,
    target_of,
)

CHANNELS = 16
CODES, SHORTS, WORDS = (ir.VectorType(kind, CHANNELS) for kind in (BYTE, SHORT, WORD))


@intrinsic
def depthwise_pixel(typing, arrays, places, sizes, shape, fill, zero):
    """The codes of one pixel and of sixteen channels.

    - `arrays`: (y, x, w, b, factor, shift), flat.
    - `places`: offsets of the pixel in y and of the image in x, the first channel.
    - `sizes`: height and width of the image, channels.
    - `shape`: row and column under the first tap, size of the filter.
    - `fill`: the code of pixels outside of the image, `zero` that of 0 in y.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, places, sizes, shape = (cgutils.unpack_tuple(builder, a) for a in arguments[:4])
        y, x, w, *scaled = pointers(context, builder, kinds, arrays)
        fill, zero = arguments[4:]
        out, image, channel = places
        outside = cgutils.alloca_once(builder, CODES)
        builder.store(spread(builder, builder.trunc(fill, BYTE), CODES), outside)
        outside = builder.bitcast(outside, BYTE.as_pointer())
        bias, factor, shift = (load(builder, WORDS, builder.gep(a, [channel])) for a in scaled)
        total = cgutils.alloca_once(builder, WORDS)
        builder.store(bias, total)
        starts = builder.gep(x, [builder.add(image, channel)]), builder.gep(w, [channel]), outside
        _add_taps(builder, total, starts, sizes, shape)
        rescaling = Rescaling(builder, target_of(context), factor, shift, zero)
        codes = rescaling.codes(builder, [builder.load(total)])
        store(builder, codes, builder.gep(y, [builder.add(out, channel)]))
        return context.get_dummy_value()

    return types.void(arrays, places, sizes, shape, fill, zero), emit


def _add_taps(builder, total, starts, sizes, shape) -> None:
    (height, width, _), (row, _, size) = sizes, shape
    with cgutils.for_range(builder, size) as rows:
        r = builder.add(row, rows.index)
        line, tap = builder.mul(r, width), builder.mul(rows.index, size)
        at = starts, sizes, shape, (line, builder.icmp_unsigned("<", r, height), tap)
        with cgutils.for_range(builder, builder.lshr(size, INDEX(1))) as pairs:
            first = builder.shl(pairs.index, INDEX(1))
            both = (_products(builder, at, builder.add(first, INDEX(i))) for i in (0, 1))
            _add(builder, total, builder.add(*both))
        with builder.if_then(builder.trunc(size, TRUTH)):
            _add(builder, total, _products(builder, at, builder.sub(size, INDEX(1))))


def _products(builder, at, tap):
    """The weights of tap number `tap` of a row times what the pixel has under it: int16."""
    (x, w, outside), (_, width, channels), (_, column, _), (line, within, first) = at
    place = builder.mul(builder.add(first, tap), channels)
    weight = builder.sext(load(builder, CODES, builder.gep(w, [place])), SHORTS)
    q = builder.add(column, tap)
    inside = builder.and_(within, builder.icmp_unsigned("<", q, width))
    own = builder.gep(x, [builder.mul(builder.add(line, q), channels)])
    value = load(builder, CODES, builder.select(inside, own, outside))
    return builder.mul(builder.sext(value, SHORTS), weight)


def _add(builder, total, value) -> None:
    builder.store(builder.add(builder.load(total), builder.sext(value, WORDS)), total)
