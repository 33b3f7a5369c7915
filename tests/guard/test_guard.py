"""The guard: its refusals and reasons, the state after a refusal, and that it uses only support images."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from toydevices import ONE

from tinytrain.episode.episode import Images
from tinytrain.guard.guard import (
    LEAST_FIT,
    Evidence,
    final_loss,
    judge,
    label_fit,
    left_out_accuracy,
    no_gain,
    vetoed,
)
from tinytrain.heads.leave_one_out import COLUMNS, NEAR, OTHER, OWN, measure
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy
from tinytrain.runtime.fitting import HeadFitting
from tinytrain.runtime.predict import Predictor

BIG = Budget(memory=2**22)
NAMES = ("ant", "bee")
SUPPORT = Images(np.repeat(np.arange(2, dtype=np.int32), 5), tuple("abcdefghij"), lambda i, size: None)


def rows(margins) -> np.ndarray:
    """The result of `measure` for ten images with these margins; the chance similarity is 0.2."""
    made = np.zeros((10, COLUMNS), np.float32)
    made[:, :] = (0, 0.1, 0, 0.5, 0.04)
    made[:, 0] = np.asarray(margins, float) + 0.1
    return made


GOOD, BAD = rows(np.full(10, 0.3)), rows([0.3] * 9 + [-0.6])


def verdict(force=False, **changes):
    fields = {
        "losses": [1.0, 0.5, 0.2, 0.1],
        "steps": 4,
        "finite": True,
        "before": GOOD,
        "after": GOOD,
        "macs": 9,
    }
    return judge(Evidence(**(fields | changes)), SUPPORT, NAMES, force)


CASES = {
    "NaN in a loss": ({"losses": [1.0, np.nan], "after": None}, ["not-finite"]),
    "infinity in the result": ({"finite": False}, ["not-finite"]),
    "a loss that rose": ({"losses": [1.0, 0.5, 0.5, 1.51]}, ["diverged"]),
    "labels that do not fit": ({"before": BAD, "after": BAD}, ["labels"]),
    "worse left-out accuracy": ({"after": rows([0.3] * 9 + [-0.1])}, ["left-out"]),
    "no better than guessing": (dict.fromkeys(("before", "after"), rows([0.3, -0.1] * 5)), ["left-out"]),
    "everything": (
        {"losses": [1.0, 2.0], "before": BAD, "after": rows([-1] * 10)}, ["diverged", "labels", "left-out"]
    ),
}  # fmt: skip


# What else is kept: training did harm, but the head alone is as good as the images are.
HARM = ("a loss that rose", "worse left-out accuracy")


@each("case", CASES)
def test_every_reason_is_found_and_the_old_weights_stand(case):
    changes, codes = CASES[case]
    found = verdict(**changes)
    assert found.kept == ("head" if case in HARM else "cosine") and not found.forced
    assert [r.code for r in found.reasons] == codes and found.accepted == (case in HARM)
    json.dumps(found.to_json(), allow_nan=False)


@each("case", CASES)
def test_force_keeps_every_finite_result(case):
    changes, codes = CASES[case]
    found = verdict(force=True, **changes)
    assert (found.kept == "adapted") == found.forced == (codes != ["not-finite"])
    assert [r.code for r in found.reasons] == codes


def reason(code, **changes):
    (text,) = [r.text for r in verdict(**changes).reasons if r.code == code]
    return text


def test_reasons_count_images_and_name_the_worst_one():
    assert reason("labels", before=BAD) == (
        "1 of 10 images looks more like another class than its own, most of all j (bee, looks like ant)"
    )
    several = rows([0.3] * 7 + [-0.1, -0.9, -0.6])
    assert reason("labels", before=several, after=several).startswith("3 of 10 images look more like")
    assert "most of all i (bee" in reason("labels", before=several, after=several)
    assert reason("left-out", after=rows([0.3] * 9 + [-0.1])) == (
        "9 of 10 images are recognised without themselves after training, 10 were before"
    )
    guessed = rows([0.3, -0.1] * 5)
    assert reason("left-out", before=guessed, after=guessed).endswith("after training, guessing gives 5")


@pytest.mark.parametrize("worst, code", [(-0.40, []), (-0.42, ["labels"])])
def test_labels_are_refused_from_a_fit_of_minus_2_8_on(worst, code):
    found = rows([0.3] * 9 + [worst])
    assert [r.code for r in verdict(before=found, after=found).reasons] == code


def test_images_that_fit_far_less_than_the_others_are_counted_even_if_no_other_class_is_closer():
    far = rows([3.0] * 9 + [0.01])
    assert label_fit(far) < LEAST_FIT
    assert reason("labels", before=far, after=far).startswith("1 of 10 images fit their class far less")


def test_a_rise_of_the_loss_is_shown_in_digits_that_differ():
    assert reason("diverged", losses=[1.386, 1.5935]) == "the training loss rose from 1.39 to 1.59"
    assert reason("diverged", losses=[1.0, 2.0]) == "the training loss rose from 1 to 2"


@pytest.mark.parametrize("losses", [[1.0, 0.5, 0.5, 1.0], [0.001, 0.004, 0.002, 0.0, 0.0025]])
def test_a_loss_that_stayed_or_differs_by_less_than_views_do_is_no_reason(losses):
    assert verdict(losses=losses).kept == "adapted"


def test_a_rise_by_more_than_a_tenth_of_the_way_to_the_loss_of_a_guess_is_a_reason():
    guess = math.log(len(NAMES))
    for before in (0.01, 0.5):
        assert verdict(losses=[before, before + 0.099 * (guess - before)]).accepted
        assert verdict(losses=[before, before + 0.101 * (guess - before)]).kept == "head"


def test_a_loss_as_high_as_that_of_a_guess_may_rise_by_a_hundredth_of_it():
    guess = math.log(len(NAMES))
    assert verdict(losses=[guess, 1.009 * guess]).kept == "adapted"
    assert verdict(losses=[guess, 1.011 * guess]).kept == "head"


def test_a_good_result_is_accepted_and_not_called_forced():
    for force in (False, True):
        found = verdict(force=force)
        assert found.kept == "adapted" and not found.forced and found.reasons == ()


def test_without_training_there_is_nothing_to_refuse_but_suspects_are_named():
    found = verdict(losses=[], before=BAD, after=None)
    assert found.kept == "head" and found.accepted and [s.name for s in found.suspects] == ["j"]


def told(right: int, n: int) -> np.ndarray:
    """Rows of `n` images of which so many are recognised without themselves."""
    return np.resize(rows([0.3] * 10), (n, COLUMNS)) - 0.6 * (np.arange(n) >= right)[:, None] * (
        np.arange(COLUMNS) == OWN
    )


@each("right, n, worth", [(34, 34, True), (35, 35, False), (52, 54, True), (53, 54, False), (9, 9, True)])
def test_training_is_not_worth_it_where_it_is_sure_that_nine_in_ten_are_recognised_before(right, n, worth):
    found = no_gain(told(right, n))
    assert (found is None) == worth
    if found:
        count = "all" if right == n else f"{right} of"
        assert found.code == "no-gain" and found.text.startswith(f"{count} {n} images are recognised")


def test_single_images_do_not_say_that_training_is_worth_nothing():
    assert no_gain(rows(np.full(10, np.nan))) is None


def test_held_out_images_turn_down_what_they_prove_to_be_worse_and_nothing_else():
    good, head = verdict(), np.ones(40, bool)
    for wrong, kept in ((0, "adapted"), (1, "adapted"), (9, "head")):
        adapted = np.arange(40) >= wrong
        assert vetoed(good, head, adapted).kept == kept
    found = vetoed(good, head, adapted)
    assert [r.code for r in found.reasons] == ["left-out"] and not found.forced
    assert found.reasons[0].text.startswith(
        "adapted it is 22 points worse than the new head alone on 40 held"
    )
    assert vetoed(good, head[:3], ~head[:3]) is good, "three images prove nothing"
    assert vetoed(good, adapted, head) is good and vetoed(good, head[:0], head[:0]) is good
    forced = vetoed(good, head, adapted, force=True)
    assert forced.kept == "adapted" and forced.forced and forced.reasons == found.reasons
    refused = verdict(before=BAD, after=BAD)
    assert vetoed(refused, head, adapted) is refused


def test_single_images_give_no_reason():
    lonely = rows(np.full(10, np.nan))
    found = verdict(before=lonely, after=lonely)
    assert (
        found.accepted and found.measures["label_fit"] is None and found.measures["left_out_before"] is None
    )


def test_label_fit_is_the_worst_tenth_less_half_of_the_median_on_the_scale_of_chance():
    assert label_fit(BAD) == pytest.approx((-0.6 - 0.15) / 0.2, rel=1e-4)
    assert label_fit(BAD) < LEAST_FIT < label_fit(GOOD)
    assert label_fit(rows([-0.6] * 10)) == pytest.approx(-0.6 / 0.2, rel=1e-4), (
        "a negative median does not count"
    )
    assert label_fit(BAD[5:]) == pytest.approx(label_fit(BAD)), "of a few images, one is the worst tenth"
    assert left_out_accuracy(BAD) == 0.9
    assert left_out_accuracy(rows([0.0] * 10)) == 0, "as close to another class is not closer to its own"


def test_the_final_loss_is_the_mean_of_the_last_quarter():
    assert final_loss([9, 9, 9, 9, 9, 9, 1, 2]) == 1.5 and final_loss([3.0]) == 3


# ---- on a network ------------------------------------------------------------------------------


def policy(rate=1e-3, steps=6, optimizer="adam"):
    def recipe(network, *_):
        last = range(6, len(network.layers))
        updates = tuple(Update(i, tuple(range(network.layers[i].cout)), bias=True) for i in last)
        rates = ((rate, rate),) * len(updates)
        return Recipe("test", updates, rates, optimizer, "constant", steps=steps, head="lda", views=3)

    return Policy("test", recipe, "none", macs_limited=False)


def wrong_labels(episode, share=0.4):
    labels = episode.support.labels.copy()
    chosen = np.random.default_rng(0).permutation(len(labels))[: round(share * len(labels))]
    labels[chosen] = (labels[chosen] + 1) % episode.n_way
    return replace(episode, support=replace(episode.support, labels=labels))


@pytest.fixture(scope="module")
def refused():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeadFitting, "is_better_than_prototypes", lambda fitting: False)
        report = adapt(toy_network(), toy_episode(3, 6, 4), BIG, policy(1e4, optimizer="sgd"))
    assert not report.guard.accepted
    return report


def test_training_stops_in_the_step_after_the_first_number_that_is_none():
    report = adapt(toy_network(), toy_episode(), BIG, policy(1e30, steps=40, optimizer="sgd"))
    assert [r.code for r in report.guard.reasons] == ["not-finite"] and report.answers.withheld is None
    assert len(report.ran.losses) <= 3 and not np.isfinite(report.ran.losses[-1])
    assert report.to_json()["losses"][-1] is None
    assert f"{len(report.ran.losses)} of 40 steps" in report.guard.reasons[0].text
    forced = adapt(toy_network(), toy_episode(), BIG, policy(1e30, steps=40, optimizer="sgd"), force=True)
    assert not forced.guard.accepted and forced.delta.is_finite()


def test_the_verdict_does_not_depend_on_the_labels_or_images_of_the_queries():
    episode = toy_episode(3, 5, 4)
    seen = set()
    for k in range(6):
        rng = np.random.default_rng(k)
        query = replace(episode.query, labels=rng.permutation(episode.query.labels)).take(
            rng.permutation(12)[: 2 * k]
        )
        report = adapt(toy_network(), replace(episode, query=query), BIG, policy(), device=ONE)
        seen.add(json.dumps(report.guard.to_json()))
    assert len(seen) == 1


def test_the_measures_lie_in_the_arena_and_inside_the_budget(refused):
    table = {row["name"]: row["bytes"] for row in refused.program.table()}
    assert table["left out (before)"] == table["left out (after)"] == 18 * COLUMNS * 4


def test_wrong_labels_lower_the_fit_of_labels():
    fits = [
        adapt(toy_network(), made, BIG, "none").guard.measures["label_fit"]
        for seed in range(4)
        for made in (toy_episode(3, 8, 0, seed), wrong_labels(toy_episode(3, 8, 0, seed)))
    ]
    assert np.mean(fits[1::2]) < np.mean(fits[::2])


def test_more_support_than_a_step_sees_is_measured_class_by_class_in_turn(monkeypatch):
    seen = []

    def watched(evidence, *rest):
        seen.append(evidence.before.copy())  # it lies in the arena
        return judge(evidence, *rest)

    monkeypatch.setattr("tinytrain.pipeline.adapt.judge", watched)
    report = adapt(toy_network(), toy_episode(3, 20, 0), BIG, "none")
    assert report.plan.resources.step_support < 60
    support = report.episode.support
    embedded = Predictor(report.network, report.delta).embed(support)
    embedded /= np.linalg.norm(embedded, axis=1, keepdims=True)
    means = np.stack([embedded[support.labels == k].mean(axis=0) for k in range(3)])
    want = np.empty((60, COLUMNS), np.float32)
    measure(want, embedded, support.labels, means, np.full(3, 20, "f"), np.empty_like(means))
    # Features were cached in 8 bits.
    np.testing.assert_allclose(seen[0][:, [OWN, OTHER, NEAR]], want[:, [OWN, OTHER, NEAR]], atol=0.05)
