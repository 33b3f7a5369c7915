"""The choices of policies: within the paper's limits, by Fisher information, and never empty."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from cases import each
from published import published_network
from toypolicies import POLICIES

from tinytrain.base.errors import UsageError
from tinytrain.network.node import Node
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs, image_macs, n_trained
from tinytrain.plan.published_costs import peak_activation
from tinytrain.plan.recipe import Update
from tinytrain.plan.scores import Scores
from tinytrain.policies import ablations, baselines, bias_only, common, tinytrain, tinytrain_published
from tinytrain.policies.registry import find_policy

NETWORK = toy_network()
TASK = TaskShape(12, 3)
EVERY = each("name", list(POLICIES))
LAST = len(NETWORK.layers) - 1


def scores(layers, seed=0):
    rng = np.random.default_rng(seed)
    return Scores({i: rng.random(NETWORK.layers[i].cout).astype("f") for i in layers}, 1.0, 0, 0)


def measured(policy, seed=0):
    return scores(policy.inspects(NETWORK), seed) if policy.inspects else None


def chosen(name, share=1.0, macs=0.5, seed=0, memory=10**6):
    policy = POLICIES[name]
    return policy.recipe(NETWORK, measured(policy, seed), Budget(memory, macs), TASK, share)


@EVERY
@each("share", [1.0, 0.5, 0.1, 0.0])
def test_a_selection_is_in_layer_order_with_distinct_channels_and_a_rate_for_each(name, share):
    recipe = chosen(name, share)
    layers = [u.layer for u in recipe.updates]
    assert layers == sorted(set(layers)) and len(recipe.rates) == len(layers)
    for update in recipe.updates:
        assert len(set(update.channels)) == len(update.channels)
        assert all(0 <= c < NETWORK.all_layers[update.layer].cout for c in update.channels)
        assert update.channels or update.bias
    assert recipe.policy == name and all(rate > 0 for pair in recipe.rates for rate in pair)


@EVERY
def test_the_same_scores_give_the_same_recipe(name):
    assert chosen(name) == chosen(name)


@EVERY
def test_smaller_fractions_train_less_down_to_one_channel_or_bias(name):
    policy = POLICIES[name]
    if not policy.shrinks or not policy.trains:
        assert chosen(name, 0.0) == chosen(name, 1.0)
        return
    numbers = [
        sum(u.n_weights(NETWORK) + u.n_biases(NETWORK) for u in chosen(name, share).updates)
        for share in (1.0, 0.5, 0.1, 0.0)
    ]
    assert numbers == sorted(numbers, reverse=True) and numbers[-1] < numbers[0]
    (least,) = chosen(name, 0.0).updates
    assert least.layer == LAST and len(least.channels) + least.bias == 1


@each("name", [n for n, p in POLICIES.items() if p.macs_limited])
@each("macs", [0.02, 0.1, 0.3, 0.6])
def test_the_mac_budget_limits_a_image_or_all_that_are_run_backward(name, macs):
    recipe = chosen(name, macs=macs)
    through = recipe.options.sampled_fraction if recipe.step == "both" else 0
    images = 1 if POLICIES[name].macs_of_image else recipe.options.hard_fraction + through
    assert images * image_macs(NETWORK, recipe.updates) <= macs * full_backward_macs(NETWORK) * (1 + 1e-9)


def test_more_macs_buy_more_images_and_no_deeper_cut():
    small, middle, large = (chosen("tinytrain", macs=macs) for macs in (0.15, 0.3, 2.0))
    assert small.updates == middle.updates == large.updates
    small, middle, large = (r.options for r in (small, middle, large))
    assert small.hard_fraction < middle.hard_fraction <= large.hard_fraction == 1
    assert small.sampled_fraction < middle.sampled_fraction < large.sampled_fraction == 1
    assert small.sampled_fraction == pytest.approx(small.hard_fraction / 2)


def test_a_limit_per_image_does_not_limit_their_number():
    recipe = POLICIES["tinytrain"].recipe(
        NETWORK, measured(POLICIES["tinytrain"], 0), Budget(10**6, 0.15, "sample"), TASK, 1.0
    )
    assert recipe.options.hard_fraction == recipe.options.sampled_fraction == 1
    assert image_macs(NETWORK, recipe.updates) <= 0.15 * full_backward_macs(NETWORK)


@pytest.mark.parametrize("name", ["tinytrain", "tinytrain_published"])
def test_selections_follow_the_task(name):
    assert len({chosen(name, seed=seed).updates for seed in range(5)}) == 5


def test_the_published_score_is_potential_over_relative_weights_and_macs():
    found = scores((3, 5, 6))
    layers = NETWORK.layers
    most = max(x.n_weights for x in layers), max(x.macs for x in layers)
    for i, score in tinytrain_published.layer_scores(NETWORK, found).items():
        share = layers[i].n_weights / most[0] * layers[i].macs / most[1]
        assert score == pytest.approx(found.fisher[i].sum() / share)


def test_the_published_selection_takes_layers_by_falling_score_and_their_best_channels():
    found = scores(tinytrain_published.inspected(NETWORK))
    ranked = sorted(s := tinytrain_published.layer_scores(NETWORK, found), key=s.get, reverse=True)
    updates = {u.layer: u for u in tinytrain_published.select(NETWORK, found, 2**20, 10**9)}
    assert updates.keys() == set(ranked)
    for i, update in updates.items():
        best = np.argsort(-found.fisher[i], kind="stable")
        assert list(update.channels) == best[: len(update.channels)].tolist()
    peak = peak_activation(NETWORK.layers)
    for memory in (peak + 16 * 100, peak + 16 * 700):
        some = tinytrain_published.select(NETWORK, found, memory, 10**9)
        assert peak + 16 * sum(u.n_weights(NETWORK) for u in some) <= memory
        assert all(len(u.channels) >= NETWORK.layers[u.layer].cout / 8 for u in some)


def test_the_published_policy_looks_at_the_last_six_blocks():
    blocks = {NETWORK.layers[i].block for i in tinytrain_published.inspected(NETWORK)}
    assert blocks == {b for b in range(5) if b > NETWORK.layers[-1].block - 6}


def test_the_default_policy_looks_at_expand_convolutions_and_trains_their_channels_and_all_biases():
    layers = NETWORK.layers
    inspected = tinytrain.inspected(NETWORK)
    assert all(layers[i].op == "pointwise" and NETWORK.block_start(i) == i for i in inspected)
    updates = chosen("tinytrain").updates
    assert [u.layer for u in updates] == list(range(updates[0].layer, len(layers)))
    assert all(u.bias for u in updates)
    assert {u.layer for u in updates if u.channels} <= set(inspected)


def test_the_default_policy_prefers_the_cut_that_holds_most_information():
    inspected = tinytrain.inspected(NETWORK)
    for favourite in inspected:
        fisher = {i: np.full(NETWORK.layers[i].cout, 1.0 if i == favourite else 1e-3, "f") for i in inspected}
        recipe = tinytrain.recipe(NETWORK, Scores(fisher, 1.0, 0, 0), Budget(10**6, 0.9, "sample"), TASK, 1.0)
        assert {u.layer for u in recipe.updates if u.channels} >= {favourite}


@each("macs", [0.15, 0.9])
def test_the_default_policy_trains_no_more_parameters_than_its_fraction_of_the_memory(macs):
    for memory in (10_000, 30_000, 10**6):
        numbers = n_trained(NETWORK, chosen("tinytrain", memory=memory, macs=macs).updates)
        most = tinytrain.PARAMETERS * memory / 16
        assert numbers <= max(most, NETWORK.layers[-1].cout)


@each("macs", [0.15, 0.3])
def test_steps_of_the_default_policy_have_views_of_their_own_and_are_as_many_for_any_mac_budget(macs):
    recipe = chosen("tinytrain", macs=macs)
    assert recipe.fresh and recipe.decay[1] == 0.5 and recipe.head == "lda"
    assert recipe.steps == tinytrain.steps_for(TASK.n_support)


@each("n_support, steps", [(2, 50), (25, 50), (49, 70), (64, 80), (10_000, 80)])
def test_more_images_are_trained_for_longer(n_support, steps):
    task = replace(TASK, n_support=n_support)
    assert tinytrain.recipe(NETWORK, None, Budget(10**4), task, 1.0).steps == steps


@each(
    "n_support, n_way, factor",
    [(5, 5, 0.2), (20, 20, 0.2), (16, 4, 0.8), (25, 5, 1), (10, 2, 1), (100, 5, 1)],
)
def test_fewer_than_five_images_of_each_class_are_trained_at_lower_rates(n_support, n_way, factor):
    def rates(task):
        return np.array(tinytrain.recipe(NETWORK, None, Budget(10**4), task, 1.0).rates)

    usual = rates(replace(TASK, n_support=25, n_way=5))
    squares = (rates(replace(TASK, n_support=n_support, n_way=n_way)) / usual) ** 2
    np.testing.assert_allclose(squares, factor)


@each(
    "similarity, colours, turn, zoom",
    [(0.05, 1, 0, 1), (0.175, 1.25, 0.04375, 1.075), (0.25, 1.5, 0.0875, 1.15), (0.7, 1.5, 0.0875, 1.15)],
)
@each("macs", [0.15, 0.3])
def test_augmentation_grows_with_the_similarity_of_classes(macs, similarity, colours, turn, zoom):
    found = Scores(scores(tinytrain.inspected(NETWORK)).fisher, 1.0, 0, 0, similarity)
    reach = tinytrain.recipe(NETWORK, found, Budget(10**4, macs), TASK, 1.0).options.augmentation
    np.testing.assert_allclose(astuple(reach), (colours, turn, zoom))


def test_a_larger_mac_budget_allows_more_per_image_up_to_three_tenths_of_a_full_pass():
    network = published_network("mcunet-5fps")
    fisher = {i: np.ones(network.layers[i].cout, "f") for i in tinytrain.inspected(network)}
    for macs, most in ((0.15, 0.25), (0.3, 0.3), (2.0, 0.3)):
        recipe = tinytrain.recipe(network, Scores(fisher, 1.0, 0, 0), Budget(10**7, macs), TASK, 1.0)
        cost = image_macs(network, recipe.updates) / full_backward_macs(network)
        assert most - 0.02 < cost <= most


def test_full_trains_everything_and_last_layer_the_last():
    full = baselines.FULL.recipe(NETWORK, None, Budget(), TASK, 1.0)
    assert sum(u.n_weights(NETWORK) for u in full.updates) == NETWORK.n_weights
    assert all(u.bias for u in full.updates)
    last = baselines.LAST_LAYER.recipe(NETWORK, None, Budget(), TASK, 1.0).updates
    assert last == (Update(LAST, tuple(range(NETWORK.layers[LAST].cout))),)
    untrained = {n: p.recipe(NETWORK, None, Budget(), TASK, 1.0) for n, p in POLICIES.items() if not p.trains}
    assert {n: (r.updates, r.head) for n, r in untrained.items()} == {
        "none": ((), "cosine"), "none_lda": ((), "lda")
    }  # fmt: skip


def test_rates_follow_the_size_of_a_layer_s_weights():
    updates = (Update(2, (0,)), Update(5, (1,)))
    for (rate, bias_rate), update in zip(
        common.learning_rates_by_size(NETWORK, updates, 0.5), updates, strict=True
    ):
        weight = NETWORK.float_weight(update.layer)
        assert rate == bias_rate == pytest.approx(0.5 * np.sqrt((weight**2).mean()))


def test_every_layer_named_by_a_policy_is_one():
    assert isinstance(NETWORK.layers[tinytrain.inspected(NETWORK)[0]], Node)
    for policy in POLICIES.values():
        if policy.inspects:
            layers = policy.inspects(NETWORK)
            assert list(layers) == sorted(set(layers)) and 0 <= layers[0] <= layers[-1] <= LAST


def test_bias_only_trains_biases_of_whole_blocks_as_deep_as_the_macs_reach():
    starts = {i for i in range(len(NETWORK.layers)) if NETWORK.block_start(i) == i}
    for macs in (0.1, 0.3, 0.5):
        updates = chosen("bias_only", macs=macs).updates
        first = updates[0].layer
        assert updates == bias_only.biases_from(NETWORK, first) and first in starts | {LAST}
        deeper = [i for i in starts if i < first]
        for i in deeper:
            updates = bias_only.biases_from(NETWORK, i)
            assert image_macs(NETWORK, updates) > macs * full_backward_macs(NETWORK)
    assert chosen("bias_only", macs=1.0).updates == bias_only.biases_from(NETWORK, 0)


def test_bias_only_of_mcunet_at_15_percent_trains_the_3616_biases_from_layer_30():
    network = published_network("mcunet-5fps")
    updates = bias_only.POLICY.recipe(network, None, Budget(macs=0.15), TASK, 1.0).updates
    assert [u.layer for u in updates] == list(range(30, 42)) and n_trained(network, updates) == 3_616
    assert round(100 * image_macs(network, updates) / full_backward_macs(network), 1) == 12.6


@pytest.mark.parametrize("name", ["l2", "random"])
def test_an_ablation_trains_as_many_channels_of_the_same_layers_as_the_published_plan(name):
    for share in (1.0, 0.3, 0.0):
        ours, published = chosen(name, share), chosen("tinytrain_published", share)
        shape = [(u.layer, len(u.channels), u.bias) for u in published.updates]
        assert [(u.layer, len(u.channels), u.bias) for u in ours.updates] == shape
        assert ours.rates == published.rates and ours.step == published.step
    assert chosen(name).updates != chosen("tinytrain_published").updates


def test_l2_takes_the_channels_with_the_largest_weights():
    for u in chosen("l2", macs=0.2).updates:
        sizes = (NETWORK.float_weight(u.layer) ** 2).sum(axis=0)
        assert sizes[list(u.channels)].min() >= np.delete(sizes, u.channels).max(initial=0)


def test_random_takes_other_channels_for_other_tasks_and_every_channel_sooner_or_later():
    layer = tinytrain_published.inspected(NETWORK)[-1]
    orders = [ablations.at_random(NETWORK, scores((layer,), seed), layer) for seed in range(200)]
    cout = NETWORK.layers[layer].cout
    first = np.bincount([order[0] for order in orders], minlength=cout)
    assert (first > 0).all() and first.max() < 8 * 200 / cout
    assert all(sorted(order) == list(range(cout)) for order in orders)


@pytest.mark.parametrize("name", ["none", "tinytrain", "full"])
def test_a_policy_with_a_head_changes_nothing_else(name):
    policy, plain = find_policy(f"{name}+mild-lda"), chosen(name)
    recipe = policy.recipe(NETWORK, measured(policy), Budget(10**6, 0.5), TASK, 1.0)
    assert policy.name == recipe.policy == f"{name}+mild-lda" and recipe.head == "mild-lda"
    assert replace(recipe, policy=name, head=plain.head) == plain
    assert policy.with_head("cosine").name == f"{name}+cosine"


@pytest.mark.parametrize("name, code", [("none+lad", "unknown-name"), ("nnoe+lda", "unknown-name")])
def test_a_mistyped_part_of_policy_and_head_is_named(name, code):
    with pytest.raises(UsageError, match="did you mean") as caught:
        find_policy(name)
    assert caught.value.code == code
