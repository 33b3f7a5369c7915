"""Networks that are graphs: passes and gradients equal the float64 oracle, which equals differences."""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from oracle import Oracle, gradients
from programcheck import check_program
from toygraphs import GRAPHS
from toynets import everything, gradient_of, images_of, random_updates, recipe, relative, selected, trainer
from toysegments import (
    assert_forward_equals_oracle,
    assert_gradients_equal_oracle,
    backward_segment,
    forward_segment,
    limit_row_tiles,
)

from tinytrain.base.errors import InputError
from tinytrain.network.file import decode, decode_network, encode_network
from tinytrain.network.network import Network
from tinytrain.network.validation import check_network
from tinytrain.plan.costs import image_macs
from tinytrain.plan.recipe import Update
from tinytrain.runtime.bind import AFTER, together

NAMES = each("name", GRAPHS)


@NAMES
def test_a_pass_equals_the_oracle(name):
    assert_forward_equals_oracle(GRAPHS[name]())


@each("name", ["branches", "fire", "speech", "channels"])
def test_a_product_adds_the_bias_of_a_dense_convolution_in_every_row_tile(monkeypatch, name):
    limit_row_tiles(monkeypatch, 700)
    network = GRAPHS[name]()
    segment, _ = forward_segment(network, 0, len(network.layers), 2)
    found = [kernel for kernel, _ in together(segment.calls)]
    assert "product" in found and not {"matmul", *AFTER} & set(found)


@NAMES
@each("key", range(4))
def test_gradients_equal_the_oracle_and_cost_what_the_plan_says(name, key):
    network, n = GRAPHS[name](), 1 + key % 2
    updates = everything(network) if key == 0 else random_updates(network, key)
    segment = assert_gradients_equal_oracle(network, updates, n)
    assert segment.backward_macs == n * image_macs(network, updates)


@NAMES
def test_the_oracle_equals_finite_differences(name):
    network = GRAPHS[name]()
    oracle, random, size = Oracle(network), np.random.default_rng(3), 1e-7
    pictures, labels = images_of(network.input.shape, 6), np.arange(6) % 3
    _, want = gradients(oracle, pictures, labels, pictures[::-1], labels[::-1])
    for i in range(len(network.layers)):
        direction, losses = random.standard_normal(oracle.weights[i].shape), []
        for sign in (1, -2):
            oracle.weights[i] += sign * size * direction
            losses.append(gradients(oracle, pictures, labels, pictures[::-1], labels[::-1])[0].mean)
        oracle.weights[i] += size * direction
        exact = (want.weights[i] * direction).sum()
        assert abs((losses[0] - losses[1]) / (2 * size) - exact) < 1e-5 * max(1, abs(exact))


@NAMES
def test_a_layer_alone_costs_the_gradients_of_what_reads_it_wherever_it_lies(name):
    """Beside it there are branches that need no gradient, though they are computed later."""
    network = GRAPHS[name]()

    def depends(k, on):
        return k == on or (k > on and any(depends(source, on) for source in network.sources[k]))

    for i, layer in enumerate(network.layers):
        at = network.position(i)
        rows = zip(network.graph, network.sources, strict=True)
        passed = sum(node.passed_macs(tuple(depends(k, at) for k in read)) for node, read in rows)
        assert image_macs(network, (Update(i, bias=True),)) == passed
        for update in (Update(i, bias=True), Update(i, tuple(range(layer.cout)))):
            segment, *_ = backward_segment(network, (update,))
            assert segment.backward_macs == image_macs(network, (update,))
            assert_gradients_equal_oracle(network, (update,), 1)


@NAMES
def test_a_layer_of_a_branch_that_is_not_trained_costs_nothing(name):
    network = GRAPHS[name]()
    full, *_ = backward_segment(network, everything(network))
    for frozen, layer in enumerate(network.layers):
        segment, *_ = backward_segment(network, tuple(u for u in everything(network) if u.layer != frozen))
        assert full.macs("grad_weight") - segment.macs("grad_weight") == layer.macs


@NAMES
def test_the_checker_finds_nothing_in_a_program_of_a_graph_and_a_step_has_the_gradient_of_one_batch(name):
    network = GRAPHS[name]()
    pictures, labels = images_of(network.input.shape, 6), (np.arange(6) % 3).astype(np.int32)
    made = trainer(network, recipe(random_updates(network, 5)), pictures, labels, micro=2)
    check_program(made.program)
    everyone = [(0, i) for i in range(6)]
    loss = made.compute_gradients(everyone, everyone)
    want, exact = gradients(Oracle(network), pictures, labels, pictures, labels)
    assert abs(loss - want.mean) < 1e-5
    for slot in made.slots:
        whole = {"weight": exact.weights, "bias": exact.biases}[slot.part][slot.layer]
        assert relative(gradient_of(made, slot.layer, slot.part), selected(whole, slot), 0.01) < 1e-4


@NAMES
def test_a_graph_survives_its_file_under_a_schema_that_older_versions_refuse(name):
    network = GRAPHS[name]()
    data = encode_network(network)
    tensors, metadata = decode(data)
    again = decode_network(tensors, metadata)
    assert metadata["schema"] == "5" and encode_network(again) == data
    assert (again.nodes, again.digest) == (network.nodes, network.digest)


BAD = (
    None, True, -1, 0, 7.5, 10**9, "x", "conv", [], [1], [-1, 2],
    [0, 0], ["0.conv"], [["slope"]], [[1, 2]], {},
)  # fmt: skip


@each("name", ["fire", "speech"])
def test_a_file_of_a_graph_with_anything_in_any_field_is_read_as_it_was_or_refused(name):
    data = encode_network(GRAPHS[name]())
    tensors, metadata = decode(data)
    topology = json.loads(metadata["topology"])
    for row in {row["op"]: row for row in topology["layers"]}.values():  # one of each operation
        for field, before in list(row.items()):
            for value in BAD:
                row[field] = value
                with suppress(InputError):
                    again = decode_network(tensors, metadata | {"topology": json.dumps(topology)})
                    assert encode_network(again) == data
            row[field] = before


def changed(network: Network, name: str, **changes) -> Network:
    return replace(
        network, nodes=tuple(replace(n, **changes) if n.name == name else n for n in network.nodes)
    )


@each("name, node, changes, said", [
    ("fire", "5.concat", {"inputs": ("3.pointwise",)}, "it has 1 inputs"),
    ("fire", "5.concat", {"inputs": ("3.pointwise", "9.concat")}, "which no layer before it is called"),
    ("fire", "8.conv", {"inputs": ("2.pointwise",)}, "reads from before the last layer of the block before"),
    ("fire", "3.pointwise", {"inputs": ("1.max-pool",)}, "takes 4 x .*; 1.max-pool gives 6 x"),
    ("fire", "1.max-pool", {"block": 1}, "a block begins with a layer"),
    ("fire", "1.max-pool", {"out_hw": (6, 6)}, "output .* must be"),
    ("fire", "1.max-pool", {"kernel": (16, 16)}, "at most 15 rows"),
    ("fire", "1.max-pool", {"pad": (3, 3)}, "more than padding"),
    ("fire", "1.max-pool", {"activation": "relu"}, "max-pool has no activation"),
    ("speech", "0.conv", {"attributes": ()}, "finite numbers, and these alone: slope, floor"),
    ("speech", "0.conv", {"attributes": (("slope", float("nan")), ("floor", 0.0))}, "these alone: slope"),
    ("speech", "0.conv", {"activation": None}, "these alone: none"),
    ("speech", "1.conv", {"stride": (1, 2)}, "one stride for rows and columns"),
    ("speech", "1.conv", {"op": "halve"}, "is not supported; supported are conv"),
])  # fmt: skip
def test_a_graph_that_makes_no_sense_is_refused_for_what_is_wrong(name, node, changes, said):
    with pytest.raises(InputError, match=said):
        check_network(changed(GRAPHS[name](), node, **changes))


def test_what_nobody_reads_is_refused():
    network = GRAPHS["fire"]()
    nodes = tuple(replace(n, inputs=n.inputs[:1] * 2) if n.op == "concat" else n for n in network.nodes)
    with pytest.raises(InputError, match="reads one value"):
        check_network(replace(network, nodes=nodes))
