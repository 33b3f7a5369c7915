"""Fisher information on toy networks against its definition in float64."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from oracle import Oracle, fisher, prototype_loss
from toydevices import DirtyArena
from toynets import ROWS, relative, toy
from toyplans import planned
from toysteps import IMAGES, LABELS, augmentation, augmented

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.scores import last_blocks
from tinytrain.program.compile import compile_fisher
from tinytrain.report.content import similarity
from tinytrain.runtime import fisher as probing
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.stage_runner import Source

NETWORKS = each("name", list(ROWS))


def scores(network, inspected, view=1, backend="auto", memory=0, threads=1):
    program = compile_fisher(network, inspected, TaskShape(len(LABELS), 3), memory=memory)
    source = Source(lambda i: IMAGES[i], lambda shown, i: augmentation(view, i) if shown else None, LABELS)
    memory = Arena(program.nbytes), WorkingCopy(network)
    return measure_fisher(program, *memory, kernels.load(backend), source, threads=threads)


def cuts(network):
    return [tuple(range(first, len(network.layers))) for first in range(len(network.layers))]


@NETWORKS
@each("view", [0, 1])
def test_fisher_information_equals_its_definition_at_every_depth(name, view):
    """Clean prototypes held constant, each image in one view as its own pseudo-query."""
    network = toy(name)
    want, loss = fisher(Oracle(network), IMAGES, LABELS, augmented(view))
    for inspected in cuts(network):
        found = scores(network, inspected, view)
        assert found.fisher.keys() == set(inspected) and abs(found.loss - loss) < 1e-5
        for i in inspected:
            assert relative(found.fisher[i], want[i]) < 1e-4
            assert found.potential(i) == pytest.approx(want[i].sum(), rel=1e-4)


@NETWORKS
def test_as_many_workers_as_fit_measure_the_same_bits_on_any_number_of_threads(name):
    network, found = toy(name), []
    inspected = cuts(network)[1]
    sizes = [scores(network, inspected, memory=m).arena for m in (0, 10**9)]
    for memory, threads in ((0, 1), (10**9, 1), (10**9, 3), (10**9, 8), (sum(sizes) // 2, 8)):
        got = scores(network, inspected, memory=memory, threads=threads)
        found.append((got.loss, got.similarity, {i: f.tobytes() for i, f in got.fisher.items()}))
        assert sizes[0] <= got.arena <= max(sizes[0], memory)
    assert all(other == found[0] for other in found) and sizes[1] > 3 * sizes[0]


@NETWORKS
def test_similarity_is_the_mean_cosine_between_classes_weighted_by_lengths(name):
    network = toy(name)
    found = Oracle(network).forward(IMAGES).embeddings
    lengths = np.linalg.norm(found, axis=1)
    others = np.array(LABELS)[:, None] != np.array(LABELS)
    weights = np.outer(lengths, lengths)[others]
    cosines = (found @ found.T)[others] / weights
    want = np.average(cosines, weights=weights)
    assert scores(network, (2, 5)).similarity == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("scale, known", [(0, False), (1e30, True)])
def test_embeddings_of_length_zero_have_no_similarity_and_very_long_ones_cause_no_warning(scale, known):
    network = toy_network()
    scales = (*network.scales[:-1], np.full_like(network.scales[-1], scale))
    biases = (*network.biases[:-1], np.zeros_like(network.biases[-1]))
    found, _ = planned(replace(network, scales=scales, biases=biases), toy_episode())
    assert np.isfinite(found.similarity) == known == (similarity(found) is not None)


@NETWORKS
def test_any_set_of_layers_can_be_inspected(name):
    network = toy(name)
    want, _ = fisher(Oracle(network), IMAGES, LABELS, augmented(1))
    for inspected in [(len(network.layers) - 1,), (2, 5), (0, 3, 6), (1,)]:
        found = scores(network, inspected)
        assert all(relative(found.fisher[i], want[i]) < 1e-4 for i in inspected)
        assert found.fisher.keys() == set(inspected)


def test_it_is_half_the_squared_product_of_weight_and_its_gradient_for_a_layer_without_bias():
    """``sum_d a_d g_d`` at the output of a convolution is ``<w_o, dL/dw_o> + b_o dL/db_o``."""
    network = toy("blocks")
    oracle = Oracle(network)
    total = [np.zeros(layer.cout) for layer in network.layers]
    clean = oracle.forward(IMAGES).embeddings
    for k in range(len(LABELS)):
        run = oracle.forward(augmented(1)[k : k + 1])
        loss = prototype_loss(clean, LABELS, run.embeddings, LABELS[k : k + 1])
        found = oracle.backward(run, loss.grad_queries)
        for i in range(len(network.layers)):
            dots = (oracle.weights[i] * found.weights[i]).sum(axis=0) + oracle.biases[i] * found.biases[i]
            total[i] += dots**2 / (2 * len(LABELS))
    inspected = tuple(range(len(network.layers)))
    got = scores(network, inspected).fisher
    assert all(relative(got[i], total[i]) < 1e-4 for i in inspected)


@NETWORKS
def test_no_weight_gradient_is_formed(name):
    network = toy(name)
    program = compile_fisher(network, tuple(range(len(network.layers))), TaskShape(9, 3))
    for segment in program.segments.values():
        assert segment.macs("grad_weight") == 0


@NETWORKS
def test_the_weights_stay_and_the_arena_may_hold_anything_before(name, monkeypatch):
    network = toy(name)
    working = WorkingCopy(network)
    clean = scores(network, last_blocks(network, 3))

    monkeypatch.setattr(probing, "Arena", DirtyArena)
    dirty = scores(network, last_blocks(network, 3))
    assert all(clean.fisher[i].tobytes() == dirty.fisher[i].tobytes() for i in clean.fisher)
    assert all(
        working.weight(i).tobytes() == network.float_weight(i).tobytes() for i in range(len(network.layers))
    )


def test_both_backends_agree():
    network = toy("blocks")
    a, b = (scores(network, last_blocks(network, 4), backend=x).fisher for x in ("auto", "numpy"))
    assert all(relative(a[i], b[i]) < 1e-4 for i in a)


def test_the_arena_is_as_large_as_reported():
    network = toy("blocks")
    inspected = last_blocks(network, 2)
    assert scores(network, inspected).arena == compile_fisher(network, inspected, TaskShape(9, 3)).nbytes


def test_the_last_blocks_are_named_by_their_layers():
    assert last_blocks(toy("blocks"), 2) == tuple(range(9, 15))
    assert last_blocks(toy("headed"), 1) == (6,)
