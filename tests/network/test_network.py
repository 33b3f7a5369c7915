"""A network as data: counts follow from shapes, arrays are frozen, the digest covers all of the content."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.validation import check_network

LAYERS = (
    Node("stem", "conv", 3, 4, 3, 2, (8, 8), (4, 4), "relu6", 0),
    Node("block0.depthwise", "depthwise", 4, 4, 5, 1, (4, 4), (4, 4), "relu6", 1),
    Node("block0.project", "pointwise", 4, 4, 1, 1, (4, 4), (4, 4), None, 1, ("block0.depthwise", "stem")),
)


def make_network(seed=0, **changes) -> Network:
    rng = np.random.default_rng(seed)
    parts = {
        "name": "toy",
        "nodes": LAYERS,
        "weights": tuple(rng.integers(-127, 128, (x.fan_in, x.cout), dtype=np.int8) for x in LAYERS),
        "scales": tuple(rng.uniform(0.01, 0.02, x.cout).astype(np.float32) for x in LAYERS),
        "biases": tuple(rng.normal(size=x.cout).astype(np.float32) for x in LAYERS),
        "input": InputSpec((8, 8, 3)),
    }
    return Network(**{**parts, **changes})


def sound(parameters: dict) -> InputSpec:
    """Of a kind of input that is none of ours."""
    return InputSpec((8, 8, 3), "float32", kind="sound", parameters=parameters)


def changed(arrays: tuple, index: int, value) -> tuple:
    """`arrays` with the first number of array `index` set to `value`."""
    arrays = [array.copy() for array in arrays]
    arrays[index].flat[0] = value
    return tuple(arrays)


def test_counts_follow_from_shapes():
    stem = LAYERS[0]
    assert [layer.fan_in for layer in LAYERS] == [27, 25, 4]
    assert [layer.n_weights for layer in LAYERS] == [108, 100, 16]
    assert [layer.macs for layer in LAYERS] == [108 * 16, 100 * 16, 16 * 16]
    assert (stem.in_size, stem.out_size) == (192, 64)
    assert [layer.pad for layer in LAYERS] == [(1, 1), (2, 2), (0, 0)]
    network = make_network()
    assert (network.n_weights, network.macs, network.embedding_size) == (224, 224 * 16, 4)
    assert [network.block_start(index) for index in range(3)] == [0, 1, 1]


def test_all_arrays_are_read_only():
    network = make_network()
    for array in (*network.weights, *network.scales, *network.biases):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_float_weights_are_scaled_per_column_and_new_each_time():
    network = make_network()
    weight = network.float_weight(1)
    assert weight.dtype == np.float32 and weight.flags.writeable
    expected = [
        [int(w) * float(s) for w, s in zip(row, network.scales[1], strict=True)] for row in network.weights[1]
    ]
    np.testing.assert_allclose(weight, expected, rtol=1e-6)
    floats = make_network(weights=tuple(map(network.float_weight, range(3))), scales=(None,) * 3)
    np.testing.assert_array_equal(floats.float_weight(1), weight)
    assert floats.float_weight(1) is not floats.weights[1]


def test_the_digest_is_of_content_and_not_of_name_or_memory():
    network = make_network()
    again = make_network(name="other", weights=tuple(np.asfortranarray(w) for w in network.weights))
    assert again.digest == network.digest and len(network.digest) == 64


def test_the_digest_never_changes_between_versions():
    assert make_network().digest == "8b8d6bf08bbb065da0fab4c377c8c9d36d2ca91cba05ea9870ad994ee8c5c4d3"


@each(
    "change",
    [
        lambda n: {"weights": changed(n.weights, 2, 5)},
        lambda n: {"scales": changed(n.scales, 1, 0.5)},
        lambda n: {"biases": changed(n.biases, 0, 9.0)},
        lambda n: {"nodes": (*LAYERS[:2], replace(LAYERS[2], inputs=()))},
        lambda n: {"nodes": (*LAYERS[:2], replace(LAYERS[2], activation="relu6"))},
        lambda n: {"input": InputSpec((8, 8, 3), mean=127.0)},
        lambda n: {"input": InputSpec((8, 8, 3), mean=(127.5, 127.5, 127.0))},
        lambda n: {"weights": tuple(map(n.float_weight, range(3))), "scales": (None,) * 3},
    ],
)
def test_any_change_of_content_changes_the_digest(change):
    network = make_network()
    assert make_network(**change(network)).digest != network.digest


def test_a_sound_network_passes_the_check():
    network = make_network()
    check_network(network)
    check_network(make_network(weights=tuple(map(network.float_weight, range(3))), scales=(None,) * 3))


def other(index: int, **changes) -> dict:
    """The layers with `changes` in one of them."""
    layers = list(LAYERS)
    layers[index] = replace(layers[index], **changes)
    return {"nodes": tuple(layers)}


@each(
    ("change", "code", "text"),
    [
        ({"nodes": ()}, "file-damaged", "0 layers"),
        ({"nodes": LAYERS * 400}, "file-damaged", "1200 layers"),
        (other(0, name="a b"), "file-damaged", "letters"),
        (other(0, name=5), "file-damaged", "letters"),
        (other(2, name="stem"), "file-damaged", "twice"),
        (other(1, op="pooling"), "unsupported", "supported are conv, pointwise, depthwise"),
        (other(1, kernel=2), "unsupported", "block0.depthwise"),
        (other(1, kernel=0), "file-damaged", "kernel"),
        (other(1, stride=3), "unsupported", "strides (1, 2)"),
        (other(1, stride=2.0), "file-damaged", "stride"),
        (other(2, kernel=3), "unsupported", "kernel 1"),
        (other(1, cin=2), "unsupported", "2 inputs and 4 outputs"),
        (other(0, cin=True), "file-damaged", "cin"),
        (other(0, cout=10**9), "file-damaged", "cout"),
        (other(0, cout=4.0), "file-damaged", "cout"),
        (other(0, in_hw=[8, 8]), "file-damaged", "in_hw"),
        (other(0, in_hw=(8,)), "file-damaged", "in_hw"),
        (other(0, out_hw=(4, -4)), "file-damaged", "out_hw"),
        (other(0, activation=1), "file-damaged", "activation must be"),
        (other(0, out_hw=(5, 5)), "file-damaged", "must be (4, 4)"),
        (other(2, cin=5), "file-damaged", "gives 4 x (4, 4)"),
        (other(0, cin=4) | {"input": InputSpec((8, 8, 4))}, "unsupported", "an image has 1 or 3"),
        (other(0, block=1), "file-damaged", "not 1"),
        (other(2, block=3), "file-damaged", "not 3"),
        (other(2, block=-1), "file-damaged", "block"),
        (other(1, inputs=("stem", "stem")), "file-damaged", "pointwise or dense"),
        (other(2, cout=5), "file-damaged", "cannot add"),
        (
            {"input": InputSpec((9, 9, 3))},
            "unsupported",
            "images are 9 x 9 x 3, but stem takes 8 x 8 x 3; a network takes one shape, import an ONNX model",
        ),
        ({"input": InputSpec((8, 8, 1))}, "unsupported", "8 x 8 x 1"),
        ({"input": InputSpec((8.0, 8, 3))}, "file-damaged", "8.0 x 8 x 3"),
        ({"input": InputSpec((8, 8, 3), mean=(1.0, 2.0))}, "file-damaged", "each of 3 channels"),
        ({"input": InputSpec((8, 8, 3), scale=(1.0, 2.0, -1.0))}, "file-damaged", "above 0"),
        ({"input": InputSpec((8, 8, 3), "int8")}, "file-damaged", "dtype of images is uint8"),
        ({"input": InputSpec((8, 8, 3), mean=127)}, "file-damaged", "finite"),
        ({"input": InputSpec((8, 8, 3), mean=float("nan"))}, "file-damaged", "finite"),
        ({"input": InputSpec((8, 8, 3), scale=0.0)}, "file-damaged", "above 0"),
        ({"input": InputSpec((8, 8, 3), resize="none")}, "file-damaged", "known resize"),
        ({"input": InputSpec((8, 8, 3), kind="a kind")}, "file-damaged", "kind must be"),
        ({"input": InputSpec((8, 8, 3), "int8", kind="sound")}, "file-damaged", "uint8 and float32"),
        ({"input": InputSpec((8, 8, 3), parameters={"rate": 1})}, "file-damaged", "no parameters"),
        ({"input": sound({"rate": math.nan})}, "file-damaged", "a number"),
        ({"input": sound({"rate": [1]})}, "file-damaged", "a number"),
        ({"input": sound({"window": "\n"})}, "file-damaged", "a text"),
        ({"input": sound({"a b": 1})}, "file-damaged", "plain name"),
        ({"input": sound({f"p{i}": i for i in range(65)})}, "file-damaged", "at most 64"),
    ],
)
def test_an_impossible_topology_is_named(change, code, text):
    with pytest.raises(InputError) as caught:
        check_network(make_network(**change))
    assert caught.value.code == code and text in str(caught.value)


@each("bad", [np.nan, np.inf, -np.inf])
@each(("part", "what"), [("scales", "scale"), ("biases", "bias")])
def test_a_number_that_is_none_is_named_with_its_layer(part, what, bad):
    network = make_network()
    with pytest.raises(InputError, match=f"block0.project: 1 of 4 numbers in its {what} are NaN") as caught:
        check_network(make_network(**{part: changed(getattr(network, part), 2, bad)}))
    assert caught.value.code == "network-not-finite"


def test_nan_in_a_float_weight_is_named_with_its_layer():
    network = make_network()
    weights = changed(tuple(map(network.float_weight, range(3))), 0, np.nan)
    with pytest.raises(InputError, match="stem: 1 of 108 numbers in its weight"):
        check_network(make_network(weights=weights, scales=(None,) * 3))


@each(
    ("change", "said"),
    [
        (lambda n: {"weights": n.weights[:2]}, "3 layers need 3 weights"),
        (lambda n: {"weights": (n.weights[0].T.copy(), *n.weights[1:])}, "stem: weight is int8"),
        (lambda n: {"scales": (None, *n.scales[1:])}, "stem: weight is int8"),
        (lambda n: {"biases": tuple(b.astype(np.float64) for b in n.biases)}, "stem: bias is float64"),
        (lambda n: {"scales": changed(n.scales, 1, 0.0)}, "block0.depthwise: a weight scale is 0"),
    ],
)
def test_arrays_that_do_not_fit_the_layers_are_named(change, said):
    with pytest.raises(InputError, match=f"file-damaged: .*{said}"):
        check_network(make_network(**change(make_network())))
