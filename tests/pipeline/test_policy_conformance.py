"""Every registered policy keeps its promises, and the kit says which one a broken policy breaks."""

import itertools
from dataclasses import replace

import pytest
from cases import each, quick
from toypolicies import POLICIES

from tinytrain.episode.augment import Ranges
from tinytrain.pipeline import policy_conformance as conformance
from tinytrain.pipeline.policy_conformance import ConformanceError, check_policy
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy, all_channels

LAST = len(toy_network().layers) - 1


@pytest.mark.parametrize("name", quick(POLICIES, range(4)))
def test_every_registered_policy_keeps_its_promises_at_30_sizes(name):
    found = check_policy(POLICIES[name], toy_network(), toy_episode(), macs=0.5)
    assert found.policy == name and len(found.plans) == 30
    assert found.plans[0][0] == found.smallest and all(arena <= budget for budget, arena in found.plans)


def plain(updates, name="broken", **changes):
    fields = {"step": "constant", "head": "cosine", "views": 3, **changes}
    return Recipe(name, updates, ((1e-3, 1e-3),) * len(updates), **fields)


def whole(*layers):
    network = toy_network()
    return tuple(Update(i, all_channels(network, i)) for i in layers)


def counting():
    """Another channel each time it is asked."""
    counter = itertools.count()
    return Policy("broken", lambda *a: plain((Update(LAST, (next(counter) % 12,)),)), "")


def spoils_network(network, *_):
    weight = network.weights[LAST]
    weight.flags.writeable = True
    weight[0, 0] += 1
    return plain((Update(LAST, bias=True),))


def spoils_scores(network, scores, *_):
    scores.fisher[LAST][0] = 7
    return plain((Update(LAST, bias=True),))


def grows(network, scores, budget, task, share):
    """The less it may train, the more it does."""
    return plain((Update(LAST, all_channels(network, LAST)[: 1 + int(5 * (1 - share))]),))


def fails_when_rich(network, scores, budget, task, share):
    """From 20 kB on it wants what needs 50 kB."""
    return plain(whole(*range(LAST + 1)) if budget.memory > 20_000 else (Update(LAST, bias=True),))


def divides_by_zero(network, scores, budget, task, share):
    return plain((Update(LAST, (int(1 / share),)),)) if share < 0.05 else plain((Update(LAST, (0,)),))


def affordable(network, scores, budget, task, share):
    """Two layers, for as many pseudo-queries as the MAC budget pays for and no more."""
    recipe, limit = plain(whole(1, LAST)), budget.macs * full_backward_macs(network)
    return replace(recipe, options=StepOptions(min(1.0, limit / image_macs(network, recipe.updates))))


def limited(recipe, **changes):
    return Policy("broken", recipe, "", **{"shrinks": False, "macs_limited": False, **changes})


BROKEN = {
    "another recipe each time": (counting(), "makes another recipe of the same arguments"),
    "writes to the network": (limited(spoils_network), "changes the network"),
    "writes to the scores": (
        limited(spoils_scores, inspects=lambda n: (LAST,)),
        "changes the Fisher information",
    ),
    "spends more MACs than it may": (
        limited(lambda *a: plain(whole(1, LAST)), macs_limited=True),
        "spends .* backward MACs where .* are allowed",
    ),
    "sends the gradient through more of the support than it may": (
        limited(lambda *a: replace(affordable(*a), step="both"), macs_limited=True),
        "spends .* backward MACs where .* are allowed",
    ),
    "grows as its share falls": (limited(grows, shrinks=True), "less share, more numbers"),
    "cannot use a large budget": (
        limited(fails_when_rich),
        "is refused at .* said to be enough: budget-too-small",
    ),
    "names a layer that is none": (limited(lambda *a: plain((Update(99, (0,)),))), "usage: layers"),
    "has too few rates": (
        limited(lambda *a: replace(plain(whole(LAST)), rates=())),
        "usage: 0 pairs of learning rates",
    ),
    "names one share of falling rates": (
        limited(lambda *a: replace(plain(whole(LAST)), decay=0.5)),
        "usage: decay is 0.5",
    ),
    "trains in no step": (limited(lambda *a: replace(plain(whole(LAST)), steps=0)), "trained in 0 steps"),
    "changes images by no ranges": (
        limited(lambda *a: replace(plain(whole(LAST)), options=StepOptions(augmentation=(1.5, 0.1, 1.2)))),
        r"usage: augmentation is \(1.5, 0.1, 1.2\)",
    ),
    "makes images smaller than smaller": (
        limited(lambda *a: replace(plain(whole(LAST)), options=StepOptions(augmentation=Ranges(zoom=0.8)))),
        "usage: augmentation is Ranges.*zoom=0.8",
    ),
    "raises an error of its own": (limited(divides_by_zero), "raises ZeroDivisionError at its MAC budgets"),
    "goes by another name": (limited(lambda *a: plain(whole(LAST), "other")), "calls its recipe other"),
}


@each("name", BROKEN)
def test_a_broken_policy_is_caught_in_one_sentence(name):
    policy, sentence = BROKEN[name]
    with pytest.raises(ConformanceError, match=sentence) as caught:
        check_policy(policy, toy_network(), toy_episode())
    assert str(caught.value).startswith("policy broken ") and "\n" not in str(caught.value)


def test_a_policy_that_looks_at_the_clock_is_caught_when_it_runs(monkeypatch):
    """Planning sees nothing: the channel changes only from one adaptation to the next."""
    runs, adapt = itertools.count(), conformance.adapt
    state = {"channel": 0}

    def watched(*arguments, **more):
        state["channel"] = next(runs)
        return adapt(*arguments, **more)

    monkeypatch.setattr(conformance, "adapt", watched)
    policy = limited(lambda *a: plain((Update(LAST, (state["channel"],)),)))
    with pytest.raises(ConformanceError, match="does not give the same bytes twice"):
        check_policy(policy, toy_network(), toy_episode(), sizes=2)
