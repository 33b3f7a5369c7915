"""Depthwise convolution of int8 codes in register tiles, written as LLVM instructions.

A tile is some neighbouring pixels of some channels. Two products of codes and weights fit 16 bits together,
because no weight is -128; their sum is widened to 32 bits.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.int8_codes import Rescaling
from tinytrain.kernels.int8_vectors import BYTE, INDEX, SHORT, WORD, spread, target_of


def depthwise_tile(pixels: int, lanes: int):
    """Intrinsic for the codes of `pixels` neighbours and `lanes` channels.

    ``f(arrays, places, sizes, shape, fill, zero)``:

    - `arrays`: (y, x, w, b, factor, shift), flat.
    - `places`: offsets of the first pixel in y and of the image in x, the first channel.
    - `sizes`: height and width of the image, channels.
    - `shape`: row and column under the first tap of the first pixel, size of the filter, stride.
    - `fill`: the code of pixels outside of the image.
    """
    codes, shorts = ir.VectorType(BYTE, lanes), ir.VectorType(SHORT, lanes)
    words = ir.VectorType(WORD, lanes)

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, places, sizes, shape = (cgutils.unpack_tuple(builder, a) for a in arguments[:4])
        y, x, w, b, factor, shift = (
            context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)
        )
        fill, zero = arguments[4:]
        (out, image, channel), (*_, channels) = places, sizes
        outside = cgutils.alloca_once(builder, codes)
        builder.store(spread(builder, builder.trunc(fill, BYTE), codes), outside)
        outside = builder.bitcast(outside, BYTE.as_pointer())
        sums = [cgutils.alloca_once(builder, words) for _ in range(pixels)]
        bias = _load(builder, words, builder.gep(b, [channel]))
        for one in sums:
            builder.store(bias, one)
        starts = builder.gep(x, [builder.add(image, channel)]), builder.gep(w, [channel]), outside
        with builder.if_else(_within(builder, sizes, shape), likely=True) as (then, otherwise):
            for block, products in ((then, _inner_products), (otherwise, _products)):
                with block:
                    _add_taps(builder, sums, starts, sizes, shape, products)
        factor, shift = (_load(builder, words, builder.gep(a, [channel])) for a in (factor, shift))
        scaling = Rescaling(builder, target_of(context), factor, shift, zero)
        for p, one in enumerate(sums):
            place = builder.add(builder.add(out, channel), builder.mul(INDEX(p), channels))
            found = scaling.codes(builder, [builder.load(one)])
            builder.store(found, builder.bitcast(builder.gep(y, [place]), codes.as_pointer()), align=1)
        return context.get_dummy_value()

    def _within(builder, sizes, shape):
        """Whether every tap of every pixel lies inside of the image."""
        (height, width, _), (row, column, size, stride) = sizes, shape
        down = builder.sub(height, size)
        right = builder.sub(width, builder.add(size, builder.mul(INDEX(pixels - 1), stride)))
        tests = [builder.icmp_signed(">=", v, INDEX(0)) for v in (row, column)]
        tests += [builder.icmp_signed("<=", row, down), builder.icmp_signed("<=", column, right)]
        return builder.and_(builder.and_(*tests[:2]), builder.and_(*tests[2:]))

    def _add_taps(builder, sums, starts, sizes, shape, products):
        (height, width, _), (row, _, size, _) = sizes, shape
        with cgutils.for_range(builder, size) as rows:
            r = builder.add(row, rows.index)
            line = builder.mul(r, width)
            tap = builder.mul(rows.index, size)
            within = builder.icmp_unsigned("<", r, height)
            at = starts, sizes, shape, (line, within, tap)
            with cgutils.for_range(builder, builder.lshr(size, INDEX(1))) as pairs:
                first = builder.shl(pairs.index, INDEX(1))
                both = zip(
                    *(products(builder, at, builder.add(first, INDEX(i))) for i in (0, 1)), strict=True
                )
                _add(builder, sums, [builder.add(a, b) for a, b in both])
            with builder.if_then(builder.trunc(size, ir.IntType(1))):
                _add(builder, sums, products(builder, at, builder.sub(size, INDEX(1))))

    def _inner_products(builder, at, tap):
        """As `_products` if every tap lies inside of the image."""
        (x, w, _), (*_, channels), (_, column, _, stride), (line, _, first) = at
        place = builder.mul(builder.add(first, tap), channels)
        weight = builder.sext(_load(builder, codes, builder.gep(w, [place])), shorts)
        own = builder.gep(x, [builder.mul(builder.add(builder.add(line, column), tap), channels)])
        found = []
        for p in range(pixels):
            apart = builder.mul(builder.mul(INDEX(p), stride), channels)
            value = builder.sext(_load(builder, codes, builder.gep(own, [apart])), shorts)
            found.append(builder.mul(value, weight))
        return found

    def _products(builder, at, tap):
        """The weights of tap number `tap` of a row times what every pixel has under it: int16."""
        (x, w, outside), (_, width, channels), (_, column, _, stride), (line, within, first) = at
        place = builder.mul(builder.add(first, tap), channels)
        weight = builder.sext(_load(builder, codes, builder.gep(w, [place])), shorts)
        found = []
        for p in range(pixels):
            q = builder.add(builder.add(column, tap), builder.mul(INDEX(p), stride))
            inside = builder.and_(within, builder.icmp_unsigned("<", q, width))
            own = builder.gep(x, [builder.mul(builder.add(line, q), channels)])
            value = _load(builder, codes, builder.select(inside, own, outside))
            found.append(builder.mul(builder.sext(value, shorts), weight))
        return found

    def _add(builder, sums, values):
        for one, value in zip(sums, values, strict=True):
            builder.store(builder.add(builder.load(one), builder.sext(value, words)), one)

    @intrinsic
    def compute(typing, arrays, places, sizes, shape, fill, zero):
        return types.void(arrays, places, sizes, shape, fill, zero), emit

    return compute


def _load(builder, kind, pointer):
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)
