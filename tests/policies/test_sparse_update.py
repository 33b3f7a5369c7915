"""SparseUpdate: the published configurations, their published sizes, and the slices that they train."""

from dataclasses import replace

import numpy as np
import pytest
from published import published_network
from toyplans import planned
from toypolicies import configurations

from tinytrain.base.errors import UsageError
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs, image_macs, n_trained
from tinytrain.plan.published_costs import backward_macs, paper_memory
from tinytrain.plan.recipe import check_updates
from tinytrain.policies import sparse_update
from tinytrain.policies.common import scaled
from tinytrain.policies.registry import POLICIES

TASK = TaskShape(25, 5)
NETWORKS = {
    "mcunet-5fps": (49.8, 74.8, 99.8, 125.0, 148.4),
    "mbv2-w0.35": (49.8, 73.9, 99.4, 123.6, 138.2),
    "proxyless-w0.3": (49.7, 74.9, 98.5, 120.2, 148.2),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request):
    return published_network(request.param)


ONLY_MCUNET = pytest.mark.parametrize("network", ["mcunet-5fps"], indirect=True)


def weights(network, updates):
    return sum(u.n_weights(network) for u in updates)


def test_every_published_configuration_takes_its_published_kilobytes(network):
    sizes = [sparse_update.extra_memory(network.layers, c) for c in sparse_update.published(network)]
    assert [round(kb, 1) for kb in sizes] == list(NETWORKS[network.name])


def test_slices_cost_as_much_as_the_accounting_says(network):
    """Two ways to count: the chosen channels, and the published formula with fractions."""
    for configuration in sparse_update.published(network):
        updates = sparse_update.updates_of(network, configuration)
        check_updates(network, updates)
        sliced = tuple(u for u in updates if u.channels)
        kept = {u.layer: weights(network, [u]) / network.layers[u.layer].n_weights for u in sliced}
        assert kept == configuration.shares
        assert image_macs(network, sliced) == backward_macs(network.layers, configuration.shares)
        assert [u.layer for u in updates if u.bias] == list(
            range(len(network.layers) - configuration.biases, len(network.layers))
        )


@ONLY_MCUNET
def test_the_default_gives_the_sparse_update_row_of_the_published_table_2(network):
    """1.43 MB and 11.9 M MACs, without biases; with them 57,272 parameters and 27.4 % of full training."""
    updates = POLICIES["sparse_update"].recipe(network, None, Budget(), TASK, 1.0).updates
    n = weights(network, updates)
    assert (n, f"{paper_memory(network.layers, n) / 2**20:.3f}") == (52_480, "1.426")
    without_biases = tuple(replace(u, bias=False) for u in updates if u.channels)
    assert f"{image_macs(network, without_biases) / 1e6:.3f}" == "11.882"
    assert n_trained(network, updates) == 57_272
    assert round(100 * image_macs(network, updates) / full_backward_macs(network), 1) == 27.4


def test_channels_are_those_whose_weights_have_the_largest_norm(network):
    for configuration in sparse_update.published(network):
        for u in sparse_update.updates_of(network, configuration):
            layer, weight = network.layers[u.layer], network.float_weight(u.layer)
            if layer.op == "depthwise" and u.channels:
                sizes, chosen = (weight**2).sum(axis=0), u.channels
            elif u.inputs is not None:
                sizes, chosen = (weight**2).sum(axis=1), u.inputs
            else:
                continue
            rest = np.delete(sizes, chosen)
            assert sizes[list(chosen)].min() >= rest.max()
            assert len(chosen) == int(configuration.shares[u.layer] * layer.cin)


def test_a_smaller_fraction_is_a_smaller_configuration_or_a_part_of_the_smallest(network):
    choices = [sparse_update.updates_of(network, c) for c in sparse_update.published(network)]
    policy = POLICIES["sparse_update_150kb"]
    whole = n_trained(network, choices[-1])
    for share in (1.0, 0.7, 0.5, 0.35, 0.25, 0.1):
        updates = policy.recipe(network, None, Budget(), TASK, share).updates
        inside = [c for c in choices if n_trained(network, c) <= share * whole]
        if inside:
            assert updates == inside[-1]
        else:
            assert updates == scaled(network, choices[0], share * whole / n_trained(network, choices[0]))


def test_the_five_policies_are_the_five_sizes(network):
    for policy, configuration in zip(sparse_update.ROWS, sparse_update.published(network), strict=True):
        updates = policy.recipe(network, None, Budget(), TASK, 1.0).updates
        assert updates == sparse_update.updates_of(network, configuration)
        assert POLICIES[policy.name] is policy


def test_a_network_without_a_published_configuration_is_refused_by_name():
    with pytest.raises(UsageError, match=r"unsupported: .* for toy .* take mcunet-5fps"):
        planned(toy_network(), toy_episode(), policy="sparse_update")


def test_a_configuration_of_your_own_trains_its_slices_and_nothing_else():
    network = toy_network()
    policy = sparse_update.policy("mine", configurations)
    delta = adapt(network, toy_episode(), Budget(2**22), policy, force=True).delta
    found = {(s.layer, s.part): None if s.inputs is None else len(s.inputs) for s in delta.slices}
    last = len(network.layers) - 1
    assert {k: v for k, v in found.items() if k[1] == "weight"} == {
        (last - 5, "weight"): None,
        (last - 4, "weight"): None,
        (last - 2, "weight"): 2,
        (last, "weight"): None,
    }
    assert {layer for layer, part in found if part == "bias"} == set(range(last - 5, last + 1))


def test_rates_are_scaled_as_asked_and_only_by_a_number_above_0():
    policy = POLICIES["last_layer"]
    usual, doubled = (
        p.recipe(toy_network(), None, Budget(), TASK, 1.0) for p in (policy, policy.with_rates(2))
    )
    assert doubled == replace(usual, rates=tuple((2 * w, 2 * b) for w, b in usual.rates))
    for scale in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match=f"usage: learning rates cannot be scaled by {scale}"):
            adapt(toy_network(), toy_episode(), policy=policy.with_rates(scale))


def test_a_report_says_by_how_much_rates_were_scaled_and_training_follows():
    network, episode, policy = toy_network(), toy_episode(), POLICIES["last_layer"]
    slow, fast = (adapt(network, episode, policy=policy.with_rates(s), force=True) for s in (0.01, 1))
    assert slow.to_json()["resources"]["rates"][0] == pytest.approx(
        [0.01 * r for r in fast.to_json()["resources"]["rates"][0]]
    )
    moved = [
        np.abs(r.delta.slices[0].values - network.float_weight(r.delta.slices[0].layer)).max()
        for r in (slow, fast)
    ]
    assert moved[0] < 0.05 * moved[1]
