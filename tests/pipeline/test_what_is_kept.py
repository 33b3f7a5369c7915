"""Which of three candidates is kept: that it is the one which the answer names, and costs what is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from int8nets import toy8
from toydevices import ONE
from toyfiles import bare
from toypolicies import whole_layers

from tinytrain.base.random_streams import rng_for
from tinytrain.episode.episode import Episode, FolderEpisode
from tinytrain.heads.head import FIT_TAKES, Support
from tinytrain.heads.registry import find_head
from tinytrain.kernels import load
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.check import check, with_adaptations
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.text import render_text
from tinytrain.runtime.fitting import HeadFitting
from tinytrain.runtime.predict import Predictor

BIG = Budget(memory=2**22)
HARM = 1.0  # a rate at which the loss of the toy network rises


@pytest.fixture(scope="module")
def sure():
    """Images of which enough are recognised before training, if 4 in 10 errors are few."""
    patch = pytest.MonkeyPatch()
    patch.setattr("tinytrain.guard.guard.FEW_ERRORS", 0.4)
    yield toy_episode(2, 20, 4)
    patch.undo()


@each("head", ["lda", "cosine"])
@each("replay", [0, 2])
@each("queries", [0, 4])
def test_after_harm_the_head_alone_is_what_it_would_have_been_without_training(head, replay, queries):
    episode = replace(toy_episode(3, 6, queries), replay=replay)
    report = adapt(toy_network(), episode, BIG, whole_layers(HARM, head), device=ONE)
    alone = adapt(toy_network(), episode, BIG, whole_layers(HARM, head), device=ONE, train=False)
    assert report.guard.kept == "head" and [r.code for r in report.guard.reasons] == ["diverged"]
    assert alone.guard.kept == "head" and not alone.guard.reasons and alone.ran.losses == []
    assert bare(report) == bare(alone) and report.delta.slices == () and report.delta.head.kind == head
    assert (report.answers.after == alone.answers.after).all()


def test_after_harm_the_head_alone_is_the_one_that_the_training_is_compared_with():
    report = adapt(toy_network(), toy_episode(3, 6, 20), BIG, whole_layers(HARM))
    forced = adapt(toy_network(), toy_episode(3, 6, 20), BIG, whole_layers(HARM), force=True)
    assert (report.answers.after == report.answers.before).all()
    assert (report.answers.withheld == forced.answers.after).all() and forced.delta.slices
    logits = Predictor(report.network, report.delta).logits(report.episode.query)
    assert (logits.argmax(axis=1) == report.answers.after).all()
    facts = report.to_json()
    assert facts["accuracy"]["difference"] == [0, 0, 0]
    assert "a new head alone, the training is not kept: the training loss rose" in str(report).replace(
        "\n            ", " "
    )
    json.dumps(facts, allow_nan=False)
    assert "kept a new head alone: the training loss rose" in " ".join(render_text(facts).split())


def test_what_is_done_again_after_harm_is_counted_and_the_training_once():
    harmed, good = (adapt(toy_network(), toy_episode(3, 6), BIG, whole_layers(rate)) for rate in (HARM, 0.1))
    assert good.guard.kept == "adapted"
    once, again = (r.to_json()["macs"]["stages"] for r in (good, harmed))
    assert again == once | {part: 2 * once[part] for part in ("features", "heads")}


def test_training_that_would_not_help_is_not_run_and_the_head_alone_is_a_success(sure):
    report = adapt(toy_network(), sure, BIG, whole_layers())
    assert report.guard.kept == "head" and report.guard.accepted and not report.guard.forced
    assert [r.code for r in report.guard.reasons] == ["no-gain"] and report.ran.losses == []
    facts = report.to_json()
    assert facts["selection"] == [] and facts["macs"]["stages"]["training"] == 0
    assert facts["memory"]["trained_parameters"] == facts["resources"]["steps"] == 0
    assert "training would not help here" in str(report) and "--train" in str(report)
    assert bare(report) == bare(adapt(toy_network(), sure, BIG, whole_layers(), train=False))


def test_training_is_run_all_the_same_if_it_is_asked_for_or_settled_otherwise(sure):
    trained = adapt(toy_network(), sure, BIG, whole_layers(), train=True)
    assert trained.guard.kept == "adapted" and trained.delta.slices
    for other in (
        adapt(toy_network(), sure, BIG, whole_layers(), force=True),
        adapt(toy_network(), sure, BIG, trained.plan),
    ):
        assert bare(other) == bare(trained)
    assert adapt(toy_network(), replace(sure, replay=2), BIG, whole_layers()).ran.losses


def test_a_policy_that_trains_nothing_is_not_said_to_be_in_vain(sure):
    for train in (None, False, True):
        report = adapt(toy_network(), sure, BIG, "none", train=train)
        assert report.guard.kept == "head" and report.guard.reasons == ()
        assert "only the head was fitted" in str(report)


def contradicted(kind: type[Episode], network=None, budget=BIG) -> Episode:
    """Queries whose labels are what the head alone says, so that whatever training changes is wrong."""
    episode = toy_episode(3, 6, 20)
    said = adapt(network or toy_network(), episode, budget, whole_layers(), train=False).answers.after
    parts = (episode.support, replace(episode.query, labels=said.astype(np.int32)))
    return kind(*parts, episode.class_names)


def test_images_held_out_of_a_folder_turn_down_what_is_worse_and_other_queries_only_measure_it():
    measured = adapt(toy_network(), contradicted(Episode), BIG, whole_layers())
    assert measured.guard.kept == "adapted" and measured.to_json()["accuracy"]["difference"][2] < 0
    folder = contradicted(FolderEpisode)
    decided = adapt(toy_network(), folder, BIG, whole_layers())
    assert decided.guard.kept == "head" and (decided.answers.after == folder.query.labels).all()
    assert "points worse than the new head alone on 60 held-out images" in decided.guard.reasons[0].text
    assert bare(decided) == bare(adapt(toy_network(), folder, BIG, whole_layers(), train=False))
    forced = adapt(toy_network(), folder, BIG, whole_layers(), force=True)
    assert forced.guard.kept == "adapted" and forced.guard.forced and bare(forced) == bare(measured)


@each("better", [False, True])
def test_a_refused_adaptation_predicts_by_the_head_that_leave_one_out_prefers_and_stays_refused(better):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytrain.guard.guard.LEAST_FIT", 99)
        patch.setattr(HeadFitting, "is_better_than_prototypes", lambda fitting: better)
        report = adapt(toy_network(), toy_episode(3, 6, 20), BIG, whole_layers())
    answers = report.answers
    assert report.guard.kept == ("head" if better else "cosine") and not report.guard.accepted
    assert (answers.after == (answers.before if better else answers.before_cosine)).all()
    logits = Predictor(report.network, report.delta).logits(report.episode.query)
    assert (logits.argmax(axis=1) == answers.after).all() and answers.withheld is not None
    facts = report.to_json()
    assert str(report).startswith("refused     the old weights stay") and "training" in str(report)
    words = "a new head alone" if better else "cosine prototypes"
    assert f"predictions are those of {words}" in " ".join(render_text(facts).split())


@each("head", ["lda", "ridge", "mild-lda"])
def test_a_head_is_compared_with_prototypes_by_images_that_it_has_not_seen(head):
    """By fitting it again without each image."""
    rng, seen = rng_for(0, "unseen"), []
    means, labels = rng.standard_normal((3, 40)), np.repeat(np.arange(3, dtype=np.int32), 6)
    x = (means[labels] + 3 * rng.standard_normal((18, 40))).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def fitted(chosen, judge=None):
        buffers = find_head(head).buffers(3, 40)
        arrays = {b.name: b.allocate() for b in buffers if b.lifetime in FIT_TAKES}

        def batches():
            yield np.ascontiguousarray(x[chosen]), labels[chosen]

        support = Support(batches, batches, np.bincount(labels[chosen]), judge=judge)
        return find_head(head).fit(load(), arrays, support)

    every = np.arange(18)
    fitted(every, lambda logits, label: seen.append(int(logits.argmax())))
    again = [int(fitted(np.delete(every, i)).logits(x[i : i + 1]).argmax()) for i in every]
    assert np.mean(np.array(seen) == again) > 0.95 and np.mean(again == labels) < 1


def test_in_int8_the_head_alone_is_what_it_would_have_been_too(monkeypatch):
    monkeypatch.setattr("tinytrain.guard.guard.LEAST_FIT", -99)  # this network sees the classes as alike
    network, budget = toy8("headed"), Budget(2**22, precision="int8")
    folder = contradicted(FolderEpisode, network, budget)
    report = adapt(network, folder, budget, whole_layers(30.0))
    assert report.guard.kept == "head" and (report.answers.withheld != report.answers.after).any()
    assert bare(report) == bare(adapt(network, folder, budget, whole_layers(30.0), train=False))


def test_the_parts_that_check_holds_out_decide_nothing():
    folder, seen = contradicted(FolderEpisode), []

    def adapted(episode):
        seen.append(episode)
        return adapt(toy_network(), episode, BIG, "none")

    with_adaptations(check(toy_network(), folder), folder, adapted)
    assert seen and not any(episode.decides for episode in seen)
