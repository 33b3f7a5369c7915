"""The estimate of accuracy: its interval, what suspects do to it, and when it says that it is unknown."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tinytrain.base.statistics import wilson_interval
from tinytrain.guard.estimate import LEAST, LeftOut, cross_validated, folded, held_out, left_out
from tinytrain.heads.repeats import Repeats
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget

BIG = Budget(memory=2**22)
NAMES = ("ant", "bee")
LABELS = np.repeat(np.arange(2), 10)
CLEAN = LeftOut(20, 0.0, 0)


def found(margins, suspected=(), labels=LABELS):
    return left_out(np.asarray(margins, float), suspected, labels, NAMES)


def test_margins_above_0_are_right_answers_and_suspects_are_counted_apart():
    margins = np.full(20, 0.2)
    margins[[1, 2, 12]] = -0.1, 0.0, -0.8
    counted = found(margins, suspected=[12])
    assert (counted.judged, counted.suspects, counted.short) == (20, 1, None)
    assert 1 < counted.errors < 2, "an image less and no training account for some errors"


def test_without_wrong_images_the_estimate_is_100_percent_and_its_low_end_is_not():
    estimate = cross_validated(found(np.full(20, 0.3)))
    assert estimate.accuracy == estimate.high == 1 and 0.6 < estimate.low < 0.9
    assert (estimate.method, estimate.network, estimate.n, estimate.folds) == (
        "cross-validation", "unadapted", 20, 20,
    )  # fmt: skip


def test_a_suspect_is_wrong_for_the_low_end_and_says_nothing_for_the_high_one():
    margins = np.full(20, 0.3)
    margins[:4] = -0.9
    errors, suspects = (cross_validated(found(margins, s)) for s in ((), range(4)))
    assert errors.low - 0.05 < suspects.low <= errors.low and suspects.high == 1
    assert errors.accuracy < suspects.accuracy and errors.high < suspects.high


def test_where_images_are_hard_suspects_are_thought_to_be_hard_images_too():
    wrong = [LeftOut(100, errors, 6).wrong_labels for errors in (0, 10, 40)]
    assert wrong[0] == 0.05 and wrong == sorted(wrong, reverse=True) and wrong[-1] == 0


@pytest.mark.parametrize("count", range(1, LEAST))
def test_a_class_of_too_few_images_makes_it_unknown_and_why_names_class_and_remedy(count):
    labels = np.array([0] * 9 + [1] * count)
    margins = np.full(9 + count, 0.3)
    estimate = cross_validated(found(margins, labels=labels))
    assert (estimate.accuracy, estimate.low, estimate.high, estimate.method) == (None, None, None, "unknown")
    assert f"class 'bee' has {count} image" in estimate.why and f"with {LEAST} in every class" in estimate.why


def test_held_out_images_give_their_fraction_with_wilsons_wilson_interval():
    estimate = held_out(45, 50, True, CLEAN)
    assert estimate.accuracy == 0.9 and (estimate.low, estimate.high) == wilson_interval(45, 50)
    assert (estimate.method, estimate.network, estimate.n, estimate.folds) == (
        "held-out",
        "adapted",
        50,
        None,
    )
    assert held_out(45, 50, False, CLEAN).network == "unadapted"


def test_wrong_labels_of_the_support_raise_the_high_end_of_held_out_images_too():
    clean, noisy = (held_out(15, 20, True, LeftOut(20, 0.0, s)) for s in (0, 4))
    assert (noisy.accuracy, noisy.low) == (clean.accuracy, clean.low) == (0.75, clean.low)
    assert noisy.high > clean.high and held_out(20, 20, True, LeftOut(20, 0.0, 4)).accuracy == 1


def test_images_that_others_stand_for_lower_the_estimate_and_its_low_end_and_not_the_high_one():
    for make in (cross_validated, lambda f: held_out(18, 20, True, f), lambda f: folded(18, 20, 3, f)):
        clean, burst = (make(LeftOut(20, 2.0, 0, repeated=r)) for r in (0.0, 0.25))
        assert burst.accuracy == pytest.approx(clean.accuracy - 0.25)
        assert burst.low < clean.low and burst.high == clean.high


def test_copies_are_not_judged_and_what_they_feign_lowers_held_out_answers_alone():
    margins, copies = np.full(20, 0.3), np.arange(20) % 2 == 1
    margins[[2, 3, 13]] = -0.1
    counted = left_out(margins, [3], LABELS, NAMES, Repeats(copies, 0.2, 0.25))
    assert (counted.judged, counted.suspects, counted.short) == (10, 0, None) and counted.errors < 1
    assert cross_validated(counted).n == 10
    plain = left_out(margins[::2], [], LABELS[::2], NAMES)
    assert cross_validated(counted).accuracy == pytest.approx(cross_validated(plain).accuracy - 0.05)
    assert held_out(18, 20, True, counted).accuracy == pytest.approx(0.9 - 0.25)


def test_an_interval_always_holds_its_estimate():
    rng = np.random.default_rng(0)
    for _ in range(500):
        n = int(rng.integers(2, 60))
        errors, suspects = sorted(rng.integers(0, n + 1, 2))
        counts = LeftOut(n, float(errors), int(suspects - errors), repeated=rng.random() * rng.integers(2))
        right = int(rng.integers(0, n + 1))
        for found in (cross_validated(counts), held_out(right, n, True, counts), folded(right, n, 3, counts)):
            assert 0 <= found.low <= found.accuracy <= found.high <= 1


def test_a_report_has_the_estimate_of_its_held_out_images_or_of_the_support_without_them():
    with_queries = adapt(toy_network(), toy_episode(3, 6, 10), BIG, "none").to_json()
    estimate = with_queries["estimate"]
    assert (estimate["method"], estimate["n"]) == ("held-out", 30)
    assert estimate["low"] <= estimate["accuracy"] <= estimate["high"]
    without = json.loads(json.dumps(adapt(toy_network(), toy_episode(3, 6, 0), BIG, "none").to_json()))
    assert (without["estimate"]["method"], without["estimate"]["n"]) == ("cross-validation", 18)
    assert 0 <= without["estimate"]["low"] <= without["estimate"]["high"] <= 1


def test_training_does_not_change_what_is_estimated_without_held_out_images():
    reports = [adapt(toy_network(), toy_episode(3, 6, 0), BIG, p) for p in ("none", "last_layer", "full")]
    assert not reports[0].delta.slices and len({report.estimate.n for report in reports}) == 1
    # Embeddings differ by how their features were cached.
    assert np.ptp([report.estimate.accuracy for report in reports]) <= 2 / 18


def test_shuffled_labels_are_seen_through():
    episode = toy_episode(3, 10, 0)
    labels = np.random.default_rng(3).permutation(episode.support.labels).astype(np.int32)
    shuffled = replace(episode, support=replace(episode.support, labels=labels))
    report = adapt(toy_network(), shuffled, BIG, "full", force=True)
    assert report.estimate.accuracy < 0.5 and report.estimate.low < 1 / 3 < report.estimate.high
