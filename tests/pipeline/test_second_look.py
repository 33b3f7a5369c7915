"""Labels that look wrong: that training which holds for other images speaks for them, and what that takes."""

import json
import weakref
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from cases import each
from toyfiles import bare
from toypolicies import whole_layers

import tinytrain
from tinytrain.base.errors import BudgetError
from tinytrain.episode.episode import folds
from tinytrain.guard.guard import Halves
from tinytrain.pipeline.adapt import adapt as once
from tinytrain.pipeline.second_look import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.text import render_text
from tinytrain.runtime.device import Device

BIG = Budget(memory=2**22)
WAY = 12  # so many classes that the toy network tells them apart poorly


class Counting(Device):
    """One thread; counts its arenas, and for each of them how many others lived beside it as it was made."""

    def __init__(self):
        super().__init__(threads=1, now=count().__next__)  # a second for each look at the clock
        self.arenas, self.beside, self.stages = [], [], []
        self.progress = lambda stage, *_: self.stages.append(stage)

    def memory(self, program):
        found = super().memory(program)
        self.beside.append(sum(ref() is not None for ref in self.arenas))
        self.arenas.append(weakref.ref(found[1]._map))
        return found


def doubtful(shuffled: bool = False, shots: int = 4, queries: int = 4):
    episode = toy_episode(WAY, shots, queries)
    labels = episode.support.labels
    if shuffled:
        labels = np.random.default_rng(0).permutation(labels)
    return replace(episode, support=replace(episode.support, labels=labels))


def run(episode, **how):
    """One adaptation."""
    return once(toy_network(), episode, BIG, whole_layers(), device=Counting(), **how)


def words(report) -> str:
    return " ".join(str(report).split())


@pytest.fixture(scope="module")
def kept():
    device = Counting()
    return adapt(toy_network(), doubtful(), BIG, whole_layers(), device=device), device


@pytest.fixture(scope="module")
def refused():
    device = Counting()
    return adapt(toy_network(), doubtful(shuffled=True), BIG, whole_layers(), device=device), device


def test_right_labels_that_look_wrong_are_kept_if_training_holds_for_other_images(kept):
    report, first = kept[0], run(doubtful())
    assert first.guard.refused and [reason.code for reason in first.guard.reasons] == ["labels"]
    assert report.guard.kept == "adapted" and report.guard.reasons == () and not report.guard.forced
    assert bare(report) == bare(run(doubtful(), force=True))
    assert report.guard.measures["label_fit"] == first.guard.measures["label_fit"]
    assert bare(report) == bare(tinytrain.adapt(toy_network(), doubtful(), BIG, whole_layers()))


def test_the_answer_says_that_labels_hold_and_by_how_much(kept):
    report = kept[0]
    measures = json.loads(json.dumps(report.to_json(), allow_nan=False))["guard"]["measures"]
    gain = round(100 * (measures["halves_adapted"] - measures["halves_cosine"]))
    said = f"labels hold: cross-validated, training gains {gain} points over prototypes"
    assert gain > 5 and said in words(report)
    assert said in " ".join(render_text(report.to_json()).split())
    assert report.delta.report["guard"]["measures"] == measures


def test_shuffled_labels_are_refused_with_what_other_images_say(refused):
    report = refused[0]
    first = run(report.episode)
    assert report.guard.refused and bare(report) == bare(first)
    assert [r.code for r in report.guard.reasons] == [r.code for r in first.guard.reasons]
    n, measures = len(report.episode.support), report.guard.measures
    right = (round(n * measures[f"halves_{name}"]) for name in ("adapted", "cosine"))
    assert "cross-validated, training gets {} of {} right, prototypes {}".format(
        *np.insert(list(right), 1, n)
    ) in words(report)
    assert report.delta.report["guard"] == report.guard.to_json()


def test_halves_are_adapted_to_one_after_another_and_no_arena_of_a_half_is_beside_another(kept, refused):
    """Beside halves lies the result of the first adaptation, in the pages that are left of its arena."""
    assert kept[1].beside == [0, 1, 1, 0] and refused[1].beside == [0, 1, 1]
    starts = [a for a, b in zip(kept[1].stages, ["", *kept[1].stages], strict=False) if a != b]
    assert starts.count("training") == 4


def test_the_report_counts_what_both_halves_get_right_and_what_all_adaptations_cost(kept, refused):
    for report, again in ((kept[0], True), (refused[0], False)):
        halves = [run(half, force=True) for half in folds(report.episode, 0, 2)]
        first, last = run(report.episode), run(report.episode, labels_hold=again)
        others = [*halves, first] if again else halves
        macs = sum(other.to_json()["macs"]["total"] for other in others)
        assert report.guard.macs == last.guard.macs + macs
        seconds = sum(sum(other.ran.seconds.values()) for other in others)
        assert report.to_json()["seconds"]["cross-validation"] == seconds > 0
        for name in ("after", "before_cosine"):
            right = sum((getattr(h.answers, name) == h.episode.query.labels).sum() for h in halves)
            key = "halves_adapted" if name == "after" else "halves_cosine"
            assert report.guard.measures[key] == right / len(report.episode.support)


@each(
    "how",
    [{"force": True}, {"train": False}, {"budget": replace(BIG, seconds=600)}, {"shots": 2}, {"replay": 2}],
)
def test_there_is_no_second_look_where_none_is_asked_for_or_none_can_be_had(how):
    how = {"budget": BIG, "shots": 4, "replay": 0} | how
    episode = replace(doubtful(True, how.pop("shots"), 0), replay=how.pop("replay"))
    report = adapt(toy_network(), episode, policy=whole_layers(), **how)
    assert report.guard.measures["halves_adapted"] is None and "cross-validation" not in report.ran.seconds
    assert report.guard.refused == ("force" not in how and "train" not in how)


def test_a_plan_is_obeyed_without_a_second_look():
    plan = run(doubtful()).plan
    assert adapt(toy_network(), doubtful(), policy=plan).guard.measures["halves_adapted"] is None


@each(
    "halves, hold",
    [
        (Halves(40, 23, 20), True),
        (Halves(40, 22, 20), False),  # too few images more
        (Halves(100, 58, 50), True),
        (Halves(100, 56, 50), False),  # too small a fraction more
        (Halves(40, 14, 8), False),  # no better than guessing, as far as 40 images say
    ],
)
def test_labels_of_four_classes_hold_if_training_is_clearly_better_than_prototypes_and_guessing(halves, hold):
    assert halves.hold(4) is hold


def test_where_a_half_does_not_fit_the_budget_the_refusal_stands(monkeypatch):
    def first_alone(*given, **how):
        if how.get("force"):
            raise BudgetError("budget-too-small", "a half needs more")
        return once(*given, **how)

    monkeypatch.setattr("tinytrain.pipeline.adapt.adapt", first_alone)
    report = adapt(toy_network(), doubtful(), BIG, whole_layers(), device=Counting())
    assert report.guard.refused and report.guard.measures["halves_adapted"] is None
