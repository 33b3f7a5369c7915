"""Words in a stream of sound: the window against decoded clips, the rate of mistakes, a fake ``arecord``."""

import os
import stat
import wave
from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import chi2
from waves import clip, wav

from tinytrain.base.errors import InputError
from tinytrain.base.events import Note
from tinytrain.episode.logmel import HTK, SLANEY, LogMel
from tinytrain.episode.sound import SoundKind, Window
from tinytrain.episode.wav import wav_of
from tinytrain.network.input_spec import InputSpec
from tinytrain.stream import arriving, microphone
from tinytrain.stream.listening import Ear, Rate, Trigger, threshold_for
from tinytrain.stream.microphone import file_samples, frames, sound_of

RATE = 16_000
HTK_LOG = LogMel(RATE, 512, 400, 320, 125.0, 7500.0, 1.0, HTK, False, 0.001, 0.0, 1.0, -6.9, 4.0)
DECIBELS = LogMel(RATE, 512, 400, 160, 60.0, 3800.0, 2.0, SLANEY, True, 1e-10, 80.0, 32768.0, 0.0, 120.0)


def spec_of(settings, rows=64):
    return InputSpec((rows, 16, 1), "uint8", 127.5, 0.02, kind="sound", parameters=asdict(settings))


def pcm(samples):
    return np.rint(np.clip(samples, -1, 1) * 32767).astype(np.int16)


def quiet(seconds, seed=0):
    return np.random.default_rng(seed).normal(0, 0.003, round(seconds * RATE))


@pytest.mark.parametrize("settings", [HTK_LOG, DECIBELS], ids=["log", "decibels"])
def test_a_window_shows_what_a_file_of_its_samples_shows_however_they_come(settings):
    spec, rng = spec_of(settings), np.random.default_rng(3)
    stream = pcm(np.concatenate([quiet(0.4), clip(0, 1), quiet(0.3), clip(1, 2), quiet(0.2), clip(2, 5)]))
    whole, parts = Window(spec), Window(spec)
    compared = 0
    for end in range(6400, len(stream), 6400):
        whole.add(stream[end - 6400 : end])
        cuts = np.sort(rng.integers(0, 6400, 5))
        for part in np.split(stream[end - 6400 : end], cuts):
            parts.add(part)
        item = whole.item()
        read = SoundKind().decode(wav_of(whole.samples(), RATE), spec)
        assert (parts.item() == item).all() and parts.end == whole.end == end
        assert (item == read).all()
        compared += 1
    assert compared > 4


def test_a_window_goes_back_to_the_last_pause():
    spec = spec_of(HTK_LOG)
    first, second = 0.5 * np.sin(np.arange(4000)), 0.5 * np.sin(0.3 * np.arange(6400))
    window = Window(spec)
    window.add(pcm(np.concatenate([quiet(0.5), first, quiet(0.25), second, quiet(0.2)])))
    shown = window.samples()
    assert abs(len(shown) - 6400) < 3500, "the second sound, and a little around it"
    spectrum = np.abs(np.fft.rfft(shown.astype(float)))
    assert np.argmax(spectrum) / len(shown) * 2 * np.pi == pytest.approx(0.3, abs=0.01)
    window.add(pcm(quiet(3.0)))
    assert len(window.samples()) > 64 * 320 - 400, "without a sound, all that there is room for"


def loudness(item):
    """Logits of a toy head: how loud high sounds of the item are, against a background of 0."""
    return np.array([float(item[:, 8:].max()) - 200, 0.0])


def ear_of():
    return Ear(spec_of(HTK_LOG), loudness, lambda logits: float(logits[0] - logits[1]), 0.24)


def test_a_word_is_given_once_and_at_most_half_a_second_after_its_end():
    times = np.arange(RATE // 2) / RATE
    word = 0.7 * np.sin(2 * np.pi * 3000 * times)
    starts, parts, at = [], [], 0
    for number, gap in enumerate((1.1, 2.03, 2.5, 3.17)):
        parts += [quiet(gap, number), word]
        at += round(gap * RATE) + len(word)
        starts.append(at)
    stream = pcm(np.concatenate([*parts, quiet(2)]))
    for size in (777, 40_000):
        ear, trigger, ends = ear_of(), Trigger(0.0, ear_of().rest), []
        for first in range(0, len(stream), size):
            ends += [
                end for end, score in ear.hear(stream[first : first + size]) if trigger.fires(end, score)
            ]
        assert len(ends) == len(starts), "each word once, however blocks are cut"
        late = (np.array(ends) - starts) / RATE
        assert late.max() <= 0.5 and late.min() > -0.5


def test_a_rate_has_the_interval_of_poisson():
    for count in (0, 1, 4, 30):
        low, high = Rate(count, 2.0).interval
        assert high == pytest.approx(chi2.ppf(0.975, 2 * count + 2) / 4, rel=0.02)
        assert low == pytest.approx(chi2.ppf(0.025, 2 * count) / 4 if count else 0, rel=0.1, abs=0.02)


def test_the_threshold_lets_as_many_mistakes_pass_as_are_asked_for_and_is_never_below_the_least():
    loud = [0.02, 0.05, 0.1, 0.2, 0.4]
    tone = np.sin(2 * np.pi * 3000 * np.arange(RATE // 2) / RATE)
    stream = pcm(np.concatenate([part for x in loud for part in (quiet(2.5), x * tone)] + [quiet(1)]))
    hours = (len(stream) // 3840) * 3840 / RATE / 3600
    for allowed in (0, 1, 3):
        threshold, rate = threshold_for(ear_of(), [stream], 0.0, (allowed + 0.5) / hours)
        assert rate.count == allowed and rate.hours == pytest.approx(hours)
        trigger = Trigger(threshold, ear_of().rest)
        assert sum(trigger.fires(*hop) for hop in ear_of().hear(stream)) == allowed
    assert threshold_for(ear_of(), [stream], 1e6, 1.0) == (1e6, Rate(0, hours))
    with pytest.raises(InputError, match=r"too-few-images: the background ends"):
        threshold_for(ear_of(), [stream[:100]], 0.0, 1.0)


def test_a_file_of_any_length_is_a_stream_and_another_form_is_refused_with_the_command_that_makes_it(
    tmp_path,
):
    path = tmp_path / "long.wav"
    samples = np.arange(100_000).astype(np.int16)
    path.write_bytes(wav_of(samples, RATE))
    assert (np.concatenate([*file_samples(str(path), RATE)]) == samples).all()
    path.write_bytes(wav_of(samples, RATE)[:-3])  # as a download that was cut off
    assert (np.concatenate([*file_samples(str(path), RATE)]) == samples[:-2]).all()
    for content in (wav(clip(0, 1), 8_000), wav(clip(0, 1), bits=24), b"RIFF", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"image-unreadable: .*ffmpeg -i FROM -ac 1 -ar 16000"):
            [*file_samples(str(path), RATE)]


@pytest.fixture
def arecord(tmp_path, monkeypatch):
    """Writes an `arecord` that runs a shell script, in which $N counts its runs from 1."""

    def made(script):
        path = tmp_path / "bin" / "arecord"
        path.parent.mkdir(exist_ok=True)
        count = tmp_path / "count"
        path.write_text(f'#!/bin/sh\necho "$*" >> {count}\nN=$(wc -l < {count})\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return count

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return made


def test_a_microphone_that_is_unplugged_is_said_once_and_comes_back(arecord, tmp_path):
    (tmp_path / "a.raw").write_bytes(np.arange(3000, dtype="<i2").tobytes())
    count = arecord(
        f"if [ $N -lt 2 ] || [ $N -gt 3 ]; then cat {tmp_path}/a.raw; fi; echo it is gone >&2; exit 1"
    )
    heard, notes, waits = [], [], []
    for block in sound_of("hw:1", RATE, waits.append):
        if isinstance(block, Note):
            notes.append(block.words())
        elif block is not None:
            heard.append(block)
        if len(np.concatenate([np.empty(0), *heard])) == 6000:
            break
    assert (np.concatenate(heard) == [*range(3000)] * 2).all()
    assert notes == [
        "microphone hw:1 gives no sound (it is gone); it is tried again",
        "microphone hw:1 is back",
    ]
    assert len(waits) == 3 and "-D hw:1" in count.read_text() and "-r 16000" in count.read_text()


def test_a_microphone_that_stalls_is_started_again(arecord, tmp_path, monkeypatch):
    monkeypatch.setattr(arriving, "STALLED", 0.3)
    arecord("if [ $N = 1 ]; then printf aabb; sleep 60; fi; printf ccdd; sleep 60")
    said = []
    for block in sound_of("default", RATE, lambda seconds: None):
        said += [block.words()] if isinstance(block, Note) else [] if block is None else [len(block)]
        if said.count(2) == 2:
            break
    assert said == [2, "microphone default gives no sound (no sound for 0 seconds); it is tried again",
                    "microphone default is back", 2]  # fmt: skip


def test_samples_are_whole_however_a_pipe_cuts_their_bytes():
    data = np.arange(500, dtype="<i2").tobytes()
    blocks = [data[:3], None, data[3:4], data[4:501], data[501:]]
    found = [*microphone._samples(iter(blocks))]
    assert found[1] is None
    assert (np.concatenate([block for block in found if block is not None]) == np.arange(500)).all()


def test_a_microphone_that_never_gave_a_sound_is_an_error(arecord, tmp_path, monkeypatch):
    arecord("echo no such device >&2; exit 1")
    with pytest.raises(
        InputError, match=r"camera-failed: microphone hw:9: no such device; 'arecord -L' names"
    ):
        [*sound_of("hw:9", RATE, lambda seconds: None)]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"camera-failed: arecord cannot be run .* install alsa-utils"):
        [*sound_of("hw:9", RATE)]


def test_the_words_of_a_stream_are_frames_that_can_be_kept_as_files(tmp_path):
    word = pcm(0.7 * np.sin(2 * np.pi * 3000 * np.arange(RATE // 2) / RATE))
    sound = [pcm(quiet(1)), None, Note("a note"), word, pcm(quiet(1))]
    found = [*frames(iter(sound), ear_of(), Trigger(0.0, ear_of().rest))]
    (frame,) = (one for one in found if one is not None and not isinstance(one, Note))
    assert [one.words() for one in found if isinstance(one, Note)] == ["a note"] and found.count(None) == 4
    assert frame.name.endswith(" s") and 1 < float(frame.name[:-2]) < 2
    (tmp_path / "kept.wav").write_bytes(frame.content)
    with wave.open(str(tmp_path / "kept.wav")) as file:
        assert file.getframerate() == RATE and file.getnframes() > 2000
