"""The backbone in the package: its file, its card, and the domains that it was not trained on."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from published import published_file

from tinytrain.backbones.catalogue import BACKBONES, SHIPPED, SOUND
from tinytrain.backbones.load import load_backbone
from tinytrain.backbones.sound import OURS
from tinytrain.datasets import DOMAINS, open_dataset, sample_episode
from tinytrain.datasets.calibration import calibration_images
from tinytrain.datasets.generated.sounds import WORDS, sounds
from tinytrain.datasets.generated.speech import speech
from tinytrain.meta.bench.episode import run_episode
from tinytrain.meta.bench.sampler import Entry
from tinytrain.meta.training.recipe import load_recipe
from tinytrain.network.file import encode_network
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.pipeline.adapt import adapt
from tinytrain.runtime.calibrate import calibrated_network
from tinytrain.runtime.embedder import Embedder
from tinytrain.runtime.predict import Predictor

WRITTEN = {  # sha256 of the files
    "tinytrain-small-2": "2b4135b7895fd1c8737afa473dbf26daa619f585e1369fc6ab48b37455937a2e",
    "tinytrain-small": "177f464935b6d3f113115987db1f3708a0723ec933f54908fa10ef181facc7c1",
    "tinytrain-sound": "7c8a0f3170f36b7802b75ff376c78fd8247ebe341865ab509c692e56341cdd41",
}
STAGES = {"shipped-pretrain": "pretrain", "shipped-meta": "meta-train", "shipped-tasks": "meta-train"}


@pytest.fixture(scope="module")
def shipped():
    return load_backbone(SHIPPED.name)


def test_the_file_is_small_and_int8_and_matches_the_table(shipped):
    assert SHIPPED.path.stat().st_size <= 1_000_000
    assert {w.dtype for w in shipped.weights} == {np.dtype(np.int8)}
    assert (shipped.name, shipped.macs, shipped.input.size) == (SHIPPED.name, SHIPPED.macs, SHIPPED.size)


# Deltas that were published are bound to these: what a network is called by never changes.
DIGESTS = {
    "tinytrain-small-2": "f8dfa461ccaad52a491e12e56468aad6351e09e0a8761d162a9e92de22415086",
    "tinytrain-small": "a56cd2b21398821e2f463244028273a2bb7f53f5c732a6e9936a1161fdfc20e0",
    "tinytrain-sound": "d296f7fc9ab5c77288692291eaa0161bc7dc95412a6864f87bc0339b60b19125",
    "mcunet-5fps": "bd820f55c4246c68973ebcbc256acce445fa23170a22aed3f41c3309afa99061",
    "mbv2-w0.35": "4c36786faf264c8657aeac6977a3768b7a600aab4871e713f7fca4370abe351a",
    "proxyless-w0.3": "32cd25ea9a93b5b5c4c409269a2141b4348e75e50c62dc55f3333c8ead0533c9",
}


@each("name", DIGESTS)
def test_the_digest_of_a_published_network_never_changes(name):
    network = load_backbone(name if not BACKBONES[name].is_published else published_file(name))
    assert network.digest == DIGESTS[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_shipped_network_is_written_to_the_same_bytes_as_ever(name):
    assert hashlib.sha256(encode_network(load_backbone(name))).hexdigest() == WRITTEN[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_shipped_network_can_run_in_int8(name):
    assert int8_obstacle(load_backbone(name)) is None


@pytest.mark.slow
def test_the_codes_of_the_shipped_network_are_those_that_calibration_finds(shipped):
    again = calibrated_network(replace(shipped, quantisation=None), calibration_images()).quantisation
    for ours, found in zip(shipped.quantisation.outputs, again.outputs, strict=True):
        # Other processors sum in another order.
        assert ours.scale == pytest.approx(found.scale, rel=0.01) and abs(ours.zero - found.zero) <= 1


@pytest.mark.parametrize("row, stages", [(SHIPPED, STAGES), (SOUND, {"sound": "pretrain"})])
def test_the_model_card_belongs_to_the_file(row, stages):
    card = row.path.with_suffix(".md").read_text()
    assert WRITTEN[row.name] in card and DIGESTS[row.name] in card
    assert all(f"tinytrain {kind} {name}" in card for name, kind in stages.items())


def test_the_encoder_of_sound_is_small_enough_for_a_microcontroller_that_listens_all_the_time():
    network = load_backbone(SOUND.name)
    seconds = OURS.samples(network.input.shape[0]) / OURS.sampling_rate
    assert (network.digest, network.macs, network.input.size) == (SOUND.digest, SOUND.macs, SOUND.size)
    assert network.macs / seconds < 25e6 and SOUND.path.stat().st_size <= 400_000
    assert Embedder(network).arena <= 512_000


def test_no_encoder_is_trained_on_the_words_and_sounds_that_it_is_judged_and_tried_by():
    recipe = load_recipe("sound", "pretrain")
    trained = {source.data: range(*source.classes) for source in recipe.sources}
    apart = {"sounds": [*sounds.usual, *WORDS.values()], "speech": [*speech.usual]}
    chosen = {domain.data: range(*domain.classes) for domain in recipe.validate.domains}
    for name, classes in apart.items():
        assert not set(trained[name]) & {*classes, *chosen[name]}
        assert not set(chosen[name]) & set({"sounds": sounds, "speech": speech}[name].usual)


@pytest.mark.parametrize("name", STAGES)
def test_the_unseen_domain_is_no_source_of_any_stage(name):
    sources = {source.data for source in load_recipe(name, STAGES[name]).sources}
    assert not sources & set(SHIPPED.unseen) and set(SHIPPED.unseen) <= set(DOMAINS)


@pytest.mark.slow
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
