"""Depthwise kernels against the numpy reference, and the reference against finite differences."""

import importlib.util
import platform

import numpy as np
import pytest
from kernelarrays import normal, out_hw
from numba import njit
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import reference
from tinytrain.kernels.fused import fused
from tinytrain.network.validation import KERNELS, STRIDES

compiled = pytest.fixture(lambda: kernels.load("numba"), scope="module")
SHAPES = [  # height, width, channels, kernel, stride
    (9, 7, 5, 3, 1),
    (8, 8, 16, 3, 2),
    (4, 4, 24, 5, 1),
    (4, 4, 8, 7, 1),
    (9, 8, 3, 7, 2),
    (6, 5, 17, 5, 2),
    (1, 1, 4, 3, 1),
    (2, 3, 4, 7, 2),
    (12, 13, 21, 3, 1),
    (13, 12, 40, 7, 2),
    (9, 8, 72, 5, 1),
    (8, 8, 70, 7, 1),
    (11, 10, 65, 3, 2),
    (3, 4, 16, 1, 2),
    (13, 14, 17, 3, 3),
    (5, 21, 33, 3, 1),
    (3, 20, 40, 5, 1),
    (4, 27, 16, 7, 2),
    (4, 4, 32, 7, 1),
    (3, 3, 72, 3, 1),
    (2, 5, 130, 5, 2),
    (5, 12, 32, 3, 3),
    (10, 23, 72, 3, 5),
    (3, 19, 40, 3, 2),
    (3, 10, 17, 3, 1),
    (3, 10, 9, 3, 1),
    (3, 10, 5, 3, 1),
]


@njit
def one_rounding(a, b, c):
    return fused(a, b, c)


def multiply_add(a, b, c):
    """a * b + c as kernels compute it on this processor, of arrays of float32."""
    above = np.float32(1 + 2**-12)
    if one_rounding(above, above, np.float32(-1)) == above * above - 1:
        return a * b + c
    wide = np.longdouble  # represents a product exactly
    return (wide(a) * wide(b) + wide(c)).astype(np.float32)


def tap_by_tap(x, w, b, shape, size, stride):
    """A depthwise convolution that adds the taps row by row, left to right, and the bias last."""
    pad = (size - 1) // 2
    x = np.pad(x, ((0, 0), (pad, size * stride), (pad, size * stride), (0, 0)))
    y = np.zeros(shape, np.float32)
    for tap in range(size * size):
        top, left = divmod(tap, size)
        seen = x[:, top::stride, left::stride][:, : shape[1], : shape[2]]
        y = multiply_add(seen, w[tap], y)
    return y + b


@pytest.mark.parametrize("height,width,channels,size,stride", SHAPES)
class TestDepthwise:
    def arrays(self, height, width, channels, size, stride, dtype=np.float32):
        r = rng(height, width, channels, size, stride)
        ho, wo = out_hw(height, width, stride)
        x = normal(r, 2, height, width, channels, dtype=dtype)
        w = normal(r, size * size, channels, dtype=dtype)
        return x, w, normal(r, channels, dtype=dtype), normal(r, 2, ho, wo, channels, dtype=dtype)

    def test_a_row_tile_equals_the_same_rows_of_the_whole(
        self, compiled, height, width, channels, size, stride
    ):
        x, w, b, g = self.arrays(height, width, channels, size, stride)
        pad = (size - 1) // 2
        whole, band = np.empty_like(g), np.empty_like(g)
        compiled.depthwise_forward(whole, x, w, b, size, stride, pad, True)
        for i in range(g.shape[1]):
            first = max(0, i * stride - pad)
            rows = np.ascontiguousarray(x[:, first : i * stride - pad + size])
            row = np.empty_like(band[:, i : i + 1])
            compiled.depthwise_forward(row, rows, w, b, size, stride, first - (i * stride - pad), True)
            band[:, i : i + 1] = row
        np.testing.assert_array_equal(band, whole)

    def test_register_tiles_and_single_pixels_give_the_same_bits(
        self, compiled, height, width, channels, size, stride
    ):
        x, w, b, g = self.arrays(height, width, channels, size, stride)
        y, gx, zeros = np.empty_like(g), np.empty_like(x), np.empty(channels, np.float32)
        compiled.depthwise_forward(y, x, w, b, size, stride, (size - 1) // 2, True)
        compiled.depthwise_grad_input(gx, zeros, g, w, size, stride)
        for c in range(0, channels, 3):  # so few channels do not fill a vector
            some = np.s_[..., c : c + 3]
            own = [np.ascontiguousarray(a[some]) for a in (y, x, w, b, g, zeros)]
            compiled.depthwise_forward(own[0], *own[1:4], size, stride, (size - 1) // 2, True)
            np.testing.assert_array_equal(own[0], y[some])
            compiled.depthwise_grad_input(own[1], own[5], own[4], own[2], size, stride)
            np.testing.assert_array_equal(own[1], gx[some])

    def test_every_product_is_rounded_once_with_its_sum(
        self, compiled, height, width, channels, size, stride
    ):
        x, w, b, g = self.arrays(height, width, channels, size, stride)
        y, gx, zeros = np.empty_like(g), np.empty_like(x), np.empty(channels, np.float32)
        compiled.depthwise_forward(y, x, w, b, size, stride, (size - 1) // 2, False)
        compiled.depthwise_grad_input(gx, zeros, g, w, size, stride)
        np.testing.assert_array_equal(y, tap_by_tap(x, w, b, g.shape, size, stride))
        # The gradient is a convolution of g, with zeros inserted, and the reversed filter.
        between = np.zeros_like(x)
        between[:, ::stride, ::stride] = g
        np.testing.assert_array_equal(gx, tap_by_tap(between, w[::-1], zeros, x.shape, size, 1))

    def test_not_a_number_and_infinity_reach_exactly_the_outputs_that_see_them(
        self, compiled, height, width, channels, size, stride
    ):
        x, w, b, g = self.arrays(height, width, channels, size, stride)
        for value in (np.nan, np.inf):
            x[0, height // 2, width // 2, channels - 1] = value
            for relu6 in (True, False):
                got, want = np.empty_like(g), np.empty_like(g)
                compiled.depthwise_forward(got, x, w, b, size, stride, (size - 1) // 2, relu6)
                reference.depthwise_forward(want, x, w, b, size, stride, (size - 1) // 2, relu6)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_not_a_number_stays_in_its_channel_of_the_weights(
        self, compiled, height, width, channels, size, stride
    ):
        x, w, _, g = self.arrays(height, width, channels, size, stride)
        g[..., -1] = np.nan
        compiled.depthwise_grad_weight(w, x, g, size, stride)
        assert np.isfinite(w[:, :-1]).all()
        assert np.isnan(w[size * size // 2, -1])

    def test_reference_gradients_agree_with_finite_differences(self, height, width, channels, size, stride):
        x, w, b, g = self.arrays(height, width, channels, size, stride, np.float64)
        y = np.empty_like(g)

        def value(x, w):
            reference.depthwise_forward(y, x, w, b, size, stride, (size - 1) // 2, False)
            return (y * g).sum()

        gx, gw = np.empty_like(x), np.zeros_like(w)
        reference.depthwise_grad_input(gx, None, g, w, size, stride)
        reference.depthwise_grad_weight(gw, x, g, size, stride)
        r = rng("direction", size)
        dx, dw = normal(r, *x.shape, dtype=np.float64), normal(r, *w.shape, dtype=np.float64)
        np.testing.assert_allclose(value(x + dx, w) - value(x - dx, w), 2 * (gx * dx).sum(), rtol=1e-9)
        np.testing.assert_allclose(value(x, w + dw) - value(x, w - dw), 2 * (gw * dw).sum(), rtol=1e-9)


@pytest.mark.parametrize("size", sorted({*KERNELS} - {1}))
@pytest.mark.parametrize("stride", STRIDES)
def test_supported_layers_and_gradients_are_computed_in_register_tiles(compiled, size, stride):
    from tinytrain.kernels.depthwise import _fits_tiles, _phase

    taken, channels = _fits_tiles.py_func, np.uint64(48)
    for width in (8, 14, 16, 64):
        across = out_hw(width, width, stride)[1]
        assert taken(across, width, stride, (size - 1) // 2, size, channels)
        for first in range(stride):
            taps, before, _ = _phase.py_func(first, size, stride)
            assert taken(len(range(first, width, stride)), across, 1, before, taps, channels)


def test_no_two_filters_are_known_by_one_number(compiled):
    from tinytrain.kernels.depthwise_rows import key_of

    assert len({key_of(taps, stride) for taps in range(20) for stride in range(20)}) == 400


@pytest.mark.skipif(platform.machine() == "aarch64", reason="to compile so much takes more than 512 MiB")
@pytest.mark.slow
@pytest.mark.parametrize("register", [4, 8, 16])
def test_strips_of_every_length_of_vector_give_the_same_bits(compiled, monkeypatch, register):
    from tinytrain.kernels import depthwise, jit, kernel
    from tinytrain.kernels import depthwise_rows as strip

    monkeypatch.setattr(strip, "REGISTER", register)
    # The cache is for one length.
    monkeypatch.setattr(jit, "kernel_of", lambda name: kernel.Kernel(name, cache=None))
    spec = importlib.util.spec_from_file_location("tinytrain.kernels.other_depthwise", depthwise.__file__)
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    r = rng(register)
    for height, width, channels, size, stride in SHAPES:
        x, w, b = normal(r, 1, height, width, channels), normal(r, size * size, channels), normal(r, channels)
        g = normal(r, 1, *out_hw(height, width, stride), channels)
        results = []
        for table in (other, compiled):
            y, gx = np.empty_like(g), np.empty_like(x)
            table.depthwise_forward(y, x, w, b, size, stride, (size - 1) // 2, True)
            table.depthwise_grad_input(gx, np.empty_like(b), g, w, size, stride)
            results.append((y, gx))
        for got, want in zip(*results, strict=True):
            np.testing.assert_array_equal(got, want)
