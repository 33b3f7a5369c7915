"""Folders of WAV files, from the first adaptation to a stream, with a toy encoder."""

import json
import os
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
from commandline import tt
from toyfiles import write_images
from watching import CLASSES
from waves import clip, wav, write_clips, write_encoder

import tinytrain
from tinytrain.cli.commands import watch
from tinytrain.cli.main import parser_of
from tinytrain.datasets import calibration
from tinytrain.stream.session import About


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Clips of three classes, an encoder for them, and what `adapt` makes of both."""
    root = tmp_path_factory.mktemp("sound")
    write_clips(root / "clips", range(6), CLASSES)
    write_clips(root / "more", range(20, 23), CLASSES)
    backbone = ("--backbone", write_encoder(root / "net.safetensors"))
    made = SimpleNamespace(root=root, backbone=backbone, delta=root / "d.safetensors")
    words = "--budget 300kB --policy full --queries 2 --force --report"
    assert tt("adapt", root / "clips", *backbone, *words.split(), root / "r.html", "--out", made.delta) == 0
    return made


def test_clips_are_adapted_to_and_shown_as_spectrograms(made):
    page = (made.root / "r.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= 12 and "Support clips" in page


def test_clips_of_any_form_are_recognised_and_what_is_none_is_named(made, tmp_path, capsys):
    predictor = tinytrain.Predictor(delta=made.delta)
    right = []
    for label, name in enumerate(CLASSES):
        for number in range(30, 34):
            samples = clip(label, number, 48_000)
            files = (
                wav(samples, 48_000),
                wav(np.stack([samples, samples], axis=1), 48_000, bits=24, extensible=True),
                wav(samples, 48_000, bits=32, form=3),
            )
            (guess,) = {predictor(file).best_guess for file in files}
            right.append(guess == name)
    assert np.mean(right) > 0.6
    (tmp_path / "a.wav").write_bytes(wav(clip(0, 9))[:-100])
    (tmp_path / "b.ogg").write_bytes(b"OggS")
    assert tt("predict", made.delta, tmp_path) == 3
    err = capsys.readouterr().err
    assert "is cut off" in err and "ffmpeg" in err
    assert tt("eval", made.delta, made.root / "more") == 0
    assert "of 9 clips" in capsys.readouterr().out


def test_a_folder_is_checked_and_a_mixture_is_refused(made, tmp_path, capsys):
    assert tt("check", made.root / "clips", *made.backbone) == 0
    assert "of new clips right" in capsys.readouterr().out
    write_images(tmp_path / "both", CLASSES[:1], count=2)
    write_clips(tmp_path / "clips", range(2), CLASSES[1:2])
    os.rename(tmp_path / "clips" / CLASSES[1], tmp_path / "both" / CLASSES[1])
    assert tt("adapt", tmp_path / "both", *made.backbone) == 3
    assert "keep files of one kind in it" in capsys.readouterr().err
    assert tt("adapt", made.root / "clips", "--backbone", "small") == 3
    assert "are clips, and images are needed" in capsys.readouterr().err


def test_an_encoder_is_calibrated_with_clips_and_becomes_c_in_int8(made, tmp_path, capsys):
    net = tmp_path / "int8.safetensors"
    assert tt("calibrate", made.root / "net.safetensors", "--data", made.root / "clips", "-o", net) == 0
    words = ("--shots", "4", "--budget", "200kB", "--precision", "int8", "--backbone", net)
    assert tt("emit", made.root / "clips", *words, "-o", tmp_path / "c") == 0
    assert "3 classes of 4 clips" in capsys.readouterr().out
    assert (tmp_path / "c" / "src" / "sound.c").exists()


def test_a_folder_is_watched_corrected_and_a_class_is_added(made, tmp_path, capsys):
    came, labels = tmp_path / "came", tmp_path / "labels.csv"
    came.mkdir()
    for number in range(4):
        (came / f"{number}.wav").write_bytes(wav(clip(3, number)))
        os.utime(came / f"{number}.wav", (time.time() - 60,) * 2)
    labels.write_text("".join(f"{number}.wav,+dog\n" for number in range(4)))
    words = ("--store", tmp_path / "state", "--labels", labels, "--once", *made.backbone)
    assert tt("watch", made.delta, came, *words) == 0
    said = capsys.readouterr()
    assert "4 clips, 0 unreadable, 4 corrections learnt" in said.out + said.err
    write_clips(tmp_path / "new", range(3), (*CLASSES, "dog"))
    for name in CLASSES:
        shutil.rmtree(tmp_path / "new" / name)
    out = tmp_path / "wide.safetensors"
    assert tt("adapt", "--from", made.delta, "--add", tmp_path / "new", *made.backbone, "--out", out) == 0
    assert "3 clips" in (said := capsys.readouterr().out) and "new.wav" in said


def test_the_same_seed_gives_the_same_bytes_again(made, tmp_path):
    words = ("--budget", "300kB", "--policy", "full", "--force")
    found = []
    for number in range(2):
        out = tmp_path / f"{number}.safetensors"
        assert tt("adapt", made.root / "clips", *made.backbone, *words, "--out", out) == 0
        delta = tinytrain.load_delta(out)
        found.append([s.values.tobytes() for s in delta.slices])
    assert found[0] == found[1] and found[0]


def test_generated_words_are_learnt_with_the_encoder_that_comes_with_the_package(tmp_path, capsys):
    for folder, seed in (("words", 0), ("again", 0), ("new", 1)):
        assert tt("data", "export", "words", tmp_path / folder, "--per-class", "3", "--seed", seed) == 0
    files = {
        f: [p.read_bytes() for p in sorted((tmp_path / f).rglob("*.wav"))] for f in ("words", "again", "new")
    }
    assert files["words"] == files["again"] and not set(files["words"]) & set(files["new"])
    out = tmp_path / "d.safetensors"
    assert tt("adapt", tmp_path / "words", "--policy", "none", "--out", out, "--force") == 0
    assert "--backbone is tinytrain-sound" in capsys.readouterr().err
    assert tt("eval", out, tmp_path / "new", "--json") == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] >= 0.8


def test_an_encoder_is_calibrated_on_generated_clips_and_then_runs_in_int8(made, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "IMAGES", 1)
    network = tmp_path / "int8.safetensors"
    assert tt("calibrate", made.root / "net.safetensors", "-o", network) == 0
    assert tt("adapt", made.root / "clips", "--backbone", network, "--precision", "int8", "--force") == 0


@pytest.fixture(scope="module")
def room(made):
    """The clips again, with what is none of them in a folder beside, and in one with them."""
    room = SimpleNamespace(dir=made.root / "room", delta=made.root / "b.safetensors", whole=made.root / "w")
    write_clips(made.root / "bg", range(12), (*"xyz", "all"))
    os.rename(made.root / "bg" / "all", room.dir)
    shutil.copytree(made.root / "clips", room.whole)
    shutil.copytree(room.dir, room.whole / "background")
    words = ("--background", room.dir, "--shots", 5, "--no-train", "--force", *made.backbone)
    assert tt("adapt", made.root / "clips", *words, "--out", room.delta) == 0
    return room


def test_a_background_is_learnt_whole_and_is_never_an_answer(made, room, tmp_path):
    delta = tinytrain.load_delta(room.delta)
    assert delta.class_names == (*CLASSES, "background") and delta.head.limit.background == 3
    assert delta.report["episode"]["shots"] == [5, 5, 5, 12]
    heard = write_clips(tmp_path / "heard", range(30, 40), (*"xyz", "background"))
    found = tinytrain.Predictor(delta=room.delta)([*(heard / "background").iterdir()])
    assert all(p.name is None for p in found if p.best_guess == "background")
    assert sum(p.name is None for p in found) >= 8
    out = tmp_path / "same.safetensors"
    assert tt("adapt", room.whole, "--shots", 5, "--no-train", "--force", *made.backbone, "--out", out) == 0
    assert tinytrain.load_delta(out).head.limit.least == pytest.approx(delta.head.limit.least, rel=0.5)


REFUSED = {
    "two backgrounds": ("adapt", "{whole}", "--background", "{room}"),
    "one that is not there": ("adapt", "{clips}", "--background", "nowhere"),
    "one beside generated images": ("adapt", "--background", "{room}"),
    "added later": ("adapt", "--from", "{delta}", "--add", "{whole}", "--out", "{out}"),
    "another name for it": ("rename", "{room_delta}", "background", "noise", "--out", "{out}"),
    "its name for another": ("rename", "{delta}", CLASSES[0], "background", "--out", "{out}"),
    "merged": ("merge", "{room_delta}", "{room_delta}", "--out", "{out}"),
    "on a microcontroller": ("emit", "{whole}", "--out", "{out}"),
}


def test_what_a_background_cannot_do_is_refused_in_one_line(made, room, tmp_path, capsys):
    places = {"whole": room.whole, "room": room.dir, "clips": made.root / "clips", "delta": made.delta}
    places |= {"room_delta": room.delta, "out": tmp_path / "out"}
    for what, words in REFUSED.items():
        words = [str(word).format(**places) for word in words]
        network = () if words[0] in ("rename", "merge") else made.backbone
        assert tt(*words, *network) in (2, 3), what
        err = capsys.readouterr().err.splitlines()
        assert "background" in err[-1] and "Traceback" not in err[-1], (what, err)
        assert not (tmp_path / "out").exists(), what


def test_a_correction_to_nothing_is_learnt_and_the_limit_is_forgotten_with_the_background(
    made, room, tmp_path, capsys
):
    came, labels = tmp_path / "came", tmp_path / "labels.csv"
    came.mkdir()
    (came / "0.wav").write_bytes(wav(clip(1, 77)))
    os.utime(came / "0.wav", (time.time() - 60,) * 2)
    labels.write_text("0.wav,background\n")
    words = ("--store", tmp_path / "state", "--labels", labels, "--once", *made.backbone)
    assert tt("watch", room.delta, came, *words) == 0
    assert "1 corrections learnt" in capsys.readouterr().err
    assert tt("forget", tmp_path / "state", CLASSES[0]) == 0
    assert tt("forget", room.delta, "background", "--out", tmp_path / "f.safetensors") == 0
    assert tinytrain.load_delta(tmp_path / "f.safetensors").head.limit is None


def stream_of(*sounds):
    """A WAV file of `sounds`, a second of quiet around each."""
    rng = np.random.default_rng(0)
    return wav(np.concatenate([part for x in (*sounds, ()) for part in (rng.normal(0, 0.003, 24_000), x)]))


def test_words_of_a_stream_are_named_corrected_and_kept_and_mistakes_an_hour_are_said(
    made, room, tmp_path, capsys
):
    heard = tmp_path / "heard.wav"
    heard.write_bytes(stream_of(clip(0, 40), clip(3, 41), clip(1, 42), clip(2, 43)))
    (tmp_path / "bg").mkdir()
    (tmp_path / "bg" / "a.wav").write_bytes(stream_of(clip(3, 50), clip(3, 51)))
    words = (room.delta, "--microphone", heard, "--store", tmp_path / "state", *made.backbone, "--json")
    assert tt("watch", *words, "--background", tmp_path / "bg", "--per-hour", "0") == 0
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    found = [(row["image"], row["class"]) for row in rows if "verdict" in row]
    assert "mistakes: none (95 % interval 0 to " in said.err and "minutes of background" in said.err
    assert {name for _, name in found} <= {*CLASSES, None} and len(found) >= 2
    assert all(place.endswith(" s") for place, _ in found)
    arguments = parser_of("watch")[0].parse([str(word) for word in words])
    session = watch.opened(arguments)
    for frame in watch._frames(arguments, time.sleep, session.watcher):
        if frame is not None:
            session.look_at(frame)
            session.correct([About(frame.name, "background")])
            break
    said = capsys.readouterr()
    assert '"event": "correction"' in said.out and "give --background PATH" in said.err
    kept = [*(tmp_path / "state").rglob("*.wav")]
    assert len(kept) == 1 and kept[0].parent.name == "background"


def test_what_cannot_listen_says_why_in_one_line(made, room, tmp_path, capsys):
    ridge, nowhere = tmp_path / "ridge.safetensors", tmp_path / "no.wav"
    adapt = ("adapt", made.root / "clips", "--head", "ridge", "--no-train", *made.backbone, "--force")
    assert tt(*adapt, "--out", ridge) == 0
    nowhere.write_bytes(b"RIFF")
    (empty := tmp_path / "empty").mkdir()
    for code, what, words in (
        (2, "one of the four", (room.delta, tmp_path, "--microphone")),
        (2, "--background has no effect without --mic", (room.delta, tmp_path, "--background", ".")),
        (2, "--per-hour has no effect without --b", (room.delta, "--per-hour", "1", "--microphone")),
        (2, "such as lda; ridge has none", (ridge, "--microphone", *made.backbone)),
        (3, "ffmpeg -i FROM", (room.delta, "--microphone", nowhere, *made.backbone)),
        (3, "has no WAV file", (room.delta, "--background", empty, "--microphone", *made.backbone)),
    ):
        capsys.readouterr()
        assert tt("watch", *words) == code, words
        err = capsys.readouterr().err.splitlines()
        assert what in err[-1] and "Traceback" not in "".join(err), err
