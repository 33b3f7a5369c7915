"""Which images and views a step sees."""

import numpy as np
import pytest
from cases import each

from tinytrain.plan.recipe import Recipe, Resources, StepOptions
from tinytrain.runtime.schedule import balanced_subset, dealt, rate_factor, sampled_items, step_items

LABELS = np.repeat(np.arange(5), (1, 2, 3, 20, 30))


def resources(sets, size):
    return Resources(sets, 1, size, size)


def test_a_step_with_room_sees_every_image_clean_and_in_one_other_view():
    support, queries = step_items(resources(4, 56), LABELS, 1, np.random.default_rng(0))
    assert support == [(0, i) for i in range(56)]
    assert [i for _, i in queries] == list(range(56))
    assert {v for v, _ in queries} == {1, 2, 3}


@pytest.mark.parametrize("sets", [0, 1])
def test_without_cached_views_every_step_has_a_fresh_one(sets):
    for number in (1, 7):
        _, queries = step_items(resources(sets, 56), LABELS, number, np.random.default_rng(0))
        assert {v for v, _ in queries} == {number}


def test_rates_fall_linearly_to_0_over_a_share_of_the_steps_of_its_own_for_cached_and_for_fresh_views():
    recipe = Recipe("x", (), (), decay=(1.0, 0.5), steps=4)

    def factors(sets):
        return [rate_factor(recipe, sets, number) for number in (1, 2, 3, 4)]

    assert factors(4) == [1, 0.75, 0.5, 0.25]
    assert factors(0) == factors(1) == [1, 1, 1, 0.5]
    assert rate_factor(Recipe("x", (), ()), 4, 40) == 1


@each("size", [5, 6, 11, 25, 40])
def test_a_subset_holds_every_class_and_as_many_of_each_as_possible(size):
    for seed in range(20):
        chosen = balanced_subset(LABELS, size, np.random.default_rng(seed))
        counts = np.bincount(LABELS[chosen], minlength=5)
        assert chosen == sorted(set(chosen)) and len(chosen) == size and counts.min() >= 1
        has_more = counts < np.bincount(LABELS)
        assert (counts[has_more] >= counts.max() - 1).all()


def test_classes_take_turns_in_what_is_dealt_and_each_keeps_its_own_order():
    labels = np.random.default_rng(0).permutation(LABELS)
    order = dealt(labels)
    assert sorted(order) == list(range(len(labels)))
    assert labels[order[:11]].tolist() == [0, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3]
    assert labels[order[12:48]].tolist() == [3, 4] * 17 + [4, 4]
    for label in range(5):
        assert order[labels[order] == label].tolist() == np.flatnonzero(labels == label).tolist()


def test_a_subset_step_uses_the_same_images_as_support_and_as_queries():
    support, queries = step_items(resources(0, 11), LABELS, 3, np.random.default_rng(1))
    assert [i for _, i in support] == [i for _, i in queries] and len(support) == 11


def test_every_image_gets_its_turn():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(60):
        seen.update(balanced_subset(LABELS, 15, rng))
    assert seen == set(range(len(LABELS)))


def test_the_same_seed_draws_the_same_steps():
    def draw():
        rng = np.random.default_rng(5)
        return [step_items(resources(4, 15), LABELS, n, rng) for n in range(4)]

    assert draw() == draw()


def test_the_gradient_goes_through_as_many_of_each_class_that_the_step_sees_and_others_every_step():
    recipe = Recipe("test", (), (), step="both", options=StepOptions(sampled_fraction=0.5))
    support = [(0, i) for i in (0, 1, 3, 6, 7, 8, 9, 10, 26, 27, 28, 29)]  # 1, 1, 1, 5 and 4 of the classes
    draws = [sampled_items(recipe, LABELS, support, 0, number) for number in range(1, 21)]
    assert draws == [sampled_items(recipe, LABELS, support, 0, number) for number in range(1, 21)]
    assert len(set(map(tuple, draws))) > 10 and draws[0] != sampled_items(recipe, LABELS, support, 1, 1)
    for chosen in draws:
        counts = np.bincount([LABELS[support[k][1]] for k in chosen], minlength=5)
        assert counts[:3].tolist() == [1, 1, 1] and sorted(counts[3:]) == [1, 2]
