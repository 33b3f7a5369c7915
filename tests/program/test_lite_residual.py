"""Lite residual modules beside the blocks of toy networks, against the float64 oracle."""

import numpy as np
import pytest
from cases import each
from oracle import Oracle, fisher, gradients
from toynets import (
    SIZE,
    everything,
    images,
    items,
    module_updates,
    modules_of,
    random_updates,
    recipe,
    relative,
    toy,
)
from toynets import trainer as trainer_of
from toysegments import (
    assert_forward_equals_oracle,
    assert_gradients_equal_oracle,
    backward_segment,
    forward_segment,
    limit_row_tiles,
    ran,
)
from toysteps import (
    IMAGES,
    LABELS,
    assert_equals_oracle,
    augmentation,
    augmented,
    exact_gradients,
    step_gradients,
)

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.base.errors import UsageError
from tinytrain.network.network import with_modules
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import image_macs
from tinytrain.plan.recipe import Update, check_updates
from tinytrain.program.compile import compile_fisher
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.stage_runner import Source

# Odd widths (one group) and odd sides, strides 1 and 2, with and without the residual addition.
ODD = (
    ("conv", 7, 3, 2, True, 0, False),
    ("pointwise", 10, 1, 1, True, 1, False),
    ("depthwise", 10, 3, 1, True, 1, False),
    ("pointwise", 7, 1, 1, False, 1, True),
    ("pointwise", 9, 1, 1, True, 2, False),
    ("depthwise", 9, 5, 2, True, 2, False),
    ("pointwise", 6, 1, 1, False, 2, False),
    ("pointwise", 8, 1, 1, True, 3, False),
    ("depthwise", 8, 3, 2, True, 3, False),
    ("pointwise", 6, 1, 1, False, 3, False),
    ("pointwise", 11, 1, 1, True, 4, False),
    ("depthwise", 11, 3, 2, True, 4, False),
    ("pointwise", 5, 1, 1, False, 4, False),
)
CASES = {"blocks": lambda: toy("blocks"), "headed": lambda: toy("headed"), "odd": lambda: toy(ODD)}
NETWORKS = pytest.mark.parametrize("name", list(CASES))
BANDS = pytest.mark.parametrize("tile_bytes", [1, 700, 56_000])


def made(name, chosen=None):
    return modules_of(CASES[name](), chosen)


def all_updates(network):
    return (*everything(network), *module_updates(network))


def test_a_module_halves_the_image_and_follows_the_width_and_stride_of_its_block():
    modules = toy("blocks", size=48).possible_modules
    shapes = [
        (a.kernel[0], a.stride[0], a.groups, a.cin, a.in_hw, a.out_hw, b.cout)
        for m in modules
        for a, b in [m.layers]
    ]
    assert shapes == [
        (5, 2, 2, 6, (12, 12), (6, 6), 8),
        (5, 1, 2, 8, (6, 6), (6, 6), 8),
        (5, 1, 2, 8, (6, 6), (6, 6), 8),
        (5, 2, 2, 8, (6, 6), (3, 3), 10),
    ]
    assert [(m.first, m.last) for m in modules] == [(3, 5), (6, 8), (9, 11), (12, 14)]
    assert [m.index for m in modules] == [15, 17, 19, 21]
    kernels_of = [m.layers[0].kernel[0] for m in toy(ODD).possible_modules]
    assert kernels_of == [3, 3, 1, 1], "no wider than the halved image"


@NETWORKS
def test_the_oracle_with_modules_equals_finite_differences(name):
    network = made(name)
    oracle, random, size = Oracle(network), np.random.default_rng(3), 1e-7
    _, want = gradients(oracle, IMAGES, LABELS, augmented(1), LABELS)
    for i in range(len(network.all_layers)):
        directions = [random.standard_normal(a[i].shape) for a in (oracle.weights, oracle.biases)]
        loss = []
        for sign in (1, -1):
            for array, direction in zip((oracle.weights[i], oracle.biases[i]), directions, strict=True):
                array += sign * size * direction
            loss.append(gradients(oracle, IMAGES, LABELS, augmented(1), LABELS)[0].mean)
            for array, direction in zip((oracle.weights[i], oracle.biases[i]), directions, strict=True):
                array -= sign * size * direction
        exact = (want.weights[i] * directions[0]).sum() + (want.biases[i] * directions[1]).sum()
        assert abs((loss[0] - loss[1]) / (2 * size) - exact) < 1e-5 * max(1, abs(exact))


@NETWORKS
@pytest.mark.parametrize("step", ["both", "constant"])
@pytest.mark.parametrize("micro", [1, 4])
@BANDS
def test_the_gradient_of_a_step_with_modules_equals_that_of_one_batch(
    monkeypatch, name, step, micro, tile_bytes
):
    limit_row_tiles(monkeypatch, tile_bytes)
    network = made(name)
    trainer, loss = step_gradients(network, recipe(all_updates(network), step=step), micro=micro)
    want_loss, want = exact_gradients(network, step)
    assert abs(loss - want_loss.mean) < 1e-5
    assert_equals_oracle(trainer, want)


@BANDS
def test_gradients_of_filters_of_25_taps_equal_the_oracle(monkeypatch, tile_bytes):
    """Three images of which row tiles meet parts, and a filter as large as those of published networks."""
    limit_row_tiles(monkeypatch, tile_bytes)
    network = modules_of(toy("blocks", size=48))
    updates = all_updates(network)
    assert {m.layers[0].kernel[0] for m in network.modules} == {5}
    segment = assert_gradients_equal_oracle(network, updates, 3)
    assert segment.backward_macs == 3 * image_macs(network, updates)


@NETWORKS
@pytest.mark.parametrize("key", range(8))
def test_a_selection_has_the_gradients_of_the_whole_whichever_modules_are_there_trained_or_frozen(name, key):
    """Frozen modules pass the gradient on; behind the cut they cost nothing."""
    count = len(CASES[name]().possible_modules)
    random = np.random.default_rng(key)
    there = sorted(random.permutation(count)[: random.integers(1, count + 1)])
    network = made(name, there)
    trained = [k for k in there if random.random() < 0.5]
    layers = random_updates(network, key, share=0.3) if key % 3 else ()
    updates = (*layers, *module_updates(network, trained)) or module_updates(network, there[-1:])
    trainer, _ = step_gradients(network, recipe(updates), micro=1 + key % 3)
    # Some gradients are small differences of larger numbers: an error of emission would be of order 1.
    assert_equals_oracle(trainer, exact_gradients(network)[1], 1e-4)


@NETWORKS
@pytest.mark.parametrize("key", range(6))
def test_backward_macs_with_modules_are_those_of_the_plan(monkeypatch, name, key):
    limit_row_tiles(monkeypatch, (700, 56_000)[key % 2])
    count, random = len(CASES[name]().possible_modules), np.random.default_rng(key)
    network = made(name, sorted(random.permutation(count)[: random.integers(1, count + 1)]))
    trained = [
        k for k, m in enumerate(network.possible_modules) if m in network.modules and random.random() < 0.6
    ]
    updates = (*random_updates(network, key, share=0.2), *module_updates(network, trained))
    segment, *_ = backward_segment(network, updates, n=2)
    assert segment.backward_macs == 2 * image_macs(network, updates)


@NETWORKS
@BANDS
def test_a_fused_pass_with_modules_equals_the_whole_one_and_the_oracle(monkeypatch, name, tile_bytes):
    limit_row_tiles(monkeypatch, tile_bytes)
    assert_forward_equals_oracle(made(name))


@NETWORKS
def test_new_modules_change_no_bit_of_an_embedding_and_leave_the_network_as_it_is(name):
    plain = CASES[name]()
    grown = with_modules(plain, plain.possible_modules)
    assert not plain.added and len(grown.modules) == len(plain.possible_modules)
    assert grown.digest != plain.digest and grown.nodes is plain.nodes
    embeddings = []
    for network in (plain, grown):
        segment, source = forward_segment(network, 0, len(network.layers), 1)
        (out,) = ran(segment, network, {source: images(1, SIZE)})
        embeddings.append(out.tobytes())
    assert embeddings[0] == embeddings[1]


def test_a_module_that_is_there_keeps_its_values_when_others_are_added():
    network = made("blocks", [1])
    (module,) = network.modules
    grown = with_modules(network, network.possible_modules)
    assert grown.added[module.index] is network.added[module.index] and len(grown.modules) == 4
    assert with_modules(network, [module]) is network


def values(trainer, i):
    return trainer.working.weight(i), trainer.working.bias(i)


def test_steps_move_modules_and_restoring_takes_them_back():
    network = CASES["blocks"]()
    plan = recipe(module_updates(network), optimizer="adam")
    trainer = trainer_of(network, plan, IMAGES, LABELS, augmentation=augmentation)
    start = {i: [a.copy() for a in values(trainer, i)] for i in trainer.program.network.added}
    trainer.run("start")
    losses = [trainer.step(k, items(len(LABELS)), items(len(LABELS))) for k in range(1, 9)]
    assert losses[-1] < losses[0]
    moved = [
        not np.array_equal(a, b) for i in start for a, b in zip(start[i], values(trainer, i), strict=True)
    ]
    assert all(moved)
    trainer.working.restore()
    for i, pair in start.items():
        assert all(np.array_equal(a, b) for a, b in zip(pair, values(trainer, i), strict=True))


@NETWORKS
def test_fisher_information_sees_the_modules_of_a_network(name):
    network = made(name)
    want, loss = fisher(Oracle(network), IMAGES, LABELS, augmented(1))
    inspected = tuple(range(2, len(network.layers)))
    program = compile_fisher(network, inspected, TaskShape(len(LABELS), 3))
    source = Source(lambda i: IMAGES[i], augmentation, LABELS)
    found = measure_fisher(program, Arena(program.nbytes), WorkingCopy(network), kernels.load(), source)
    assert abs(found.loss - loss) < 1e-5
    assert all(relative(found.fisher[i], want[i]) < 1e-4 for i in inspected)


@each(
    "spoil",
    [
        lambda u: u[:1],
        lambda u: (u[0], Update(u[1].layer, u[1].channels[:-1], bias=True)),
        lambda u: (Update(u[0].layer, u[0].channels), u[1]),
        lambda u: (u[0], Update(u[1].layer, u[1].channels, True, inputs=(0,))),
    ],
)
def test_a_module_is_trained_whole_or_not_at_all(spoil):
    network = CASES["blocks"]()
    check_updates(network, module_updates(network, [2]))
    with pytest.raises(UsageError, match="module"):
        check_updates(network, spoil(module_updates(network, [2])))
    with pytest.raises(UsageError, match="rising order"):
        check_updates(network, (Update(len(network.all_layers), bias=True),))
