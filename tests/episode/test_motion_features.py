"""Features of recordings: what they must not depend on, where energy lands, and states by their formula."""

from dataclasses import replace

import numpy as np
import pytest

from tinytrain.backbones.motion import RESERVOIR, motion_name, motion_network
from tinytrain.base.errors import InputError
from tinytrain.episode.kinds import KINDS
from tinytrain.episode.motion_features import BANDS, SCALE, WINDOW, features, matrices, names_of, states
from tinytrain.network.validation import check_network

NAMES = np.array(names_of(3))


def noise(count, seed=0):
    return np.random.default_rng(seed).normal(0, 1, (count, 3)) * [0.1, 0.2, 0.3] + [0, 0, 1]


def test_units_move_the_level_alone():
    values = noise(300)
    plain, scaled = features(values), features(9.81 * values)
    np.testing.assert_allclose(plain[NAMES != "level"], scaled[NAMES != "level"], atol=2e-5)
    assert scaled[NAMES == "level"] - plain[NAMES == "level"] == pytest.approx(np.log10(9.81), abs=2e-5)


def test_the_length_of_a_file_is_no_cue():
    """Parts of one stationary movement: short and long ones differ by less than their noise."""
    short, long = (
        np.array([features(noise(count, seed)) for seed in range(40)]) * [SCALE[n] for n in NAMES]
        for count in (130, 2600)
    )
    spread = np.sqrt((short.var(axis=0) + long.var(axis=0)) / 2)
    away = np.abs(short.mean(axis=0) - long.mean(axis=0)) / (spread + 0.01)
    assert away.max() < 1.2


@pytest.mark.parametrize("cycles", [0.02, 0.05, 0.1, 0.2, 0.4])
def test_a_tone_has_its_energy_in_its_band(cycles):
    tone = np.sin(2 * np.pi * cycles * np.arange(500))[:, None] * [1, 0, 0] + [0, 0, 1.0]
    bands = features(tone)[NAMES == "band"].reshape(3, BANDS)
    edges = np.geomspace(1 / WINDOW, 0.5, BANDS + 1)
    assert abs(int(bands[0].argmax()) - int(np.searchsorted(edges, cycles) - 1)) <= (cycles < 0.1)
    assert bands[1].max() < bands[0].max() - 1
    short = features(tone[:40])[NAMES == "band"].reshape(3, BANDS)
    assert abs(short[0].max() - bands[0].max()) < 0.3, "the same energy, whatever the window"


def test_files_of_other_rates_give_nearly_the_features_of_the_rate_of_the_network():
    spec = motion_network("motion-3-50hz").input
    wave = lambda t: np.stack([np.sin(9 * t), np.cos(5 * t), 1 + 0.3 * np.sin(20 * t)], axis=1)  # noqa: E731

    def item(rate):
        t = np.arange(0, 4, 1 / rate)
        rows = (",".join(f"{x:.6f}" for x in (a, *b)) for a, b in zip(t, wave(t), strict=True))
        return KINDS["motion"].read(("time,x,y,z\n" + "\n".join(rows)).encode(), spec).ravel() * spec.scale

    assert np.abs(item(50) - item(100)).max() < 0.3
    assert np.abs(item(50) - item(200)).mean() < 0.1


def test_the_reservoir_has_the_radius_that_is_stored_as_a_scale_and_forgets_where_it_began():
    places, read, inputs, bias = matrices(RESERVOIR.neurons, 3, RESERVOIR.seed)
    recurrent = np.zeros((RESERVOIR.neurons,) * 2)
    np.put_along_axis(recurrent, places.T, read.T, axis=1)
    radius = np.abs(np.linalg.eigvals(recurrent)).max()
    assert RESERVOIR.scale * radius == pytest.approx(0.9, rel=1e-9)
    assert ((recurrent != 0).sum(axis=1) == 10).all()
    values, state = noise(300), np.zeros(RESERVOIR.neurons)
    found = states(values, RESERVOIR)
    for row, got in zip(values, found, strict=True):
        drive = inputs.T @ row + RESERVOIR.scale * (recurrent @ state) + bias
        state = 0.7 * state + 0.3 * np.tanh(drive)
        np.testing.assert_allclose(got, state, atol=1e-12)
    later = states(np.concatenate([noise(50, 9), values]), RESERVOIR)[50:]
    assert np.abs(found[-1] - later[-1]).max() < 1e-6
    single = states(values.astype(np.float32), RESERVOIR)
    assert single.dtype == np.float32 and np.abs(single - found).max() < 1e-5
    values /= np.sqrt(np.square(values).sum(axis=1).mean())
    whole, found = features(values, RESERVOIR), states(values, RESERVOIR)
    assert len(whole) == len(names_of(3, 100)) == motion_network("motion-3-esn").input.shape[2]
    np.testing.assert_allclose(whole[-100:], found[20:].mean(axis=0), atol=1e-5)


def test_a_network_is_the_same_whenever_it_is_built_and_its_name_says_axes_and_rate(tmp_path):
    for name in ("motion-3", "motion-1", "motion-6-12.5hz", "motion-16-100hz-esn"):
        network = motion_network(name)
        check_network(network)
        assert network.digest == motion_network(name).digest and network.name == name
    assert motion_network("motion-3").digest != motion_network("motion-3-50hz").digest
    for name in ("motion-0", "motion-17"):
        with pytest.raises(InputError, match="name 1 to 16"):
            motion_network(name)
    timed, plain, bad = (tmp_path / f"{name}.csv" for name in ("timed", "plain", "bad"))
    rows = [",".join(f"{x:.3f}" for x in row) for row in noise(40)[:, :2]]
    timed.write_text("t,x,y\n" + "\n".join(f"{0.04 * k:.2f},{row}" for k, row in enumerate(rows)))
    plain.write_text("\n".join(rows))
    bad.write_text("1,2\n3,4\n")
    assert motion_name([bad, timed]) == "motion-2-25hz"
    assert motion_name([timed, plain]) == "motion-2"
    assert motion_name([bad]) == motion_name([]) == "motion-3"


def test_a_network_file_with_other_parameters_than_ours_reads_nothing_in_one_line():
    spec, content = motion_network("motion-3-esn").input, "\n".join("1,2,3" for _ in range(20)).encode()
    asked = dict(spec.parameters)
    for wrong in ({"neurons": 10**5}, {"neurons": "x"}, {"leak": 1e300}, {"axes": 2}):
        with pytest.raises(InputError) as caught:
            KINDS["motion"].read(content, replace(spec, parameters={**asked, **wrong}))
        assert "\n" not in str(caught.value)
