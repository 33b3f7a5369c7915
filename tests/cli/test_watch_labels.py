"""Corrections of ``tinytrain watch``, typed, in a file or by Python: learnt once, replaced and taken back."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from watching import CLASSES, backbone, photos, rows, session_of, watched

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.store import Store
from tinytrain.stream.sources import Frame


def test_corrections_are_learnt_once_and_known_after_a_restart(made, place, capsys):
    labels, words = place / "labels.csv", (place / "d.safetensors", made / "new")
    labels.write_text("".join(f"{path},+dog\n" for path in photos(made, "dog")[:3]))
    more = ("--store", place / "store", "--labels", labels, "--once")
    assert watched(place, *words, *more) == 0
    learnt = rows(capsys, "correction")
    assert [row["new_class"] for row in learnt] == [True, False, False]
    assert all(row["class"] == "dog" and 0 < row["seconds"] < 1 for row in learnt)
    assert watched(place, *words, *more) == 0
    assert rows(capsys, "correction") == []
    start = Store(place / "store").peek()
    assert start.delta.class_names == (*CLASSES, "dog") and len(start.journal) == 3 and start.confirmed
    assert watched(place, place / "store", made / "new" / "dog", "--once") == 0
    seen = rows(capsys)
    assert sum(row["best_guess"] == "dog" for row in seen) >= 3
    kept = place / "store" / "kept" / "dog"
    assert len(list(kept.iterdir())) == 3


@pytest.mark.parametrize("source", ["new/dog", "{place}/new/dog", "link"])
def test_a_label_names_an_image_by_any_path_that_leads_to_it(made, place, capsys, monkeypatch, source):
    """Absolutely or not, whatever the folder is called that is watched: it is the same image, learnt once.

    That holds if it is gone since it was looked at.
    """
    shutil.copytree(made / "new", place / "new")
    (place / "link").symlink_to(place / "new" / "dog")
    monkeypatch.chdir(place)
    last = photos(place, "dog")[-1]
    names = (last, os.path.relpath(last), f"new/dog/{last.name}", f"./link/{last.name}", last.name)
    (place / "labels.csv").write_text("".join(f"{name},ant\n" for name in names))
    source = source.format(place=place)
    session = session_of(place, "d.safetensors", source, "--labels", "labels.csv", "--json")
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        session.look_at(Frame(path, path))
    last.unlink()
    session.correct()
    said = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if "event" in row]
    assert [(row["event"], row["class"]) for row in said] == [("correction", "ant")]
    assert len(names) == 5 and session.watcher.learner.delta.class_names == CLASSES


def test_lines_of_a_label_file_that_cannot_be_learnt_are_named_and_the_others_are(made, place, capsys):
    labels, (ant, other, *_) = place / "labels.csv", photos(made, "ant")
    labels.write_text(
        f"nonsense\nno-such-image.png,ant\n{ant},+{'x' * 3000}\n{other},bea\n{ant},q\n{ant},bee\n"
    )
    words = (place / "d.safetensors", made / "new", "--labels", labels, "--store", place / "store", "--once")
    assert watched(place, *words) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    errors = [row["code"] for row in found if row.get("event") == "error"]
    assert errors == [
        "labels-unreadable",
        "file-missing",
        "class-names",
        "labels-unreadable",
        "unknown-class",
    ]
    assert [row["class"] for row in found if row.get("event") == "correction"] == ["bee"]


class Terminal:
    """`tinytrain watch` of a folder in a terminal; `said` has all lines of both outputs so far."""

    def __init__(self, place, folder):
        self.terminal, slave = pty.openpty()
        words = [
            sys.executable,
            "-m",
            "tinytrain",
            "watch",
            place / "d.safetensors",
            folder,
            *backbone(place),
        ]
        words += ["--store", place / "store", "--every", "0.1"]
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        os.close(slave)
        self.said = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        os.close(self.terminal)

    def until(self, text):
        """The first line from here on that has `text`."""
        for line in self.process.stdout:
            self.said.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not said: {self.said}")

    def type(self, line, answer):
        os.write(self.terminal, f"{line}\n".encode())
        return self.until(answer)


def test_a_terminal_says_what_can_be_typed_and_does_it(made, place):
    with Terminal(place, made / "new" / "dog") as shown:
        shown.until(
            "for the last image type its class or number, Enter if it is right, +NAME for a new class, u"
        )
        shown.until("1 ant, 2 bee, 3 cat")
        last = Path([shown.until(".png") for _ in photos(made, "dog")][-1].split()[0]).name
        shown.type("dog", "no class 'dog'; +dog is a new class")
        shown.type("an", "did you mean ant? Type it in full, or +an for a new class")
        assert last in shown.type("2", "bee, learnt")
        assert last in shown.type("+dog", "new class: dog, learnt, in place of bee")
        assert last in shown.type("u", "taken back: dog, it is bee again")
        shown.type("+dog", "dog, learnt")
        shown.type("undo", "taken back: dog")
        shown.type("u", "taken back: bee")
        shown.type("u", "no label to take back")
        shown.type("help", "1 ant, 2 bee, 3 cat")
        shown.type("cat", "cat, learnt")
        shown.type("q", "4 images, 0 unreadable, 4 corrections learnt, 3 taken back")
        assert shown.process.wait() == 0
    start = Store(place / "store").peek()
    assert start.delta.class_names == CLASSES and start.delta.report["watched"]["corrections"] == {"cat": 1}
    assert [path.parent.name for path in (place / "store" / "kept").glob("*/*")] == ["cat"]


def test_a_line_that_is_typed_before_the_first_image_corrects_nothing(made, place, capsys):
    session = session_of(place, place / "d.safetensors", made / "new")
    session.correct(["", "2", "+dog", "u"])
    said = capsys.readouterr().err
    assert said.count("there is no image to correct yet") == 3 and said.count("no label to take back") == 1
    assert not session.over and session.counts["corrections"] == 0


def test_only_the_last_images_are_held_and_of_these_few_as_bytes(made, place, monkeypatch):
    monkeypatch.setattr("tinytrain.stream.watcher.RECENT", 3)
    monkeypatch.setattr("tinytrain.stream.watcher.RECENT_BYTES", 1)
    watcher = tinytrain.Watcher(place / "d.safetensors", place / "toy.safetensors")
    for number, path in enumerate(photos(made, "dog")):
        watcher.observe(f"frame {number}", path.read_bytes())
    with pytest.raises(InputError, match="frame 0 is none of the last 3 images and no file"):
        watcher.correct("frame 0", "ant")
    assert [recent.image is not None for recent in watcher._recent.values()] == [False, False, True]
    assert watcher.correct("frame 1", "dog", new=True).new, "its embedding is held"


def test_labels_of_a_file_can_be_replaced_and_taken_back_while_no_image_comes(made, place, capsys):
    (place / "empty").mkdir()
    labels, paths = place / "labels.csv", photos(made, "dog")
    words = (
        place / "d.safetensors",
        place / "empty",
        "--store",
        place / "store",
        "--labels",
        labels,
        "--once",
    )

    def events(text):
        labels.write_text(text)
        assert watched(place, *words) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [(row.get("event"), row.get("class"), row.get("before")) for row in found[:-1]]

    assert events(f"{paths[0]},2") == [("correction", "bee", None)]  # without a line break at the end
    assert events(f"{paths[0]},bee\n") == []  # in other words
    assert events(f"{paths[0]},cat\n{paths[1]},ant\n") == [
        ("correction", "cat", "bee"), ("correction", "ant", None),
    ]  # fmt: skip
    assert events(f"{paths[1]},ant\n") == []  # a line that is gone takes nothing back
    assert events(f"{paths[1]},ant\n{paths[0]},cat\n{paths[0]},undo\n") == [("undo", "bee", "cat")]
    assert events("") == []
    tinytrain.Watcher(place / "store", place / "toy.safetensors").rename("bee", "wasp")
    assert events(f"{paths[0]},2\n{paths[1]},ant\n{paths[0]},wasp\n") == []
    assert events(f"{paths[2]},bee\n") == [("error", "bee", None)]
    head = tinytrain.Watcher(place / "store", place / "toy.safetensors").learner.delta.head
    never = tinytrain.Watcher(place / "d.safetensors", place / "toy.safetensors")
    for path, name in ((paths[0], "bee"), (paths[1], "ant")):
        never.correct(str(path), name)
    assert all(
        np.array_equal(a, b) for a, b in zip(head.arrays(), never.learner.delta.head.arrays(), strict=True)
    )


def test_a_label_that_was_typed_later_is_not_replaced_by_its_old_line_after_a_restart(made, place, capsys):
    labels, path = place / "labels.csv", photos(made, "dog")[0]
    labels.write_text(f"{path},bee\n")
    words = (place / "d.safetensors", made / "new", "--store", place / "store", "--labels", labels, "--once")
    assert watched(place, *words) == 0
    tinytrain.Watcher(place / "store", place / "toy.safetensors").correct(str(path), "cat")
    path_gone = place / "gone.png"
    labels.write_text(f"{path},bee\n{path_gone},bee\n")
    path_gone.write_bytes(photos(made, "dog")[1].read_bytes())
    assert watched(place, *words) == 0
    path_gone.unlink()
    capsys.readouterr()
    assert watched(place, *words) == 0
    out = capsys.readouterr()
    assert 'correction"' not in out.out and "file-missing" not in out.err
    assert Store(place / "store").peek().delta.report["watched"]["corrections"] == {"cat": 1, "bee": 1}


def test_python_watches_corrects_renames_and_forgets(made, place):
    store = Store(place / "store")
    store.commit_file(place / "d.safetensors")
    store.confirm()
    watcher = tinytrain.Watcher(place / "store", place / "toy.safetensors")
    paths = photos(made, "dog")
    seen = list(watcher.watch(map(str, paths)))
    assert [one.key for one in seen] == list(map(str, paths))
    with pytest.raises(InputError, match="unknown-class"):
        watcher.correct(str(paths[0]), "dog")
    done = watcher.correct(str(paths[0]), "dog", new=True)
    assert done.new and done.guess == seen[0].guess and done.seconds > 0
    assert watcher.correct(str(paths[0]), "dog").repeated
    copy = place / "copy.png"
    copy.write_bytes(paths[0].read_bytes())
    assert watcher.correct(str(copy), "dog").repeated, "the same image by another name"
    done = watcher.correct(str(copy), "ant")
    assert (done.before, done.replaced) == ("dog", True) and watcher.class_names == CLASSES
    done = watcher.undo()
    assert (done.before, done.name) == ("ant", "dog") and watcher.class_names == (*CLASSES, "dog")
    watcher.rename("dog", "hound")
    watcher.forget("ant")
    again = tinytrain.Watcher(place / "store", place / "toy.safetensors")
    assert again.class_names == ("bee", "cat", "hound") == watcher.class_names
    assert [one.guess for one in again.watch(paths)] == [one.guess for one in watcher.watch(paths)]
