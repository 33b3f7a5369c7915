"""Products of int8 codes in register tiles, written as LLVM instructions.

A tile is two rows of x times four rows of w: both are contiguous in k, so the eight sums are vectors that run
over k and are added up at the end. Pairs of 16-bit products with their sum are one instruction of x86 and of
other processors.
"""

from functools import cache

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, SHORT, WORD, INDEX = (ir.IntType(bits) for bits in (8, 16, 32, 64))
ROWS, COLUMNS = 2, 4
EIGHT = ir.VectorType(WORD, 8)

# Registers of 256 bits with integer instructions: LLVM adds such vectors in one instruction.
PROBE = """
define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {
  %r = add <8 x i32> %a, %b
  ret <8 x i32> %r
}
"""


@cache
def has_wide_pairs(triple: str, processor: str, features: str) -> bool:
    """Whether this is an x86 processor that adds up pairs of sixteen products in one instruction."""
    if not triple.startswith("x86_64"):
        return False
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, features=features)
    module = binding.parse_assembly(PROBE)
    module.triple = triple
    return "ymm" in machine.emit_assembly(module)


@intrinsic
def product_strip(typing, arrays, sizes, channel, zero):
    """Codes of all pixels and of four output channels from `channel` on, two pixels at a time.

    `arrays`: (y, x, w, b, factor, shift), flat; x is int8 or int16. `sizes`: pixels (at least two), k, and
    the number of channels. For an odd number of pixels the last tile overlaps with the one before.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, (m, size, n) = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, b, factor, shift = (
            context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)
        )
        channel, zero = arguments[2:]
        first = builder.gep(w, [builder.mul(channel, size)])
        columns = [builder.gep(first, [builder.mul(INDEX(j), size)]) for j in range(COLUMNS)]
        b, factor, shift = (_twice(builder, builder.gep(a, [channel])) for a in (b, factor, shift))
        pairs = _wide_pairs if has_wide_pairs(*context.codegen().magic_tuple()) else _pairs
        more = builder.lshr(builder.add(m, INDEX(1)), INDEX(1))
        with cgutils.for_range(builder, more) as loop:
            start, last = builder.shl(loop.index, INDEX(1)), builder.sub(m, INDEX(ROWS))
            start = builder.select(builder.icmp_signed("<", start, last), start, last)
            places = [builder.add(start, INDEX(i)) for i in range(ROWS)]
            rows = [builder.gep(x, [builder.mul(i, size)]) for i in places]
            totals = _totals(builder, rows, columns, size, pairs)
            codes = emit_codes(builder, builder.add(totals, b), factor, shift, zero)
            for i, place in enumerate(places):
                out = builder.gep(y, [builder.add(builder.mul(place, n), channel)])
                half = _shuffled(builder, codes, codes, range(4 * i, 4 * i + 4))
                builder.store(half, builder.bitcast(out, half.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(arrays, sizes, channel, zero), emit


def emit_codes(builder, totals, factor, shift, zero):
    """int8 codes of int32 sums: floor(sum * factor / 2**shift + 1/2) + zero, limited to a code.

    If every shift is above 32, the upper halves of the products decide, and 32 bits are enough.
    """
    count = totals.type.count
    result = cgutils.alloca_once(builder, ir.VectorType(BYTE, count))
    usual = builder.icmp_signed(">", shift, ir.Constant(shift.type, [32] * count))
    usual = builder.bitcast(usual, ir.IntType(count))
    with builder.if_else(builder.icmp_unsigned("==", usual, usual.type(2**count - 1)), likely=True) as (
        then,
        otherwise,
    ):
        for block, emit in ((then, _short_codes), (otherwise, _long_codes)):
            with block:
                builder.store(emit(builder, totals, factor, shift, zero), result)
    return builder.load(result)


def _short_codes(builder, totals, factor, shift, zero):
    kind, wide = totals.type, ir.VectorType(INDEX, totals.type.count)
    one, beyond = (ir.Constant(kind, [n] * kind.count) for n in (1, 33))
    product = builder.mul(builder.sext(totals, wide), builder.sext(factor, wide))
    upper = builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * kind.count)), kind)
    less = builder.sub(shift, beyond)
    values = builder.ashr(builder.add(upper, builder.shl(one, less)), builder.add(less, one))
    return _limited(builder, values, zero)


def _long_codes(builder, totals, factor, shift, zero):
    wide = ir.VectorType(INDEX, totals.type.count)
    one = ir.Constant(wide, [1] * wide.count)
    totals, factor, shift = (builder.sext(v, wide) for v in (totals, factor, shift))
    half = builder.shl(one, builder.sub(shift, one))
    return _limited(builder, builder.ashr(builder.add(builder.mul(totals, factor), half), shift), zero)


def _limited(builder, values, zero):
    kind = values.type
    zero = builder.trunc(zero, kind.element) if kind.element != INDEX else zero
    values = builder.add(values, spread(builder, zero, kind))
    for sign, limit in ((">", 127), ("<", -128)):
        bound = ir.Constant(kind, [limit] * kind.count)
        values = builder.select(builder.icmp_signed(sign, values, bound), bound, values)
    return builder.trunc(values, ir.VectorType(BYTE, kind.count))


def _totals(builder, rows, columns, size, pairs):
    """<8 x i32>: the sums of products of every row with every column, row by row."""
    sums = [cgutils.alloca_once(builder, EIGHT) for _ in range(ROWS * COLUMNS)]
    for one in sums:
        builder.store(ir.Constant(EIGHT, None), one)
    sixteens = builder.lshr(size, INDEX(4))
    with cgutils.for_range(builder, sixteens) as loop:
        k = builder.shl(loop.index, INDEX(4))
        _add_products(builder, sums, rows, columns, (k, 16), pairs)
    done = builder.and_(size, INDEX(-16))
    with builder.if_then(builder.icmp_unsigned("!=", builder.and_(size, INDEX(8)), INDEX(0))):
        _add_products(builder, sums, rows, columns, (done, 8), _pairs)
    done = builder.and_(size, INDEX(-8))
    with cgutils.for_range(builder, builder.sub(size, done)) as loop:
        k = builder.add(done, loop.index)
        xs, ws = ([builder.sext(builder.load(builder.gep(p, [k])), WORD) for p in s] for s in (rows, columns))
        for one, (a, b) in zip(sums, ((a, b) for a in xs for b in ws), strict=True):
            alone = builder.insert_element(ir.Constant(EIGHT, None), builder.mul(a, b), WORD(0))
            builder.store(builder.add(builder.load(one), alone), one)
    return _added_up(builder, [builder.load(one) for one in sums])


def _add_products(builder, sums, rows, columns, span, pairs_of):
    k, count = span
    narrow = ir.VectorType(SHORT, count)

    def load(pointer):
        place = builder.gep(pointer, [k])
        kind = ir.VectorType(pointer.type.pointee, count)
        value = builder.load(builder.bitcast(place, kind.as_pointer()), align=1)
        return value if kind == narrow else builder.sext(value, narrow)

    xs, ws = [load(p) for p in rows], [load(p) for p in columns]
    for one, (a, b) in zip(sums, ((a, b) for a in xs for b in ws), strict=True):
        pairs = pairs_of(builder, a, b)
        if count == 8:
            pairs = _shuffled(builder, pairs, ir.Constant(pairs.type, None), range(8))
        builder.store(builder.add(builder.load(one), pairs), one)


def _pairs(builder, a, b):
    """Sums of neighbouring products of int16 vectors: int32, half as many."""
    count = a.type.count
    half = ir.VectorType(WORD, count // 2)
    parts = []
    for odd in (0, 1):
        x, y = (builder.sext(_shuffled(builder, v, v, range(odd, count, 2)), half) for v in (a, b))
        parts.append(builder.mul(x, y))
    return builder.add(*parts)


def _wide_pairs(builder, a, b):
    """As `_pairs`, of sixteen, which LLVM does not recognise."""
    kind = ir.FunctionType(EIGHT, [a.type, b.type])
    found = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
    return builder.call(found, [a, b])


def _added_up(builder, vectors):
    """<8 x i32>: the sum over each of eight vectors <8 x i32>."""
    even, odd = (0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15)
    for _ in range(2):  # neighbours, in each half of a register alone
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            builder.add(_shuffled(builder, a, b, even), _shuffled(builder, a, b, odd)) for a, b in pairs
        ]
    a, b = vectors
    low, high = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
    return builder.add(_shuffled(builder, a, b, low), _shuffled(builder, a, b, high))


def _shuffled(builder, a, b, lanes):
    mask = ir.Constant(ir.VectorType(WORD, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def _twice(builder, pointer):
    """Four int32 from memory, and the same four behind them."""
    kind = ir.VectorType(WORD, 4)
    value = builder.load(builder.bitcast(pointer, kind.as_pointer()), align=4)
    return _shuffled(builder, value, value, (0, 1, 2, 3, 0, 1, 2, 3))


def spread(builder, value, vector):
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, WORD(0))
    return _shuffled(builder, one, nothing, [0] * vector.count)
