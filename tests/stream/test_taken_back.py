"""A label that is replaced or taken back leaves nothing: the bytes are those of a head that never had it."""

from dataclasses import replace

import numpy as np
from cases import each
from toystreams import SIZE, delta_of, images, opened

from tinytrain import kernels
from tinytrain.delta.classes import forget as delta_forget
from tinytrain.delta.file import encode_delta
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.heads.head import Support
from tinytrain.heads.linear import LinearHead
from tinytrain.heads.registry import HEADS
from tinytrain.store import Entry, Store
from tinytrain.stream import learner as learning
from tinytrain.stream.learner import Learner

LEARNING = tuple(name for name in HEADS if name != "oselm-ae")  # which has a single class


def picture(number):
    return images(number % 5, 1, number)[0]


def learner_of(head, *steps):
    """A learner that did `steps`: ``(3, "name")`` labels image 3, others are methods with their words."""
    learner = Learner(delta_of(head=head, few=True), backend="numpy")
    do(learner, *steps)
    return learner


def do(learner, *steps):
    for first, *words in steps:
        if isinstance(first, int):
            learner.learn(picture(first), *words, image=f"image {first}")
        else:
            getattr(learner, first)(*words)


def bits(learner):
    return encode_delta(learner.delta)


def values(learner):
    return {name: array.tobytes() for name, array in learner.delta.head.tensors().items()}


OTHERS = ((1, "class1"), (2, "new"), (3, "class0"))
CASES = {
    "another label of the same image": ([(0, "class1"), *OTHERS, (0, "class2")], [*OTHERS, (0, "class2")]),
    "of all of them, one after another": (
        [(k, "class0") for k in range(4)] + [(k, "class1") for k in range(4)],
        [(k, "class1") for k in range(4)],
    ),
    "there and back": ([(0, "class1"), (0, "class2"), (0, "class1")], [(0, "class1")]),
    "the same again": ([*OTHERS, (1, "class1")], OTHERS),
    "a class of its own goes": ([(0, "sun"), *OTHERS, (0, "class1")], [*OTHERS, (0, "class1")]),
    "a class that was renamed goes": (
        [(0, "sun"), ("rename", "sun", "moon"), *OTHERS, (0, "class1")],
        [*OTHERS, (0, "class1")],
    ),
    "a class that was forgotten": (
        [(0, "sun"), *OTHERS, ("forget", "sun"), (0, "class1")],
        [*OTHERS, (0, "class1")],
    ),
    "of a class that was forgotten then": ([(0, "sun"), *OTHERS, ("forget", "sun")], OTHERS),
    "of one that was renamed before": (
        [(0, "sun"), ("rename", "sun", "moon"), *OTHERS, ("forget", "moon")],
        OTHERS,
    ),
    "of one that the delta had before": (
        [(0, "class1"), *OTHERS, ("forget", "class1")],
        [*OTHERS[1:], ("forget", "class1")],
    ),
    "taken back": ([*OTHERS, (0, "class1"), ("undo",)], OTHERS),
    "all taken back": ([*OTHERS, ("undo",), ("undo",), ("undo",), ("undo",)], [("undo",)]),
    "a replacement taken back": ([(0, "class1"), *OTHERS, (0, "sun"), ("undo",)], [(0, "class1"), *OTHERS]),
    "of an image in between": (
        [(0, "class1"), *OTHERS, ("undo", "image 2")],
        [(0, "class1"), OTHERS[0], OTHERS[2]],
    ),
    "and given again": ([(0, "class1"), ("undo",), *OTHERS, (0, "class1")], [*OTHERS, (0, "class1")]),
}


@each("head", LEARNING)
@each(("steps", "right"), CASES.values(), ids=list(CASES))
def test_what_was_replaced_or_taken_back_was_never_learnt(head, steps, right):
    found, never = learner_of(head, *steps), learner_of(head, *right)
    assert found.delta.class_names == never.delta.class_names and values(found) == values(never)
    never = never.delta.report.get("watched", {"corrections": {}, "labels": {}})
    counts = {name: count for name, count in found.delta.report["watched"]["corrections"].items() if count}
    assert counts == never["corrections"]
    labels = found.delta.report["watched"]["labels"]
    assert {name: sorted(of) for name, of in labels.items() if of} == {
        name: sorted(of) for name, of in never["labels"].items() if of
    }


def test_a_label_of_the_only_class_is_taken_back():
    learner = Learner(delta_of(1, 40, "oselm-ae", few=True), backend="numpy")
    do(learner, (0, "class0"))
    before = values(learner)
    do(learner, (5, "class0"))
    assert values(learner) != before
    do(learner, ("undo",))
    assert values(learner) == before


def test_a_restart_knows_bit_for_bit_what_was_taken_back_and_can_take_back_more(tmp_path):
    store = Store(tmp_path / "store", "numpy")
    learner = opened(store, delta_of(head="lda"))
    do(learner, (0, "class1"), (1, "sun"), (0, "class2"), ("undo",), (2, "class0"))
    learner.learn(picture(3), "class1", "key:value", "image 3")
    assert learner.undo(mark="key:other") == ("image 3", "class1")
    again = opened(store)
    assert bits(again) == bits(learner) and again.marks == {"key": "other"}
    assert store.status()["learnt"] == 3
    assert again.undo() == ("image 2", "class0") and again.undo("image 0") == ("image 0", "class1")
    assert again.undo("image 0") is None
    do(learner, (4, "class2"))  # another process goes on from what this one took back
    assert bits(opened(store)) == bits(learner)


def test_a_label_replaces_one_that_another_process_gave_meanwhile(tmp_path):
    store = Store(tmp_path / "store", "numpy")
    one = opened(store, delta_of())
    two = opened(store)
    do(one, (0, "sun"), (1, "class1"))
    do(two, (0, "class2"))
    do(one, (1, "class2"))
    never = Learner(delta_of(), backend="numpy")
    do(never, (0, "class2"), (1, "class2"))
    assert bits(one) == bits(opened(store)) and values(one) == values(never)


def test_a_fold_ends_what_can_be_taken_back_and_the_image_keeps_its_label(tmp_path):
    store = Store(tmp_path / "store", "numpy")
    learner = opened(store, delta_of())
    do(learner, (0, "class1"), ("fold",))
    learner = opened(store)
    assert learner.undo() is None and learner.label_of("image 0") == "class1"
    assert not learner.reaches("image 0")
    before = bits(learner)
    do(learner, (0, "class1"))
    assert bits(learner) == before, "the same label is not learnt again"
    do(learner, (0, "class2"), ("undo",))
    assert bits(learner) == before
    do(learner, ("rename", "class1", "oak"))
    assert learner.label_of("image 0") == "oak"
    assert delta_forget(learner.delta, "oak").report["watched"]["labels"] == {}
    do(learner, ("forget", "oak"))
    assert learner.label_of("image 0") is None and "image 0" not in str(learner.delta.report)


def test_a_learner_without_a_store_folds_too_so_that_memory_does_not_grow(monkeypatch):
    monkeypatch.setattr(learning, "FOLD_ENTRIES", 3)
    learner = learner_of("cosine", *OTHERS)
    before = bits(learner)
    assert learner.is_fold_due
    learner.fold()
    assert bits(learner) == before and not learner.entries and learner.undo() is None


def test_the_labels_and_marks_that_a_delta_remembers_are_bounded(monkeypatch):
    monkeypatch.setattr("tinytrain.store.journal_replay.REMEMBERED", 3)
    learner = learner_of("cosine")
    for number in range(5):
        learner.learn(picture(number), "class1", f"{number}:x")
    learner.learn(picture(5), "class2", "3:y")
    assert list(learner.marks.items()) == [("2", "x"), ("4", "x"), ("3", "y")]
    assert {name: len(of) for name, of in learner.delta.report["watched"]["labels"].items()} == {
        "class1": 2, "class2": 1,
    }  # fmt: skip
    assert learner.label_of(learner.entries[-1].image) == "class2"


def test_a_monitor_begins_afresh_when_classes_change_their_places():
    learner = Learner(delta_of(), backend="numpy", monitor=UnlabelledDrift(SIZE))
    do(learner, (0, "sun"), (1, "moon"))
    learner.observe(picture(2))
    do(learner, ("rename", "sun", "star"))
    assert learner.monitor.images == 1
    do(learner, (0, "class0"))
    assert learner.monitor.images == 0


def test_labels_of_a_journal_without_digests_stay_and_are_learnt(tmp_path):
    store = Store(tmp_path / "store", "numpy")
    learner = opened(store, delta_of())
    for number in range(2):
        learner.place = store.append(
            learner.place, Entry("learn", "class1", picture(number)), lambda start: None
        )
    learner = opened(store)
    assert learner.delta.report["watched"]["corrections"] == {"class1": 2}
    assert learner.undo() is None


@each("head", [n for n in LEARNING if issubclass(HEADS[n].head, LinearHead)])
@each("views", [1, 3])
def test_a_correction_counts_as_often_as_each_image_had_views(head, views):
    """The head is the one that is fitted to all images, the corrected one among them, and all views."""
    method, table = HEADS[head], kernels.load("numpy")
    x = np.concatenate([images(k, 4, 0) for k in range(3)])
    labels = np.repeat(np.arange(3, dtype=np.int32), 4)

    def fitted(x, labels):
        rows, of = np.repeat(x, views, axis=0), np.repeat(labels, views)
        arrays = {b.name: b.allocate(0xFF) for b in method.buffers(3, SIZE)}
        clean, all_views = (lambda: [(x, labels)]), (lambda: [(rows, of)])
        support = Support(all_views if method.sees_every_view else clean, clean, np.bincount(labels))
        found = method.fit(table, arrays, support).for_delta(arrays)
        return replace(found, views=views if method.sees_every_view else 1)

    learner = Learner(replace(delta_of(), head=fitted(x, labels)), backend="numpy")
    learner.learn(2 * picture(1), "class1")
    both = fitted(np.concatenate([x, picture(1)[None]]), np.append(labels, np.int32(1)))
    probes = np.concatenate([images(k, 5, 9) for k in range(3)])
    np.testing.assert_allclose(learner.delta.head.logits(probes), both.logits(probes), rtol=2e-3, atol=2e-3)
