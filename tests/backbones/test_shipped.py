"""The backbone in the package: its file, its card, and the domains that it was not trained on."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from published import published_file

from tinytrain.backbones.catalogue import BACKBONES, SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.datasets import DOMAINS, open_dataset, sample_episode
from tinytrain.datasets.calibration import calibration_images
from tinytrain.meta.bench.episode import run_episode
from tinytrain.meta.bench.sampler import Entry
from tinytrain.meta.training.recipe import load_recipe
from tinytrain.network.file import encode_network
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.pipeline.adapt import adapt
from tinytrain.runtime.calibrate import calibrated_network
from tinytrain.runtime.predict import Predictor

STAGES = {"shipped-pretrain": "pretrain", "shipped-meta": "meta-train", "shipped-tasks": "meta-train"}


@pytest.fixture(scope="module")
def shipped():
    return load_backbone(SHIPPED.name)


def test_the_file_is_small_and_int8_and_matches_the_table(shipped):
    assert SHIPPED.path.stat().st_size <= 1_000_000
    assert {w.dtype for w in shipped.weights} == {np.dtype(np.int8)}
    assert (shipped.name, shipped.macs, shipped.input.size) == (
        SHIPPED.name,
        SHIPPED.macs,
        SHIPPED.size,
    )


# Deltas that were published are bound to these: what a network is called by never changes.
DIGESTS = {
    "tinytrain-small-2": "f8dfa461ccaad52a491e12e56468aad6351e09e0a8761d162a9e92de22415086",
    "tinytrain-small": "a56cd2b21398821e2f463244028273a2bb7f53f5c732a6e9936a1161fdfc20e0",
    "mcunet-5fps": "bd820f55c4246c68973ebcbc256acce445fa23170a22aed3f41c3309afa99061",
    "mbv2-w0.35": "4c36786faf264c8657aeac6977a3768b7a600aab4871e713f7fca4370abe351a",
    "proxyless-w0.3": "32cd25ea9a93b5b5c4c409269a2141b4348e75e50c62dc55f3333c8ead0533c9",
}


@each("name", DIGESTS)
def test_the_digest_of_a_published_network_never_changes(name):
    network = load_backbone(name if not BACKBONES[name].is_published else published_file(name))
    assert network.digest == DIGESTS[name]


@pytest.mark.parametrize(
    "name, written",
    [
        ("tinytrain-small-2", "2b4135b7895fd1c8737afa473dbf26daa619f585e1369fc6ab48b37455937a2e"),
        ("tinytrain-small", "177f464935b6d3f113115987db1f3708a0723ec933f54908fa10ef181facc7c1"),
    ],
)
def test_a_shipped_network_is_written_to_the_same_bytes_as_ever(name, written):
    assert hashlib.sha256(encode_network(load_backbone(name))).hexdigest() == written


@pytest.mark.parametrize("name", ["tinytrain-small-2", "tinytrain-small"])
def test_a_shipped_network_can_run_in_int8(name):
    assert int8_obstacle(load_backbone(name)) is None


@pytest.mark.slow
def test_the_codes_of_the_shipped_network_are_those_that_calibration_finds(shipped):
    again = calibrated_network(replace(shipped, quantisation=None), calibration_images()).quantisation
    for ours, found in zip(shipped.quantisation.outputs, again.outputs, strict=True):
        # Other processors sum in another order.
        assert ours.scale == pytest.approx(found.scale, rel=0.01) and abs(ours.zero - found.zero) <= 1


def test_the_model_card_belongs_to_the_file(shipped):
    card = SHIPPED.path.with_suffix(".md").read_text()
    assert hashlib.sha256(SHIPPED.path.read_bytes()).hexdigest() in card and shipped.digest in card
    assert all(f"tinytrain {kind} {name}" in card for name, kind in STAGES.items())


@pytest.mark.parametrize("name", STAGES)
def test_the_unseen_domain_is_no_source_of_any_stage(name):
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


@pytest.mark.slow
def test_training_shows_in_the_first_job_by_more_than_chance(shipped):
    runs = [sample_episode(open_dataset("meters"), 10, 5, 10, 3, k) for k in range(3)]
    assert all(adapt(shipped, run).to_json()["accuracy"]["difference"][0] > 0 for run in runs)


@pytest.mark.slow
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
