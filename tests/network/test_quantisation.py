"""Whether a network can run in int8, and the int8 weights that it runs with, dead channels included."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from published import published_network
from toynets import toy

from tinytrain.network.network import quantised, with_modules
from tinytrain.network.quantisation import (
    Codes,
    Quantisation,
    given_scale,
    int8_obstacle,
    int8_ratios,
    int8_weights,
)

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
DEAD = {"mcunet-5fps": 59, "mbv2-w0.35": 1, "proxyless-w0.3": 31}


def coded(name="blocks"):
    network = quantised(toy(name))
    by_activation = {"relu6": Codes(6 / 255, -128), None: Codes(0.05, 3)}
    outputs = tuple(by_activation[layer.activation] for layer in network.layers)
    sums = tuple(Codes(0.07, -4) if layer.adds else None for layer in network.layers)
    return replace(network, quantisation=Quantisation(outputs, sums))


@pytest.mark.parametrize("name", ["blocks", "headed"])
def test_blocks_of_mobile_networks_can_run_in_int8(name):
    assert int8_obstacle(coded(name)) is None


@each(
    ("reason", "change"),
    [
        ("float32 weights", lambda network: toy("blocks")),
        ("no codes", lambda network: replace(network, quantisation=None)),
        ("is of the operation max-pool", lambda network: quantised(toy("residual"))),
        ("0.conv has the activation hard-swish", lambda network: quantised(toy("excited"))),
        ("lite residual modules", lambda network: with_modules(network, network.possible_modules[:1])),
        ("too far apart", lambda network: with_output(network, 2, Codes(1e-9, 0))),
    ],
)
def test_what_keeps_a_network_from_int8_is_said(reason, change):
    assert reason in int8_obstacle(change(coded()))


def with_output(network, layer, codes):
    outputs = list(network.quantisation.outputs)
    outputs[layer] = codes
    return replace(network, quantisation=replace(network.quantisation, outputs=tuple(outputs)))


@each(
    ("reason", "change"),
    [
        ("squeeze", {"op": "squeeze"}),
        ("excite", {"op": "excite"}),
        ("not square", {"op": "conv", "kernel": (1, 3), "pad": (0, 1)}),
        ("reads another layer than the one before it", {"inputs": ("0.conv", "1.depthwise")}),
        ("max-pool", {"op": "max-pool"}),
        ("behind a sum", {"inputs": ("1.depthwise", "0.conv"), "activation": "relu"}),
    ],
)
def test_each_layer_that_int8_lacks_is_named(reason, change):
    network = coded()
    changed = replace(network.layers[2], **change)
    layers = (*network.layers[:2], changed, *network.layers[3:])
    obstacle = int8_obstacle(replace(network, nodes=layers))
    assert reason in obstacle and changed.name in obstacle


def with_scale(network, layer, scale, bias):
    """The first channel of `layer` with another scale and bias."""
    scales, biases = [list(parts) for parts in (network.scales, network.biases)]
    for parts, value in ((scales, scale), (biases, bias)):
        parts[layer] = parts[layer].copy()
        parts[layer][0] = value
    return replace(network, scales=tuple(scales), biases=tuple(biases))


@each(("scale", "bias"), [(1e-12, 0.5), (1e-12, -5.0), (1e-7, 100.0), (1e-30, 0.0)])
@each("layer", [0, 1, 2, 8])
def test_a_channel_whose_units_are_too_small_gets_the_smallest_scale_that_fits(layer, scale, bias):
    network = with_scale(coded(), layer, scale, bias)
    codes, scales, dead = int8_weights(network, layer)
    assert dead[0] and not dead[1:].any()
    assert np.array_equal(codes[:, 1:], network.weights[layer][:, 1:])
    assert np.array_equal(scales[1:], network.scales[layer][1:])
    given, out = given_scale(network, layer), network.quantisation.outputs[layer].scale
    least = max(abs(np.float64(np.float32(bias))) / 2**28 / given, 2.0**-31 * out / given)
    assert least <= scales[0] <= least * (1 + 1e-6)
    assert np.array_equal(
        codes[:, 0], np.rint(network.weights[layer][:, 0] * (float(np.float32(scale)) / scales[0]))
    )
    assert int8_ratios(network, layer, scales).min() >= 2.0**-31


def test_a_channel_that_fits_keeps_its_weights():
    network = with_scale(coded(), 4, 1e-4, 6.0)
    for layer in range(len(network.layers)):
        codes, scales, dead = int8_weights(network, layer)
        assert not dead.any()
        assert np.array_equal(codes, network.weights[layer]) and np.array_equal(scales, network.scales[layer])


@pytest.mark.parametrize("name", NAMES)
def test_dead_channels_of_published_networks_lose_nothing_that_shows(name):
    """What a dead channel gives changes by less than half an output code, whatever it reads."""
    network, count = published_network(name), 0
    for layer in range(len(network.layers)):
        codes, scales, dead = int8_weights(network, layer)
        count += int(dead.sum())
        bias = network.biases[layer].astype(np.float64) / (
            given_scale(network, layer) * scales.astype(np.float64)
        )
        assert np.abs(bias).max() <= 2**28
        change = np.abs(codes * scales.astype(np.float64) - network.float_weight(layer)).sum(axis=0)
        most = 255 * given_scale(network, layer) * change / network.quantisation.outputs[layer].scale
        assert (most[dead] < 0.5).all()
    assert count == DEAD[name]
