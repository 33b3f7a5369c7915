"""When the stream of a session asks for more than its corrections: to adapt again, and to go back if worse.

The network is trained with the corrected images that are kept and what the delta remembers. A part of the
kept images is held out and judges: the result must be accepted by the guard and get as many of them right
as the head that has learnt from them, which is more than it would get of new ones. So it is only taken
where it is clearly better.

Then it is on trial. What it must beat, and which corrected images were right in the trial, is in the store:
whoever watches that next judges it.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tinytrain.backbones.catalogue import usual_budget
from tinytrain.base.errors import InputError, TinytrainError
from tinytrain.base.events import Tell
from tinytrain.base.progress import told
from tinytrain.delta.delta import Delta
from tinytrain.episode import holding
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.sources import images_of
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget
from tinytrain.runtime.predict import Predictor
from tinytrain.store import JUDGED, WATCHED, ChangedError, watched
from tinytrain.stream.events import Readapted
from tinytrain.stream.watcher import Watcher

if TYPE_CHECKING:  # as little as possible before the first verdict
    from tinytrain.runtime.device import Device

CORRECTIONS = 32  # after so many it is worth it without a drift
LEAST_IMAGES = 8  # kept, for training to be worth it
LEAST_OF_CLASS = 2  # of every class, if the delta remembers none
HELD_OUT = 4  # every so manieth image of a class is held out


class Readaptation:
    """What the `watcher` of a store goes on with: its delta adapted again, or the one before.

    `wanted`: something has changed. Of the images that were corrected the last `since` are from after that; 0
    if it is not known how many. While a network is trained, `tell` gets its progress, and may raise
    CancelledError: then the network stays as it is.
    """

    def __init__(
        self, watcher: Watcher, mode: str, backbone: str | None = None, tell: Tell = lambda event: None
    ):
        self.watcher, self._mode, self._backbone, self._tell = watcher, mode, backbone, tell
        self._store = watcher.learner.store
        self.wanted, self.since, self._corrections = False, 0, 0

    def note(self) -> None:
        """A correction was learnt."""
        self._corrections += 1
        self.wanted = self.wanted or self._corrections >= CORRECTIONS
        self.since += self.since > 0

    def due(self) -> Iterator[Readapted]:
        """Do what is due, and yield what there is to say of it.

        Raises InputError or StorageError if the store cannot be read or changed; it is due again then.
        """
        watcher = self.watcher
        if self._is_over:
            watcher.refresh()
            if self._is_over:  # nobody else has confirmed it, or gone back
                yield from self._judged()
        if self._mode == "never" or not self.wanted or watcher.is_on_trial():
            return
        afresh = self._mode == "auto" and self.since > 0
        if not afresh and not self._has_enough_images():
            return
        watcher.refresh()
        if watcher.is_on_trial():
            return
        since, self.wanted, self.since, self._corrections = self.since, False, 0, 0
        if self._mode == "ask":
            yield self._proposal()
        elif not afresh:
            yield self._tried("the network was adapted again", self._trained)
        elif (head := watcher.learner.afresh(since)) is not None:
            why = f"the head knows the last {since} corrected images and nothing older of their classes"
            yield self._tried("the classes were learnt afresh", lambda: (head, why))
            self.since = since if self.wanted else 0  # another process has learnt more meanwhile
        else:
            self.wanted = True  # to adapt the network in place of that

    def _has_enough_images(self) -> bool:
        kept = self.watcher.kept
        return kept.most > 0 and is_enough(self.watcher.learner.delta, kept.counts())

    @property
    def _right(self) -> list[bool]:
        """Whether the last images that were corrected had been right, of a trial those that judge it."""
        return watched(self.watcher.learner.delta.report)["right"]

    @property
    def _is_over(self) -> bool:
        """Whether there is a trial, with enough images to judge it by."""
        return self.watcher.learner.start.to_beat is not None and len(self._right) >= JUDGED

    def _proposal(self) -> Readapted:
        store, kept = os.fspath(self._store.path), os.fspath(self.watcher.kept.path)
        remembered = ["--from", store] if self.watcher.learner.delta.replay is not None else []
        network = [] if self._backbone is None else ["--backbone", self._backbone]
        memory, usual = memory_of(self.watcher.learner.delta), usual_budget(self._backbone)
        budget = [] if memory in (None, usual) else ["--budget", str(memory)]
        own = self.watcher.learner.delta.parts[0].arithmetic
        array = ["--precision", own] if own else []
        words = ("tinytrain", "adapt", *remembered, kept, "--store", store, *network, *budget, *array)
        count = sum(self.watcher.kept.counts().values())
        text = f"{count} corrected images are kept; to adapt the network to them, end this and run: "
        return Readapted(False, text, words)

    def _trained(self) -> tuple[Delta | None, str]:
        from tinytrain.runtime.device import Device

        watcher, device = self.watcher, Device(progress=told(self._tell))
        return readapt(watcher.predictor.network, watcher.learner.delta, watcher.kept.files(), device)

    def _tried(self, what: str, found: Callable[[], tuple[Delta | None, str]]) -> Readapted:
        """Put the delta that is `found` on trial, and say why it was, or why there is none."""
        learner = self.watcher.learner
        known = watched(learner.delta.report)
        to_beat = sum(known["right"]) / max(1, len(known["right"]))
        try:
            delta, why = found()
            if delta is None:
                return Readapted(False, f"the network stays as it is: {why}")
            report = {**delta.report, WATCHED: {**known, "right": []}}
            self._store.commit(replace(delta, report=report), learner.place, to_beat)
        except TinytrainError as error:
            self.wanted = isinstance(error, ChangedError)
            return Readapted(False, f"the network was not adapted again: {error}")
        self.watcher.refresh()
        return Readapted(True, f"{what}, on trial for {JUDGED} corrections: {why}")

    def _judged(self) -> Iterator[Readapted]:
        learner, right = self.watcher.learner, self._right
        after, before = sum(right) / len(right), learner.start.to_beat
        kept = after >= before
        try:
            (self._store.confirm if kept else self._store.roll_back)(learner.place)
        except ChangedError:
            return  # another process has learnt or judged: the next look sees it
        self.watcher.refresh()
        text = "the adapted network is kept" if kept else "the network is what it was again"
        figures = f"{after:.0%} of the last {len(right)} corrected images were right, {before:.0%} before"
        yield Readapted(kept, f"{text}: {figures}")


def is_enough(delta: Delta, counts: Counter) -> bool:
    """Whether `counts` kept images by class are enough to adapt again."""
    known = {name: count for name, count in counts.items() if name in delta.class_names}
    if sum(known.values()) < LEAST_IMAGES:
        return False
    return delta.replay is not None or all(known.get(n, 0) >= LEAST_OF_CLASS for n in delta.class_names)


def memory_of(delta: Delta) -> int | None:
    """Bytes of the budget that `delta` was adapted in, None if it does not say."""
    said = delta.report.get("memory")
    return said.get("budget") if isinstance(said, dict) else None


def readapt(
    network: Network,
    delta: Delta,
    files: list[tuple[Path, str]],
    device: "Device | None" = None,
    seed: int = 0,
) -> tuple[Delta | None, str]:
    """The delta that was adapted to `files` with their classes, None if it is not better, and why.

    `delta` has learnt from all of them, and has the budget of memory that it was adapted in.
    """
    from tinytrain.pipeline.committee import adapt
    from tinytrain.pipeline.continual import (
        NO_IMAGES,
        continued_budget,
        continued_episode,
        continued_policy,
        with_forgotten,
    )

    known = [(path, name) for path, name in files if name in delta.class_names]
    held, rest = _divided(known)
    names, kind = delta.class_names, network.input.kind
    try:
        if delta.replay is not None:
            given = tuple(sorted({name for _, name in rest}))
            episode = continued_episode(delta, _images(rest, given, kind), given)
            policy = continued_policy(delta)
        else:
            episode, policy = Episode(_images(rest, names, kind), NO_IMAGES, names), "tinytrain"
        budget = continued_budget(delta, Budget(memory_of(delta) or usual_budget(network.name)))
        episode = holding.held(episode, network.input)
        report = with_forgotten(adapt(network, episode, budget, policy, seed, device), delta)
    except InputError as error:
        return None, str(error)
    if not report.guard.accepted:
        return None, report.guard.reasons[0].text
    if not held:
        return None, "no image of a class could be held out to judge by"
    images = _images(held, names, kind)
    before, after = (_accuracy(network, d, images, names) for d in (delta, report.delta))
    why = f"{after:.0%} of {len(held)} held-out images are right, {before:.0%} before"
    return report.delta if after >= before else None, why


def _divided(files: list[tuple[Path, str]]):
    """Every HELD_OUT-th image of each class, and the others."""
    held, rest, seen = [], [], Counter()
    for file in files:
        seen[file[1]] += 1
        (held if seen[file[1]] % HELD_OUT == 0 else rest).append(file)
    return held, rest


def _images(files: list[tuple[Path, str]], names: tuple[str, ...], kind: str) -> Images:
    labels = np.array([names.index(name) for _, name in files], np.int32)
    return images_of([path for path, _ in files], labels, kind=kind)


def _accuracy(network: Network, delta: Delta, images: Images, names: tuple[str, ...]) -> float:
    """Fraction of `images`, whose labels count in `names`, that `delta` gets right."""
    found = Predictor(network, delta).probabilities(images).argmax(axis=1)
    return float(
        np.mean([delta.class_names[k] == names[label] for k, label in zip(found, images.labels, strict=True)])
    )
