"""When the stream of a session asks for more than its corrections: to adapt again, and to go back if worse.

What a trial must beat, and which corrected images were right in it, is in the store: whoever watches it next
judges it.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from tinytrain.base.errors import TinytrainError
from tinytrain.delta.delta import Delta
from tinytrain.store import JUDGED, WATCHED, ChangedError, watched
from tinytrain.stream.events import Readapted
from tinytrain.stream.watcher import Watcher

CORRECTIONS = 32  # after so many it is worth it without a drift


class Readaptation:
    """What the `watcher` of a store goes on with: its delta adapted again, or the one before.

    `wanted`: something has changed. Of the images that were corrected the last `since` are from after that; 0
    if it is not known how many.
    """

    def __init__(self, watcher: Watcher, mode: str, backbone: str | None = None):
        self.watcher, self._mode, self._backbone = watcher, mode, backbone
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
        from tinytrain.stream.readapt import is_enough

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
        words = ("tinytrain", "adapt", *remembered, kept, "--store", store, *network)
        count = sum(self.watcher.kept.counts().values())
        text = f"{count} corrected images are kept; to adapt the network to them, end this and run: "
        return Readapted(False, text, words)

    def _trained(self) -> tuple[Delta | None, str]:
        from tinytrain.stream.readapt import readapt

        watcher = self.watcher
        return readapt(watcher.predictor.network, watcher.learner.delta, watcher.kept.files())

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
