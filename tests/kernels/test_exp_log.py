"""Our own exponential and logarithm against those of numpy in float64."""

import math

import numpy as np
import pytest

from tinytrain.kernels.exp_log import own_erf, own_exp, own_log

INFINITY = float("inf")


def in_units(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place."""
    return np.abs(got - exact) / np.spacing(np.abs(exact).astype("f")).astype(float)


@pytest.mark.parametrize(
    ("own", "exact", "numbers"),
    [
        (own_exp, np.exp, np.random.default_rng(0).uniform(-86, 88, 3000)),
        (own_log, np.log, np.exp(np.random.default_rng(1).uniform(-80, 80, 3000))),
        (own_log, np.log, np.random.default_rng(2).uniform(1, 6, 3000)),
    ],
    ids=["exp", "log", "log near 1"],
)
def test_it_is_within_two_units_in_the_last_place(own, exact, numbers):
    numbers = numbers.astype("f")
    got = np.array([own(x) for x in numbers])
    assert got.dtype == np.float32 and in_units(got, exact(numbers.astype(float))).max() < 2


def test_the_error_function_is_as_near_as_it_says_and_odd():
    numbers = np.linspace(-6, 6, 4001, dtype="f")
    got = np.array([own_erf(x) for x in numbers])
    exact = np.vectorize(math.erf)(numbers.astype(float))
    assert got.dtype == np.float32 and abs(got - exact).max() < 3e-7
    np.testing.assert_array_equal(got, -got[::-1])


def test_ends_are_as_they_should_be():
    f = np.float32
    assert own_exp(f(0)) == 1 and own_log(f(1)) == 0
    assert own_exp(f(-200)) == 0 and own_exp(f(200)) == own_exp(f(INFINITY)) == INFINITY
    assert own_log(f(0)) == -INFINITY and own_log(f(INFINITY)) == INFINITY
    assert np.isnan(own_exp(f("nan"))) and np.isnan(own_log(f("nan")))
