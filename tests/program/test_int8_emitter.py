"""Int8 passes: codes that equal an oracle in whole numbers, and gradients that equal one in float64."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from cases import each, quick
from int8nets import backward8, forward8, gradients8, surrogate, toy8, walk
from integernet import Integers
from oracle import Oracle
from segmentcheck import check_segment
from toygraphs import Nodes
from toynets import everything, images, random_updates, recipe, relative, selected
from toysegments import forward_segment, ran

from tinytrain.network.network import InputSpec, quantised
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.plan.costs import image_macs
from tinytrain.plan.recipe import Update
from tinytrain.program.autodiff import inner_channels
from tinytrain.program.trained_arrays import slots

NETWORKS = pytest.mark.parametrize("name", ["blocks", "headed", "dense"])


@NETWORKS
@pytest.mark.parametrize("row_tile", [None, 1, 700, 3000, 56_000])
@pytest.mark.parametrize("n", [1, 2])
def test_codes_equal_those_in_whole_numbers_in_row_tiles_of_any_size(name, row_tile, n):
    network = toy8(name)
    segment, source = forward8(network, 0, len(network.layers), n, row_tile)
    check_segment(segment)
    shown = images(n)
    (out,) = ran(segment, network, {source: shown})
    want = np.stack([Integers(network).run(Integers(network).pixels(image))[-1] for image in shown])
    np.testing.assert_array_equal(out, want)
    assert segment.macs("forward") == n * network.macs


@NETWORKS
def test_every_layer_gives_codes_at_both_ends_and_between_them(name):
    """So that the tests here see clamped codes."""
    seen = walk(toy8(name), images(4))
    assert all(0.02 < inside.mean() < 0.999 for inside in seen.inside)


def assert_gradients_equal_the_oracle(network, updates, n, row_tile=None):
    """Of one pass over n images, for random gradients of their embeddings; returns the segment."""
    segment, source, g, gradients = backward8(network, updates, 0, n, row_tile)
    check_segment(segment)
    shown, found = images(n), np.zeros(gradients.shape, "f")
    wanted = np.random.default_rng(n).standard_normal(g.shape).astype("f")
    ran(segment, network, {source: shown, g: wanted, gradients: found}, updates)
    weights, biases = gradients8(network, walk(network, shown), wanted.astype(float))
    for slot in slots(network, recipe(updates)):
        got = found[slot.start : slot.start + slot.size].reshape(slot.shape)
        exact = {"weight": weights, "bias": biases}[slot.part][slot.layer]
        assert relative(got, selected(exact, slot)) < 1e-5
    return segment


@NETWORKS
@pytest.mark.parametrize("n, row_tile", quick([(1, None), (3, 56_000), (3, None), (1, 56_000)], (0, 1)))
def test_gradients_equal_the_oracle(name, n, row_tile):
    network = toy8(name)
    assert_gradients_equal_the_oracle(network, everything(network), n, row_tile)


@each("rotated", [False, True])
@each("mean, scale", [((128.0, 128.0, 128.0), (0.01,) * 3), ((120.3, 110.1, 99.7), (0.02, 0.018, 0.016))])
def test_the_gradient_of_the_first_layer_is_that_of_the_codes_of_pixels(rotated, mean, scale):
    """Whatever the input is: with means of their own, pixels are rounded to codes of 12 bits."""
    network = toy8("blocks")
    network = replace(network, input=replace(network.input, mean=mean, scale=scale, rotated=rotated))
    updates = (Update(0, tuple(range(network.layers[0].cout)), bias=True),)
    assert_gradients_equal_the_oracle(network, updates, 2)


@NETWORKS
@pytest.mark.parametrize("key", quick(range(8), range(2)))
@pytest.mark.parametrize("least", [1, 5, 16])
def test_gradients_equal_the_oracle_for_so_many_inner_channels_at_a_time(name, least, key, monkeypatch):
    monkeypatch.setattr(inner_channels, "BYTES", 0)
    monkeypatch.setattr(inner_channels, "LEAST", least)
    network = toy8(name)
    updates = tuple(u for u in random_updates(network, key) if u.layer > 0)
    segment = assert_gradients_equal_the_oracle(network, updates, 2)
    assert segment.backward_macs == 2 * image_macs(network, updates)


@NETWORKS
@pytest.mark.parametrize("least", [1, 5, 16])
@pytest.mark.parametrize("inputs", [False, True], ids=["all inputs", "some inputs"])
def test_gradients_of_all_outputs_equal_the_oracle_for_some_of_them_at_a_time(
    name, inputs, least, monkeypatch
):
    monkeypatch.setattr(inner_channels, "BYTES", 0)
    monkeypatch.setattr(inner_channels, "LEAST", least)
    network = toy8(name)
    pointwise = [i for i, layer in enumerate(network.layers) if i and layer.op == "pointwise"]
    updates = tuple(
        Update(i, tuple(range(network.layers[i].cout)), True, (0, 2) if inputs else None) for i in pointwise
    )
    assert_gradients_equal_the_oracle(network, updates, 2)


def test_a_gradient_that_goes_on_takes_inner_channels_of_a_block_at_a_time():
    """Of three layers whose biases are trained."""
    network, last = toy8("blocks"), len(toy8("blocks").layers)
    ops, block = [x.op for x in network.layers], ["pointwise", "depthwise", "pointwise"]
    triples = [i for i in range(2, last) if ops[i - 2 : i + 1] == block]
    assert triples
    first = min(triples) - 2
    segment = backward8(network, tuple(Update(i, bias=True) for i in range(first, last)), 0, 1)[0]
    found = {call.kernel for call in segment.calls}
    assert "grad_input_columns" in found
    assert not found & {"depthwise_grad_in_place", "depthwise_grad_input_codes"}


def test_the_gradient_of_a_channel_is_shown_once_if_a_sum_reads_inside_of_a_block():
    """Fisher information is of the whole gradient, not of a part and another part."""
    made, codes = Nodes(InputSpec((12, 12, 3))), Codes(6 / 255, -128)
    made.add("conv", 8, 3, 2, activation="relu6")
    made.block += 1
    inner = made.add("pointwise", 8, activation="relu6")
    filtered = made.add("depthwise", 8, 3, activation="relu6")
    made.add("pointwise", 8, inputs=(filtered, inner))
    network = quantised(made.network("inner sum"))
    network = replace(network, quantisation=Quantisation((codes,) * 4, (None, None, None, codes)))
    seen = Counter()
    biases = tuple(Update(i, bias=True) for i in range(1, 4))

    def hook(i, g, first):
        seen.update((i, first + k) for k in range(g.shape[-1]))

    backward8(network, biases, 0, 1, hook=hook)
    assert seen == dict.fromkeys(((i, k) for i in range(1, 4) for k in range(8)), 1)


@NETWORKS
@pytest.mark.parametrize("key", range(8))
def test_gradients_of_some_channels_equal_the_oracle_and_cost_what_the_plan_says(name, key):
    network = toy8(name)
    updates = random_updates(network, key)
    segment = assert_gradients_equal_the_oracle(network, updates, 2)
    assert segment.backward_macs == 2 * image_macs(network, updates)


@NETWORKS
def test_the_oracle_is_the_slope_of_the_network_whose_codes_follow_their_convolutions(name):
    """Central differences in float64; a clamped code does not move."""
    network, r = toy8(name), np.random.default_rng(3)
    seen, grad = walk(network, images(2)), r.standard_normal((2, network.embedding_size))
    weights, biases = gradients8(network, seen, grad)
    own = Oracle(network)
    for exact, values in zip((*weights, *biases), (*own.weights, *own.biases), strict=True):
        direction, size = r.standard_normal(values.shape), 1e-4
        start, ends = values.copy(), []
        for sign in (1, -1):
            values[...] = start + sign * size * direction
            ends.append(surrogate(network, seen, own.weights, own.biases, grad))
        values[...] = start
        slope, scale = (ends[0] - ends[1]) / (2 * size), max(1.0, float(np.abs(exact).max()))
        assert abs(slope - float((exact * direction).sum())) < 1e-6 * scale * direction.size


def test_an_int8_pass_takes_less_than_half_the_memory_of_a_float32_pass():
    network = toy8("blocks", size=64)
    last = len(network.layers)
    assert forward8(network, 0, last, 1)[0].nbytes < forward_segment(network, 0, last, 1)[0].nbytes / 2
