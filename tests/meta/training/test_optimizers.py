"""Optimizers of the offline stage against their formulas, rates by depth, and the schedule."""

from itertools import pairwise

import numpy as np
import pytest
import toynets

from tinytrain.meta.training import optimizers
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.recipe import OptimizerSettings

SIZE = optimizers.BLOCK + 7  # more than one block


def data(seed, count=SIZE):
    return toynets.rng("optimizer", seed).standard_normal(count).astype(np.float32)


def test_adamw_follows_its_formula_over_several_steps():
    betas, rates, decays = (0.9, 0.99), np.abs(data(1)) * np.float32(1e-2), np.abs(data(2)) * np.float32(0.1)
    optimizer, values = optimizers.AdamW(SIZE, betas), data(0)
    w, m, v = values.astype(np.float64), np.zeros(SIZE), np.zeros(SIZE)
    for number in range(1, 6):
        g = data(10 + number)
        optimizer.step(values, g, rates, decays, 0.5, number)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g.astype(np.float64) ** 2
        direction = (m / (1 - betas[0] ** number)) / (np.sqrt(v / (1 - betas[1] ** number)) + 1e-8)
        w -= 0.5 * rates * (direction + decays * w)
    np.testing.assert_allclose(values, w, rtol=1e-4, atol=1e-6)


def test_momentum_follows_its_formula():
    optimizer, values = optimizers.Momentum(5, (0.8, 0.0)), data(0, 5)
    w, m = values.astype(np.float64), 0.0
    rates, decays = np.full(5, 0.1, np.float32), np.full(5, 0.01, np.float32)
    for number in range(1, 4):
        g = data(number, 5)
        optimizer.step(values, g, rates, decays, 1.0, number)
        m = 0.8 * m + g
        w -= 0.1 * (m + 0.01 * w)
    np.testing.assert_allclose(values, w, rtol=1e-5)


def test_rates_rise_with_depth_and_biases_do_not_decay():
    whole = Whole(toynets.toy(), 1)
    settings = OptimizerSettings(rate=1e-3, early=0.1, decay=0.5)
    rates, decays = optimizers.rates_of(whole.slots, whole.values, settings)
    by_layer = [rates[s.start] for s in whole.slots if s.part == "weight"]
    assert by_layer == sorted(by_layer)
    assert (by_layer[0], by_layer[-1]) == (pytest.approx(1e-4), pytest.approx(1e-3))
    for slot in whole.slots:
        found = set(decays[slot.start : slot.start + slot.size].tolist())
        assert found == ({0.5} if slot.part == "weight" else {0.0})


def test_relative_rates_are_shares_of_the_rms_of_a_layer():
    whole = Whole(toynets.toy(), 1)
    settings = OptimizerSettings(rate=0.01, relative=True, bias_rate=7.0)
    values = whole.values
    rates, _ = optimizers.rates_of(whole.slots, values, settings)
    for slot in whole.slots:
        at = slice(slot.start, slot.start + slot.size)
        expected = 7.0 if slot.part == "bias" else 0.01 * np.sqrt(np.mean(values[at] ** 2))
        np.testing.assert_allclose(rates[at], expected, rtol=1e-5)


def test_the_schedule_warms_up_and_falls_to_its_floor():
    shares = [optimizers.schedule(n, 100, 10, floor=0.1) for n in range(101)]
    assert shares[0] == 0.1 and shares[9] == shares[10] == 1
    assert all(a >= b for a, b in pairwise(shares[10:]))
    assert shares[-1] == pytest.approx(0.1)
    assert shares[55] == pytest.approx(0.55)


def test_clipping_keeps_the_direction():
    g = data(0, 4)
    before = g.copy()
    assert optimizers.clip(g, 0.5) == pytest.approx(float(np.linalg.norm(before)), rel=1e-5)
    np.testing.assert_allclose(g, before * 0.5 / np.linalg.norm(before), rtol=1e-5)
    optimizers.clip(g, 0.0)
    assert np.linalg.norm(g) == pytest.approx(0.5, rel=1e-5)
