"""Half a year of a stream on flash that loses power: the world and its classes change, nothing is lost."""

import os
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from cases import quick
from cutimages import Images
from toystreams import SIZE, delta_of, entry_bytes, images

from tinytrain.delta.file import encode_delta
from tinytrain.drift.detector import DRIFT
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.store import Store
from tinytrain.store.slots import Slots
from tinytrain.stream import learner as learning
from tinytrain.stream.learner import Learner

IMAGES = int(os.environ.get("TINYTRAIN_STREAM_IMAGES", "3000"))
LONG = IMAGES > 50_000
WAY = 4
DRIFTS = (0.2, 0.45, 0.7)  # of the stream
ADDED, FORGOTTEN = {"class4": 0.3, "class5": 0.55}, ("class1", 0.8)
CUTS = 200 if LONG else 20  # power cuts in a stream
FOLD = learning.FOLD_ENTRIES if LONG else 48  # corrections, so that the short form folds too
NOISE = 0.18
CORRECTED = 0.02  # of the images, at any time
AFTER_ALARM = 60  # images that are corrected after an alarm
SOON = 30  # images in which a change should be noticed
MARK = 25  # letters


class World:
    """Images that a camera shows: those of the classes that there are, all moved alike by a drift."""

    def __init__(self, draw):
        self.draw, self.shift = draw, np.zeros(SIZE)
        self.pool = {f"class{k}": images(k, 400, 77, NOISE) for k in range(WAY + len(ADDED))}
        self.there = [f"class{k}" for k in range(WAY)]

    def turn(self, number):
        """The `number`-th drift: light and camera are others from now on."""
        way = np.random.default_rng([3, number]).normal(size=SIZE)
        self.shift = 0.7 * way / np.linalg.norm(way)

    def image(self):
        name = self.draw.choice(self.there)
        shown = self.draw.choice(self.pool[name]) + self.shift
        return name, (shown / np.linalg.norm(shown)).astype(np.float32)


class Board:
    """A device with a learner on flash of a `layout`; its power can go in any change.

    `cuts` counts them. `files` is the most bytes that ever lay on the flash after a change.
    """

    def __init__(self, layout, delta, draw):
        self.layout, self.draw, self.cuts, self.torn, self.files = layout, draw, 0, 0, 0
        self.flash = Flash(layout)
        self.generations = set()
        store = self._store()
        store.commit(delta)
        store.confirm()
        self._start()

    def change(self, action, cut):
        """Do `action` to the learner; with `cut`, power goes at some moment of it and comes back.

        Whatever was learnt before is there then, bit for bit, without `action` or with it.
        """
        before, began = bits(self.learner), len(self.flash.moments) - 1
        action(self.learner)
        after, moments = bits(self.learner), self.flash.moments
        self._measure(moments[-1])
        if not cut:
            self.flash._moments.clear()  # of a simulation that goes on and on
            return
        moment = self.draw.choice(moments[began:])
        self.flash = Flash(self.layout, self.draw.choice(list(Images(self.layout, moment))))
        self._start()
        found = bits(self.learner)
        assert found in (before, after), f"{self.layout.name}: cut before {moment.operation!r} lost something"
        assert found == after or moment is not moments[-1], "it was acknowledged"
        self.cuts, self.torn = self.cuts + 1, self.torn + (found == before)
        if found == before:
            action(self.learner)

    def _start(self):
        start = self._store().start()
        assert not start.warnings, start.warnings
        self.learner = Learner(start.delta, self.store, start, UnlabelledDrift(SIZE), "numpy")

    def _store(self):
        self.store = Store("flash", "numpy")
        self.store._slots = Slots(self.flash)
        return self.store

    def _measure(self, moment):
        held = moment.medium.after(moment.pending, self.layout.fill).files()
        self.files = max(self.files, sum(map(len, held.values())))
        self.generations.add(self.learner.place.slot.generation)


def bits(learner):
    return encode_delta(learner.delta)


def due(fraction, place):
    return place == int(fraction * IMAGES)


def just_before_a_drift(place):
    """A detector that began a moment ago does not know yet what is usual."""
    return any(-200 < place - int(fraction * IMAGES) < SOON for fraction in DRIFTS)


@pytest.mark.parametrize("layout", quick(LAYOUTS.values()), ids=list(LAYOUTS))
def test_half_a_year_of_drifts_new_classes_and_cuts_loses_nothing_and_does_not_grow(
    layout, capsys, monkeypatch
):
    monkeypatch.setattr(learning, "FOLD_ENTRIES", FOLD)
    draw = random.Random(layout.name)
    world, board = World(draw), Board(layout, delta_of(WAY, head="lda"), draw)
    still = Learner(delta_of(WAY, head="lda"), backend="numpy")  # learns nothing
    cuts = set(draw.sample([place for place in range(IMAGES) if not just_before_a_drift(place)], CUTS))
    books, right, alarms, sizes = Counter(), {"learning": [], "still": []}, [], []
    to_correct, cut, corrections = 0, False, 0
    for place in range(IMAGES):
        for number, fraction in enumerate(DRIFTS):
            if due(fraction, place):
                world.turn(number)
        for name, fraction in ADDED.items():
            if due(fraction, place):
                world.there.append(name)
                to_correct = AFTER_ALARM // 2
        if due(FORGOTTEN[1], place):
            world.there.remove(FORGOTTEN[0])
            board.change(lambda learner: learner.forget(FORGOTTEN[0]), cut=True)
            del books[FORGOTTEN[0]]
        name, image = world.image()
        found = board.learner.observe(image)
        right["learning"].append(found.guess == name)
        right["still"].append(still.observe(image).guess == name)
        if found.drift == DRIFT:
            alarms.append(place)
            to_correct = AFTER_ALARM
        cut, to_correct = cut or place in cuts, to_correct - 1
        if to_correct >= 0 or draw.random() < CORRECTED:
            mark = f"{place:0{MARK}d}"
            board.change(lambda learner, n=name, e=image, m=mark: learner.learn(e, n, image=m), cut)
            books[name], cut, corrections = books[name] + 1, False, corrections + 1
        if board.learner.is_fold_due:
            board.change(lambda learner: learner.fold(), cut)
            cut = False
        if place in (IMAGES * 6 // 10, IMAGES - 1):
            sizes.append(held(board.learner))
    learnt = board.learner.delta
    assert learnt.report["watched"]["corrections"] == books, "every correction counts once"
    assert learnt.class_names == ("class0", "class2", "class3", "class4", "class5")
    assert board.cuts > CUTS / 2
    found = [[a - int(f * IMAGES) for a in alarms if 0 <= a - int(f * IMAGES) < SOON] for f in DRIFTS]
    assert all(found), f"alarms at {alarms}"
    ends = [slice(int(f * IMAGES) - IMAGES // 20, int(f * IMAGES)) for f in (*DRIFTS[1:], 1.0)]
    accuracy = {who: [float(np.mean(some[end])) for end in ends] for who, some in right.items()}
    assert min(accuracy["learning"]) > 0.9 and accuracy["still"][-1] < accuracy["learning"][-1] - 0.1
    entry = entry_bytes(MARK)
    bound = 3 * len(bits(board.learner)) + FOLD * entry + 4000
    assert board.files < bound
    assert sizes[1] - sizes[0] < 2000, f"{sizes} bytes of memory"
    with capsys.disabled():
        print(
            f"\n{layout.name}: {IMAGES:,} images, {corrections} corrections of {entry} bytes,"
            f" {board.cuts} power cuts ({board.torn} before the change was kept), 0 lost; alarms"
            f" {[f[0] + 1 for f in found]} images after the drifts and {len(alarms) - 3} others;"
            f" accuracy {100 * accuracy['learning'][-1]:.1f} %, without learning"
            f" {100 * accuracy['still'][-1]:.1f} %; at most {board.files:,} bytes on the flash,"
            f" {len(board.generations) - 1} folds; {sizes[1] - sizes[0]:+,} bytes of memory since 60 %",
            end="",
        )


def held(learner):
    """Bytes of what a learner keeps between two images."""
    return len(pickle.dumps((learner.delta, learner.place, vars(learner.monitor))))
