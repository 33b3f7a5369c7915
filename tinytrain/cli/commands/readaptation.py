"""When ``tinytrain watch`` adapts the network again: it says how, or does so and goes back if worse.

What a trial must beat, and which corrected images were right in it, is in the store: whoever watches it next
judges it.
"""

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace

from tinytrain.base.errors import TinytrainError

CORRECTIONS = 32  # after so many it is worth it without a drift
Said = tuple[dict, str]


class Readaptation:
    """What `watcher` goes on with after the network was adapted again, or went back."""

    def __init__(self, opened, arguments):
        self.watcher, self._opened, self._mode = opened.watcher, opened, arguments.readapt
        self._backbone = arguments.backbone
        self.wanted = False
        self._corrections = 0

    def note(self, correction) -> None:
        """A correction was learnt."""
        self._corrections += 1
        self.wanted = self.wanted or self._corrections >= CORRECTIONS

    def due(self) -> Iterator[Said]:
        """Do what is due, and yield what there is to say of it: JSON values and a text.

        Raises InputError or StorageError if the store cannot be read or changed; it is due again then.
        """
        from tinytrain.stream.readapt import is_enough

        watcher = self.watcher
        if self._is_over:
            watcher.refresh()
            if self._is_over:  # nobody else has confirmed it, or gone back
                yield from self._judged()
        if self._mode == "never" or not self.wanted or watcher.kept is None:
            return
        if not is_enough(watcher.learner.delta, watcher.kept.counts()):
            return
        watcher.refresh()
        if not watcher.learner.start.confirmed:
            return
        self.wanted, self._corrections = False, 0
        yield self._proposal() if self._mode == "ask" else self._done()

    @property
    def _right(self) -> list[bool]:
        """Whether the last images that were corrected had been right, of a trial those that judge it."""
        from tinytrain.store import watched

        return watched(self.watcher.learner.delta.report)["right"]

    @property
    def _is_over(self) -> bool:
        """Whether there is a trial, with enough images to judge it by."""
        from tinytrain.store import JUDGED

        return self.watcher.learner.start.to_beat is not None and len(self._right) >= JUDGED

    def _proposal(self) -> Said:
        store, kept = os.fspath(self._opened.store.path), os.fspath(self.watcher.kept.path)
        words = ["tinytrain", "adapt", kept, "--store", store]
        if self.watcher.learner.delta.replay is not None:
            words[2:2] = ["--from", store]
        if self._backbone is not None:
            words += ["--backbone", self._backbone]
        count = sum(self.watcher.kept.counts().values())
        text = f"{count} corrected images are kept; to adapt the network to them, end this and run: "
        return {"event": "readapt", "done": False, "command": words}, text + shlex.join(words)

    def _done(self) -> Said:
        from tinytrain.store import JUDGED, WATCHED, ChangedError, watched
        from tinytrain.stream.readapt import readapt

        learner = self.watcher.learner
        known = watched(learner.delta.report)
        to_beat = sum(known["right"]) / max(1, len(known["right"]))
        try:
            outcome = readapt(self._opened.network, learner.delta, self.watcher.kept.files())
            if outcome.delta is None:
                return self._said(False, f"the network stays as it is: {outcome.why}")
            report = {**outcome.delta.report, WATCHED: {**known, "right": []}}
            self._opened.store.commit(replace(outcome.delta, report=report), learner.place, to_beat)
        except TinytrainError as error:
            self.wanted = isinstance(error, ChangedError)
            return self._said(False, f"the network was not adapted again: {error}")
        self.watcher.refresh()
        return self._said(
            True, f"the network was adapted again, on trial for {JUDGED} corrections: {outcome.why}"
        )

    def _judged(self) -> Iterator[Said]:
        from tinytrain.store import ChangedError

        store, learner, right = self._opened.store, self.watcher.learner, self._right
        after, before = sum(right) / len(right), learner.start.to_beat
        kept = after >= before
        try:
            (store.confirm if kept else store.roll_back)(learner.place)
        except ChangedError:
            return  # another process has learnt or judged: the next look sees it
        self.watcher.refresh()
        text = "the adapted network is kept" if kept else "the network is what it was again"
        figures = f"{after:.0%} of the last {len(right)} corrected images were right, {before:.0%} before"
        yield self._said(kept, f"{text}: {figures}")

    @staticmethod
    def _said(done: bool, text: str) -> Said:
        return {"event": "readapt", "done": done, "text": text}, text
