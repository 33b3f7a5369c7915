"""An answer for a query image: label and confidence in one number, as the head itself says them."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.class_names import MAX_CLASSES
from tinytrain.base.random_streams import rng_for
from tinytrain.heads.cosine import METHOD, CosineHead
from tinytrain.heads.head import IDENTIFIED
from tinytrain.heads.out_of_distribution import Limit
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.runtime.answers import Answers, answer, confidence_of, labels_of
from tinytrain.runtime.predict import Predictor


def head(weights, temperature=1.0) -> CosineHead:
    weights = np.asarray(weights, np.float32)
    return CosineHead(
        METHOD, weights, np.zeros(len(weights), np.float32), None, None, temperature=temperature
    )


@each("way", [2, 5, MAX_CLASSES])
@each("temperature", [1e-3, 0.1, 100.0])
def test_label_and_confidence_are_those_of_the_head(way, temperature):
    rng = rng_for(0, "answers", way)
    made = head(rng.standard_normal((way, 8)), temperature)
    embeddings = rng.standard_normal((20, 8)).astype(np.float32)
    answers = np.array([answer(made, e[None]) for e in embeddings], np.int32)
    assert (labels_of(answers) == made.logits(embeddings).argmax(axis=1)).all()
    assert confidence_of(answers) == pytest.approx(made.probabilities(embeddings).max(axis=1), abs=3e-6)


def test_an_answer_asks_for_the_logits_once(monkeypatch):
    asked, logits = [], CosineHead.logits
    monkeypatch.setattr(CosineHead, "logits", lambda self, x: asked.append(x) or logits(self, x))
    answer(head(np.eye(3)), np.ones((1, 3), np.float32))
    assert len(asked) == 1


def test_the_last_label_with_full_confidence_fits():
    weights = np.zeros((MAX_CLASSES, 2), np.float32)
    weights[-1] = 1
    one = np.array([answer(head(weights, 1e-4), np.ones((1, 2), np.float32))], np.int32)
    assert labels_of(one)[0] == MAX_CLASSES - 1 and confidence_of(one)[0] == 1


def test_logits_that_are_no_numbers_give_a_label_without_confidence():
    with np.errstate(all="ignore"):
        one = np.array([answer(head([[np.nan], [np.nan]]), np.ones((1, 1), np.float32))], np.int32)
    assert labels_of(one)[0] in (0, 1) and confidence_of(one)[0] == 0


@pytest.mark.parametrize("accepted, kept", [(True, 3), (False, 2)])
def test_after_is_what_was_kept(accepted, kept):
    answers = Answers(np.array([[3], [2], [1]], np.int32), accepted)
    assert (answers.after[0], answers.before_cosine[0], answers.before[0]) == (kept, 2, 1)


@each("way", [2, MAX_CLASSES])
def test_what_predict_leaves_open_is_told_from_what_it_names_by_the_same_number(way):
    rng = rng_for(0, "open answers", way)
    made = replace(head(rng.standard_normal((way, 8)), 0.5), limit=Limit(0.5, 1.5))
    embeddings = rng.standard_normal((60, 8)).astype(np.float32)
    raw = np.array([answer(made, e[None]) for e in embeddings], np.int32)
    verdicts = [made.verdict(e) for e in embeddings]
    named = [v.state == IDENTIFIED for v in verdicts]
    answers = Answers(raw[None], True)
    assert answers.named.tolist() == named and (way > 2 or 0 < sum(named) < 60)
    assert answers.after.tolist() == [v.label for v in verdicts]
    assert answers.confidence == pytest.approx([v.confidence for v in verdicts], abs=3e-6)


def test_an_adaptation_answers_as_its_delta_does_afterwards():
    report = adapt(toy_network(), toy_episode(), Budget(2**22), "last_layer")
    found = Predictor(report.network, report.delta).probabilities(report.episode.query)
    rows = report.to_json()["queries"]
    assert [report.episode.class_names.index(row["after"]) for row in rows] == found.argmax(axis=1).tolist()
    assert [row["confidence"] for row in rows] == pytest.approx(found.max(axis=1), abs=1e-4)
    assert [row["name"] for row in rows] == list(report.episode.query.names)
