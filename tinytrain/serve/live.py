"""Verdicts on images as they come, and corrections of the last ones: one `Watcher` for all browsers."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from threading import RLock

import numpy as np

from tinytrain.backbones.load import backbone_of
from tinytrain.base.errors import InputError, TinytrainError, one_line
from tinytrain.base.events import Failed, Tell
from tinytrain.delta.delta import Delta
from tinytrain.drift.detector import DRIFT
from tinytrain.episode.kinds import kind_of
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.serve.history import History
from tinytrain.serve.project import Project
from tinytrain.store import Store
from tinytrain.store.kept import digest_of
from tinytrain.stream.events import DRIFTS, IMAGES, Drift, Readapted
from tinytrain.stream.labels import UNDO, meaning
from tinytrain.stream.readapt import CORRECTIONS
from tinytrain.stream.session import About
from tinytrain.stream.sources import Frame
from tinytrain.stream.verdicts import named_anyway
from tinytrain.stream.watcher import NEVER, RecentImage, Watcher

NOTHING = "nothing has been learnt yet"


class Live:
    """The delta in use of a `project`: what it says of images, and what it learns from corrections.

    ``tell(event, facts)`` tells browsers of it, `hear` hears the events. `network` is that of
    ``--backbone``; by default the one that the delta was made from is looked for. `trouble` says why a delta
    gives no verdicts, or names every image. Safe for threads.
    Raises InputError and StorageError as `Watcher` does, and ``store-missing`` without a delta.
    """

    def __init__(
        self,
        project: Project,
        tell: Callable[[str, dict], object],
        network: Network | Committee | None = None,
        hear: Tell = lambda event: None,
    ):
        self.project, self.tell, self.hear = project, tell, hear
        self._network = network and self._fitting(network)
        self.store, self._lock = Store(project.state), RLock()
        self.watcher: Watcher | None = None
        self.trouble, self.drift, self.corrections = "", None, 0
        self.history = History()
        self._last: dict | None = None  # the last verdict, as long as it would be the same again
        self._since: list[tuple[str, str, bytes]] | None = None  # corrections while the network learns
        self.open(is_start=True)

    def open(self, is_start: bool = False) -> None:
        """Go on with what the store holds now; `is_start`: this counts as a start of the device."""
        with self._lock:
            self.watcher, self.trouble, self.drift, self.corrections = None, "", None, 0
            self._last, self.stamp = None, self.project.state_stamp()
            try:
                if not self.project.state.is_dir():
                    return
                start = self.store.start(self._is_here) if is_start else self.store.peek()
                if (delta := start.delta) is None:
                    return
                network = self._network if self._is_given_for(delta) else backbone_of(delta)
                self.watcher = Watcher(self._fitting(network), delta, self.store, start)
                self.trouble = named_anyway(delta.head)
            except InputError as error:
                self.trouble = error.message

    def predict(self, data: bytes) -> dict:
        """The verdict on an image file, which is remembered under its "id"; once for the same image again,
        as several browsers ask for what one camera shows."""
        key = digest_of(data)
        with self._lock:
            if self._last is not None and self._last["id"] == key:
                return self._last
            try:
                seen = self._opened().look_at(Frame(key, data, data, key))
            except InputError as error:
                self.hear(Failed(error, {"image": key}))
                raise
            self.hear(seen)
            chances = seen.verdict.probabilities.tolist()
            facts = seen.facts() | {"scores": dict(zip(self.watcher.class_names, chances, strict=True))}
            self._last = row = self.history.add({"id": facts.pop("image"), **facts}, data)
            self.tell("verdict", row)
            if seen.drift == DRIFT:
                self.drift = DRIFTS[IMAGES]
                self.hear(Drift(key))
                self.tell("drift", {"id": key, "text": self.drift})
                self.tell("readapt", {"text": "the images have changed: learn again from the images"})
        return row

    def correct(self, key: str, name: str, new: bool = False) -> dict:
        """Learn that one of the last images is of class `name`, and keep the image in that class.

        A class of the project may be one that the delta does not know yet; if `new`, it is made.
        """
        with self._lock:
            watcher, seen = self._opened(), self.history.find(key)
            known = name in self.project.classes()
            if not (known or new or name in watcher.class_names):
                raise InputError("unknown-class", f"there is no class {one_line(name, 100)!r}; add it first")
            if not known:
                name = self.project.add_class(name)
            recent = RecentImage(np.empty(0), NEVER, seen.row["best_guess"], key, seen.data)
            with contextlib.suppress(InputError):
                recent = replace(watcher.recall(key), image=seen.data)
            try:
                learned = watcher.correct(key, name, new=name not in watcher.class_names, recent=recent)
            except TinytrainError:
                if not known:
                    self.project.undo()  # a class that cannot be learnt is none of the project's
                raise
            self.hear(learned)
            self._placed(key, learned.before, name, seen.data)
            if self._since is not None:
                self._since.append((key, name, seen.data))
            return self._said(key, name, learned.facts())

    def undo(self) -> dict | None:
        """Take the last correction back; None if there is none since the journal became a part of the
        delta."""
        with self._lock:
            taken = self._opened().undo()
            if taken is None:
                return None
            self.hear(taken)
            if taken.key:
                self._placed(taken.key, taken.before, taken.name)
                if self._since is not None:
                    self._since = [row for row in self._since if row[0] != taken.key]
            return self._said(taken.key, taken.name, taken.facts())

    def learning(self, goes_on: bool) -> None:
        """From now on, corrections are also meant for the delta that is being made, or not any more."""
        with self._lock:
            self._since = [] if goes_on else None

    def commit(self, delta: Delta) -> None:
        """Put what was learnt on trial, or in use at once if there is no delta before it.

        It learns what was corrected meanwhile.
        """
        with self._lock:
            since, self._since = self._since or [], None
            first = self.watcher is None
            self.store.commit(delta)
            if first:
                self.store.confirm()
            self.open()
            self.hear(Readapted(True, "the network has learnt the images"))
            for key, name, data in since:
                with contextlib.suppress(InputError):  # a class that it cannot learn
                    recent = RecentImage(np.empty(0), NEVER, None, key, data)
                    new = name not in self.watcher.class_names
                    self.watcher.correct(key, name, new=new, recent=recent)

    def keep(self) -> None:
        """Keep the delta on trial."""
        self._judge(self.store.confirm, "the network is kept")

    def back(self) -> None:
        """Go back to the delta before."""
        self._judge(self.store.roll_back, "the network is what it was again")

    def rename(self, old: str, new: str) -> None:
        """Call a class of the delta by another name, if it has it."""
        with self._lock:
            if self.watcher is not None and old in self.watcher.class_names:
                self.watcher.rename(old, new)
                self._last = None

    def idle(self) -> None:
        """Do what waits until no image does."""
        with self._lock:
            self._last = None
            if self.watcher is not None:
                self.watcher.idle()

    def facts(self) -> dict:
        """What a page shows of it: "delta", "trial" and "live"."""
        with self._lock:
            running, delta = self.watcher is not None, None
            if running:
                learner = self.watcher.learner
                slot = learner.place.slot
                delta = {
                    "classes": list(self.watcher.class_names),
                    "sha256": slot.sha256,
                    "bytes": slot.size,
                    "images": learner.delta.report.get("episode", {}).get("n_support"),
                    "generation": slot.generation,
                }
            live = {
                "running": running,
                "history": self.history.rows(),
                "drift": self.drift,
                "text": self.trouble or None,
            }
            return {"delta": delta, "trial": running and self.watcher.is_on_trial(), "live": live}

    def said(self, about: About) -> None:
        """Do what a word from elsewhere means: a class of an image, by default the last one, or to undo."""
        with self._lock:
            try:
                found = meaning(about.word, self._opened().class_names)
                if found.command == UNDO:
                    self.undo()
                elif found.name and (key := about.key or (self.history.last or {}).get("id")):
                    self.correct(key, found.name, found.new)
            except TinytrainError as error:
                self.hear(Failed(error, {"image": about.key, "class": about.word}))

    def _judge(self, change: Callable[[], object], text: str) -> None:
        with self._lock:
            self._opened()
            change()
            self.open()
            self.hear(Readapted(True, text))

    def _opened(self) -> Watcher:
        if self.watcher is None:
            raise InputError("store-missing", self.trouble or NOTHING)
        return self.watcher

    def _fitting(self, network: Network | Committee) -> Network | Committee:
        """`network`. Raises InputError ``unsupported`` if it is not for what the project has."""
        if self.project.known_kind is None:
            self.project.expect(kind_of(network.input.kind))
        if (kind := self.project.kind).name != network.input.kind:
            takes = f"{one_line(network.name, 100)} takes {network.input.words}; name another with --backbone"
            raise InputError("unsupported", f"the page has {kind.plural}, and {takes}")
        return network

    def _is_given_for(self, delta) -> bool:
        return self._network is not None and self._network.digest == delta.backbone

    def _is_here(self, delta) -> bool:
        try:
            return self._is_given_for(delta) or backbone_of(delta).digest == delta.backbone
        except TinytrainError:
            return False

    def _placed(self, key: str, before: str | None, name: str | None, data: bytes | None = None) -> None:
        """The image lies in class `name`, if that is known, and not in class `before` any more."""
        for image in self.project.classes().get(before or "", ()):
            if image.path.stem == key:
                if name is None:
                    self.project.delete(image.id, step=False)
                elif name != before:
                    self.project.move(image.id, name, step=False)
                return
        if name is not None and data is not None:
            self.project.add(name, data, step=False)

    def _said(self, key: str, name: str | None, facts: dict) -> dict:
        self._last = None
        self.history.corrected(key, name)
        facts["id"] = facts.pop("image")
        self.tell("correction", facts)
        self.corrections += facts["event"] == "correction"
        if self.corrections == CORRECTIONS:
            text = f"{CORRECTIONS} images were corrected: learn again from all images"
            self.tell("readapt", {"text": text})
        return facts
