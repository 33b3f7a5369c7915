"""TinyTL as a policy: its trained parameters and costs, and its modules in files and other policies."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from published import published_network
from toydevices import ONE

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import apply
from tinytrain.delta.file import load_delta, save_delta
from tinytrain.meta.bench.accounting import memory_at_batch
from tinytrain.network.file import save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import image_macs, n_trained
from tinytrain.policies import tinytl
from tinytrain.policies.bias_only import biases_from
from tinytrain.runtime.predict import Predictor

NETWORK, MIB = toy_network(), 2**20


@pytest.fixture(scope="module")
def report():
    return adapt(NETWORK, toy_episode(queries=8), Budget(2**22), "tinytl", device=ONE)


# name, output channels of a head that only the published tables count, modules, trained parameters,
# backward MACs in M as counted here and as published, memory at batch 100 in MiB as counted and as published
FIGURES = [
    ("mcunet-5fps", 0, 13, 137_120, "26.5", 26.4, "605", 542),
    ("mbv2-w0.35", 448, 16, 67_656, "18.6", 16.4, "692", 587),
    ("proxyless-w0.3", 384, 19, 91_504, "22.8", 17.8, "572", 541),
]


@pytest.mark.parametrize("name,head,modules,numbers,macs,published_macs,memory,published_memory", FIGURES)
def test_macs_of_mcunet_are_the_published_ones_and_other_figures_are_as_far_off_as_is_said(
    name, head, modules, numbers, macs, published_macs, memory, published_memory
):
    network = published_network(name)
    updates = tinytl.updates_from(network, 0)
    assert len(network.possible_modules) == modules and n_trained(network, updates) == numbers
    last = network.layers[-1]
    counted = image_macs(network, updates) + head * last.cout * last.out_hw[0] * last.out_hw[1]
    assert f"{counted / 1e6:.1f}" == macs
    stored = memory_at_batch(network.layers, updates, numbers, 100, network.possible_modules)
    assert f"{stored / MIB:.0f}" == memory
    assert (abs(counted / 1e6 / published_macs - 1) < 0.006) == (name == "mcunet-5fps")
    assert 1.05 < stored / MIB / published_memory < 1.18


def test_it_trains_every_bias_and_every_module_and_no_weight_of_a_layer():
    recipe = tinytl.POLICY.recipe(NETWORK, None, Budget(), TaskShape(12, 3), 1.0)
    count = len(NETWORK.layers)
    assert recipe.updates[:count] == biases_from(NETWORK, 0)
    behind = [u.layer for u in recipe.updates[count:]]
    assert behind == list(range(count, len(NETWORK.all_layers))) and len(behind) == 6


@each("share", [0.9, 0.6, 0.3, 0.1])
def test_less_memory_freezes_the_first_layers_with_the_modules_of_their_blocks(share):
    recipe = tinytl.POLICY.recipe(NETWORK, None, Budget(), TaskShape(12, 3), share)
    first, count = recipe.updates[0].layer, len(NETWORK.layers)
    assert recipe.updates[: count - first] == biases_from(NETWORK, first)
    whole = [m.index for m in NETWORK.possible_modules if m.first >= first]
    assert [u.layer for u in recipe.updates[count - first :]] == [i for k in whole for i in (k, k + 1)]


# how many of the modules in FIGURES AdapterDrop leaves out at 25, 50 and 75 %
DROPPED = [("mcunet-5fps", (3, 6, 10)), ("mbv2-w0.35", (4, 8, 12)), ("proxyless-w0.3", (5, 10, 14))]


@pytest.mark.parametrize(("name", "dropped"), DROPPED)
def test_adapterdrop_leaves_out_the_first_modules_and_trains_nothing_before_the_others(name, dropped):
    network = published_network(name)
    costs = [image_macs(network, tinytl.updates_from(network, 0))]
    for policy, left_out in zip(tinytl.ADAPTERDROP, dropped, strict=True):
        updates = policy.recipe(network, None, Budget(), TaskShape(25, 5), 1.0).updates
        kept = network.possible_modules[left_out:]
        biases = biases_from(network, kept[0].first)
        assert updates[: len(biases)] == biases
        assert [u.layer for u in updates[len(biases) :]] == [i for m in kept for i in m.indices]
        costs.append(image_macs(network, updates))
    assert costs == sorted(costs, reverse=True) and costs[-1] < 0.5 * costs[0]


def test_adapterdrop_saves_memory_and_its_loss_falls(report):
    fewer = adapt(NETWORK, toy_episode(queries=8), Budget(2**22), "adapterdrop_50", device=ONE)
    assert fewer.plan.cost.arena < report.plan.cost.arena
    assert fewer.plan.recipe.policy == "adapterdrop_50"
    assert fewer.ran.losses[-1] < fewer.ran.losses[0]


def test_where_no_block_can_have_a_module_adapterdrop_trains_the_last_bias():
    plain = SimpleNamespace(possible_modules=(), layers=NETWORK.layers, all_layers=NETWORK.all_layers)
    updates = tinytl.ADAPTERDROP[0].recipe(plain, None, Budget(), TaskShape(12, 3), 1.0).updates
    assert updates == biases_from(NETWORK, len(NETWORK.layers) - 1)


def test_the_loss_falls(report):
    assert report.guard.accepted and report.ran.losses[-1] < 0.75 * report.ran.losses[0]


def test_the_network_of_the_file_predicts_like_the_report(report, tmp_path):
    save_delta(tmp_path / "d.safetensors", report.delta)
    again = load_delta(tmp_path / "d.safetensors")
    adapted = apply(NETWORK, again)
    assert len(adapted.modules) == 3 and not NETWORK.modules
    beyond = {s.layer for s in again.slices if s.layer >= len(NETWORK.layers)}
    assert set(adapted.added) == beyond
    logits = Predictor(NETWORK, again).logits(report.episode.query)
    np.testing.assert_array_equal(logits.argmax(axis=1), report.answers.after)


@each("part", ["weight", "bias"])
@each("layer", [0, 1])
def test_a_delta_with_a_part_of_a_module_is_refused(report, part, layer):
    index = NETWORK.possible_modules[1].index + layer
    kept = tuple(s for s in report.delta.slices if (s.layer, s.part) != (index, part))
    assert len(kept) == len(report.delta.slices) - 1
    with pytest.raises(InputError, match=r"file-damaged: .* of all 8 channels of block3.lite"):
        apply(NETWORK, replace(report.delta, slices=kept))
    some = next(s for s in report.delta.slices if (s.layer, s.part) == (index, part))
    fewer = replace(some, channels=some.channels[1:], values=some.values[..., 1:])
    with pytest.raises(InputError, match=r"file-damaged: .* of all 8 channels of block3.lite"):
        apply(NETWORK, replace(report.delta, slices=(*kept, fewer)))


def test_a_number_that_no_layer_and_no_module_has_is_refused(report):
    beyond = replace(report.delta.slices[-1], layer=len(NETWORK.all_layers))
    with pytest.raises(InputError, match="is changed, toy ends before it"):
        apply(NETWORK, replace(report.delta, slices=(*report.delta.slices, beyond)))


def test_a_network_with_modules_is_not_written_as_a_plain_one(report, tmp_path):
    with pytest.raises(InputError, match="unsupported: toy has 3 lite residual modules"):
        save_network(apply(NETWORK, report.delta), tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


def test_an_adapted_network_can_be_adapted_again(report):
    """Existing modules are trained further; a policy that does not use modules keeps them frozen."""
    adapted = apply(NETWORK, report.delta)
    again = adapt(adapted, toy_episode(seed=5, queries=8), Budget(2**22), "tinytl", device=ONE)
    assert again.delta.backbone == adapted.digest != NETWORK.digest
    for policy in ("tinytrain", "last_layer"):
        other = adapt(adapted, toy_episode(seed=5, queries=8), Budget(2**22, 0.5), policy, device=ONE)
        assert other.program.network.modules == adapted.modules
        found = Predictor(adapted, other.delta).logits(other.episode.query).argmax(axis=1)
        np.testing.assert_array_equal(found, other.answers.after)


def test_a_network_whose_module_is_not_finite_is_refused(report):
    adapted = apply(NETWORK, report.delta)
    index = adapted.modules[0].index
    weight, bias = adapted.added[index]
    broken = replace(adapted, added=adapted.added | {index: (weight * np.nan, bias)})
    with pytest.raises(InputError, match=r"network-not-finite: .*block2.lite.filter.weight"):
        broken.check_finite()
