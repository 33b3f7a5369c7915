"""Products of matrices of float32 in register tiles, written as LLVM instructions.

Every number of a result is one chain of fused multiply-adds over the terms in ascending order, from 0 or from
what was there. So strips, tiles, threads and processors change no bit of it. What follows in a layer (bias,
another input, clamp) is done while the numbers are in registers, and rounded as its kernels round.

A tile has some rows and columns of the result. If neighbouring columns of w are no neighbours in memory, they
are copied to the stack first, `TERMS` terms at a time: 6 kB at most.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytrain.kernels.dispatch.direct import ADDS, BIAS, CLAMP, SKIP
from tinytrain.kernels.fused import emit_fused
from tinytrain.kernels.jit import kernel
from tinytrain.kernels.vectors import INDEX, Target, load, room, shuffled, spread, store, target_of

FLOAT = ir.FloatType()
TERMS = 32


@intrinsic
def _add_tiles(typing, arrays, how):
    """`how`: what `product` does, as a sum of flags; `arrays` are its others."""

    def emit(context, builder, signature, arguments):
        given, how = arguments
        pairs = zip(signature.args[0], cgutils.unpack_tuple(builder, given), strict=True)
        arrays = [context.make_array(kind)(context, builder, array) for kind, array in pairs]
        _Product(context, builder, arrays, how).emit()
        return context.get_dummy_value()

    return types.void(arrays, how), emit


@kernel
def product(y, x, w, b, skip, how):
    """y (m, n) = x (m, k) @ w (k, n), of any strides but that rows of y, b and skip have no gaps.

    x has four axes, of which the first two make m and the others k: windows of a plane, which may overlap in
    memory, need not be copied side by side. y overlaps neither x nor w.

    `how` is a sum of: ADDS, y is added to; BIAS, then b (n,) is added; SKIP, b + skip (m, n) is; CLAMP, the
    result is limited to 0 to 6.
    """
    blocks, m, lines, k = x.shape
    for i in range(blocks):
        first, end = i * m, (i + 1) * m
        for j in range(lines):
            now = how | ADDS if j else how
            now = now if j == lines - 1 else now & ADDS  # what comes after the product does so once
            _add_tiles((y[first:end], x[i, :, j], w[j * k : (j + 1) * k], b, skip[first:end]), now)


def _tile(target: Target) -> tuple[int, tuple[int, ...]]:
    """Rows of a tile, and columns of those that are tried one after another, by what the registers hold."""
    if target.arm:
        return 8, (8, 4, 1)
    return (8, (48, 32, 16, 8, 4, 1)) if target.register == 64 else (4, (24, 16, 8, 4, 1))


class _Matrix:
    """Pointer to the first number, size and, in numbers, strides of an array of one or two axes."""

    def __init__(self, builder, array):
        axes = range(array.shape.type.count)
        self.data = array.data
        self.shape = [builder.extract_value(array.shape, k) for k in axes]
        self.steps = [builder.ashr(builder.extract_value(array.strides, k), INDEX(2)) for k in axes]


class _Product:
    def __init__(self, context, builder, arrays, how):
        self.context, self.builder, self.target = context, builder, target_of(context)
        self.y, self.x, self.w, self.b, self.skip = (_Matrix(builder, array) for array in arrays)
        (self.m, self.n), self.k = self.y.shape, self.w.shape[0]
        self.rows, self.columns = _tile(self.target)
        self.packed = room(builder, FLOAT, TERMS * self.columns[0])
        flags = (ADDS, BIAS, CLAMP, SKIP)
        self.adds, self.bias, self.clamp, self.skips = (
            builder.icmp_signed("!=", builder.and_(how, INDEX(flag)), INDEX(0)) for flag in flags
        )

    def at(self, matrix: _Matrix, *place):
        """Pointer to a number."""
        b, total = self.builder, INDEX(0)
        for one, step in zip(place, matrix.steps, strict=True):
            total = b.add(total, b.mul(one, step))
        return b.gep(matrix.data, [total])

    def least(self, a, b):
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def emit(self) -> None:
        b = self.builder
        along = b.icmp_signed("==", self.w.steps[1], INDEX(1))
        terms = b.select(b.icmp_signed("==", self.k, INDEX(0)), INDEX(1), self.k)
        most = b.select(along, terms, self.least(terms, INDEX(TERMS)))
        last, done = b.udiv(b.sub(terms, INDEX(1)), most), INDEX(0)
        for wide in self.columns:
            many = b.udiv(b.sub(self.n, done), INDEX(wide))
            with cgutils.for_range(b, many) as loop, cgutils.for_range(b, b.add(last, INDEX(1))) as part:
                column = b.add(done, b.mul(loop.index, INDEX(wide)))
                term = b.mul(part.index, most)
                some = self.least(most, b.sub(self.k, term))
                line = self.at(self.w, term, column)
                with b.if_then(b.not_(along)):
                    self.pack(line, some, wide)
                line = b.select(along, line, self.packed), b.select(along, self.w.steps[0], INDEX(wide))
                adds = b.or_(self.adds, b.icmp_signed("!=", term, INDEX(0)))
                self.strip(column, wide, (term, some, line), adds, b.icmp_signed("==", part.index, last))
            done = b.add(done, b.mul(many, INDEX(wide)))

    def pack(self, line, some, wide: int) -> None:
        """`wide` columns of w, `some` terms of each: neighbouring terms are neighbours in memory or not."""
        b, (down, across) = self.builder, self.w.steps
        done, lanes = INDEX(0), 4 if self.target.arm or wide < 8 else 8
        if wide >= lanes:
            neighbours = b.icmp_signed("==", down, INDEX(1))
            done = b.select(neighbours, b.and_(some, INDEX(-lanes)), done)
            vector, starts = ir.VectorType(FLOAT, lanes), range(0, wide, lanes)
            with cgutils.for_range(b, b.udiv(done, INDEX(lanes))) as loop:
                k = b.mul(loop.index, INDEX(lanes))
                for start in starts:
                    places = (b.add(k, b.mul(INDEX(start + j), across)) for j in range(lanes))
                    columns = [load(b, vector, b.gep(line, [place])) for place in places]
                    for j, row in enumerate(self.transposed(columns)):
                        place = b.add(b.mul(b.add(k, INDEX(j)), INDEX(wide)), INDEX(start))
                        store(b, row, b.gep(self.packed, [place]))
        with cgutils.for_range(b, b.sub(some, done)) as loop, cgutils.for_range(b, INDEX(wide)) as j:
            k = b.add(done, loop.index)
            value = b.load(b.gep(line, [b.add(b.mul(k, down), b.mul(j.index, across))]))
            b.store(value, b.gep(self.packed, [b.add(b.mul(k, INDEX(wide)), j.index)]))

    def transposed(self, rows):
        """As many vectors as each has lanes."""
        count = len(rows)
        low = [n for k in range(count // 2) for n in (k, count + k)]
        for _ in range(count.bit_length() - 1):
            pairs = zip(rows[: count // 2], rows[count // 2 :], strict=True)
            rows = [
                shuffled(self.builder, a, c, [n + half for n in low])
                for a, c in pairs
                for half in (0, count // 2)
            ]
        return rows

    def strip(self, column, wide: int, terms, adds, ends) -> None:
        """All rows of `wide` columns. The last tile has the last row more than once, with the same bits."""
        b = self.builder
        tiles = b.udiv(b.add(self.m, INDEX(self.rows - 1)), INDEX(self.rows))
        with cgutils.for_range(b, tiles) as loop:
            first = b.mul(loop.index, INDEX(self.rows))
            last = b.sub(b.sub(self.m, INDEX(1)), first)
            there = [b.icmp_signed("<=", INDEX(p), last) for p in range(1, self.rows)]

            def rows(matrix, column):
                """Pointers to a number of each row."""
                found, step = [self.at(matrix, first, column)], matrix.steps[0]
                for one in there:
                    found.append(b.gep(found[-1], [b.select(one, step, INDEX(0))]))
                return found

            lanes = min(wide, self.target.register // 4 or 4)
            places = [INDEX(p) for p in range(0, wide, lanes)]
            self.tile(rows, column, (ir.VectorType(FLOAT, lanes), places), terms, adds, ends)

    def tile(self, rows, column, wide, terms, adds, ends) -> None:
        b, (vector, places) = self.builder, wide
        out = [[b.gep(row, [p]) for p in places] for row in rows(self.y, column)]
        sums = [[cgutils.alloca_once(b, vector) for _ in places] for _ in out]
        pairs = [pair for line in zip(sums, out, strict=True) for pair in zip(*line, strict=True)]
        for one, _ in pairs:
            b.store(ir.Constant(vector, None), one)
        with b.if_then(adds):
            for one, place in pairs:
                b.store(load(b, vector, place), one)
        self.add(rows, sums, wide, terms)
        with b.if_then(ends):
            self.finish(rows, column, sums, wide)
        for one, place in pairs:
            store(b, b.load(one), place)

    def add(self, rows, sums, wide, terms) -> None:
        b, (vector, places), (term, some, (line, step)) = self.builder, *(wide, terms)
        own, done = rows(self.x, term), INDEX(0)

        def add_term(k, factors):
            values = [load(b, vector, b.gep(line, [b.add(b.mul(k, step), p)])) for p in places]
            for line_of_sums, factor in zip(sums, factors, strict=True):
                for one, value in zip(line_of_sums, values, strict=True):
                    b.store(emit_fused(self.context, b, factor, value, b.load(one)), one)

        if self.target.arm and vector.count == 4:  # it multiplies by one lane of a vector
            neighbours = b.icmp_signed("==", self.x.steps[1], INDEX(1))
            done = b.select(neighbours, b.and_(some, INDEX(-4)), done)
            with cgutils.for_range(b, b.udiv(done, INDEX(4))) as loop:
                k = b.mul(loop.index, INDEX(4))
                fours = [load(b, vector, b.gep(pointer, [k])) for pointer in own]
                for lane in range(4):
                    add_term(b.add(k, INDEX(lane)), [shuffled(b, four, four, [lane] * 4) for four in fours])
        with cgutils.for_range(b, b.sub(some, done)) as loop:
            k = b.add(done, loop.index)
            at = b.mul(k, self.x.steps[1])
            add_term(k, [spread(b, b.load(b.gep(pointer, [at])), vector) for pointer in own])

    def finish(self, rows, column, sums, wide) -> None:
        """What comes after the product, in the order of `add_bias` and its relatives."""
        b, (vector, places) = self.builder, wide
        with b.if_then(self.bias):
            bias = [load(b, vector, b.gep(self.b.data, [b.add(column, p)])) for p in places]
            with b.if_else(self.skips) as (yes, no):
                with yes:
                    for row, line in zip(rows(self.skip, column), sums, strict=True):
                        for one, value, p in zip(line, bias, places, strict=True):
                            value = b.fadd(value, load(b, vector, b.gep(row, [p])))
                            b.store(b.fadd(b.load(one), value), one)
                with no:
                    for line in sums:
                        for one, value in zip(line, bias, strict=True):
                            b.store(b.fadd(b.load(one), value), one)
        with b.if_then(self.clamp):
            zero, six = (ir.Constant(vector, [ir.Constant(FLOAT, v)] * vector.count) for v in (0.0, 6.0))
            for line in sums:
                for one in line:
                    value = b.load(one)
                    value = b.select(b.fcmp_ordered("<", value, zero), zero, value)
                    b.store(b.select(b.fcmp_ordered(">", value, six), six, value), one)
