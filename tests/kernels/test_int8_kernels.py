"""What kernels of int8 programs promise beside agreeing with the reference on random shapes."""

import numpy as np
import pytest

from tinytrain import kernels
from tinytrain.kernels import reference_int8
from tinytrain.kernels.reference_updates import CARRIED, STOCHASTIC

tables = pytest.fixture(lambda request: kernels.load(request.param), params=["numba", "numpy"])
ROWS, COLUMNS, DRAWS = 20, 30, 400


def rounded(table, rule, w, rest, steps, draw):
    one, every = np.ones(COLUMNS, np.float32), np.arange(COLUMNS, dtype=np.int32)
    table.round_codes(w, rest, steps, one, every, np.array([7], np.uint32), rule, draw, 3)


def test_stochastic_rounding_is_right_on_average(tables):
    steps = np.random.default_rng(1).uniform(-2, 2, (ROWS, COLUMNS)).astype(np.float32)
    total = np.zeros((ROWS, COLUMNS))
    for draw in range(DRAWS):
        w, rest = np.full((ROWS, COLUMNS), 5, np.int8), np.zeros((ROWS, COLUMNS), np.int8)
        rounded(tables, STOCHASTIC, w, rest, steps, draw)
        total += w
    error = total / DRAWS - (5 - steps.astype(float))
    assert np.abs(error).max() < 0.13 and abs(error.mean()) < 0.005


def test_what_is_carried_is_the_exact_value_within_a_256th_and_right_on_average(tables):
    steps = np.random.default_rng(2).uniform(-0.01, 0.01, (ROWS, COLUMNS)).astype(np.float32)
    w, rest = np.full((ROWS, COLUMNS), 5, np.int8), np.zeros((ROWS, COLUMNS), np.int8)
    for draw in range(DRAWS):
        before = w + rest / 256
        rounded(tables, CARRIED, w, rest, steps, draw)
        assert np.abs(w + rest / 256 - (before - steps)).max() <= 1.001 / 256
    assert abs(np.mean(w + rest / 256 - (5 - DRAWS * steps.astype(float)))) < 0.02


def test_weights_stay_at_their_bounds_and_never_wrap(tables):
    for rule in range(4):
        for sign in (-1, 1):
            w = np.full((ROWS, COLUMNS), 120 * sign, np.int8)
            steps = np.full((ROWS, COLUMNS), -1e6 * sign, np.float32)
            rounded(tables, rule, w, np.zeros_like(w), steps, 1)
            assert (w == 127 * sign).all()


def test_a_sum_may_replace_either_of_its_terms(tables):
    x, skip = np.random.default_rng(3).integers(-128, 128, (2, 1001), dtype=np.int8)
    values = 700_000, 900_000, 20, -3, 5, 11
    wanted = np.zeros_like(x)
    reference_int8.add_codes(wanted, x, skip, *values)
    first, second = x.copy(), skip.copy()
    tables.add_codes(first, first, skip, *values)
    tables.add_codes(second, x, second, *values)
    assert np.array_equal(first, wanted) and np.array_equal(second, wanted)


@pytest.mark.parametrize("apart", [-40, -1, 0, 1, 40])
def test_codes_are_copied_whole_to_a_place_that_overlaps(tables, apart):
    place = np.random.default_rng(4).integers(-128, 128, 300, dtype=np.int8)
    wanted = place[50:250].copy()
    tables.copy_codes(place[50 + apart : 250 + apart], place[50:250])
    assert np.array_equal(place[50 + apart : 250 + apart], wanted)


def test_gradients_agree_with_float64(tables):
    r = np.random.default_rng(5)
    x, w = r.integers(-128, 128, (50, 24), dtype=np.int8), r.integers(-127, 128, (36, 24), dtype=np.int8)
    g, scale = r.standard_normal((50, 36)).astype(np.float32), r.uniform(0, 0.01, 36).astype(np.float32)
    gx, gw = np.zeros((50, 24), np.float32), np.zeros((24, 36), np.float32)
    tables.grad_input_codes(gx, g, w, scale)
    tables.grad_weight_codes(gw, x, g, np.float32(0.02), -7)
    np.testing.assert_allclose(gx, g.astype(float) @ (scale[:, None].astype(float) * w), atol=1e-5)
    np.testing.assert_allclose(gw, (float(np.float32(0.02)) * (x + 7.0)).T @ g.astype(float), atol=1e-4)
