"""When ``tinytrain watch`` adapts the network again: it says how, or does so and goes back if worse."""

import os
import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from tinytrain.base.errors import InputError, StorageError, TinytrainError

CORRECTIONS = 32  # after so many it is worth it without a drift
TRIAL = 10  # corrections by which a new delta is judged
Said = tuple[dict, str]


class Readaptation:
    """`watcher` is the one to use; it is another one after the network was adapted again, or went back."""

    def __init__(self, opened, arguments):
        self.watcher, self._opened, self._mode = opened.watcher, opened, arguments.readapt
        self._backbone = arguments.backbone
        self.wanted = False
        self._corrections = 0
        self._right: deque[bool] = deque(maxlen=TRIAL)  # whether the last corrected images were right
        self._before: float | None = None  # fraction that was right before the trial
        self._known: dict = {}  # when each kept image changed last, as a trial begins

    def note(self, correction) -> None:
        """A correction was learnt."""
        self._corrections += 1
        if correction.guess is not None:
            self._right.append(correction.guess == correction.name)
        self.wanted = self.wanted or self._corrections >= CORRECTIONS

    def due(self) -> Iterator[Said]:
        """Do what is due, and yield what there is to say of it: JSON values and a text."""
        from tinytrain.stream.readapt import is_enough

        if self._before is not None and len(self._right) >= TRIAL:
            yield self._judged()
        if self._mode == "never" or not self.wanted or self._before is not None:
            return
        if not is_enough(self.watcher.learner.delta, self.watcher.kept.counts()):
            return
        self.wanted, self._corrections = False, 0
        yield self._proposal() if self._mode == "ask" else self._done()

    def _changed(self) -> dict:
        """Kept images, and when each changed last, by the clock of the files."""
        return {path: path.stat().st_mtime_ns for path, _ in self.watcher.kept.files()}

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
        from tinytrain.store.replay import WATCHED, watched
        from tinytrain.stream.readapt import readapt

        learner = self.watcher.learner
        try:
            outcome = readapt(self._opened.network, learner.delta, self.watcher.kept.files())
        except TinytrainError as error:
            return self._said(False, f"the network was not adapted again: {error}")
        if outcome.delta is None:
            return self._said(False, f"the network stays as it is: {outcome.why}")
        known = {WATCHED: watched(learner.delta.report)}
        right = list(self._right)
        self._opened.store.commit(replace(outcome.delta, report={**outcome.delta.report, **known}))
        self._before, self._known = sum(right) / max(1, len(right)), self._changed()
        self._open()
        return self._said(
            True, f"the network was adapted again, on trial for {TRIAL} corrections: {outcome.why}"
        )

    def _judged(self) -> Said:
        after, before, self._before = sum(self._right) / len(self._right), self._before, None
        figures = f"{after:.0%} of the last {TRIAL} corrected images were right, {before:.0%} before"
        if after >= before:
            self._opened.store.confirm()
            return self._said(True, f"the adapted network is kept: {figures}")
        self._opened.store.roll_back()
        changed = self._changed()
        relearnt = [(p, n) for p, n in self.watcher.kept.files() if self._known.get(p) != changed.get(p)]
        self._open()
        for path, name in relearnt:
            try:
                self.watcher.correct(str(path), name, new=True)
            except (InputError, StorageError):
                continue
        return self._said(False, f"the network is what it was again: {figures}")

    def _open(self) -> None:
        """Go on with the delta that the store has now."""
        from tinytrain.stream.opening import open_watcher

        kept, store = self.watcher.kept, self._opened.store
        start = store.peek()
        self.watcher = open_watcher(self._opened.network, start.delta, store, start, kept.most)
        self._right.clear()

    @staticmethod
    def _said(done: bool, text: str) -> Said:
        return {"event": "readapt", "done": done, "text": text}, text
