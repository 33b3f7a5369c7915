"""A session of watching without a command line: images and labels go in, events come out in order."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from toystreams import SIZE, delta_of, images

from tinytrain.base.errors import InputError
from tinytrain.base.events import Event, Failed, Note, Progress
from tinytrain.drift import detector
from tinytrain.drift.detector import STABLE
from tinytrain.network.input_spec import InputSpec
from tinytrain.store import JUDGED, Store
from tinytrain.store.files import StoreFiles
from tinytrain.stream import events, learner, readapt, watcher
from tinytrain.stream.events import CUSUM, Drift, Ended, Hint, Learned, Readapted, TakenBack, Verdict
from tinytrain.stream.readapt import CORRECTIONS
from tinytrain.stream.session import About, Session, Settings
from tinytrain.stream.sources import Frame
from tinytrain.stream.watcher import Watcher


class Embeddings:
    """In place of a network: the bytes of an image are its embedding."""

    def __init__(self, network, delta, backend="auto"):
        self.network, self.input = network, InputSpec()

    def embed(self, given):
        if len(given[0]) != 4 * SIZE:
            raise InputError("image-unreadable", "no image; give one")
        return [np.frombuffer(given[0], np.float32)]


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """A function that begins a session with `Settings`, in a store that goes on; and its events so far."""
    monkeypatch.setattr(watcher, "Predictor", Embeddings)
    monkeypatch.setattr(watcher, "images_of", lambda given, names, kind: given)
    store = Store(tmp_path / "store", "numpy")
    store.commit(delta_of())
    store.confirm()

    def begin(keep=200, **settings):
        start, said = store.start(), []
        network = SimpleNamespace(digest="0" * 64)
        found = Watcher(network, start.delta, store, start, keep, backend="numpy")
        return Session(found, said.append, Settings(**settings)), said

    return begin


def frame(number, label=None):
    """Image `number`, of class `label` or of the next one in turn."""
    return Frame(f"image {number}", images(number % 3 if label is None else label, 1, number)[0].tobytes())


def kinds(said):
    return [type(event) for event in said]


def test_all_that_happens_is_told_in_order(begin, tmp_path):
    (tmp_path / "labels.csv").write_text("image 0,+sun\nimage 1,moon\n")
    session, said = begin(labels=str(tmp_path / "labels.csv"))
    session.look_at(frame(0))
    session.look_at(Note("a folder cannot be listed"))
    session.look_at(Frame("image x", b"none"))
    session.look_at(frame(1))
    session.correct(["", "class7", "u", "u", "?", "q"])
    session.end()
    assert kinds(said) == [
        Verdict, Note, Failed, Verdict,  # images
        Learned, Failed, TakenBack, Hint, Hint, Hint,  # what was typed
        Learned, Failed,  # the label file
        Ended,
    ]  # fmt: skip
    assert [event.key for event in said if isinstance(event, Learned)] == ["image 1", "image 0"]
    assert "did you mean class" in said[5].words(), "a refusal asks what was meant"
    assert session.over and said[-1].counts == {
        "images": 2, "failed": 1, "corrections": 2, "undone": 1, "alarms": 0,
    }  # fmt: skip
    assert said[-1].classes == ("class0", "class1", "class2", "sun")


def test_another_program_corrects_recent_images_alone_and_ends_nothing(begin, tmp_path):
    session, said = begin()
    (tmp_path / "a.png").write_bytes(frame(2).content)
    session.look_at(frame(0))
    session.look_at(frame(1))
    assert all(0 < event.seconds < 1e6 for event in said)
    session.correct([About("image 0", "class2"), About(None, "+sun"), About("image 0", "undo")])
    assert [(type(event), event.key, event.name) for event in said[2:]] == [
        (Learned, "image 0", "class2"), (Learned, "image 1", "sun"), (TakenBack, "image 0", None),
    ]  # fmt: skip
    del said[:]
    session.correct([About("image 1", "q"), About("image 1", "?"), About(str(tmp_path / "a.png"), "sun")])
    assert [event.error.code for event in said] == ["labels-unreadable"] * 2 + ["file-missing"]
    assert not session.over and session.watcher.last == "image 1"
    session.correct([About("image 0", "")])
    assert said[-1].name == session.watcher.guess_of("image 0"), "an empty word confirms the verdict"


def learnt(session, first, last, shift=0):
    """Look at images, the last of them excluded, and say of each class that it is `shift` classes on."""
    for number in range(first, last):
        session.look_at(frame(number))
        session.correct([f"class{(number + shift) % 3}"])


def right_verdicts(said, shift):
    """The fraction of the last JUDGED verdicts that were right, if labels are those of `learnt`."""
    seen = [event for event in said if isinstance(event, Verdict)][-JUDGED:]
    return np.mean([one.guess == f"class{(int(one.key.split()[1]) + shift) % 3}" for one in seen])


BEFORE = detector.LEAST + 2


def test_errors_that_corrections_show_are_a_drift_and_the_classes_are_learnt_afresh(begin):
    session, said = begin(drift=CUSUM, readapt="auto")
    learnt(session, 0, BEFORE)
    assert set(kinds(said)) == {Verdict, Learned} and right_verdicts(said, 0) == 1
    learnt(session, BEFORE, BEFORE + 8, shift=1)
    ((place, drift),) = [(n, event) for n, event in enumerate(said) if isinstance(event, Drift)]
    assert drift.found == CUSUM and isinstance(said[place - 1], Learned) and said[place - 1].key == drift.key
    number = int(drift.key.split()[1])
    assert BEFORE < number < BEFORE + 8
    session.idle()
    assert isinstance(said[-1], Readapted) and said[-1].done
    learnt(session, number + 5, number + 5 + JUDGED, shift=1)
    assert right_verdicts(said, 1) == 1, "of what was learnt before nothing is left"
    session.idle()
    assert said[-1].done and "is kept: 100% of the last 10" in said[-1].text
    assert session.watcher.learner.store.peek().confirmed


def test_an_alarm_that_was_false_goes_back_bit_for_bit(begin):
    session, _ = begin(drift=CUSUM, readapt="auto")
    learnt(session, 0, BEFORE)
    learnt(session, BEFORE, BEFORE + 8, shift=1)
    before = session.watcher.learner.delta.head.means.copy()
    session.idle()
    assert not np.array_equal(session.watcher.learner.delta.head.means, before)
    session.watcher.learner.store.roll_back()
    assert np.array_equal(session.watcher.learner.store.peek().delta.head.means, before)


def test_who_corrects_only_wrong_verdicts_gets_no_alarm(begin):
    session, said = begin(drift=CUSUM)
    for number in range(2 * BEFORE):
        session.look_at(frame(number))
        session.correct([f"class{(int(said[-1].guess[-1]) + 1) % 3}"])
    assert (session._errors.answers, session._errors.errors) == (2 * BEFORE, 2 * BEFORE)
    assert set(kinds(said)) == {Verdict, Learned}


def test_by_default_errors_are_no_drift(begin):
    session, said = begin()
    learnt(session, 0, BEFORE)
    learnt(session, BEFORE, BEFORE + 10, shift=2)
    assert CUSUM not in {event.found for event in said if isinstance(event, Drift)}


def test_errors_count_over_restarts_and_a_second_label_of_an_image_does_not(begin):
    learnt(begin(drift=CUSUM)[0], 0, BEFORE)
    session, said = begin(drift=CUSUM)
    assert (session._errors.answers, session._errors.errors) == (BEFORE, 0)
    session.look_at(frame(3))
    session.correct(["class1", "class2", "class1", "u"])
    assert kinds(said).count(Learned) == 3 and session._errors.answers == BEFORE
    learnt(session, BEFORE, BEFORE + 8, shift=1)
    assert Drift in kinds(said)


@pytest.mark.parametrize(("mode", "told"), [("never", []), ("ask", [Readapted]), ("auto", [Readapted])])
def test_a_drift_of_the_images_is_told_and_leads_to_what_the_settings_say(begin, monkeypatch, mode, told):
    session, said = begin(readapt=mode)
    monkeypatch.setattr(readapt, "is_enough", lambda *_: True)
    monkeypatch.setattr(readapt, "readapt", lambda *_: (None, "not better"))
    for number in range(60):
        session.look_at(frame(number))
    for number in range(60, 100):
        session.look_at(frame(number, label=5))
    (drift,) = [event for event in said if isinstance(event, Drift)]
    assert drift.found == events.IMAGES and said[said.index(drift) - 1].key == drift.key
    del said[:]
    session.idle()
    session.idle()
    assert kinds(said) == told and not any(event.done for event in said)
    assert mode != "ask" or said[0].command[:2] == ("tinytrain", "adapt")


def test_a_pause_reads_no_journal_while_a_trial_waits_and_what_waited_is_done_when_that_has_ended(
    begin, monkeypatch
):
    monkeypatch.setattr(readapt, "is_enough", lambda *_: True)
    monkeypatch.setattr(learner, "FOLD_ENTRIES", 4)
    reads, journal = [], StoreFiles.journal
    monkeypatch.setattr(StoreFiles, "journal", lambda *words: reads.append(words) or journal(*words))
    store = begin()[0].watcher.learner.store
    store.commit(delta_of(seed=1))
    session, said = begin()
    learnt(session, 0, CORRECTIONS)
    del said[:], reads[:]
    for _ in range(10):
        session.idle()
    assert said == reads == [] and len(session.watcher.learner.entries) == CORRECTIONS
    store.confirm()  # another process
    session.idle()
    assert kinds(said) == [Readapted] and session.watcher.learner.entries == []


def test_who_keeps_no_images_still_moves_and_forgets_those_that_are_kept(begin):
    session, _ = begin()
    learnt(session, 0, 6)
    kept = session.watcher.kept
    assert kept.counts() == {"class0": 2, "class1": 2, "class2": 2}
    session, _ = begin(keep=0)
    session.look_at(frame(5))
    session.correct(["class0"])
    assert kept.counts() == {"class0": 3, "class1": 2, "class2": 1}
    session.watcher.forget("class1")
    assert kept.counts() == {"class0": 3, "class2": 1}


def test_a_head_without_means_gives_its_answers_to_the_detector(begin, monkeypatch):
    session, _ = begin()
    answers, monitor = [], session.watcher.learner.monitor
    monkeypatch.setattr(monitor, "update", lambda embedding, means, label: answers.append(label) or STABLE)
    for number in range(6):
        session.look_at(frame(number))
    assert answers == [0, 1, 2, 0, 1, 2]


def test_every_event_has_facts_for_json_and_words_in_one_line(begin):
    session, said = begin(drift=CUSUM, readapt="auto")
    session.help()
    learnt(session, 0, BEFORE)
    learnt(session, BEFORE, BEFORE + 8, shift=1)
    session.correct(["u"])
    session.idle()
    session.look_at(Frame("image x", b"none"))
    session.look_at(Note("a folder cannot be listed"))
    session.end()
    assert set(kinds(said)) == {*Event.__subclasses__(), Hint} - {Progress}, "no network was trained"
    for event in said:
        json.dumps(event.facts(), allow_nan=False)
        assert event.words() and "\n" not in event.words()
