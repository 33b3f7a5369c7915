"""Activations, max pooling and scaled channels: the reference against finite differences; ends and ties."""

import numpy as np
import pytest
from cases import each
from kernelarrays import normal
from mapcases import SMOOTH
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import reference

STEP = 1e-6
compiled = pytest.fixture(lambda: kernels.load("numba"), scope="module")


def slope(value, x, direction) -> float:
    """Central difference of `value` at x along a direction, in float64."""
    return (value(x + STEP * direction) - value(x - STEP * direction)) / (2 * STEP)


@each("name", SMOOTH)
def test_gradients_of_smooth_activations_agree_with_finite_differences(name):
    r = rng(name)
    x, g, direction = (normal(r, 400, dtype=np.float64) for _ in range(3))
    x *= 4

    def value(x):
        y = np.empty_like(x)
        getattr(reference, name)(y, x)
        return (y * g).sum()

    gx = g.copy()
    getattr(reference, SMOOTH[name])(gx, x)
    np.testing.assert_allclose((gx * direction).sum(), slope(value, x, direction), rtol=1e-6)


def test_the_gradient_of_leaky_relu_agrees_with_finite_differences():
    r, ends = rng("leaky"), (0.2, -0.4)
    x, g, direction = (normal(r, 400, dtype=np.float64) for _ in range(3))
    x *= 4

    def value(x):
        y = np.empty_like(x)
        reference.leaky_relu(y, x, *ends)
        return (y * g).sum()

    y, gx = np.empty_like(x), g.copy()
    reference.leaky_relu(y, x, *ends)
    reference.leaky_relu_grad(gx, y, *ends)
    np.testing.assert_allclose((gx * direction).sum(), slope(value, x, direction), rtol=1e-6)


USUAL = (3, 3, 2, 2, 1, 1)


@each("height,width,window", [
    (8, 8, USUAL), (7, 5, USUAL), (1, 1, USUAL), (2, 9, USUAL), (6, 8, (2, 2, 2, 2, 0, 0)),
    (7, 9, (1, 2, 1, 2, 0, 0)), (8, 8, (3, 3, 2, 2, 0, 0)),
])  # fmt: skip
def test_the_gradient_of_max_pooling_agrees_with_finite_differences(height, width, window):
    r, (_, _, down, across, _, _) = rng("max", height, width), window
    x, direction = (normal(r, 2, height, width, 3, dtype=np.float64) for _ in range(2))
    g = normal(r, 2, -(-height // down), -(-width // across), 3, dtype=np.float64)

    def value(x):
        y = np.empty_like(g)
        reference.max_pool(y, x, *window)
        return (y * g).sum()

    y, gx, taps = np.empty_like(g), np.empty_like(x), np.empty(g.shape, np.uint8)
    reference.max_pool(y, x, *window)
    reference.max_taps(taps, x, y, *window)
    reference.max_pool_grad(gx, g, taps, *window)
    np.testing.assert_allclose((gx * direction).sum(), slope(value, x, direction), rtol=1e-6)


def test_the_gradients_of_scaled_channels_agree_with_finite_differences():
    r = rng("scaled")
    x, g, dx = (normal(r, 2, 6, 5, dtype=np.float64) for _ in range(3))
    s, ds = (normal(r, 2, 5, dtype=np.float64) for _ in range(2))

    def value(x, s):
        y = np.empty_like(x)
        reference.scale_channels(y, x, s)
        return (y * g).sum()

    gs, gx = np.empty_like(s), np.empty_like(x)
    reference.scale_channels_grad(gs, g, x)
    reference.scale_channels(gx, g, s)  # the gradient of x
    np.testing.assert_allclose((gs * ds).sum(), slope(lambda s: value(x, s), s, ds), rtol=1e-6)
    np.testing.assert_allclose((gx * dx).sum(), slope(lambda x: value(x, s), x, dx), rtol=1e-6)


def test_of_equal_largest_values_the_first_one_gets_the_gradient(compiled):
    x = np.zeros((1, 4, 4, 1), np.float32)
    y, taps = np.empty((1, 2, 2, 1), np.float32), np.empty((1, 2, 2, 1), np.uint8)
    compiled.max_pool(y, x, *USUAL)
    compiled.max_taps(taps, x, y, *USUAL)
    assert taps.ravel().tolist() == [4, 3, 1, 0]  # the first place of each window that is no padding


def test_masks_of_relu_pass_what_is_above_zero(compiled):
    y = np.array([-1, 0, 1e-30, 5, 6, 7, np.inf, -0.0, 2], np.float32)
    bits, g = np.zeros(2, np.uint8), np.ones(9, np.float32)
    compiled.pack_positive(bits, y)
    compiled.apply_mask(g, bits)
    assert g.tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 1]


def test_what_is_no_number_stays_none(compiled):
    """A NaN must reach the loss, where it is noticed."""
    x = np.array([np.nan, 1], np.float32)
    for name in SMOOTH:
        y = np.empty_like(x)
        getattr(compiled, name)(y, x)
        assert np.isnan(y[0]) and np.isfinite(y[1]), name
    compiled.leaky_relu(y, x, np.float32(0.2), np.float32(-0.4))
    assert np.isnan(y[0]) and y[1] == 1
    compiled.relu(x)
    assert np.isnan(x[0]) and x[1] == 1


@pytest.mark.parametrize("name", [*SMOOTH, "scale_channels"])
def test_in_place_gives_the_same_bits(compiled, name):
    x = 4 * normal(rng("place"), 3, 7, 5)
    more = (normal(rng("factors"), 3, 5),) if name == "scale_channels" else ()
    given = x if more else x.reshape(-1)
    apart, same = np.empty_like(given), given.copy()
    getattr(compiled, name)(apart, given, *more)
    getattr(compiled, name)(same, same, *more)
    np.testing.assert_array_equal(apart, same)
