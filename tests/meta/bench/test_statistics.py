"""Intervals: known quantiles, figures by hand, and what they promise, in simulation."""

import numpy as np
import pytest
from cases import each

from tinytrain.meta.bench.statistics import mean_interval, paired, stratified, t_quantile

RUNS, QUERIES = 1500, 50


@each(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (2.5, 3.575), (5, 2.571), (30, 2.042), (1e9, 1.961)])
def test_quantiles_of_students_t_are_those_of_the_tables(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


def test_the_interval_of_a_mean_by_hand():
    found = mean_interval([1, 2, 3])
    assert (found.mean, found.half, found.n) == (2, pytest.approx(4.303 / 3**0.5, abs=1e-3), 3)


def test_a_mean_over_packs_weighs_every_pack_alike():
    found = stratified([[0, 2], [10, 10, 10, 14]])
    # Standard errors 1 and 1: half of their root of the sum of squares; freedom (1 + 1)^2 / (1/1 + 1/3) = 3.
    assert (found.mean, found.half) == (6, pytest.approx(t_quantile(3) * 0.5 * 2**0.5))


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert mean_interval([3.0]).half is None
    assert stratified([[1.0, 2.0], [5.0]]).half is None
    with pytest.raises(ValueError, match="at least one value"):
        stratified([[1.0], []])


def test_equal_values_have_an_interval_of_zero_and_are_clear_of_it():
    assert mean_interval([2.0, 2.0]).half == 0 and mean_interval([2.0, 2.0]).clear_of_zero()
    assert not mean_interval([0.0, 0.0]).clear_of_zero() and not mean_interval([2.0]).clear_of_zero()


def test_only_episodes_that_both_have_are_paired():
    assert paired({1: 5.0, 2: 7.0, 3: 1.0}, {2: 4.0, 1: 5.0, 9: 0.0}) == [0.0, 3.0]


def accuracies(rng, mean, n):
    """(RUNS, n) accuracies of episodes whose difficulty varies, each judged by QUERIES images."""
    difficulty = rng.beta(12 * mean, 12 * (1 - mean), (RUNS, n))
    return difficulty, rng.binomial(QUERIES, difficulty) / QUERIES


def coverage(intervals, truth):
    return float(np.mean([abs(i.mean - truth) <= i.half for i in intervals]))


@each(("mean", "n"), [(0.7, 30), (0.85, 40), (0.8, 100), (0.75, 10)])
def test_intervals_of_an_accuracy_cover_it_in_93_to_97_of_100_simulations(mean, n):
    _, seen = accuracies(np.random.default_rng(n), mean, n)
    assert 0.93 <= coverage(map(mean_interval, seen), mean) <= 0.97


@pytest.mark.parametrize("n", [30, 40, 100])
def test_intervals_of_paired_differences_over_packs_cover_them_in_93_to_97_of_100_simulations(n):
    rng, gain = np.random.default_rng(n), 0.02
    packs = []
    for mean in (0.8, 0.93, 0.9, 0.7, 0.72):
        difficulty, first = accuracies(rng, mean, n)
        second = rng.binomial(QUERIES, np.clip(difficulty + gain, 0, 1)) / QUERIES
        # What clipping takes away from the gain is part of the truth.
        packs.append((second - first, float(np.mean(np.clip(difficulty + gain, 0, 1) - difficulty))))
    truth = float(np.mean([t for _, t in packs]))
    found = [stratified([values[k] for values, _ in packs]) for k in range(RUNS)]
    assert 0.93 <= coverage(found, truth) <= 0.97
