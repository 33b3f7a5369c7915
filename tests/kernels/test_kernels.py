"""Compiled kernels against the numpy reference, and the reference against finite differences in float64."""

import importlib

import numpy as np
import pytest
from kernelarrays import Output, normal, out_hw
from kernelcases import CASES
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import reference
from tinytrain.kernels.kernel import kernel_of

IN_NUMPY = kernels.load("numpy")
compiled = pytest.fixture(lambda: kernels.load("numba"), scope="module")


@pytest.mark.parametrize(
    "channels, rotated, dtype",
    [(1, False, "B"), (1, True, "B"), (3, False, "B"), (3, True, "B"), (6, False, "B"), (6, False, "f")],
)
def test_rows_of_an_image_enter_normalised_between_zeros(compiled, channels, rotated, dtype):
    image = rng("enter").integers(0, 256, (9, 8, channels)).astype(dtype)
    values = (124, 116, 104, 99.5, 90, 80), (0.017, 0.018, 0.016, 0.02, 0.01, 0.015)
    mean, scale = (np.tile(np.float32(v[:channels]), 8) for v in values)
    for first, side, *size in ((-1, 1, 11, 10), (0, 0, 9, 8), (2, 2, 2, 7), (8, 0, 3, 3), (1, 3, 1, 2)):
        plain = (image[::-1, ::-1] if rotated else image) - mean[:channels]
        whole = np.pad(plain * scale[:channels], ((1, 11), (3, 11), (0, 0)))[first + 1 :, 3 - side :]
        for table in (compiled, IN_NUMPY):
            y = np.full((*size, channels), np.nan, np.float32)
            table.enter(y, image, first, side, rotated, mean, scale)
            np.testing.assert_allclose(y, whole[: size[0], : size[1]], rtol=1e-6)


def test_prototype_gradients_agree_with_finite_differences():
    r = rng("finite")
    f, p = normal(r, 5, 7, dtype=np.float64), normal(r, 3, 7, dtype=np.float64)
    labels = np.array([0, 1, 2, 1, 0], np.int32)

    def value(f, p):
        loss, residual, cosine = np.zeros(5), np.zeros((5, 3)), np.zeros((5, 3))
        reference.prototype_loss(loss, residual, cosine, f, labels, p, 10.0)
        return loss.sum(), residual, cosine

    _, residual, cosine = value(f, p)
    gf, gp = np.zeros_like(f), np.zeros_like(p)
    reference.prototype_loss_grad(gf, residual, cosine, f, p, 10.0)
    # The loss is symmetric in embeddings and prototypes: transposing the tables swaps their roles.
    reference.prototype_loss_grad(gp, residual.T, cosine.T, p, f, 10.0)
    df, dp, h = normal(r, 5, 7, dtype=np.float64), normal(r, 3, 7, dtype=np.float64), 1e-6
    slope = (value(f + h * df, p)[0] - value(f - h * df, p)[0]) / (2 * h)
    np.testing.assert_allclose(slope, (gf * df).sum(), rtol=1e-6)
    slope = (value(f, p + h * dp)[0] - value(f, p - h * dp)[0]) / (2 * h)
    np.testing.assert_allclose(slope, (gp * dp).sum(), rtol=1e-6)


def test_cholesky_solves_and_refuses_matrices_that_are_not_positive_definite(compiled):
    r = rng("cholesky")
    a = normal(r, 12, 30)
    a = a @ a.T / 30 + 0.1 * np.eye(12, dtype=np.float32)
    x = normal(r, 4, 12)
    factor, solved, diagonal = a.copy(), x.copy(), np.full(12, np.nan, "f")
    assert compiled.cholesky(factor) == 0
    compiled.cholesky_solve(solved, factor)
    np.testing.assert_allclose(solved @ a, x, atol=1e-3)
    compiled.inverse_diagonal(diagonal, factor)
    np.testing.assert_allclose(diagonal, np.diag(np.linalg.inv(a.astype(float))), rtol=1e-3)
    assert compiled.cholesky(-a) == reference.cholesky(-a) == 1
    assert compiled.cholesky(np.full_like(a, np.nan)) == 1


def test_adam_matches_the_textbook_over_many_steps_within_the_rounding_of_its_moments(compiled):
    r = rng("adam")
    w, m, v = normal(r, 30), np.zeros(30, np.uint16), np.zeros(30, np.uint16)
    want, first, second = w.astype(np.float64), np.zeros(30), np.zeros(30)
    starts, rates, work = np.array([0, 30], np.int32), np.array([0.01], np.float32), np.zeros(64, np.float32)
    for step in range(1, 41):
        g = normal(r, 30) + np.linspace(-2, 2, 30).astype(np.float32)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        compiled.adam_step(g, m, v, work, starts, rates, np.float32(0.9), np.float32(0.999), step)
        compiled.take_step(w, g)
        want -= 0.01 * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(w, want, atol=0.02)


@pytest.mark.parametrize("width", [2, 3, 15, 16, 33, 64])
@pytest.mark.parametrize("flip, cosine, sine", [(False, 0.98, 0.15), (True, 1.1, -0.2), (True, -0.3, 0.7)])
def test_a_turned_image_has_the_pixels_of_the_reference_and_each_is_computed_alike(
    compiled, width, flip, cosine, sine
):
    """Pixels of three channels are computed several at once, grey ones one after another."""
    image = rng("turned").integers(0, 256, (9, width, 3)).astype(np.uint8)
    how = flip, 1, -2, *map(np.float32, (cosine, sine, 20, 1.5, 0.7)), np.uint8(128)
    got, want = np.zeros_like(image), np.zeros_like(image)
    compiled.augment(got, image, *how)
    reference.augment(want, image, *how)
    # At the border rounding decides whether a pixel comes from the image.
    filled = (got == 128).all(axis=2) | (want == 128).all(axis=2)
    off = np.abs(got.astype(int) - want).max(axis=2) > 1
    assert not off[~filled].any() and off.sum() <= 5 and (width < 15 or not filled.all())
    grey, alike = np.zeros((9, width, 1), np.uint8), np.repeat(image[..., :1], 3, axis=2)
    compiled.augment(grey, image[..., :1].copy(), *how)
    compiled.augment(got, alike, *how)
    np.testing.assert_array_equal(got, np.repeat(grey, 3, axis=2))


def test_augment_with_neutral_values_returns_the_image(compiled):
    image = rng("neutral").integers(0, 256, (8, 8, 3)).astype(np.uint8)
    out = np.zeros_like(image)
    neutral = map(np.float32, (1, 0, 0, 1, 1))
    compiled.augment(out, image, False, 0, 0, *neutral, np.uint8(0))
    np.testing.assert_array_equal(out, image)


def test_eight_bit_storage_is_off_by_at_most_half_a_step(compiled):
    for x in (normal(rng("q"), 100), np.zeros(5, np.float32), np.full(5, 3.5, np.float32)):
        codes, span, back = np.zeros(len(x), np.uint8), np.zeros(2, np.float32), np.zeros_like(x)
        compiled.quantize(codes, span, x)
        compiled.dequantize(back, codes, span)
        assert np.abs(back - x).max() <= span[1] / 2 * 1.001 + 1e-6


def test_a_function_called_by_kernels_is_inlined_and_all_add_in_source_order():
    """The function exists twice until the kernel comes from the cache; both must round in the same way."""
    compiler = pytest.importorskip("tinytrain.kernels.compiler")
    modules = [importlib.import_module(f"tinytrain.kernels.{name}") for name in kernels.MODULES]
    parts = [v.targetoptions for m in modules for v in vars(m).values() if hasattr(v, "py_func")]
    assert parts and not any(options.get("fastmath") for options in parts)
    given = CASES["unfold_plane"](rng("calls"))
    arguments = [a.start.copy() if isinstance(a, Output) else a for a in given]
    unfold_plane = kernel_of("tinytrain.kernels.lite_residual.unfold_plane").source()
    code = compiler.compiled(unfold_plane, arguments).library.get_asm_str()
    defined = [line for line in code.splitlines() if line.startswith("_ZN") and line.endswith(":")]
    assert parts and defined and all("unfold_plane" in line for line in defined)


PLANES = [  # height, width, channels, groups, stride, kernel
    (4, 4, 6, 2, 1, 3),
    (5, 7, 8, 2, 2, 5),
    (1, 1, 5, 1, 1, 1),
    (2, 3, 16, 2, 2, 1),
    (9, 1, 40, 2, 1, 5),
]


@pytest.mark.parametrize("height,width,channels,groups,stride,size", PLANES)
class TestModules:
    """Pooling, patches and interpolation of lite residual modules."""

    def shapes(self, height, width, channels, groups, stride, size):
        """Arrays for a plane, half of it, one group of it, and the inputs of its output rows."""
        whole = (2, height, width, channels)
        half = (2, max(1, height // 2), max(1, width // 2))
        down, across = out_hw(height, width, stride)
        reads = channels // groups
        return whole, (*half, channels), (*half, reads), (2 * down, across, size * size * reads)

    def test_reference_gradients_are_transposes(self, height, width, channels, groups, stride, size):
        """Each kernel is linear: <f(x), g> must equal <x, gradient of x>."""
        whole, half, part, read = self.shapes(height, width, channels, groups, stride, size)
        r, double = rng("direction", height, width), np.float64
        x, small, some, g = (normal(r, *shape, dtype=double) for shape in (whole, half, part, read))
        plane = normal(r, 2, height, width, part[3], dtype=double)
        y, gx, gsmall, gplane, pooled = (np.zeros_like(a) for a in (g, x, small, plane, some))
        pad = (size - 1) // 2
        which = size, size, stride, pad, pad, 0, read[0] // 2
        reference.unfold_plane(y, plane, *which)
        reference.add_patches(gplane, g, *which)
        np.testing.assert_allclose((gplane * plane).sum(), (y * g).sum(), rtol=1e-9)
        last = channels - part[3]
        reference.pool2(pooled, x, last)
        reference.pool2_grad(gx, some, last)
        np.testing.assert_allclose((gx * x).sum(), (pooled * some).sum(), rtol=1e-9)
        up = np.zeros_like(x)
        reference.upsample_add(up, small)
        reference.upsample_grad(gsmall, x)
        np.testing.assert_allclose((gsmall * small).sum(), (up * x).sum(), rtol=1e-9)

    def test_patches_are_added_to_the_result_of_earlier_row_tiles(
        self, compiled, height, width, channels, groups, stride, size
    ):
        _, _, part, (count, across, fan_in) = self.shapes(height, width, channels, groups, stride, size)
        g, lines = normal(rng("bands", height), count, across, fan_in), count // 2
        whole, banded = (np.full((2, height, width, part[3]), np.nan, np.float32) for _ in range(2))
        filters = size, size, stride, (size - 1) // 2, (size - 1) // 2
        compiled.add_patches(whole, g, *filters, 0, lines)
        for first in range(0, count, 3):
            compiled.add_patches(banded, g[first : first + 3], *filters, first, lines)
        np.testing.assert_array_equal(banded, whole)

    def test_a_plane_of_one_value_stays_one(self, compiled, height, width, channels, groups, stride, size):
        whole, half, _, _ = self.shapes(height, width, channels, groups, stride, size)
        small, up = np.empty(half, np.float32), np.zeros(whole, np.float32)
        compiled.pool2(small, np.full(whole, 3, np.float32), 0)
        compiled.upsample_add(up, small)
        np.testing.assert_allclose(up, 3, rtol=1e-6)


class TestFused:
    def test_only_processors_with_an_instruction_for_it_round_once(self):
        fused = pytest.importorskip("tinytrain.kernels.fused")
        from llvmlite import binding

        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        for triple, processor, can in (
            ("x86_64-unknown-linux-gnu", "nehalem", False),
            ("x86_64-unknown-linux-gnu", "haswell", True),
            ("aarch64-unknown-linux-gnu", "cortex-a53", True),
        ):
            assert fused.has_instruction(triple, processor, "") is can
        assert not fused.has_instruction("x86_64-unknown-linux-gnu", "haswell", "-fma")

    def test_anything_but_float32_is_refused(self):
        from numba import TypingError, njit

        from tinytrain.kernels.fused import fused

        @njit
        def call(a, b, c):
            return fused(a, b, c)

        assert call(np.float32(2), np.float32(3), np.float32(4)) == 10
        with pytest.raises(TypingError):
            call(2.0, 3.0, 4.0)
