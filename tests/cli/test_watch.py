"""``tinytrain watch``: a verdict for each image, wherever images come from, and bad words."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import pytest
from commandline import tt
from watching import backbone, photos, rows, session_of, watched

import tinytrain
from tinytrain.stream.session import Settings


def test_every_image_of_a_folder_has_a_verdict_and_the_end_says_how_many(made, place, capsys):
    assert watched(place, place / "d.safetensors", made / "new", "--once") == 0
    out = capsys.readouterr()
    lines = [json.loads(line) for line in out.out.splitlines()]
    assert {row["image"] for row in lines[:-1]} == {str(path) for path in (made / "new").glob("*/*")}
    assert {row["verdict"] for row in lines[:-1]} <= {"identified", "uncertain", "unknown"}
    assert lines[-1]["event"] == "end" and lines[-1]["images"] == 16 and lines[-1]["failed"] == 0
    assert "nothing that is learnt will be kept" in out.err
    assert tt("watch", place / "d.safetensors", made / "new", "--once", *backbone(place)) == 0
    assert len(capsys.readouterr().out.splitlines()) == 16


def test_a_file_of_a_folder_is_opened_once_and_hashed_once(made, place, monkeypatch):
    folder, opened, hashed, sha256 = str(made / "new" / "ant"), [], [], hashlib.sha256

    class Sha256:
        def __init__(self, data=b""):
            self._found = sha256()
            self.update(data)

        def update(self, data):
            hashed.append(bytes(data[:8]) + bytes(data[-8:]) if len(data) else b"")
            self._found.update(data)

        def __getattr__(self, name):
            return getattr(self._found, name)

    def hook(event, words):  # `open` with an opener is told twice, as such and as `os.open`
        if watching and event == "open":
            opened.append((str(words[0]), words[1] is None))

    for path in photos(made, "ant"):
        os.utime(path, (time.time() - 60,) * 2)
    watching = True
    sys.addaudithook(hook)
    monkeypatch.setattr(hashlib, "sha256", Sha256)
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: Sha256(file.read()))
    assert watched(place, place / "d.safetensors", folder, "--once") == 0
    watching = False
    paths = [str(path) for path in photos(made, "ant")]
    assert sorted(path for path, by_system in opened if by_system and path in paths) == paths
    assert sorted(path for path, by_system in opened if not by_system and path in paths) == paths
    ends = [path.read_bytes()[:8] + path.read_bytes()[-8:] for path in photos(made, "ant")]
    assert sum(end in ends for end in hashed) == len(paths)


def test_what_is_no_image_is_named_and_the_next_one_is_looked_at(made, place, capsys):
    (place / "in").mkdir()
    (place / "in" / "broken.png").write_bytes(photos(made, "ant")[0].read_bytes()[:60])
    (place / "in" / "whole.png").write_bytes(photos(made, "ant")[0].read_bytes())
    for path in (place / "in").iterdir():
        os.utime(path, (time.time() - 60,) * 2)
    assert watched(place, place / "d.safetensors", place / "in", "--once") == 3
    out = capsys.readouterr()
    found = [json.loads(line) for line in out.out.splitlines()]
    assert sum("verdict" in row for row in found) == 1 and found[-1]["failed"] == 1
    assert len([line for line in out.err.splitlines() if "broken.png" in line]) == 1


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        ((), 2, "usage"),
        (("{new}", "--command", "true"), 2, "usage"),
        (("{new}", "--null"), 2, "usage"),
        (("-", "--new"), 2, "usage"),
        (("{new}", "--every", "0"), 2, "usage"),
        (("{new}", "--readapt", "maybe"), 2, "usage"),
        (("{new}", "--drift", "maybe"), 2, "usage"),
        (("nothing-here",), 3, "file-missing"),
        (("--command", "exit 1", "--once"), 3, "camera-failed"),
        (("{new}", "--once", "--labels", "{new}"), 3, "labels-unreadable"),
    ],
)
def test_bad_words_end_in_one_line_and_their_own_exit_code(made, place, capsys, words, exit_code, code):
    words = [word.format(new=made / "new" / "ant") for word in words]
    assert tt("watch", place / "d.safetensors", *words, *backbone(place), "-q") == exit_code
    lines = [line for line in capsys.readouterr().err.splitlines() if code in line]
    assert len(lines) == 1


def test_options_of_a_session_are_those_of_the_command(made, place):
    words = ("--drift", "cusum", "--readapt", "auto", "--reject", "60%", "--labels", "l.csv")
    settings = session_of(place, place / "d.safetensors", "new", *words).settings
    assert settings == Settings(0.6, "l.csv", "new", "cusum", "auto", str(place / "toy.safetensors"))


def test_names_come_on_standard_input(made, place, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.write(writing, b"\0".join(os.fsencode(path) for path in photos(made, "bee")))
    os.close(writing)
    saved = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert watched(place, place / "d.safetensors", "-", "--null") == 0
    finally:
        os.dup2(saved, 0)
        for descriptor in (saved, reading):
            os.close(descriptor)
    assert [row["image"] for row in rows(capsys)] == [str(path) for path in photos(made, "bee")]


def test_a_command_gives_an_image_and_it_can_be_corrected_by_its_name(made, place, capsys):
    labels = place / "labels.csv"
    labels.write_text("image 1,+dog\n")
    more = ("--store", place / "store", "--labels", labels, "--once")
    assert watched(place, place / "d.safetensors", "--command", f"cat '{photos(made, 'dog')[0]}'", *more) == 0
    found = capsys.readouterr().out
    assert '"image": "image 1"' in found and '"new_class": true' in found
    assert len(list((place / "store" / "kept" / "dog").iterdir())) == 1


def test_python_watches_a_folder_as_images_come(made, place):
    folder = place / "camera"
    folder.mkdir()
    for number, path in enumerate(photos(made, "cat")):
        (folder / f"{number}.png").write_bytes(path.read_bytes())
        os.utime(folder / f"{number}.png", (time.time() - 60 + number,) * 2)
    found = tinytrain.watch(place / "d.safetensors", folder, place / "toy.safetensors")
    assert [Path(next(found).key).name for _ in range(4)] == ["0.png", "1.png", "2.png", "3.png"]
    found.close()
