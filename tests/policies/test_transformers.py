"""The default policy on transformers: which layers it looks at, their Fisher information, what it trains."""

from dataclasses import replace

import numpy as np
from cases import each
from oracle import Oracle, fisher
from toygraphs import GRAPHS
from toynets import images_of, modules_of, relative
from toysegments import assert_forward_equals_oracle, forward_segment

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.scores import Scores
from tinytrain.policies.tinytrain import inspected, select
from tinytrain.program.compile import compile_fisher
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.embedder import Embedder
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.stage_runner import Source

LABELS = (np.arange(6) % 3).astype(np.int32)


@each("name", ["tokens", "words"])
def test_all_dense_layers_of_the_last_blocks_are_looked_at(name):
    network = GRAPHS[name]()
    ops = [(network.layers[i].op, network.layers[i].cout > 1) for i in inspected(network)]
    assert ops == [("pointwise", True)] * 6


@each("name, pairs", [("tokens", False), ("words", False), ("tokens", True)])
def test_fisher_information_of_every_layer_equals_its_definition(name, pairs):
    """With pairs a layer adds to another one before its activation."""
    network = modules_of(GRAPHS[name]()) if pairs else GRAPHS[name]()
    images = images_of(network.input.shape, 6)
    want, loss = fisher(Oracle(network), images, LABELS)
    layers = tuple(range(1, len(network.layers)))
    program = compile_fisher(network, layers, TaskShape(len(LABELS), 3))
    source = Source(lambda i: images[i], lambda shown, i: None, LABELS)
    found = measure_fisher(program, Arena(program.nbytes), WorkingCopy(network), kernels.load(), source)
    assert abs(found.loss - loss) < 1e-5
    for i in layers:
        assert relative(found.fisher[i], want[i], 1e-8) < 1e-3, network.layers[i].name


def test_channels_of_these_layers_are_trained_inside_the_budget():
    network = GRAPHS["tokens"]()
    report = adapt(network, toy_episode(queries=2), Budget(2**20, 1.0), force=True)
    trained = {s.layer for s in report.delta.slices if s.part == "weight"}
    assert trained and trained <= set(inspected(network))


def test_hidden_rows_in_another_order_give_the_same_embeddings_and_are_chosen_in_that_order():
    """Rows of the first layer of a perceptron and columns of the second: which rows are trained is no matter
    of where they lie, so they need not be put together."""
    network = GRAPHS["tokens"]()
    hidden = next(i for i, x in enumerate(network.layers) if x.activation == "gelu")
    order = np.random.default_rng(1).permutation(network.layers[hidden].cout)
    weights, biases = list(network.weights), list(network.biases)
    weights[hidden], biases[hidden] = weights[hidden][:, order], biases[hidden][order]
    weights[hidden + 1] = weights[hidden + 1][order]
    permuted = replace(network, weights=tuple(weights), biases=tuple(biases))
    images = images_of(network.input.shape, 6)
    both = [np.stack([Embedder(one).embedding(x) for x in images]) for one in (network, permuted)]
    assert relative(*both) < 1e-6
    chosen = []
    for one in (network, permuted):
        found = fisher(Oracle(one), images, LABELS)[0]
        scores = Scores({i: found[i] for i in inspected(one)}, 0.0, 0, 0)
        chosen.append(select(one, scores, 1e9, 200).channels)
    back = {i: {int(order[c]) for c in rows} if i == hidden else set(rows) for i, rows in chosen[1].items()}
    assert {i: set(rows) for i, rows in chosen[0].items()} == back
    assert 0 < len(chosen[0][hidden]) < len(order) and chosen[0][hidden] != chosen[1][hidden]


@each("name", ["tokens", "patches", "words"])
def test_attention_writes_over_queries_that_nothing_else_needs_with_the_same_bits(name):
    """Not over those that are keys as well, whose head the next one needs."""
    network = GRAPHS[name]()
    i = next(i for i, node in enumerate(network.nodes) if node.op == "attention")
    _, key, *others = network.nodes[i].inputs
    shared = replace(network.nodes[i], inputs=(key, key, *others))
    for one in (network, replace(network, nodes=(*network.nodes[:i], shared, *network.nodes[i + 1 :]))):
        assert_forward_equals_oracle(one)
    made = [
        {buffer.name for buffer in forward_segment(given, 0, len(one.layers), 1)[0].offsets}
        for given in (network, one)
    ]
    assert [network.nodes[i].name in names for names in made] == [False, True]
