"""The interval of a fraction that was counted."""

from math import comb

import numpy as np
import pytest
from cases import each

from tinytrain.base.statistics import NORMAL, median, wilson_interval


@each("right, n", [(0, 5), (3, 7), (19, 20), (20, 20), (150, 200)])
def test_the_ends_are_the_probabilities_from_which_so_many_right_are_1_96_deviations_away(right, n):
    low, high = wilson_interval(right, n)
    assert 0 <= low <= right / n <= high <= 1
    for p in (low, high):
        if 0 < p < 1:
            assert abs(right / n - p) == pytest.approx(NORMAL * np.sqrt(p * (1 - p) / n))
    assert low == 0 if right == 0 else low > 0
    assert high == 1 if right == n else high < 1


def test_the_interval_covers_the_probability_about_95_times_in_100():
    rng = np.random.default_rng(0)
    for p in (0.5, 0.8, 0.95):
        drawn = [wilson_interval(right, 40) for right in rng.binomial(40, p, 2000)]
        assert 0.92 < np.mean([low <= p <= high for low, high in drawn]) < 0.98


def test_what_lies_between_tasks_widens_it_and_no_number_of_images_removes_that():
    widths = [np.diff(wilson_interval(0.8 * n, n, 0.15))[0] for n in (10, 100, 10**6)]
    assert widths == sorted(widths, reverse=True) and widths[-1] == pytest.approx(4 * 0.15 * 0.4, rel=0.05)
    assert np.diff(wilson_interval(8, 10))[0] < widths[0]


@each("n", [5, 20, 100])
@each("truth", [0.5, 0.8, 0.95])
def test_the_interval_covers_the_truth_as_often_as_it_says(n, truth):
    """The share of all outcomes, weighted by their probability, whose interval covers the truth."""
    covered = sum(
        comb(n, k) * truth**k * (1 - truth) ** (n - k)
        for k in range(n + 1)
        if wilson_interval(k, n)[0] <= truth <= wilson_interval(k, n)[1]
    )
    assert covered > 0.91


def test_the_interval_of_nothing_is_everything_and_ends_stay_inside():
    assert wilson_interval(0, 0) == (0, 1)
    assert wilson_interval(0, 10)[0] == 0 and wilson_interval(10, 10)[1] == pytest.approx(1)


@each("n", (1, 2, 5, 8))
def test_the_median_has_the_bits_of_numpys_and_is_nan_if_a_value_is(n):
    values = np.random.default_rng(n).normal(size=n)
    assert median(values) == np.median(values)
    values[0] = np.nan
    assert np.isnan(median(values))
