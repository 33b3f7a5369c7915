"""Phase-change memory: the moments of its model, what compensation does, noise in training, and the log."""

import numpy as np
import pytest
from cases import each

from tinytrain.meta.studies import analog
from tinytrain.pipeline.toy import toy_network
from tinytrain.program.backends.registry import BACKENDS, find_backend

HALF = 12.5  # microsiemens of 25
# Seconds, mean and deviation of 200,000 devices at HALF, by the PCM model of aihwkit 1.1.0.
MOMENTS = [(1, 12.467, 1.194), (3600, 9.697, 1.057), (86_400, 8.311, 1.028), (31_536_000, 6.254, 0.994)]
SMALL = "--packs signs --way 3 --shots 4 --queries 2 --episodes 1"
ROW = np.array([[0.5], [-1.0], [0.0]], np.float32).repeat(20_000, 1)


@pytest.fixture(scope="module")
def devices():
    return analog.Devices(np.full(200_000, HALF), np.random.default_rng(1))


def test_programming_and_drift_exponents_have_the_moments_of_the_model(devices):
    assert devices.programmed.mean() == pytest.approx(12.497, rel=0.01)
    assert devices.programmed.std() == pytest.approx(0.9529, rel=0.01)
    assert devices.exponent.mean() == pytest.approx(0.0490, rel=0.01)
    assert devices.exponent.std() == pytest.approx(0.0080, rel=0.01)


@each(("seconds", "mean", "deviation"), MOMENTS)
def test_conductances_that_are_read_later_have_the_moments_of_the_model(devices, seconds, mean, deviation):
    read = devices.read(seconds, np.random.default_rng(2))
    assert (read.mean(), read.std()) == (pytest.approx(mean, rel=0.01), pytest.approx(deviation, rel=0.01))


def test_devices_that_are_off_conduct_little_and_never_less_than_nothing():
    off = analog.Devices(np.zeros(10_000), np.random.default_rng(0))
    assert off.programmed.min() >= 0 and 0 < off.programmed.mean() < 0.2
    assert off.exponent.mean() == pytest.approx(0.1, rel=0.02)  # they drift fastest


def test_a_weight_is_a_pair_of_devices_of_which_its_sign_says_which_one_conducts():
    layer = analog.Layer(ROW, np.random.default_rng(0))
    now, _ = layer.weights(0, np.random.default_rng(1))
    assert now.dtype == np.float32 and now.shape == ROW.shape
    assert now.mean(1) == pytest.approx([0.5, -1, 0], abs=0.01)


def test_weights_shrink_with_time_and_compensation_scales_them_back():
    layer = analog.Layer(ROW, np.random.default_rng(0))
    year = MOMENTS[-1][0]
    later, scaled = layer.weights(year, np.random.default_rng(1))
    assert later.mean(1) == pytest.approx([0.25, -0.5, 0], abs=0.03)
    assert scaled.mean(1) == pytest.approx([0.5, -1, 0], abs=0.03)
    np.testing.assert_allclose(scaled * later.sum(), later * scaled.sum(), atol=1)  # one factor for the layer


def test_a_seed_is_an_array_and_biases_are_exact():
    network = toy_network()
    first, again, other = (analog.Array(network, seed).after(3600)[1] for seed in (1, 1, 2))
    for i in range(len(network.layers)):
        assert first.weights[i].tobytes() == again.weights[i].tobytes() != other.weights[i].tobytes()
        assert first.biases[i].tobytes() == network.biases[i].tobytes()


def test_noise_in_training_is_drawn_anew_in_every_step_and_not_in_what_is_stored():
    network = toy_network()
    last = len(network.layers) - 1
    with analog.known(analog.Anew(0.03, 5)) as name:
        copy = find_backend(name).copy(network, [(last, "weight")], network)
    assert isinstance(copy, analog.AnewCopy)
    first, exact, frozen = copy.weight(last).copy(), network.float_weight(last), copy.weight(0).copy()
    copy.weight(last)[:] += 1  # a step of training
    copy.settle()
    moved = copy.weight(last) - 1
    assert np.abs(copy.part(last, "weight") - exact - 1).max() < 1e-5
    assert np.corrcoef((first - exact).ravel(), (moved - exact).ravel())[0, 1] < 0.3
    assert (first - exact).std() == pytest.approx((moved - exact).std(), rel=0.3)
    assert copy.weight(0).tobytes() == frozen.tobytes()


def test_every_arm_sees_the_same_array_and_the_log_has_all_of_them(logged, rows, capsys):
    known = dict(BACKENDS)
    analog.main([*logged, *SMALL.split()])
    ((row,), text) = rows(), capsys.readouterr().out
    asked = [f"{how}, {name}{more}" for name in analog.TIMES for how, more in analog.COLUMNS.values()]
    assert {"plain", "aware", *asked} <= set(row["forms"])
    assert "head fitted there" in text
    assert all(0 <= form["accuracy"] <= 1 for form in row["forms"].values())
    assert "| 1 year |" in text and known == BACKENDS
