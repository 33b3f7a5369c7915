"""What ``tinytrain watch`` does to its store: trials of an adapted network, other processes, a full disk."""

import errno
import os
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from commandline import tt
from toydevices import ONE
from toyfiles import write_images
from watching import CLASSES, backbone, photos, rows, session_of, watched

from tinytrain import store as store_package
from tinytrain.base.events import Cancellable, Progress
from tinytrain.cli.commands import watch
from tinytrain.datasets import folder_episode
from tinytrain.delta.classes import forget
from tinytrain.delta.file import encode_delta, load_delta
from tinytrain.episode import image
from tinytrain.episode.kinds import IMAGES
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import Budget
from tinytrain.store import Store
from tinytrain.stream import readapt
from tinytrain.stream import session as sessions
from tinytrain.stream.readapt import Readaptation, is_enough
from tinytrain.stream.sources import Frame


def opened(place, made, mode, correct=True):
    """A `Readaptation` of what the command opens, and its store; at first 12 images are corrected."""
    words = [place / "d.safetensors", made / "new", "--store", place / "store", "--readapt", mode]
    watcher = session_of(place, *words, "-q").watcher
    again = Readaptation(watcher, mode, str(place / "toy.safetensors"))
    for name in CLASSES if correct else ():
        for path in photos(made, name):
            watcher.correct(str(path), name)
            again.note()
    assert not correct or is_enough(watcher.learner.delta, watcher.kept.counts())
    return again, watcher.learner.store


def test_a_command_that_adapts_to_the_kept_images_is_proposed_and_works(made, place):
    again, store = opened(place, made, "ask")
    assert list(again.due()) == []  # neither a drift nor enough corrections
    again.wanted = True
    (said,) = again.due()
    assert not said.done and "12 corrected images are kept" in said.words()
    assert list(again.due()) == []
    generation = store.peek().generation
    assert tt(*said.command[1:], "-q", "--force", "--budget", "400kB") == 0
    assert store.peek().generation > generation


def test_the_command_prints_no_progress_of_adapting_again(capsys):
    for json in (False, True):
        watch.Printer(SimpleNamespace(json=json, verbose=False), IMAGES)(Progress("training", 1, 50, 0.5))
    assert capsys.readouterr() == ("", "")


def test_an_adaptation_that_the_guard_refuses_changes_nothing(made, place):
    again, store = opened(place, made, "auto")  # the toy network cannot be trained on so little
    before, again.wanted = encode_delta(store.peek().delta), True
    (said,) = again.due()
    assert not said.done and "the network stays as it is" in said.text
    assert encode_delta(store.peek().delta) == before and store.peek().confirmed


def test_who_hears_how_far_an_adaptation_is_can_end_it_and_nothing_has_changed(made, place):
    again, store = opened(place, made, "auto")
    said, generation = [], store.peek().generation
    tell = Cancellable(said.append)
    again = Readaptation(again.watcher, "auto", tell=tell)
    for cancel, why in ((False, "the network stays as it is"), (True, "cancelled before it was done")):
        again.wanted = True
        tell.cancelled.set() if cancel else None
        (event,) = again.due()
        assert not event.done and why in event.text
    assert {"features", "training"} <= {event.stage for event in said}
    assert store.peek().generation == generation and store.peek().confirmed


@pytest.mark.parametrize(
    ("before", "after", "taken"), [(0.8, 0.7, False), (0.8, 0.8, True), (0.0, 0.1, True)]
)
def test_what_was_trained_again_is_taken_unless_fewer_held_out_images_are_right(
    made, place, monkeypatch, before, after, taken
):
    delta = load_delta(place / "d.safetensors")
    report, right = SimpleNamespace(guard=SimpleNamespace(accepted=True), delta=delta), iter((before, after))
    delta = replace(delta, report={"memory": {"budget": 345_678}})
    budgets = []
    monkeypatch.setattr(
        "tinytrain.pipeline.committee.adapt", lambda _, __, budget, *___: budgets.append(budget) or report
    )
    monkeypatch.setattr(readapt, "_accuracy", lambda *_: next(right))
    files = [(path, name) for name in CLASSES for path in photos(made, name)]
    found, why = readapt.readapt(toy_network(), delta, files)
    assert (found is not None) == taken and why.startswith(f"{after:.0%} of 3 held-out images are right")
    assert [budget.memory for budget in budgets] == [345_678]  # a board may have no more than at first


@pytest.fixture
def trained(place, monkeypatch):
    """Whatever is trained again is the delta of the beginning, with another report."""
    delta = replace(load_delta(place / "d.safetensors"), report={"policy": "another"})
    monkeypatch.setattr("tinytrain.stream.readapt.readapt", lambda *_: (delta, "better"))
    return delta


def on_trial(place, made):
    """A `Readaptation` whose trial has begun, with its store; the ten images before had been right."""
    again, store = opened(place, made, "auto")
    for path in sorted((made / "photos").glob("*/*"))[: store_package.JUDGED]:
        learnt_as(again, path, path.parent.name)
    again.wanted = True
    (said,) = again.due()
    assert said.done, said.text
    return again, store


def learnt_as(again, path, guess):
    """Correct an image that was taken for class `guess`."""
    watcher = again.watcher
    watcher.observe(str(path), str(path))
    watcher._recent[str(path)].guess = guess
    watcher.correct(str(path), path.parent.name, new=True)
    again.note()


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
    (said,) = again.due()
    after = store.peek()
    assert said.done == (wrong == 0) and after.confirmed, said.text
    assert after.generation == (1 if wrong else trial.generation)
    assert corrections(store) == 32, "nothing that was learnt in the trial is lost"
    assert again.watcher.learner.place == after.place


def test_a_trial_is_judged_by_who_watches_next(made, place, trained):
    again, store = on_trial(place, made)
    for number, path in enumerate(sorted((made / "more").glob("*/*"))[: store_package.JUDGED]):
        if number == 5:
            again = opened(place, made, "never", correct=False)[0]
        learnt_as(again, path, path.parent.name)
    (said,) = again.due()
    assert said.done and store.peek().confirmed and corrections(store) == 32


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
        return trained, "better"

    with monkeypatch.context() as patch:
        patch.setattr("tinytrain.stream.readapt.readapt", while_it_trains)
        (said,) = again.due()
    assert not said.done and "store-changed" in said.text and again.wanted and store.peek().confirmed
    (said,) = again.due()
    assert said.done and corrections(store) == 14, said.text
    learnt_as(other, photos(made, "dog")[2], "dog")
    assert corrections(store) == 15 and other.watcher.learner.start.to_beat == 0.0


def test_a_command_refuses_to_change_a_delta_that_has_learnt_more_meanwhile(made, place, monkeypatch, capsys):
    again, store = opened(place, made, "never", correct=False)

    def slow(delta, name):
        learnt_as(again, photos(made, "dog")[0], "ant")
        return forget(delta, name)

    with monkeypatch.context() as patch:
        patch.setattr("tinytrain.delta.classes.forget", slow)
        assert tt("forget", place / "store", "ant") == 6
    assert "store-changed" in capsys.readouterr().err and "dog" in store.peek().delta.class_names
    assert store.peek().confirmed and tt("forget", place / "store", "ant") == 0
    assert store.peek().delta.class_names == ("bee", "cat", "dog")


ENDS = {
    "roll back": ("rollback", "{place}/store"),
    "apply": ("apply", "{place}/d.safetensors", "{place}/store"),
    "adapt": ("adapt", "{made}/photos", "--store", "{place}/store", "--policy", "none", "--budget", "400kB"),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_trial_names_the_corrections_that_go(made, place, capsys, end):
    again, store = opened(place, made, "never", correct=False)
    store.commit(load_delta(place / "d.safetensors"))
    again.watcher.refresh()
    path = photos(made, "dog")[0]
    again.watcher.observe("frame", path.read_bytes())
    again.watcher._recent["frame"].image = None  # of a camera, many images ago
    again.watcher.correct("frame", "dog", new=True)
    learnt_as(again, photos(made, "cat")[0], "cat")
    words = [word.format(place=place, made=made) for word in ENDS[end]]
    words += [*backbone(place), "--force"] if end == "adapt" else []
    assert tt(*words) == 0
    text = "1 corrections of generation 2 are not known to the delta before it: dog 1"
    assert text in capsys.readouterr().err
    left = store.peek() if end == "roll back" else store.before()
    assert left.delta.report["watched"]["corrections"] == {"cat": 1}


def test_a_delta_that_is_applied_over_a_confirmed_one_ends_nothing(made, place, capsys):
    again, store = opened(place, made, "never", correct=False)
    learnt_as(again, photos(made, "dog")[0], "ant")
    assert tt("apply", place / "d.safetensors", place / "store") == 0
    assert "corrections" not in capsys.readouterr().err and "dog" in store.before().delta.class_names


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
    words = place / "d.safetensors", made / "new", "--store", place / "store", "--labels", labels, "--json"
    session = session_of(place, *words)
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
    assert '"correction"' not in found.out and len(store.peek().journal) == 0
    disk.full = False
    for _ in range(sessions.MOST_PAUSES + 1):
        session.correct()
    assert [row["class"] for row in rows(capsys, "correction")] == ["dog"] * 4
    assert len(store.peek().journal) == 4
    session.correct()
    session.finish()
    assert len(store.peek().journal) == 4


def test_what_could_not_be_learnt_by_the_end_is_said_and_the_next_run_learns_it(made, place, session, capsys):
    session, labels, disk, store = session
    disk.full = True
    labels.write_text(f"{photos(made, 'dog')[0]},+dog\n")
    words = (place / "store", made / "new" / "dog", "--labels", labels, "--once")
    assert watched(place, *words) == 6
    found = capsys.readouterr()
    assert "0 corrections learnt, 1 not learnt" in found.err and found.out.count('"verdict"') == 4
    disk.full = False
    assert watched(place, *words) == 0 and len(store.peek().journal) == 1


def test_adapting_again_decodes_an_image_for_learning_once_and_for_judging_two_deltas_twice(
    tmp_path, monkeypatch
):
    classes, seen, decode = ("ant", "bee", "cat"), Counter(), image.load_image
    files = [(path, path.parent.name) for path in sorted(write_images(tmp_path, classes).glob("*/*"))]
    delta = adapt(toy_network(), folder_episode(tmp_path), Budget(400_000), device=ONE).delta
    monkeypatch.setattr(image, "load_image", lambda path, *more: seen.update([path]) or decode(path, *more))
    readapt.readapt(toy_network(), delta, files, ONE)
    assert seen and max(seen.values()) <= 2
