"""LLVM code that kernels share: vectors, arrays and loops, and what the processor compiled for can do."""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from llvmlite import binding, ir
from llvmlite.ir import instructions
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, SHORT, WORD, INDEX = (ir.IntType(bits) for bits in (8, 16, 32, 64))
TRUTH = ir.IntType(1)

# How wide registers with integer instructions are shows in what LLVM adds such a vector with; what finds sums
# of four products of bytes shows in what it makes of the second function.
PROBE = """
define <16 x i32> @sum(<16 x i32> %a, <16 x i32> %b) {
  %r = add <16 x i32> %a, %b
  ret <16 x i32> %r
}
declare i32 @llvm.vector.reduce.add.v64i32(<64 x i32>)
define i32 @dot(<64 x i8> %a, <64 x i8> %b) {
  %x = zext <64 x i8> %a to <64 x i32>
  %y = sext <64 x i8> %b to <64 x i32>
  %p = mul <64 x i32> %x, %y
  %r = call i32 @llvm.vector.reduce.add.v64i32(<64 x i32> %p)
  ret i32 %r
}
"""


@dataclass(frozen=True)
class Target:
    """What is compiled for.

    `register`: bytes of a vector register, 0 if unknown. `dots`: an x86 processor with AVX-512 that adds up
    four products of bytes in one instruction. `arm`: a 64-bit ARM processor, which has instructions for
    products of bytes and for rounding.
    """

    register: int
    dots: bool
    arm: bool

    @property
    def x86(self) -> bool:
        return self.register > 0 and not self.arm

    @property
    def wide(self) -> bool:
        """Whether it is an x86 processor that adds up pairs of sixteen products in one instruction."""
        return self.register >= 32 and not self.arm


def target_of(context) -> Target:
    """Of the numba target `context`."""
    return _target(*context.codegen().magic_tuple())


@cache
def _target(triple: str, processor: str, features: str) -> Target:
    if not triple.startswith("x86_64"):
        arm = triple.startswith(("aarch64-", "arm64-"))
        return Target(16 if arm else 0, False, arm)
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, features=features)
    module = binding.parse_assembly(PROBE)
    module.triple = triple
    code = machine.emit_assembly(module)
    register = 64 if "zmm" in code else 32 if "ymm" in code else 16
    return Target(register, register == 64 and "vpdpbusd" in code, False)


def pointers(context, builder, kinds, arrays):
    """To the first element of each of `arrays`, which numba knows as `kinds`."""
    return [
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(kinds, arrays, strict=True)
    ]


def room(builder, kind, count: int):
    """Pointer to `count` of `kind` on the stack of the kernel, which nothing else points to.

    What lies there is undefined: numba's `alloca_once` would write zeros first.
    """
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(kind, count))
    place.align = 64
    return builder.bitcast(place, kind.as_pointer())


@contextmanager
def blocks(builder, count, size: int):
    """Loop over the starts of blocks of `size` that cover `count`, at least `size`.

    If `count` is no multiple of `size`, the last block overlaps with the one before.
    """
    more = builder.udiv(builder.add(count, INDEX(size - 1)), INDEX(size))
    with cgutils.for_range(builder, more) as loop:
        start, last = builder.mul(loop.index, INDEX(size)), builder.sub(count, INDEX(size))
        yield builder.select(builder.icmp_signed("<", start, last), start, last)


def load(builder, kind, pointer):
    """A vector of type `kind` from memory that need not be aligned."""
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)


def store(builder, value, pointer) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=1)


class _Reloaded(instructions.LoadInstr):
    """A volatile load."""

    def descr(self, buf):
        text: list[str] = []
        super().descr(text)
        buf.append("".join(text).replace("load", "load volatile", 1))


def reloaded(builder, kind, pointer):
    """As `load`, each time anew: LLVM neither keeps the vector in a register nor moves it to the stack."""
    found = _Reloaded(builder.block, builder.bitcast(pointer, kind.as_pointer()))
    found.align = 1
    builder._insert(found)
    return found


def pinned(builder, value, register: str = "w"):
    """`value` here: LLVM moves neither what makes it nor a load past this place, nor guesses what it is.

    For ARM. It is a vector, or with the `register` "r" a pointer.
    """
    function = ir.FunctionType(value.type, [value.type])
    return builder.asm(function, "", f"={register},0,~{{memory}}", [value], True)


def constant(kind, value: int):
    """A vector of type `kind` of equal numbers."""
    return ir.Constant(kind, [value] * kind.count)


def shuffled(builder, a, b, lanes):
    mask = ir.Constant(ir.VectorType(WORD, len(lanes)), list(lanes))
    return builder.shuffle_vector(a, b, mask)


def spread(builder, value, vector):
    """`value` in every lane."""
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, WORD(0))
    return shuffled(builder, one, nothing, [0] * vector.count)


def call(builder, name: str, kind, *arguments):
    """The LLVM intrinsic `name`, which gives a vector of type `kind`."""
    function = ir.FunctionType(kind, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)


def joined(builder, vectors):
    """All lanes of 2**n vectors of one type, in one vector."""
    while len(vectors) > 1:
        lanes = range(2 * vectors[0].type.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffled(builder, a, b, lanes) for a, b in pairs]
    return vectors[0]


def parts(builder, vector, count: int):
    """`vector` in vectors of `count` lanes."""
    starts = range(0, vector.type.count, count)
    return [shuffled(builder, vector, vector, range(k, k + count)) for k in starts]


def pairs_of_products(builder, target: Target, a, b):
    """Sums of neighbouring products of two int16 vectors: int32, half as many lanes."""
    count = a.type.count
    if target.x86:  # LLVM does not recognise so many, or one that is spread
        some, name = (16, "llvm.x86.avx2.pmadd.wd") if target.wide else (8, "llvm.x86.sse2.pmadd.wd")
        both = zip(*(parts(builder, v, some) for v in (a, b)), strict=True)
        return joined(builder, [call(builder, name, ir.VectorType(WORD, some // 2), *v) for v in both])
    half, products = ir.VectorType(WORD, count // 2), []
    for odd in (0, 1):
        x, y = (builder.sext(shuffled(builder, v, v, range(odd, count, 2)), half) for v in (a, b))
        products.append(builder.mul(x, y))
    return builder.add(*products)


def add_dots(builder, total, unsigned, signed):
    """<16 x i32> plus the products of four bytes without a sign and four with one, for `Target.dots`."""
    return call(builder, "llvm.x86.avx512.vpdpbusd.512", total.type, total, unsigned, signed)


@intrinsic
def move_bytes(typing, y, x):
    """y (m,) = x (m,) of bytes; the arrays may overlap."""

    def emit(context, builder, signature, arguments):
        y, x = pointers(context, builder, signature.args, arguments)
        count = context.make_array(signature.args[0])(context, builder, arguments[0]).nitems
        cgutils.raw_memmove(builder, y, x, count, 1)
        return context.get_dummy_value()

    return types.void(y, x), emit


@intrinsic
def shifted_sum(typing, start, x, first, skip, second, by):
    """``(start + x * first + skip * second) >> by`` of int8 x and skip and of int32, all in 32 bits.

    Numba takes 64 for it, which vectors of some processors neither multiply nor shift.
    """

    def emit(context, builder, signature, arguments):
        start, x, first, skip, second, by = arguments
        x, skip = builder.sext(x, WORD), builder.sext(skip, WORD)
        both = builder.add(builder.mul(x, first), builder.mul(skip, second))
        return builder.ashr(builder.add(start, both), by)

    return types.int32(start, x, first, skip, second, by), emit
