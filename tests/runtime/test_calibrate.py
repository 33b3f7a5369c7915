"""Calibration: codes hold what the layers give, are cut where that helps, and change nothing else."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commandline import tt
from integernet import Integers
from oracle import Oracle
from toynets import images_of, toy

from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Images
from tinytrain.network.file import load_network, save_network
from tinytrain.network.network import quantised
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.network.validation import check_network
from tinytrain.runtime.calibrate import FloatPass, best_ends, calibrated_network


def pictures(network, count=6) -> Images:
    drawn = images_of(network.input.shape, count)
    return Images(np.zeros(count, np.int32), tuple(map(str, range(count))), lambda i, size: drawn[i])


@pytest.mark.parametrize("name", ["blocks", "headed", "dense"])
def test_a_calibrated_network_embeds_in_int8_as_in_float32(name):
    network = quantised(toy(name))
    found = calibrated_network(network, pictures(network))
    check_network(found)
    assert found.digest == network.digest and int8_obstacle(found) is None
    drawn, oracle = images_of(network.input.shape, 6), Integers(found)
    wanted = Oracle(network).forward(drawn).embeddings
    embedded = np.stack([oracle.embedding(oracle.run(oracle.pixels(x))[-1]) for x in drawn])
    cosines = (embedded * wanted).sum(1) / np.linalg.norm(embedded, axis=1) / np.linalg.norm(wanted, axis=1)
    assert cosines.min() > 0.98


def test_relu6_keeps_its_range_unless_its_values_stay_clearly_below():
    network = quantised(toy("blocks"))
    for factor, fits in ((20, True), (1 / 100, False)):
        scaled = replace(
            network,
            scales=(network.scales[0] * np.float32(factor), *network.scales[1:]),
            biases=(network.biases[0] * np.float32(factor), *network.biases[1:]),
        )
        codes = calibrated_network(scaled, pictures(scaled)).quantisation.outputs[0]
        assert codes.zero == -128 and (codes.scale == 6 / 255 if fits else codes.scale < 1 / 255)


def test_the_measured_values_are_those_of_the_oracle():
    network = quantised(toy("blocks"))
    measured = dict(FloatPass(network).run(pictures(network).image(0, network.input.shape)))
    last = len(network.layers) - 1
    values = measured.get((last, "sum"), measured[last, "output"]).mean(axis=(0, 1))
    wanted = Oracle(network).forward(images_of(network.input.shape, 6)[:1]).embeddings[0]
    assert np.allclose(values, wanted, rtol=1e-4, atol=1e-4)


def test_the_same_images_give_the_same_codes():
    network = quantised(toy("headed"))
    first, second = (calibrated_network(network, pictures(network)).quantisation for _ in range(2))
    assert first == second


def test_a_rare_value_far_away_is_cut_off_and_a_full_range_is_not():
    counts = np.zeros(2048)
    counts[:1000], counts[-1] = 1000, 1
    assert best_ends(0.0, 8.0, counts)[1] < 8
    assert best_ends(0.0, 8.0, np.ones(2048)) == (0.0, 8.0)


@pytest.mark.parametrize("name", ["residual", "excited"])
def test_a_network_that_cannot_run_in_int8_is_refused(name):
    with pytest.raises(InputError, match="unsupported"):
        calibrated_network(quantised(toy(name)), pictures(toy(name)))


def test_no_images_are_refused():
    network = quantised(toy("headed"))
    with pytest.raises(InputError, match="too-few-images"):
        calibrated_network(network, pictures(network, 0))


def test_no_name_of_a_folder_is_not_generated_images(tmp_path, capsys):
    save_network(toy("headed"), tmp_path / "a.safetensors")
    words = (tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors", "--data", "")
    assert tt("calibrate", *words) == 3 and "'' is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("floats", [False, True])
def test_the_command_writes_codes_and_info_shows_them(tmp_path, capsys, floats):
    network = toy("headed") if floats else quantised(toy("headed"))
    save_network(network, tmp_path / "a.safetensors")
    assert tt("calibrate", tmp_path / "a.safetensors", "-o", tmp_path / "b.safetensors", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    again = load_network(tmp_path / "b.safetensors")
    assert result["weights_rounded"] == floats and result["digest"] == again.digest
    assert again.digest == quantised(network).digest and int8_obstacle(again) is None
    assert tt("info", tmp_path / "b.safetensors", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["has_codes"] and facts["int8_obstacle"] is None
    assert tt("info", tmp_path / "a.safetensors") == 0
    assert ("float32 weights" if floats else "no codes") in capsys.readouterr().out
