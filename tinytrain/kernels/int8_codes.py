"""From int32 sums to int8 codes, in integers alone: of one number, and of vectors as LLVM instructions."""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from tinytrain.kernels.jit import inlined
from tinytrain.kernels.vectors import (
    BYTE,
    INDEX,
    SHORT,
    WORD,
    Target,
    call,
    constant,
    joined,
    parts,
    reloaded,
    shuffled,
    spread,
)


@inlined
def rescaled(total, factor, shift):
    """floor(total * factor / 2**shift + 1/2): the nearest whole number, halves up."""
    return (np.int64(total) * np.int64(factor) + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)


@inlined
def as_code(value, zero):
    """int8 code of a whole number of steps."""
    return np.int8(min(max(np.int64(value + zero), np.int64(-128)), np.int64(127)))


class Rescaling:
    """floor(sum * factor / 2**shift + 1/2) + zero, limited to a code, of int32 vectors of some channels.

    `factor` and `shift` are int32 vectors. If every shift is above 32, the upper halves of the products
    decide, and 32 bits are enough.
    """

    def __init__(self, builder, target: Target, factor, shift, zero):
        self.target, self.factor, self.shift = target, factor, shift
        odd = shuffled(builder, factor, factor, [n | 1 for n in range(factor.type.count)])
        self._kept = [cgutils.alloca_once(builder, factor.type) for _ in range(2)]
        for place, lanes in zip(self._kept, (factor, odd), strict=True):
            builder.store(lanes, place)
        self.zero = builder.trunc(zero, SHORT)
        count = shift.type.count
        usual = builder.icmp_signed(">", shift, constant(shift.type, 32))
        usual = builder.bitcast(usual, ir.IntType(count))
        self.usual = builder.icmp_unsigned("==", usual, usual.type(2**count - 1))

    def codes(self, builder, totals):
        """int8 vector of the int32 vectors `totals`, 2**n of them, one after another."""
        count = totals[0].type.count * len(totals)
        result = cgutils.alloca_once(builder, ir.VectorType(BYTE, count))
        with builder.if_else(self.usual, likely=True) as (then, otherwise):
            for block, form in ((then, self._short), (otherwise, self._long)):
                with block:
                    values = joined(builder, [form(builder, total) for total in totals])
                    builder.store(self._limited(builder, values), result)
        return builder.load(result)

    def _short(self, builder, totals):
        if self.target.arm:
            return self._short_on_arm(builder, totals)
        kind = totals.type
        doubled = ir.VectorType(INDEX, kind.count // 2)
        by, odd = constant(doubled, 32), [n | 1 for n in range(kind.count)]
        products = []
        for lanes, kept in zip((totals, shuffled(builder, totals, totals, odd)), self._kept, strict=True):
            # Where LLVM does not see how they were widened, it multiplies 64 bits, which takes much longer.
            pair = lanes, reloaded(builder, kind, kept)
            x, f = (builder.ashr(builder.shl(builder.bitcast(v, doubled), by), by) for v in pair)
            products.append(builder.bitcast(builder.mul(x, f), kind))
        lanes = [k + more for k in range(1, kind.count, 2) for more in (0, kind.count)]
        upper = shuffled(builder, *products, lanes)
        less = builder.sub(self.shift, constant(kind, 33))
        half = builder.shl(constant(kind, 1), less)
        return builder.ashr(builder.add(upper, half), builder.add(less, constant(kind, 1)))

    def _short_on_arm(self, builder, totals):
        """The upper halves of doubled products, then a rounding shift by one more."""
        four = ir.VectorType(WORD, 4)
        left = builder.sub(constant(totals.type, 31), self.shift)
        found = []
        for x, f, by in zip(*(parts(builder, v, 4) for v in (totals, self.factor, left)), strict=True):
            upper = call(builder, "llvm.aarch64.neon.sqdmulh.v4i32", four, x, f)
            found.append(call(builder, "llvm.aarch64.neon.srshl.v4i32", four, upper, by))
        return joined(builder, found)

    def _long(self, builder, totals):
        """Limited to 32 bits far outside of the codes."""
        wide = ir.VectorType(INDEX, totals.type.count)
        totals, factor, shift = (builder.sext(v, wide) for v in (totals, self.factor, self.shift))
        half = builder.shl(constant(wide, 1), builder.sub(shift, constant(wide, 1)))
        values = builder.ashr(builder.add(builder.mul(totals, factor), half), shift)
        return builder.trunc(between(builder, values, -(2**20), 2**20), ir.VectorType(WORD, wide.count))

    def _limited(self, builder, values):
        """By way of 16 bits, because processors have instructions that narrow so."""
        shorts, codes = (ir.VectorType(kind, values.type.count) for kind in (SHORT, BYTE))
        values = builder.trunc(between(builder, values, -(2**15), 2**15 - 1), shorts)
        name = f"llvm.sadd.sat.v{shorts.count}i16"
        values = call(builder, name, shorts, values, spread(builder, self.zero, shorts))
        return builder.trunc(between(builder, values, -128, 127), codes)


def between(builder, values, low: int, high: int):
    """`values`, limited."""
    for sign, limit in ((">", high), ("<", low)):
        bound = constant(values.type, limit)
        values = builder.select(builder.icmp_signed(sign, values, bound), bound, values)
    return values
