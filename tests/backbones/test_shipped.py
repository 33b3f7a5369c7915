"""The backbone in the package: its file, its card, and the domains that it was not trained on."""

import hashlib

import numpy as np
import pytest

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.datasets import DOMAINS, open_dataset, sample_episode
from tinytrain.meta.bench.entry import Entry
from tinytrain.meta.bench.episode import run_episode
from tinytrain.meta.training.recipe import load_recipe
from tinytrain.pipeline.adapt import adapt
from tinytrain.runtime.predict import Predictor

STAGES = {"shipped-pretrain": "pretrain", "shipped-meta": "meta-train"}


@pytest.fixture(scope="module")
def shipped():
    return load_backbone(SHIPPED.name)


def test_the_file_is_small_and_int8_and_matches_the_table(shipped):
    assert SHIPPED.path.stat().st_size <= 1_000_000
    assert {w.dtype for w in shipped.weights} == {np.dtype(np.int8)}
    assert (shipped.name, shipped.macs, shipped.preprocessing.size) == (
        SHIPPED.name,
        SHIPPED.macs,
        SHIPPED.size,
    )


def test_the_model_card_belongs_to_the_file(shipped):
    card = SHIPPED.path.with_suffix(".md").read_text()
    assert hashlib.sha256(SHIPPED.path.read_bytes()).hexdigest() in card and shipped.digest in card
    assert all(f"tinytrain {kind} {name}" in card for name, kind in STAGES.items())


@pytest.mark.parametrize("name", STAGES)
def test_the_unseen_domain_is_no_source_of_either_stage(name):
    sources = {source.data for source in load_recipe(name, STAGES[name]).sources}
    assert not sources & set(SHIPPED.unseen) and set(SHIPPED.unseen) <= set(DOMAINS)


def test_it_tells_leaves_apart_before_and_better_after_an_adaptation(shipped):
    leaves = open_dataset("leaves")
    rows = [
        run_episode(shipped, sample_episode(leaves, 5, 5, 10, 3, k), Entry("tinytrain", "tinytrain"), k)[
            "accuracy"
        ]
        for k in range(3)
    ]
    assert np.mean([row["before"] for row in rows]) > 0.35, "chance is 0.2"
    assert np.mean([row["after"] for row in rows]) > np.mean([row["before"] for row in rows])


@pytest.mark.parametrize("shots, far", [(1, 0.25), (5, 0.12)])
def test_its_confidence_is_near_its_accuracy_and_unsure_answers_are_wrong_more_often(shipped, shots, far):
    """Training memorises its images: a temperature fitted to them would be overconfident."""
    leaves = open_dataset("leaves")
    sure, right = [], []
    for k in range(3):
        episode = sample_episode(leaves, 5, shots, 10, 3, k)
        probabilities = Predictor(shipped, adapt(shipped, episode).delta).probabilities(episode.query)
        sure += probabilities.max(axis=1).tolist()
        right += (probabilities.argmax(axis=1) == episode.query.labels).tolist()
    unsure = np.array(sure) < 0.6
    assert abs(np.mean(sure) - np.mean(right)) < far and 0.05 < unsure.mean() < 0.9
    assert np.mean(np.array(right)[unsure]) < np.mean(np.array(right)[~unsure]) - 0.1
