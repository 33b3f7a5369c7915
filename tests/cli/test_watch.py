"""``tinytrain watch``: verdicts for images as they come, corrections that are there after a restart."""

import errno
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commandline import tt
from toyfiles import write_images, write_network

import tinytrain
from tinytrain import store as store_package
from tinytrain.base.errors import InputError
from tinytrain.cli.commands import watch, watch_session
from tinytrain.cli.commands.readaptation import Readaptation
from tinytrain.cli.commands.watch_session import Session
from tinytrain.cli.main import parser_of
from tinytrain.delta.file import encode_delta, load_delta
from tinytrain.delta.forget import forget
from tinytrain.store import Store
from tinytrain.stream import readapt
from tinytrain.stream.readapt import Outcome, is_enough
from tinytrain.stream.sources import Frame

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A network, images of three classes and of a fourth one, and a delta of the three."""
    root = tmp_path_factory.mktemp("watch")
    write_network(root)
    write_images(root / "photos", CLASSES, count=5)
    write_images(root / "new", (*CLASSES, "dog"), count=4, seed=1)
    write_images(root / "more", CLASSES, count=4, seed=2)
    words = ("adapt", root / "photos", *backbone(root), "--policy", "none", "--budget", "400kB")
    assert tt(*words, "--out", root / "d.safetensors", "--force", "-q") == 0
    return root


def backbone(root):
    return ("--backbone", root / "toy.safetensors")


@pytest.fixture
def place(made, tmp_path):
    """A folder of its own with the delta and the network."""
    for name in ("d.safetensors", "toy.safetensors"):
        os.link(made / name, tmp_path / name)
    return tmp_path


def photos(made, name):
    return sorted((made / "new" / name).glob("*"))


def watched(place, *words):
    return tt("watch", *words, *backbone(place), "--json")


def rows(capsys, event=None):
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row for row in found if row.get("event") == event]


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
    assert start.delta.class_names == (*CLASSES, "dog") and start.entries == 3 and start.confirmed
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
    words = ["d.safetensors", source, *backbone(place), "--labels", "labels.csv", "--json"]
    parsed = parser_of("watch")[0].parse([*map(str, words)])
    session = Session(parsed, watch.Opened.of(parsed), None)
    for name in sorted(os.listdir(parsed.source)):
        path = os.path.join(parsed.source, name)
        session.look_at(Frame(path, path))
    last.unlink()
    session.correct()
    said = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if "event" in row]
    assert [(row["event"], row["class"]) for row in said] == [("correction", "ant")]
    assert len(names) == 5 and session.watcher.learner.delta.class_names == CLASSES


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


def opened(place, made, mode, correct=True):
    """A `Readaptation` of what the command opens, and its store; at first 12 images are corrected."""
    words = [place / "d.safetensors", made / "new", "--store", place / "store", "--readapt", mode]
    arguments = parser_of("watch")[0].parse([str(word) for word in (*words, *backbone(place), "-q")])
    found = watch.Opened.of(arguments)
    again = Readaptation(found, arguments)
    for name in CLASSES if correct else ():
        for path in photos(made, name):
            again.note(found.watcher.correct(str(path), name))
    assert not correct or is_enough(found.watcher.learner.delta, found.watcher.kept.counts())
    return again, found.store


def test_a_command_that_adapts_to_the_kept_images_is_proposed_and_works(made, place):
    again, store = opened(place, made, "ask")
    assert list(again.due()) == []  # neither a drift nor enough corrections
    again.wanted = True
    ((row, text),) = again.due()
    assert row["event"] == "readapt" and row["done"] is False and "12 corrected images are kept" in text
    assert list(again.due()) == []
    generation = store.peek().generation
    assert tt(*row["command"][1:], "-q", "--force", "--budget", "400kB") == 0
    assert store.peek().generation > generation


def test_an_adaptation_that_the_guard_refuses_changes_nothing(made, place):
    again, store = opened(place, made, "auto")  # the toy network cannot be trained on so little
    before, again.wanted = encode_delta(store.peek().delta), True
    ((row, text),) = again.due()
    assert not row["done"] and "the network stays as it is" in text
    assert encode_delta(store.peek().delta) == before and store.peek().confirmed


@pytest.mark.parametrize(
    ("before", "after", "taken"), [(0.8, 0.7, False), (0.8, 0.8, True), (0.0, 0.1, True)]
)
def test_what_was_trained_again_is_taken_unless_fewer_held_out_images_are_right(
    made, place, monkeypatch, before, after, taken
):
    delta = load_delta(place / "d.safetensors")
    report, right = SimpleNamespace(guard=SimpleNamespace(accepted=True), delta=delta), iter((before, after))
    monkeypatch.setattr(readapt, "adapt", lambda *_, **__: report)
    monkeypatch.setattr(readapt, "_accuracy", lambda *_: next(right))
    files = [(path, name) for name in CLASSES for path in photos(made, name)]
    outcome = readapt.readapt(None, delta, files)
    assert (outcome.delta is not None) == taken and outcome.images == 3


@pytest.fixture
def trained(place, monkeypatch):
    """Whatever is trained again is the delta of the beginning, with another report."""
    delta = replace(load_delta(place / "d.safetensors"), report={"policy": "another"})
    monkeypatch.setattr("tinytrain.stream.readapt.readapt", lambda *_: Outcome(delta, "better"))
    return delta


def on_trial(place, made):
    """A `Readaptation` whose trial has begun, with its store; the ten images before had been right."""
    again, store = opened(place, made, "auto")
    for path in sorted((made / "photos").glob("*/*"))[: store_package.JUDGED]:
        learnt_as(again, path, path.parent.name)
    again.wanted = True
    ((row, text),) = again.due()
    assert row["done"], text
    return again, store


def learnt_as(again, path, guess):
    """Correct an image that was taken for class `guess`."""
    watcher = again.watcher
    watcher.observe(str(path), str(path))
    watcher._recent[str(path)].guess = guess
    again.note(watcher.correct(str(path), path.parent.name, new=True))


def corrections(store):
    return sum(store.peek().delta.report["watched"]["corrections"].values())


@pytest.mark.parametrize("wrong", [0, 1, 3])
def test_a_trial_is_kept_if_as_many_images_are_right_as_before_and_goes_back_if_fewer_are(
    made, place, trained, wrong
):
    again, store = on_trial(place, made)
    trial = store.peek()
    assert not trial.confirmed and trial.to_beat == 1.0 and corrections(store) == 22
    assert again.watcher.learner.place == trial.place
    for number, path in enumerate(sorted((made / "more").glob("*/*"))[: store_package.JUDGED]):
        assert list(again.due()) == []
        learnt_as(again, path, "nothing" if number < wrong else path.parent.name)
    ((row, text),) = again.due()
    after = store.peek()
    assert row["done"] == (wrong == 0) and after.confirmed, text
    assert after.generation == (1 if wrong else trial.generation)
    assert corrections(store) == 32, "nothing that was learnt in the trial is lost"
    assert again.watcher.learner.place == after.place


def test_a_trial_is_judged_by_who_watches_next(made, place, trained):
    again, store = on_trial(place, made)
    for number, path in enumerate(sorted((made / "more").glob("*/*"))[: store_package.JUDGED]):
        if number == 5:
            again = opened(place, made, "never", correct=False)[0]
        learnt_as(again, path, path.parent.name)
    ((row, _),) = again.due()
    assert row["done"] and store.peek().confirmed and corrections(store) == 32


def test_predictions_neither_end_a_watched_trial_nor_lose_its_corrections(made, place, trained, capsys):
    again, store = on_trial(place, made)
    path = photos(made, "dog")[0]
    for _ in range(4):
        assert tt("predict", place / "store", path, *backbone(place)) == 0
    assert "0 of 2 starts used" in capsys.readouterr().err
    learnt_as(again, path, "ant")
    before = corrections(store)
    del again  # the watching ends
    for _ in range(3):
        assert tt("predict", place / "store", path, *backbone(place)) == 0
    assert store.peek().generation == 1 and corrections(store) == before
    assert "dog" in store.peek().delta.class_names


def test_what_another_process_learns_is_neither_overwritten_nor_does_it_end_the_watching(
    made, place, trained, monkeypatch
):
    again, store = opened(place, made, "auto")
    other = opened(place, made, "auto", correct=False)[0]
    learnt_as(other, photos(made, "dog")[0], "ant")
    again.wanted = True

    def while_it_trains(*_):
        learnt_as(other, photos(made, "dog")[1], "ant")
        return Outcome(trained, "better")

    with monkeypatch.context() as patch:
        patch.setattr("tinytrain.stream.readapt.readapt", while_it_trains)
        ((row, text),) = again.due()
    assert not row["done"] and "store-changed" in text and again.wanted and store.peek().confirmed
    ((row, text),) = again.due()
    assert row["done"] and corrections(store) == 14, text
    learnt_as(other, photos(made, "dog")[2], "dog")
    assert corrections(store) == 15 and other.watcher.learner.start.to_beat == 0.0


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


def test_a_command_refuses_to_change_a_delta_that_has_learnt_more_meanwhile(made, place, monkeypatch, capsys):
    again, store = opened(place, made, "never", correct=False)

    def slow(delta, name):
        learnt_as(again, photos(made, "dog")[0], "ant")
        return forget(delta, name)

    with monkeypatch.context() as patch:
        patch.setattr("tinytrain.delta.forget.forget", slow)
        assert tt("forget", place / "store", "ant") == 6
    assert "store-changed" in capsys.readouterr().err and "dog" in store.peek().delta.class_names
    assert store.peek().confirmed and tt("forget", place / "store", "ant") == 0
    assert store.peek().delta.class_names == ("bee", "cat", "dog")


def test_a_roll_back_names_the_corrections_that_go(made, place, capsys):
    again, store = opened(place, made, "never", correct=False)
    store.commit(load_delta(place / "d.safetensors"))
    again.watcher.refresh()
    path = photos(made, "dog")[0]
    again.watcher.observe("frame", path.read_bytes())
    again.watcher._recent["frame"].image = None  # of a camera, many images ago
    again.watcher.correct("frame", "dog", new=True)
    learnt_as(again, photos(made, "cat")[0], "cat")
    assert tt("rollback", "--store", place / "store") == 0
    assert (
        "1 corrections of generation 2 are not known to the delta before it: dog 1" in capsys.readouterr().err
    )
    assert store.peek().delta.report["watched"]["corrections"] == {"cat": 1}


class FullDisk:
    """Nothing can be written to a file of the store while `full`."""

    def __init__(self, patch):
        self.full, write = False, store_package.folder.File.write

        def fail(file, data):
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(file, data)

        patch.setattr(store_package.folder.File, "write", fail)


@pytest.fixture
def session(made, place, monkeypatch):
    """A session with a label file, and its disk."""
    labels = place / "labels.csv"
    labels.touch()
    words = [place / "d.safetensors", made / "new", "--store", place / "store", "--labels", labels, "--json"]
    arguments = parser_of("watch")[0].parse([str(word) for word in (*words, *backbone(place))])
    session = watch_session.Session(arguments, watch.Opened.of(arguments), None)
    return session, labels, FullDisk(monkeypatch), Store(place / "store")


def test_a_disk_that_is_full_for_a_moment_stops_no_verdict_and_loses_no_correction(made, session, capsys):
    session, labels, disk, store = session
    disk.full, paths = True, photos(made, "dog")
    labels.write_text("".join(f"{path},+dog\n" for path in paths))
    for path in paths * 3:
        session.look_at(Frame(str(path), str(path)))
        session.correct()
        session.idle()
    found = capsys.readouterr()
    assert found.err.count("write-failed") == 1 and found.out.count('"verdict"') == 12
    assert '"correction"' not in found.out and store.peek().entries == 0
    disk.full = False
    for _ in range(watch_session.MOST_PAUSES + 1):
        session.correct()
    assert [row["class"] for row in rows(capsys, "correction")] == ["dog"] * 4
    assert store.peek().entries == 4
    session.correct()
    session.finish()
    assert store.peek().entries == 4


def test_what_could_not_be_learnt_by_the_end_is_said_and_the_next_run_learns_it(made, place, session, capsys):
    session, labels, disk, store = session
    disk.full = True
    labels.write_text(f"{photos(made, 'dog')[0]},+dog\n")
    words = (place / "store", made / "new" / "dog", "--labels", labels, "--once")
    assert watched(place, *words) == 6
    found = capsys.readouterr()
    assert "0 corrections learnt, 1 not learnt" in found.err and found.out.count('"verdict"') == 4
    disk.full = False
    assert watched(place, *words) == 0 and store.peek().entries == 1


def test_python_watches_a_folder_as_images_come(made, place):
    folder = place / "camera"
    folder.mkdir()
    for number, path in enumerate(photos(made, "cat")):
        (folder / f"{number}.png").write_bytes(path.read_bytes())
        os.utime(folder / f"{number}.png", (time.time() - 60 + number,) * 2)
    found = tinytrain.watch(place / "d.safetensors", folder, place / "toy.safetensors")
    assert [Path(next(found).key).name for _ in range(4)] == ["0.png", "1.png", "2.png", "3.png"]
    found.close()
