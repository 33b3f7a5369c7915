"""Generated sounds and words: the same bytes again, clips that belong together, and voices kept apart."""

import shutil
import subprocess

import numpy as np
import pytest

from tinytrain.backbones.sound import OWN
from tinytrain.base.errors import InputError
from tinytrain.datasets import open_dataset
from tinytrain.datasets.generated import speech as words
from tinytrain.datasets.generated.sounds import (
    BLOCK,
    BLOCKS,
    RATE,
    RHYTHMS,
    SOURCES,
    sound,
    sounds,
    wav_bytes,
)
from tinytrain.datasets.generated.speech import HALVES, spoken, word
from tinytrain.episode.wav import parsed, samples_of

speaks = pytest.mark.skipif(not shutil.which("espeak-ng"), reason="espeak-ng is not installed")


def test_a_clip_is_the_same_bytes_again_and_another_one_for_another_number_or_seed():
    clips = [wav_bytes(sound(*what)) for what in ((3, 0), (3, 0), (3, 1), (3, 0, 1), (4, 0))]
    assert clips[0] == clips[1] and len(set(clips)) == 4


def test_every_block_has_clips_of_half_a_second_to_two_that_are_loud_and_finite():
    assert len(set(BLOCKS)) == len(SOURCES) * len(RHYTHMS) == sounds.n_classes // BLOCK
    for number in range(0, sounds.n_classes, BLOCK):
        file = parsed(wav_bytes(sound(number, 0)))
        samples = samples_of(file)
        assert file.rate == RATE and 0.4 * RATE <= len(samples) <= 2 * RATE
        assert np.abs(samples).max() == pytest.approx(0.9, abs=1e-3) and samples.std() > 0.005


def told_apart(dataset, per_class: int) -> float:
    """How many clips lie nearest to the mean of others of their class, by two numbers of each bin."""
    items = np.stack([dataset.read(i, OWN)[..., 0] for i in range(len(dataset))]).astype(float)
    seen = np.concatenate([items.mean(axis=1), items.std(axis=1)], axis=1)
    seen = seen.reshape(dataset.n_classes, per_class, -1)
    means = (seen.sum(axis=1, keepdims=True) - seen) / (per_class - 1)
    others = seen.mean(axis=1)
    right = 0
    for c in range(dataset.n_classes):
        for k in range(per_class):
            places = others.copy()
            places[c] = means[c, k]
            right += np.linalg.norm(places - seen[c, k], axis=1).argmin() == c
    return right / len(dataset)


def test_clips_of_a_class_are_alike_and_those_of_others_are_not():
    dataset = open_dataset("sounds")
    few = sounds(range(0, 1600, 160), per_class=4)
    assert dataset.kind == few.kind == "sound" and told_apart(few, 4) > 0.5


def test_words_are_as_many_as_are_asked_for_and_stay_what_they_are():
    assert len({word(c)[0] for c in range(1000)}) > 950
    assert word(7) == word(7) and {len(word(c)[1]) for c in range(20)} == {1, len(words.ENGLISH)}


@speaks
def test_a_word_is_spoken_by_other_voices_if_the_seed_is_odd(monkeypatch):
    assert not set(HALVES[0]) & set(HALVES[1])
    heard, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda line, **more: heard.append(line[2]) or run(line, **more))
    clips = [spoken(5, k, seed) for seed in (0, 1) for k in range(3)]
    assert [voice.split("+")[1] in HALVES[k // 3] for k, voice in enumerate(heard)] == [True] * 6
    assert spoken(5, 0) == clips[0] and len(set(clips)) == 6
    assert parsed(clips[0]).rate == RATE and len(samples_of(parsed(clips[0]))) > RATE / 10


def test_without_the_program_that_speaks_its_name_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="apt-get install espeak-ng") as caught:
        spoken(0, 0)
    assert caught.value.code == "package-missing"
