"""What the benchmark tests itself by: chance, order in a draw, leaks between support and query."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import Dataset, sample_episode, sample_meta_dataset_episode, samplers
from tinytrain.episode.episode import Episode, Images
from tinytrain.meta.bench.checks import require_apart
from tinytrain.meta.bench.episode import run_episode
from tinytrain.meta.bench.sampler import Entry, Sampler
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.pipeline.toy import toy_images, toy_network

FRAMES, CLASSES, EPISODES = 40, 8, 60  # of the films on which samplers are tried
SIGMAS = 6  # a fair sampler is accused in fewer than one of a million checks
SAMPLERS = {
    "fixed": lambda dataset, index: sample_episode(dataset, 5, 5, 10, 0, index),
    "meta-dataset": lambda dataset, index: sample_meta_dataset_episode(dataset, 0, index, 60),
    "fixed, of a comparison": Sampler().draw,
    "meta-dataset, of a comparison": Sampler("meta-dataset").draw,
}


def frames() -> Dataset:
    """Classes that are films: neighbouring images are near-duplicates. A name is film/frame."""
    labels = np.repeat(np.arange(CLASSES, dtype=np.int32), FRAMES)
    names = tuple(f"{c}/{f}" for c in range(CLASSES) for f in range(FRAMES))
    films = tuple(f"film {c}" for c in range(CLASSES))
    read = lambda i, size: np.full((size, size, 3), 255 * (i % FRAMES) // FRAMES, np.uint8)  # noqa: E731
    return Dataset(name="frames", labels=labels, class_names=films, names=names, read=read)


def order_in_the_draw(sample) -> list[str]:
    """What gives away that ``sample(dataset, index)`` does not shuffle inside a class; empty if it does.

    Two counts over the classes of all draws: images next to each other in the file, of which m out
    of n drawn at random give m (m - 1) / n, and draws that contain a given place, m / n for every place.
    """
    adjacent, expected, drawn, findings = 0, 0.0, np.zeros(FRAMES), []
    for index in range(EPISODES):
        episode, films = sample(frames(), index), {}
        for name in (*episode.support.names, *episode.query.names):
            film, frame = name.split("/")
            films.setdefault(film, []).append(int(frame))
        for places in map(np.array, films.values()):
            adjacent += int((np.diff(np.sort(places)) == 1).sum())
            expected += len(places) * (len(places) - 1) / FRAMES
            drawn[places] += 1
    if adjacent > expected + SIGMAS * math.sqrt(expected):
        findings.append(f"{adjacent} pairs of neighbouring frames, {expected:.0f} by chance")
    chances = drawn.mean()
    if np.abs(drawn - chances).max() > SIGMAS * math.sqrt(chances):
        findings.append(
            f"a place was drawn {drawn.min():.0f} to {drawn.max():.0f} times, {chances:.0f} by chance"
        )
    return findings


def with_random_labels(episode: Episode, seed: int) -> Episode:
    """The same images with labels dealt out at random on either side: nothing can be learned but chance."""

    def dealt(images: Images, side: str) -> Images:
        labels = rng_for(seed, "random labels", side, episode.source).permutation(images.labels)
        return replace(images, labels=labels)

    return replace(episode, support=dealt(episode.support, "support"), query=dealt(episode.query, "query"))


@each("name", SAMPLERS)
def test_our_samplers_show_no_order(name):
    assert order_in_the_draw(SAMPLERS[name]) == []


@each("name", SAMPLERS)
def test_a_sampler_that_does_not_shuffle_inside_a_class_is_caught(name, monkeypatch):
    whole = samplers.shuffled
    classes = len(frames().class_names)
    monkeypatch.setattr(
        samplers, "shuffled", lambda items, rng: whole(items, rng) if len(items) == classes else items
    )
    findings = order_in_the_draw(SAMPLERS[name])
    assert "neighbouring frames" in findings[0] and "was drawn" in findings[1]


def test_a_sampler_that_takes_a_random_run_of_frames_is_caught(monkeypatch):
    """Every place is as likely as any other, and still support and query are one film."""
    monkeypatch.setattr(
        samplers, "shuffled", lambda items, rng: np.roll(items, int(rng.integers(len(items))))
    )
    assert any("neighbouring frames" in finding for finding in order_in_the_draw(SAMPLERS["fixed"]))


def made(groups=None):
    dataset = replace(frames(), groups=groups)
    return dataset, sample_episode(dataset, 3, 4, 6, 1)


def test_support_and_query_of_our_samplers_are_apart():
    thirds = np.arange(len(frames())) // 3
    for groups in (None, thirds.astype(np.int32)):
        dataset = replace(frames(), groups=groups)
        for index in range(30):
            for sample in SAMPLERS.values():
                require_apart(dataset, sample(dataset, index))


def test_a_image_on_both_sides_is_a_leak():
    dataset, episode = made()
    leaking = replace(episode, query=episode.support)
    with pytest.raises(InputError, match="12 images were drawn twice") as caught:
        require_apart(dataset, leaking)
    assert caught.value.code == "bad-value"


def test_a_group_on_both_sides_is_a_leak():
    _, episode = made()
    dataset = replace(frames(), groups=np.zeros(len(frames()), np.int32))
    with pytest.raises(InputError, match="1 groups are on both sides") as caught:
        require_apart(dataset, episode)
    assert caught.value.code == "bad-value"


def test_images_without_names_of_their_own_cannot_be_told_apart():
    _, episode = made()
    nameless = replace(frames(), names=("x",) * len(frames()))
    with pytest.raises(InputError, match="320 images with 1 names"):
        require_apart(nameless, episode)


def toy_dataset():
    """Ten classes of toy images that any network tells apart, twelve of each."""
    labels = np.repeat(np.arange(10, dtype=np.int32), 12)
    looks = toy_images(labels, 0)
    names = tuple(f"toy/{i}" for i in range(len(labels)))
    return Dataset("toy", labels, tuple("abcdefghij"), names, looks.read)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["none", "tinytrain"])
def test_random_labels_give_chance_and_true_labels_more(policy):
    network, dataset, rows = toy_network(), toy_dataset(), {"true": [], "random": []}
    for k in range(12):
        episode = sample_episode(dataset, 5, 3, 8, 0, k)
        for kind, shown in (("true", episode), ("random", with_random_labels(episode, k))):
            rows[kind].append(run_episode(network, shown, Entry("x", policy), k)["accuracy"]["after"])
    chance, learned = mean_interval(rows["random"]), mean_interval(rows["true"])
    assert abs(chance.mean - 0.2) <= 1.5 * chance.half < 0.08
    assert learned.mean - learned.half > 0.4


@pytest.mark.slow
def test_the_rate_of_an_entry_is_the_rate_of_its_run():
    network, episode = toy_network(), sample_episode(toy_dataset(), 5, 3, 8, 0, 0)
    still, usual, far_too_high = (
        run_episode(network, episode, Entry("x", "full", scale), 0)["accuracy"] for scale in (1e-9, 1, 1e3)
    )
    assert still["after"] == still["before_cosine"] < usual["after"]
    assert far_too_high["after"] < usual["after"]
