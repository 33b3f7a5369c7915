"""Heads of one adaptation: what they look at, and what the result does not depend on."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from toydevices import ONE
from toynets import trainer

from tinytrain.episode.augment import USUAL, Augmentation, Ranges
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.heads.registry import find_head
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy
from tinytrain.program.head_buffers import head_views
from tinytrain.report.content import executed_macs
from tinytrain.runtime.adaptation import Run
from tinytrain.runtime.schedule import augmentation_of
from tinytrain.runtime.trainer import Trainer

BIG = Budget(2**22)


def views_of(report, kind: str) -> range:
    """Views that a head of this kind is fitted to in the plan of an adaptation."""
    plan = report.plan
    sizes = len(report.episode.support), report.program.network.embedding_size
    return head_views(plan.recipe, plan.resources, find_head(kind), *sizes)


@pytest.fixture
def looks(monkeypatch):
    """How often each (view, image) was embedded before training and after it."""
    seen, embed, train = [Counter()], Trainer.embed, Run.train

    def counted(trainer, items, out, units="embed"):
        seen[-1].update(items)
        embed(trainer, items, out, units)

    def trained(run, *wanted):
        aside, seen[-1:] = seen[-1], [Counter()]
        losses = train(run, *wanted)
        seen[-1:] = [aside, Counter()]
        return losses

    monkeypatch.setattr(Trainer, "embed", counted)
    monkeypatch.setattr(Run, "train", trained)
    return seen


def times(report, seen: Counter) -> dict[int, set[int]]:
    """By view, how often its images were embedded; every image at least once."""
    n, views = len(report.episode.support), {view for view, _ in seen}
    assert all(seen[view, i] for view in views for i in range(n))
    return {view: {seen[view, i] for i in range(n)} for view in views}


@pytest.mark.parametrize("policy", ["tinytrain", "last_layer", "full"])
def test_both_heads_look_at_every_view_of_every_image_once(looks, policy):
    report = adapt(toy_network(), toy_episode(queries=2), BIG, policy, device=ONE)
    views = views_of(report, report.plan.recipe.head)
    assert len(looks) == 2 and (len(views) > 1) == (report.delta.head.kind == "lda")
    assert report.delta.head.kind == report.plan.recipe.head
    for seen in looks:
        assert times(report, seen) == {view: {1} for view in views}


def test_where_there_is_room_for_a_part_of_them_clean_images_are_looked_at_again(looks):
    report = adapt(toy_network(), toy_episode(3, 20, queries=1), BIG, device=ONE)
    assert report.plan.resources.step_support < 60
    views = views_of(report, "lda")
    for seen in looks:
        # Both heads, to be fitted and to leave each image out.
        assert times(report, seen) == {view: {1 if view else 4} for view in views}


FAR = Ranges(1.5, 0.1, 1.2)


def uncached(reach=USUAL):
    """A policy that trains half of the toy network, whole layers, which leave a small budget no cache."""
    layers = toy_network().layers
    updates = tuple(Update(i, tuple(range(layers[i].cout)), bias=True) for i in range(5, len(layers)))
    rates, options = ((1e-3, 1e-3),) * len(updates), StepOptions(augmentation=reach)
    found = Recipe("test", updates, rates, options=options, steps=3, head="lda", views=4)
    return Policy("test", lambda *_: found, "none", macs_limited=False, shrinks=False)


@pytest.mark.parametrize(
    "memory, sets, views",
    [(36_500, 0, range(-4, 1)), (66_000, 1, range(-4, 1)), (94_000, 5, range(4, -1, -1))],
)
def test_a_head_sees_cached_views_or_as_many_of_its_own(memory, sets, views):
    machine = SimulatedDevice(2**22)
    report = adapt(toy_network(), toy_episode(), Budget(memory), uncached(), device=machine)
    assert report.plan.resources.sets == sets
    assert views_of(report, "lda") == views and list(views_of(report, "cosine")) == [0]
    planned = executed_macs(report.program, report.scores, report.ran)
    assert machine.tally.total("head").network_macs == planned["heads"] > 0


@pytest.mark.parametrize("memory, sets", [(36_500, 0), (66_000, 1), (94_000, 5)])
def test_new_views_are_changed_as_far_as_the_recipe_says_and_cached_ones_as_is_usual(memory, sets):
    task = toy_network(), toy_episode(), Budget(memory)
    usual, far = (adapt(*task, uncached(reach), device=ONE) for reach in (USUAL, FAR))
    shown = far.to_json()["resources"]["augmentation"]
    if sets < 2:
        assert far.ran.losses[0] != usual.ran.losses[0]
        assert shown == {"colours": 1.5, "turn": 0.1, "zoom": 1.2}
    else:
        assert far.ran.losses == usual.ran.losses and shown == {"colours": 1.0, "turn": 0.0, "zoom": 1.0}


@pytest.mark.parametrize("sets", [0, 1])
def test_views_made_for_a_head_are_usual_ones_and_in_no_cache(sets):
    far, episode = Ranges(2.0, 0.2, 1.3), toy_episode()
    usual, wide = (augmentation_of(episode, 16, 0, reach) for reach in (USUAL, far))
    assert all(wide(-v, i) == usual(v, i) for v in range(4) for i in range(5))
    assert all(wide(v, 0) != usual(v, 0) for v in range(1, 9) if usual(v, 0) != Augmentation())
    images = np.stack([episode.support.image(i, 16) for i in range(2)])
    plan = Recipe("test", (Update(9, bias=True),), ((1e-3, 1e-3),))
    made = trainer(toy_network(), plan, images, np.arange(2), sets, augmentation=wide)
    made.run("cache")
    clean, own, same = (np.empty_like(made.support) for _ in range(3))
    made.embed([(0, 0), (0, 1)], clean)
    made.embed([(-3, 0), (-3, 1)], own)
    made.source = replace(made.source, augmentation=usual)
    made.embed([(3, 0), (3, 1)], same)
    assert (own == same).all() and (own != clean).any()


def test_without_queries_only_what_the_guard_needs_is_fitted_before_training(looks):
    report = adapt(toy_network(), toy_episode(queries=0), BIG, device=ONE)
    before, after = (times(report, seen) for seen in looks)
    assert before == {0: {1}} and len(after) > 1


def lda_after(steps, *updates):
    """A policy with an LDA head that trains `updates` for `steps`."""
    rates = ((1e-3, 1e-3),) * len(updates)
    return Policy("test", lambda *_: Recipe("test", updates, rates, steps=steps, head="lda"), "none")


@pytest.mark.parametrize("policy", ["tinytrain", lda_after(0), lda_after(2, Update(9, bias=True))])
def test_what_is_kept_does_not_depend_on_the_queries(policy):
    """They are there to judge it by."""
    with_queries, without = (adapt(toy_network(), toy_episode(queries=q), BIG, policy) for q in (2, 0))
    assert with_queries.delta.head.kind == "lda"
    assert bool(with_queries.delta.slices) == bool(with_queries.plan.recipe.updates)
    for kept, other in zip(with_queries.delta.slices, without.delta.slices, strict=True):
        assert kept.values.tobytes() == other.values.tobytes()
    for kept, other in zip(with_queries.delta.head.arrays(), without.delta.head.arrays(), strict=True):
        assert kept.tobytes() == other.tobytes()
    assert with_queries.delta.head.temperature == without.delta.head.temperature
