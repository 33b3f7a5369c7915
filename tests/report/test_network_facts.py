"""The published tables come out of the accounting to the digit."""

import json

import pytest
from cases import each
from published import published_network
from toynets import toy

from tinytrain.network.node import Node
from tinytrain.plan.published_costs import (
    backward_macs,
    full_backward_macs,
    paper_memory,
    peak_activation,
    updated_weights,
    with_head,
)
from tinytrain.report.network_facts import describe, describe_text

MIB = 2**20
HEADS = {"mcunet-5fps": None, "mbv2-w0.35": 448, "proxyless-w0.3": 384}
SPARSE_UPDATE_MCUNET_99KB = {21: 1, 24: 1, 27: 1, 30: 1, 36: 0.125, 39: 0.25}
LAYERS = (
    Node("stem", "conv", 3, 4, 3, 2, (8, 8), (4, 4), "relu6", 0),
    Node("a", "depthwise", 4, 4, 3, 1, (4, 4), (4, 4), "relu6", 1),
    Node("b", "pointwise", 4, 8, 1, 1, (4, 4), (4, 4), None, 1),
)


def published(name: str):
    """Network `name` and its layers as the published tables count them."""
    network = published_network(name)
    return network, network.layers if HEADS[name] is None else with_head(network.layers, HEADS[name])


@pytest.mark.parametrize(
    ("name", "kib", "full", "weights", "mib"),
    [
        ("mcunet-5fps", 640, "44.907", 92_160, "2.0312"),
        ("mbv2-w0.35", 896, "34.899", 50_176, "1.6406"),
        ("proxyless-w0.3", 512, "38.419", 36_864, "1.0625"),
    ],
)
def test_peak_full_training_and_last_layer_are_the_published_figures(name, kib, full, weights, mib):
    _, layers = published(name)
    assert peak_activation(layers) == kib * 1024
    assert f"{full_backward_macs(layers) / 1e6:.3f}" == full
    last_layer = {len(layers) - 1: 1}
    assert updated_weights(layers, last_layer) == weights
    assert f"{paper_memory(layers, weights) / MIB:.4f}" == mib


@pytest.mark.parametrize(("name", "macs"), [("mbv2-w0.35", "0.803"), ("proxyless-w0.3", "0.590")])
def test_last_layer_costs_the_macs_of_the_head(name, macs):
    _, layers = published(name)
    assert f"{backward_macs(layers, {len(layers) - 1: 1}) / 1e6:.3f}" == macs


def test_sparse_update_of_mcunet_is_the_published_figure():
    _, layers = published("mcunet-5fps")
    weights = updated_weights(layers, SPARSE_UPDATE_MCUNET_99KB)
    assert weights == 52_480
    assert f"{paper_memory(layers, weights) / MIB:.3f}" == "1.426"
    assert f"{backward_macs(layers, SPARSE_UPDATE_MCUNET_99KB) / 1e6:.3f}" == "11.882"


@each(
    ("cut", "macs"),
    [
        (41, "0.00"),
        (39, "1.56"),
        (36, "3.19"),
        (33, "4.52"),
        (30, "5.67"),
        (27, "7.10"),
        (24, "8.22"),
        (21, "9.41"),
    ],
)
def test_the_way_back_to_a_cut_costs_the_published_macs(cut, macs):
    _, layers = published("mcunet-5fps")
    assert f"{(backward_macs(layers, {cut: 1}) - layers[cut].macs) / 1e6:.2f}" == macs


@pytest.mark.parametrize(
    ("name", "convs", "weights"), [("mbv2-w0.35", 52, 288_864), ("proxyless-w0.3", 61, 357_680)]
)
def test_networks_with_head_have_the_published_size(name, convs, weights):
    _, layers = published(name)
    assert (len(layers), sum(layer.n_weights for layer in layers)) == (convs, weights)


def test_depthwise_layers_do_not_count_towards_the_peak():
    assert peak_activation(LAYERS) == 4 * max(3 * 64 + 4 * 16, 4 * 16 + 8 * 16)
    assert peak_activation(LAYERS[1:2]) == 0


def test_the_memory_formula_charges_sixteen_bytes_a_weight():
    assert paper_memory(LAYERS, 10) == 160 + peak_activation(LAYERS)


def test_nothing_updated_costs_nothing_backward():
    assert backward_macs(LAYERS, {}) == 0 and updated_weights(LAYERS, {}) == 0


def test_backward_macs_are_gradients_of_the_shares_and_the_way_back_to_the_first():
    assert (
        backward_macs(LAYERS, {1: 0.5, 2: 0.25}) == LAYERS[1].macs // 2 + LAYERS[2].macs // 4 + LAYERS[2].macs
    )


def test_partial_channels_are_not_counted():
    assert updated_weights(LAYERS, {2: 0.3}) == 8


def test_the_head_follows_the_last_layer_and_has_its_own_block():
    head = with_head(LAYERS, 16)[-1]
    assert (head.cin, head.cout, head.in_hw, head.out_hw, head.block) == (8, 16, (4, 4), (4, 4), 2)


def test_describe_is_json_and_complete():
    network, _ = published("mcunet-5fps")
    facts = json.loads(json.dumps(describe(network)))
    assert facts["digest"] == network.digest and facts["weights"] == 463_216 and len(facts["layers"]) == 42
    assert facts["peak_activation_bytes"] == 655_360 and facts["weight_dtypes"] == ["int8"]
    assert facts["layers"][41]["weights"] == 92_160 and facts["layers"][41]["index"] == 41


def test_the_input_is_shown_as_ever_where_one_number_stands_for_all_channels():
    network, _ = published("mcunet-5fps")
    assert list(describe(network)["preprocessing"].items()) == [
        ("size", 128), ("mean", 127.5), ("scale", 1 / 127.5), ("resize", "short-side-bilinear-centre-crop"),
    ]  # fmt: skip
    assert "input 128 x 128 x 3, embedding 160 values\n" in describe_text(network)
    assert "mean 127.5; scale 0.00784314\n" in describe_text(network)


def test_describe_text_has_one_line_per_layer():
    network, _ = published("mcunet-5fps")
    lines = describe_text(network).splitlines()
    assert len([line for line in lines if "block" in line or "stem" in line]) == 42
    assert "640 KiB" in describe_text(network) and max(map(len, lines)) <= 110


def test_what_follows_a_convolution_is_shown_and_the_peak_is_before_max_pooling():
    network = toy("residual")
    facts, text = describe(network), describe_text(network)
    assert facts["peak_activation_bytes"] == 4 * (16 * 16 * 3 + 8 * 8 * 7)  # 4 x 4 x 7 after the pooling
    rows = [line.split() for line in text.splitlines() if line.lstrip()[:1].isdigit()]
    assert rows[0][-1] == "relu" and rows[1][1:3] == ["0.conv.max_pool", "max-pool"]
    assert rows[3][-3:] == ["+", "0.conv.max_pool", "relu"] and rows[6][-3:] == ["+", "4.conv", "relu"]
    assert "hard-swish" in describe_text(toy("excited"))
    assert facts["layers"][0]["activation"] == "relu" and "activation" not in describe(toy())["layers"][0]
