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
def product_tile(typing, arrays, places, size, zero):
    """Codes of two pixels and four output channels.

    `arrays`: (y, x, w, b, factor, shift), flat. `places`: offsets of two rows in y, of two in x, of the first
    row in w, and the first channel. `size`: k. The number type of x may be int8 or int16.
    """

    def emit(context, builder, signature, arguments):
        kinds = signature.args[0]
        arrays, places = (cgutils.unpack_tuple(builder, a) for a in arguments[:2])
        y, x, w, b, factor, shift = (
            context.make_array(k)(context, builder, a).data for k, a in zip(kinds, arrays, strict=True)
        )
        size, zero = arguments[2:]
        rows = [builder.gep(x, [places[2]]), builder.gep(x, [places[3]])]
        first = builder.gep(w, [places[4]])
        columns = [builder.gep(first, [builder.mul(INDEX(j), size)]) for j in range(COLUMNS)]
        pairs = _wide_pairs if has_wide_pairs(*context.codegen().magic_tuple()) else _pairs
        totals = _totals(builder, rows, columns, size, pairs)
        channel = places[5]
        b, factor, shift = (_twice(builder, builder.gep(a, [channel])) for a in (b, factor, shift))
        codes = emit_codes(builder, builder.add(totals, b), factor, shift, zero)
        for i in range(ROWS):
            out = builder.gep(y, [builder.add(places[i], channel)])
            half = _shuffled(builder, codes, codes, range(4 * i, 4 * i + 4))
            builder.store(half, builder.bitcast(out, half.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(arrays, places, size, zero), emit


def emit_codes(builder, totals, factor, shift, zero):
    """int8 codes of int32 sums: floor(sum * factor / 2**shift + 1/2) + zero, limited to a code."""
    wide = ir.VectorType(INDEX, totals.type.count)
    one = ir.Constant(wide, [1] * wide.count)
    totals, factor, shift = (builder.sext(v, wide) for v in (totals, factor, shift))
    half = builder.shl(one, builder.sub(shift, one))
    values = builder.ashr(builder.add(builder.mul(totals, factor), half), shift)
    values = builder.add(values, spread(builder, zero, wide))
    for sign, limit in ((">", 127), ("<", -128)):
        bound = ir.Constant(wide, [limit] * wide.count)
        values = builder.select(builder.icmp_signed(sign, values, bound), bound, values)
    return builder.trunc(values, ir.VectorType(BYTE, wide.count))


def _totals(builder, rows, columns, size, pairs):
    """<8 x i32>: the sums of products of every row with every column, row by row."""
    sums = [cgutils.alloca_once(builder, EIGHT) for _ in range(ROWS * COLUMNS)]
    rest = [cgutils.alloca_once(builder, WORD) for _ in range(ROWS * COLUMNS)]
    for one in (*sums, *rest):
        builder.store(ir.Constant(one.type.pointee, None), one)
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
        for one, (a, b) in zip(rest, ((a, b) for a in xs for b in ws), strict=True):
            builder.store(builder.add(builder.load(one), builder.mul(a, b)), one)
    totals = _added_up(builder, [builder.load(one) for one in sums])
    for i, one in enumerate(rest):
        part = builder.extract_element(totals, WORD(i))
        totals = builder.insert_element(totals, builder.add(part, builder.load(one)), WORD(i))
    return totals


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
