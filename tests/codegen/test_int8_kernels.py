"""Int8 kernels in C against plain numpy: random arrays, extreme scales, saturated codes, changed columns."""

import ctypes
from ctypes import c_int8, c_int32, c_uint8, c_uint16, c_void_p

import emitted
import numpy as np
import pytest
from cases import each, quick
from toynets import rng

from tinytrain.codegen.folder import SOURCES
from tinytrain.kernels import reference
from tinytrain.kernels import reference_int8 as oracle
from tinytrain.kernels import reference_triangles as triangles
from tinytrain.kernels import reference_updates as updates
from tinytrain.network.quantisation import addition_factors

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")
CHANGED = [(0, 0), (4, 0), (4, 1), (11, 9), (5, 24)]  # columns, and their inputs: 0 for all
RULES = (updates.NEAREST, updates.TRUNCATED, updates.STOCHASTIC, updates.CARRIED)


class Weights(ctypes.Structure):
    _fields_ = (
        ("codes", c_void_p), ("start", c_void_p), ("factor", c_void_p), ("shift", c_void_p),
        ("scales", c_void_p), ("bias", c_void_p), ("unit", c_void_p), ("steps", c_void_p),
        ("fan_in", c_uint16), ("cout", c_uint16), ("given", c_int8), ("zero", c_int8), ("depthwise", c_uint8),
    )  # fmt: skip


class Change(ctypes.Structure):
    _fields_ = (
        ("weights", c_void_p), ("channels", c_void_p), ("bias", c_void_p), ("inputs", c_void_p),
        ("count", c_uint16), ("rows", c_uint16),
    )  # fmt: skip


class Layer(ctypes.Structure):
    _fields_ = (("kept", ctypes.POINTER(Weights)), ("change", ctypes.POINTER(Change)))


class Shape(ctypes.Structure):
    _fields_ = (
        *((name, c_uint16) for name in ("height", "width", "channels", "out_height", "out_width")),
        ("kernel", c_uint8), ("stride", c_uint8),
    )  # fmt: skip


class SumOf(ctypes.Structure):
    _fields_ = tuple((name, c_int32) for name in ("x", "skip", "shift", "x_zero", "skip_zero", "zero"))


@pytest.fixture(scope="module")
def c(tmp_path_factory):
    files = [*SOURCES.glob("kernels_int8_*.c"), SOURCES / "kernels_rows.c", SOURCES / "kernels_packed.c"]
    files += [SOURCES / "kernels_math.c"]
    return emitted.shared(files, tmp_path_factory.mktemp("c") / "kernels.so")


def at(array: np.ndarray) -> c_void_p:
    return c_void_p(array.ctypes.data)


class Made:
    """A layer with random arrays, for C and as numpy has it: `w`, `b` and others as they are now.

    So many columns are `changed`, all of them or the weights of so many `inputs`.
    """

    def __init__(self, r, fan_in: int, cout: int, depthwise: bool = False, changed: int = 0, inputs: int = 0):
        turned = not depthwise
        self.given, self.zero = (int(r.integers(-128, 128)) for _ in range(2))
        self.w = r.integers(-127, 128, (cout, fan_in) if turned else (fan_in, cout)).astype(np.int8)
        self.bias, self.unit = (
            r.standard_normal(cout).astype("f"),
            np.exp(r.uniform(-9, -3, cout)).astype("f"),
        )
        self.scales = np.exp(r.uniform(-6, 0, cout)).astype("f")
        self.steps = (1 / self.scales).astype("f")
        self.factor = r.integers(2**30, 2**31, cout).astype(np.int32)
        self.shift = r.integers(36, 44, cout).astype(np.int32)
        self.shift[:3] = 1, 62, 32  # codes that are all saturated, or all 0, and what fits 32 bits
        self.b = np.empty(cout, np.int32)
        updates.fold_bias(self.b, self.bias, self.unit, self.w, self.given, turned)
        self.kept = [a.copy() for a in (self.w, self.b, self.factor, self.shift.astype(np.uint8))]
        self.kept += [self.scales, self.bias.copy(), self.unit, self.steps]
        sizes = fan_in, cout, self.given, self.zero, depthwise
        self.flash, self.over = Weights(*map(at, self.kept), *sizes), None
        if changed:
            self.columns = np.sort(r.permutation(cout)[:changed]).astype(np.int32)
            self.inputs = np.sort(r.permutation(fan_in)[: inputs or fan_in]).astype(np.int32)
            self.new = r.integers(-127, 128, (len(self.inputs), changed)).astype(np.int8)
            (self.w.T if turned else self.w)[np.ix_(self.inputs, self.columns)] = self.new
            self.bias += np.float32(0.5)
            updates.fold_bias(self.b, self.bias, self.unit, self.w, self.given, turned)
            named = at(self.inputs) if inputs else None
            self.over = Change(at(self.new), at(self.columns), at(self.bias), named, changed, inputs)

    @property
    def layer(self) -> Layer:
        return Layer(ctypes.pointer(self.flash), ctypes.pointer(self.over) if self.over else None)


WIDE = [(*some, False) for some in CHANGED] + [(0, 0, True), (4, 0, True)]


@pytest.mark.parametrize(("changed", "inputs", "wide"), quick(WIDE, range(3)))
def test_products_give_the_codes_of_the_oracle(c, changed, inputs, wide):
    r = rng("products", changed, inputs, wide)
    for rows in (1, 3, 4, 9):
        made = Made(r, 37, 11, changed=changed, inputs=inputs)
        x = r.integers(-128, 128, (rows, 37)).astype(np.int8)
        if wide:
            x = (x.astype(np.int16) * 15).astype(np.int16)
        found, want = np.zeros((2, rows, 11), np.int8)
        (c.tt_product_wide if wide else c.tt_product_codes)(at(found), at(x), made.layer, rows)
        oracle.product_codes(want, x, made.w, made.b, made.factor, made.shift, made.zero)
        assert found.tolist() == want.tolist()
        assert {-128, 127} & set(want.ravel().tolist())


@each("changed", [0, 2, 3])
@each(("size", "stride"), [(3, 1), (3, 2), (5, 1), (7, 1), (7, 2)])
def test_depthwise_layers_give_the_codes_of_the_oracle(c, size, stride, changed):
    """With some rows of padding above, and images that are narrower than the filter."""
    r = rng("depthwise", size, stride, changed)
    for channels, top, width in ((19, size // 2, 8), (8, 0, 12), (3, size // 2, 8), (5, size // 2, 3)):
        made = Made(r, size * size, channels, depthwise=True, changed=changed)
        x = r.integers(-128, 128, (1, 9, width, channels)).astype(np.int8)
        down, across = (9 + top - size) // stride + 1, (width + 2 * (size // 2) - size) // stride + 1
        found, want = np.zeros((2, 1, down, across, channels), np.int8)
        shape = Shape(9, width, channels, down, across, size, stride)
        c.tt_depthwise_codes(at(found), at(x), made.layer, shape, top)
        arrays = made.w, made.b, made.factor, made.shift
        oracle.depthwise_codes(want, x, *arrays, size, stride, top, made.given, made.zero)
        assert found.tolist() == want.tolist()


@pytest.mark.parametrize("ratios", [(1.0, 1.0), (200.0, 0.01), (1e-4, 3e-5)])
def test_sums_give_the_codes_of_the_oracle(c, ratios):
    r = rng("sums", ratios)
    x, skip = r.integers(-128, 128, (2, 500)).astype(np.int8)
    x[:2], skip[:2] = (-128, 127), (-128, 127)
    found, want = np.zeros((2, 500), np.int8)
    for zeros in ((-128, -128, 127), (127, 127, -128), (3, -4, 5)):
        how = *addition_factors(*ratios), *zeros
        c.tt_add_codes(at(found), at(x), at(skip), 500, SumOf(*how))
        oracle.add_codes(want, x, skip, *how)
        assert found.tolist() == want.tolist()


@pytest.mark.parametrize("rotated", [0, 1])
def test_patches_of_images_are_those_of_the_oracle(c, rotated):
    r = rng("patches", rotated)
    image, table = r.integers(0, 256, (11, 9, 3)).astype(np.uint8), r.integers(-510, 511, (256, 3))
    table = table.astype(np.int16)
    for first, rows in ((0, 3), (2, 4)):
        found, want = np.zeros((2, rows, 5, 27), np.int16)
        c.tt_unfold_codes(
            at(found), at(image), Shape(11, 9, 3, rows, 5, 3, 2), first, rows, rotated, at(table)
        )
        oracle.unfold_codes(want, image, table, 3, 2, first, rotated)
        assert found.tolist() == want.tolist()


@each("size, stride", [(3, 1), (3, 2), (5, 2), (1, 2)])
def test_patches_of_codes_and_sums_of_their_gradients_are_those_of_the_oracle(c, size, stride):
    """Some rows after others; padding has the code of 0, and images may be narrower than the filter."""
    r = rng("patches", size, stride)
    for width, channels, top in ((7, 5, size // 2), (2, 3, size // 2), (4, 6, 0)):
        x = r.integers(-128, 128, (1, 6, width, channels)).astype(np.int8)
        down, across = (6 + top - 1) // stride, (width - 1) // stride + 1
        shape = Shape(6, width, channels, down, across, size, stride)
        sums, wanted = np.full((2, *x.shape), np.nan, np.float32)
        for first, rows in ((0, 2), (2, down - 2)):
            found, want = np.zeros((2, rows, across, size * size * channels), np.int8)
            c.tt_unfold_plane_codes(at(found), at(x), shape, first, rows, top, -7)
            oracle.unfold_plane_codes(want, x, size, stride, first, down, top, -7)
            assert found.tolist() == want.tolist()
            g = r.integers(-9, 10, found.shape).astype(np.float32)  # sums of whole numbers are exact
            if top == size // 2:
                c.tt_add_patches(at(sums), at(g), shape, first, rows)
                reference.add_patches(wanted, g, size, size, stride, top, top, first, down)
                assert sums.tobytes() == wanted.tobytes()


@each(("changed", "inputs"), CHANGED)
def test_gradients_of_inputs_are_those_of_the_oracle(c, changed, inputs):
    r = rng("gradients", changed, inputs)
    made, g = Made(r, 24, 13, changed=changed, inputs=inputs), r.standard_normal((7, 13)).astype("f")
    found, want = np.full((2, 7, 24), np.nan, np.float32)
    c.tt_grad_input_codes(at(found), at(g), made.layer, 7)
    oracle.grad_input_codes(want, g.astype(float), made.w, made.scales)
    assert found == pytest.approx(want, rel=1e-4, abs=1e-4)
    some = np.full((7, 10), np.nan, np.float32)
    c.tt_grad_input_columns(at(some), at(g), made.layer, 7, 9, 10)
    assert some.tobytes() == found[:, 9:19].tobytes()
    parts = np.full((7, 24), np.nan, np.float32)
    for first, n in ((0, 6), (6, 7)):
        part = np.ascontiguousarray(g[:, first : first + n])
        c.tt_grad_input_rows(at(parts), at(part), made.layer, 7, first, n)
    assert parts.tobytes() == found.tobytes()


def test_masks_are_those_of_the_oracle(c):
    r = rng("masks")
    y, g = r.integers(-128, 128, (7, 21)).astype(np.int8), r.standard_normal((7, 6)).astype("f")
    y[r.random((7, 21)) < 0.4] = -128
    found, want = np.zeros((2, -(-y.size // 8)), np.uint8)
    c.tt_pack_inside(at(found), at(y), y.size)
    oracle.pack_inside(want, y.ravel())
    assert found.tolist() == want.tolist()
    masked = g.copy()
    c.tt_mask_columns(at(masked), at(found), 7, 9, 6, 21)
    oracle.mask_columns(g, want, 9, 21)
    assert masked.tobytes() == g.tobytes() and (g == 0).any()


@each("changed", [0, 5])
@each(("size", "stride"), [(3, 1), (5, 2), (7, 1)])
def test_gradients_of_depthwise_inputs_are_those_of_the_oracle(c, size, stride, changed):
    r = rng("depthwise gradients", size, stride, changed)
    made, down, across = Made(r, size * size, 21, True, changed), -(-9 // stride), -(-6 // stride)
    g = r.standard_normal((1, down, across, 21)).astype("f")
    found, want = np.zeros((2, 1, 9, 6, 21), np.float32)
    work, shape = np.empty((size * size + 54, 16), np.float32), Shape(9, 6, 21, down, across, size, stride)
    c.tt_depthwise_grad_codes(at(found), at(work), at(g), made.layer, shape)
    oracle.depthwise_grad_input_codes(want, work, g, made.w, made.scales, size, stride)
    assert found == pytest.approx(want, rel=1e-4, abs=1e-4)
    if stride == 1:
        c.tt_depthwise_grad_in_place(at(g), at(work), made.layer, shape)
        assert g.tobytes() == found.tobytes()


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (5, 2), (7, 1)])
def test_gradients_of_depthwise_weights_are_those_of_the_oracle(c, size, stride):
    """They are added to what is there."""
    r = rng("depthwise weights", size, stride)
    x, down, across = r.integers(-128, 128, (1, 9, 6, 11)).astype(np.int8), -(-9 // stride), -(-6 // stride)
    g, gw = r.standard_normal((1, down, across, 11)).astype("f"), r.standard_normal((size**2, 11)).astype("f")
    want = gw.astype(float)
    shape = Shape(9, 6, 11, down, across, size, stride)
    c.tt_depthwise_grad_weight_codes(at(gw), at(x), at(g), ctypes.c_float(0.02), -7, shape)
    oracle.depthwise_grad_weight_codes(want, x, g.astype(float), float(np.float32(0.02)), -7, size, stride)
    assert gw == pytest.approx(want, rel=1e-4, abs=1e-4)


@each("rule", RULES)
def test_updates_give_the_codes_of_the_oracle(c, rule):
    """Steps from far below a code to far beyond all codes, of which no weight wraps around."""
    r = rng("updates", rule)
    for step, seed in ((1, 0), (7, 2**31 - 1)):
        made = Made(r, 40, 12)
        columns = np.sort(r.permutation(12)[:5]).astype(np.int32)
        w, rest = r.integers(-127, 128, (2, 40, 5)).astype(np.int8)
        steps = (r.standard_normal((40, 5)) * np.exp(r.uniform(-12, 12, (40, 5)))).astype("f")
        steps[0] = (0, 0.5, -0.5, 1.5, 1e30) * made.scales[columns]
        want, kept = w.copy(), rest.copy()
        lsb = made.steps
        updates.round_codes(want, kept, steps, lsb, columns, np.array([seed], np.uint32), rule, step, 3)
        drawn = (3 * 0x85EBCA6B + step * 0xC2B2AE35 + seed * 0x27D4EB2F) & 0xFFFFFFFF
        arrays = at(w), at(rest), at(steps), made.layer, 1, 40, at(columns)
        c.tt_round_codes(*arrays, 5, ctypes.c_uint32(drawn), rule)
        assert w.tolist() == want.tolist() and {-127, 127} <= set(w.ravel().tolist())
        assert rest.tolist() == kept.tolist()


def test_training_starts_from_the_named_weights_in_flash(c):
    r = rng("gathered")
    for depthwise in (False, True):
        made = Made(r, 9, 12, depthwise)
        columns, inputs = np.array([1, 4, 11], np.int32), np.array([0, 3, 8], np.int32)
        turned = made.w if depthwise else made.w.T
        for rows, named in ((3, at(inputs)), (9, None)):
            found = np.zeros((rows, 3), np.int8)
            c.tt_gather_weight_codes(at(found), made.layer, named, rows, at(columns), 3)
            assert found.tolist() == turned[np.ix_(inputs if named else range(9), columns)].tolist()


def test_sums_in_whole_numbers_are_those_of_the_oracle(c):
    r = rng("whole numbers")
    rows, labels = r.standard_normal((30, 9)).astype("f") / 3, r.integers(0, 2, 30, np.int32)
    rows[0, :3] = np.nan, np.inf, -3
    found, want = np.zeros((2, 45), np.int32)
    c.tt_add_products(at(found), at(rows), 30, 9)
    triangles.add_products(want, rows)
    sums, expected = np.zeros((2, 2, 9), np.int32)
    for row, label in zip(rows, labels, strict=True):
        c.tt_add_rounded(at(sums[label]), at(row), 9)
    triangles.add_rounded(expected, rows, labels)
    assert found.tolist() == want.tolist() and sums.tolist() == expected.tolist()


def test_packed_factors_solve_as_the_oracle_does(c):
    r = rng("packed")
    rows = r.standard_normal((30, 9)).astype("f")
    found, want = np.zeros((2, 45), np.float32)
    c.tt_add_outer_packed(at(found), at(rows), ctypes.c_float(0.5), 30, 9)
    triangles.add_outer_packed(want, rows, np.float32(0.5))
    assert found == pytest.approx(want, rel=1e-5)
    assert c.tt_cholesky_packed(at(found), 9) == 0 and not triangles.cholesky_packed(want)
    assert found == pytest.approx(want, rel=1e-4, abs=1e-5)
    x = r.standard_normal((2, 9)).astype("f")
    solved, diagonal, expected = x.copy(), np.empty(9, np.float32), np.empty(9, np.float32)
    c.tt_cholesky_solve_packed(at(solved), at(found), 2, 9)
    triangles.cholesky_solve_packed(x, want)
    assert solved == pytest.approx(x, rel=1e-3, abs=1e-5)
    c.tt_inverse_diagonal_packed(at(diagonal), at(found), 9)
    triangles.inverse_diagonal_packed(expected, want)
    assert diagonal == pytest.approx(expected, rel=1e-3)
    assert c.tt_cholesky_packed(at(-np.ones(45, np.float32)), 9) == 1
