"""Bytes of a training step of the published configurations in int8."""

import pytest
from published import published_file, published_network

from tinytrain.meta.studies import int8_step
from tinytrain.plan.recipe import Update
from tinytrain.policies.sparse_update import published, updates_of


def test_the_smallest_configuration_of_mcunet_takes_no_more_than_its_authors_say():
    network = published_network("mcunet-5fps")
    found = int8_step.step_bytes(network, updates_of(network, published(network)[0]))
    assert found["all"] == sum(found[name] for name in ("activations", "trained", "gradients")) <= 189_800


def test_a_bias_takes_two_float32_and_a_weight_a_float32_and_two_bytes():
    network = published_network("mbv2-w0.35")
    last = len(network.layers) - 1
    found = int8_step.step_bytes(network, (Update(last, (0, 1), bias=True),))
    layer = network.layers[last]
    assert found["trained"] == 2 * 2 * layer.fan_in + 4 * layer.cout
    assert found["gradients"] == 4 * (2 * layer.fan_in + layer.cout)


def test_it_prints_a_row_for_each_configuration(capsys):
    assert int8_step.main(["--backbone", str(published_file("proxyless-w0.3"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["50", "75", "100", "125", "150"]


@pytest.mark.parametrize("name", ["tinytrain-small"])
def test_a_network_without_published_configurations_is_refused(name, capsys):
    assert int8_step.main(["--backbone", name]) == 2
    assert "no-configuration" in capsys.readouterr().err
