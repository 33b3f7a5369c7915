"""A head that learns from corrections: what is learnt, what is kept, in how many bytes and how fast."""

import gc
import itertools
import os
import statistics
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from toystreams import SIZE, delta_of, entry_bytes, images, opened

from tinytrain import kernels
from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.heads.registry import HEADS
from tinytrain.store import Store
from tinytrain.stream import learner as learning
from tinytrain.stream.learner import Learner


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", "numpy")


def bits(delta):
    return encode_delta(delta)


@pytest.mark.parametrize("head", HEADS)
def test_a_restart_knows_bit_for_bit_what_was_learnt(store, head):
    learner = opened(store, delta_of(head=head))
    for number, name in enumerate(("class0", "class1", "new", "new", "other", "class0")):
        learner.learn(images(number % 5, 1, number)[0], name, f"{number % 2}:{number}")
    learner.rename("class2", "renamed")
    learner.forget("class1")
    again = opened(store)
    assert bits(again.delta) == bits(learner.delta)
    assert again.delta.class_names == ("class0", "renamed", "new", "other") and again.marks == {
        "0": "4",
        "1": "5",
    }


@pytest.mark.parametrize("head", HEADS)
def test_a_fold_changes_no_bit_and_what_follows_goes_on_from_it(store, head):
    learner = opened(store, delta_of(head=head))
    for number in range(5):
        learner.learn(images(3, 1, number)[0], "new")
    before = bits(learner.delta)
    learner.fold()
    assert bits(learner.delta) == before == bits(store.peek().delta) and len(store.peek().journal) == 0
    learner.learn(images(3, 1, 9)[0], "new")
    assert bits(opened(store).delta) == bits(learner.delta) and len(store.peek().journal) == 1
    assert store.peek().confirmed and store.peek().generation == 2


@each("head", HEADS)
def test_one_correction_of_a_new_class_is_known_at_once(head):
    learner = Learner(delta_of(head=head), backend="numpy")
    image = images(6, 1, 0)[0]
    assert learner.learn(image, "mint") and not learner.learn(image, "mint")
    assert learner.observe(image).guess == "mint"
    assert learner.delta.class_names[-1] == "mint"


def test_corrections_help_where_the_stream_has_changed():
    turn = np.roll(np.eye(SIZE), 1, axis=0)  # every class looks different from now on
    learner = Learner(delta_of(head="cosine"), backend="numpy")

    def accuracy(seed):
        right = [
            learner.observe(e @ turn).guess == f"class{k}" for k in range(3) for e in images(k, 30, seed)
        ]
        return np.mean(right)

    before = accuracy(1)
    for number in range(30):
        learner.learn(images(number % 3, 1, 100 + number)[0] @ turn, f"class{number % 3}")
    assert accuracy(2) > max(0.9, before + 0.2)


def test_nothing_is_learnt_of_what_cannot_be_stored_or_kept(store, monkeypatch):
    learner = opened(store, delta_of())
    before = bits(learner.delta)
    for embedding, name, code in (
        (np.full(SIZE, np.nan, np.float32), "class0", "network-not-finite"),
        (np.zeros(SIZE + 1, np.float32), "class0", "backbone-mismatch"),
        (images(0, 1, 0)[0], "", "class-names"),
        (images(0, 1, 0)[0], "x" * 2000, "class-names"),
    ):
        with pytest.raises(InputError, match=code):
            learner.learn(embedding, name)
    with pytest.raises(InputError, match="unknown-class"):
        learner.forget("nothing")

    def full(self, data):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("tinytrain.store.folder.File.write", full)
        with pytest.raises(StorageError, match="write-failed"):
            learner.learn(images(0, 1, 0)[0], "class0")
    assert bits(learner.delta) == before == bits(opened(store).delta)
    learner.learn(images(0, 1, 0)[0], "class0")
    assert bits(opened(store).delta) == bits(learner.delta) != before


def test_two_processes_that_learn_in_one_store_lose_nothing(store):
    one = opened(store, delta_of())
    two = opened(store)
    for number in range(4):
        one.learn(images(0, 1, number)[0], "one")
        two.learn(images(1, 1, number)[0], "two")
        if number == 2:
            one.fold()
    counts = opened(store).delta.report["watched"]["corrections"]
    assert counts == {"one": 4, "two": 4}
    two.learn(images(1, 1, 9)[0], "two")
    assert bits(opened(store).delta) == bits(two.delta)


def test_an_append_is_made_however_often_others_come_first(store, monkeypatch):
    learners, append = [opened(store, delta_of()), opened(store), opened(store)], Store.append
    numbers = itertools.count()

    def overtaken(self, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(Store, "append", append)
            for other in learners[1:]:
                other.learn(images(1, 1, next(numbers))[0], "other")
        return append(self, *arguments)

    monkeypatch.setattr(Store, "append", overtaken)
    for number in range(3):
        learners[0].learn(images(0, 1, number)[0], "one")
    assert store.peek().delta.report["watched"]["corrections"] == {"other": 6, "one": 3}
    assert bits(learners[0].delta) == bits(store.peek().delta)


def on_trial(store):
    """A learner on a delta on trial, before which another one has learnt "mint"."""
    opened(store, delta_of()).learn(images(5, 1, 0)[0], "mint", "line:1")
    store.commit(delta_of(seed=1), store.peek().place, to_beat=0.5)
    return opened(store)


@pytest.mark.parametrize("end", ["roll_back", "starts", "commit"])
def test_a_trial_that_ends_leaves_what_it_learnt_to_the_delta_before_it(store, end):
    trial = on_trial(store)
    for number in range(3):
        embedding = images(6, 1, number)[0]
        trial.learn(embedding, "dill", f"line:{2 + number}", before=embedding, right=number > 0)
    trial.forget("class0")
    seen = store.peek()
    assert seen.to_beat == 0.5 and seen.delta.report["watched"]["right"] == [False, True, True]
    if end == "starts":
        assert [store.start().generation for _ in range(2)] == [2, 1]
    else:
        if end == "commit":
            store.commit(delta_of(seed=2))
        store.roll_back()
    back, before = opened(store), delta_of()
    expected = Learner(before, backend="numpy")
    expected.learn(images(5, 1, 0)[0], "mint", "line:1")
    for number in range(3):
        expected.learn(images(6, 1, number)[0], "dill", f"line:{2 + number}")
    expected.forget("class0")
    assert bits(back.delta) == bits(expected.delta) and back.marks == {"line": "4"}
    assert back.start.confirmed and back.start.to_beat is None


def test_what_the_delta_before_cannot_learn_is_named(store):
    trial = on_trial(store)
    for number in range(2):
        trial.learn(images(6, 1, number)[0], "dill")
    text = "2 corrections of generation 2 are not known to the delta before it: dill 2"
    assert store.before().warnings == (text,)
    store.start()
    assert text in store.start().warnings


def test_what_was_taken_back_on_trial_is_taken_back_in_the_delta_before_it(store):
    trial = on_trial(store)
    before = store.before().delta.head.tensors()
    image, mint = images(6, 1, 0)[0], images(5, 1, 0)[0]
    trial.learn(image, "dill", image="seen by both", before=image)
    trial.undo("seen by both")
    trial.learn(mint, "class1", image="of the trial alone")
    trial.undo("of the trial alone")
    assert store.before().warnings == ()
    store.roll_back()
    after = opened(store).delta
    assert after.class_names == ("class0", "class1", "class2", "mint")
    assert all(np.array_equal(array, before[name]) for name, array in after.head.tensors().items())


def test_a_fold_leaves_a_trial_on_trial_and_a_trial_is_not_folded_by_itself(store, monkeypatch):
    monkeypatch.setattr(learning, "FOLD_ENTRIES", 1)
    trial = on_trial(store)
    trial.learn(images(6, 1, 0)[0], "dill", before=images(6, 1, 0)[0])
    before = store.peek()
    trial.fold()
    assert trial.is_fold_due and store.peek().place == before.place
    store.fold(trial.place, trial.delta)
    after = store.peek()
    assert bits(after.delta) == bits(before.delta) and after.generation == 3 and len(after.journal) == 0
    assert not after.confirmed and after.starts == before.starts and after.to_beat == before.to_beat
    store.roll_back()
    assert "dill" in store.peek().delta.class_names


def test_a_trial_that_was_confirmed_meanwhile_is_folded_and_does_not_go_back(store):
    trial = on_trial(store)
    trial.learn(images(6, 1, 0)[0], "dill")
    store.confirm()
    with pytest.raises(StorageError, match="store-changed"):
        store.roll_back(trial.place)
    trial.fold()
    assert len(store.peek().journal) == 0 and store.peek().generation == 3


def test_nothing_is_done_to_a_store_that_has_learnt_something_since(store):
    one, two = opened(store, delta_of()), opened(store)
    two.learn(images(5, 1, 0)[0], "mint")
    before = bits(store.peek().delta)
    for change in (lambda: store.commit(delta_of(seed=1), one.place), lambda: store.roll_back(one.place)):
        with pytest.raises(StorageError, match="store-changed"):
            change()
    store.commit(delta_of(seed=1), two.place)
    with pytest.raises(StorageError, match="store-changed"):
        store.confirm(two.place)
    store.roll_back(store.peek().place)
    assert bits(store.peek().delta) == before


def test_starts_do_not_count_while_a_process_holds_the_store(store):
    on_trial(store)
    for _ in range(2):
        descriptor = store.hold()
        assert [store.start().generation for _ in range(4)] == [2] * 4 and store.peek().starts == 1
        others = store.hold()
        os.close(descriptor)
        assert store.start().generation == 2 and store.peek().starts == 1
        os.close(others)
    assert [store.start().generation for _ in range(2)] == [2, 1]


def test_a_delta_of_another_network_ends_the_learning_in_one_line(store):
    learner, other = opened(store, delta_of()), delta_of(seed=1)
    store.commit(replace(other, backbone="1" * 64))
    with pytest.raises(StorageError, match="store-changed"):
        learner.learn(images(0, 1, 0)[0], "class0")
    assert opened(store).delta.backbone == "1" * 64


def test_a_roll_back_goes_back_to_what_was_learnt_before_the_trial(store):
    learner = opened(store, delta_of())
    learner.learn(images(5, 1, 0)[0], "mint")
    before = bits(learner.delta)
    store.commit(delta_of(seed=1))
    trial = opened(store)
    trial.learn(images(6, 1, 0)[0], "dill")
    store.roll_back()
    assert bits(opened(store).delta) == before


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(store, monkeypatch):
    monkeypatch.setattr(learning, "FOLD_ENTRIES", 16)
    monkeypatch.setattr("tinytrain.store.journal_replay.REMEMBERED", 8)
    learner = opened(store, delta_of(), monitor=UnlabelledDrift(SIZE))
    x = images(0, 100, 0)

    def go(numbers):
        for number in numbers:
            learner.observe(x[number % 100])
            if number % 100 == 0:
                learner.learn(x[0], "class0", f"{number}:x", f"image {number}")
                assert len(learner._states) <= learning.STATES + 2, "a delta each"
            if learner.is_fold_due:
                learner.fold()
        learner.fold()
        gc.collect()

    go(range(2000))
    tracemalloc.start()
    go(range(2000, 3000))
    before = tracemalloc.get_traced_memory()[0]
    go(range(3000, 13_000))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000, f"{grown} bytes more after 10,000 observations"


def test_flash_takes_the_bytes_that_are_stated(store, tmp_path):
    learner = opened(store, delta_of(head="lda"))
    journal = tmp_path / "store" / "tinytrain-1.journal"
    sizes = []
    for number in range(10):
        learner.learn(images(0, 1, number)[0], "class0", f"{number:012d}:12345678")
        sizes.append(journal.stat().st_size)
    per_correction = set(np.diff(sizes).tolist())
    assert per_correction == {entry_bytes(21)}
    assert max(per_correction) < SIZE * 4 + 120
    learner.fold()
    files = {name: (tmp_path / "store" / name).stat().st_size for name in os.listdir(tmp_path / "store")}
    assert not any(name.endswith("journal") for name in files) and len(files) == 4
    # Never more than two deltas and their journals, whatever was learnt.
    for number in range(600):
        learner.learn(images(0, 1, number)[0], "class0")
        if learner.is_fold_due:
            learner.fold()
    total = sum((tmp_path / "store" / name).stat().st_size for name in os.listdir(tmp_path / "store"))
    assert total < len(bits(learner.delta)) + learning.FOLD_ENTRIES * (SIZE * 4 + 120) + 5000


@each("head", HEADS)
def test_what_is_learnt_afresh_is_of_the_last_images_and_can_be_kept_and_learnt_on(head):
    """Classes change their names with the fifth image: of those before, nothing but class `moon` is known."""
    learner = Learner(delta_of(head=head, few=True), backend="numpy")
    for number, (label, name) in enumerate([(0, "class0"), (1, "class1"), (4, "sun"), (2, "class2")]):
        learner.learn(images(label, 1, number)[0], name)
    learner.rename("sun", "moon")
    for number in range(12):
        learner.learn(images(number % 3, 1, 10 + number)[0], f"class{(number + 1) % 3}")
    learner = Learner(decode_delta(*decode(bits(learner.afresh(12)))), backend="numpy")
    learner.learn(images(0, 1, 30)[0], "class1")
    found = [learner.observe(images(label, 1, 40)[0]).guess for label in (0, 1, 2, 4)]
    assert found == ["class1", "class2", "class0", "moon"]
    assert Learner(delta_of(head=head), backend="numpy").afresh(12) is None, "nothing was learnt"


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_a_correction_is_learnt_and_kept_within_50_ms(store, head):
    learner = opened(store, delta_of(head=head))
    learner.kernels = kernels.load()
    learner.learn(images(0, 1, 0)[0], "class0")  # compiles kernels
    seconds = []
    for number in range(20):
        start = time.perf_counter()
        learner.learn(images(0, 1, number)[0], "class0")
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < 0.05
