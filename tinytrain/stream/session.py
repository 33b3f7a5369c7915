"""One session of watching: images, typed lines and a label file go in, events come out, in order.

Where images come from and where events go is for others to say: a terminal, a file of JSON lines, a page.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tinytrain.base.errors import InputError, StorageError, TinytrainError, one_line, visible
from tinytrain.base.events import Event, Failed, Note, Tell
from tinytrain.drift.detector import DRIFT, Cusum
from tinytrain.store import watched
from tinytrain.stream.events import CUSUM, IMAGES, Drift, Ended, Hint, Learned
from tinytrain.stream.labels import HELP, QUIT, UNDO, WORDS, LabelFile, Meaning, meaning
from tinytrain.stream.readapt import Readaptation
from tinytrain.stream.sources import Frame
from tinytrain.stream.verdicts import named_anyway
from tinytrain.stream.watcher import RECENT, RecentImage, Watcher

MOST_PAUSES = 15  # rounds without an attempt to write, while the store takes nothing


@dataclass(frozen=True)
class About:
    """The `word` of another program about the recent image `key`, by default the last one.

    It means what it would mean in a terminal, but for what only helps or ends who types there.
    """

    key: str | None
    word: str


@dataclass(frozen=True)
class Settings:
    """How a session goes on.

    `reject`: the least confidence of a verdict. `labels`: a file of corrections, of images in `folder`.
    `drift`: what a change is looked for in, IMAGES or by CUSUM the errors that corrections show. `readapt`:
    "ask", "auto" or "never"; a command that does it is given the network `backbone`.
    """

    reject: float | None = None
    labels: str | None = None
    folder: str = ""
    drift: str = IMAGES
    readapt: str = "ask"
    backbone: str | None = None


class Session:
    """Tells events of the images, labels and pauses that it is given. `over`: the user has said so.

    With a store in `watcher`, corrections that this cannot take wait, in order, and are tried again.
    """

    def __init__(self, watcher: Watcher, tell: Tell, settings: Settings | None = None):
        self.watcher, self.tell, self.settings = watcher, tell, settings or Settings()
        self._learner = watcher.learner
        self._labels = self._label_file()
        self._again = None
        if self._learner.store is not None:
            self._again = Readaptation(watcher, self.settings.readapt, self.settings.backbone, tell)
        self._errors = None
        if self.settings.drift == CUSUM:
            watcher.learner.monitor, self._errors = None, Cusum()
            for right in self._learner.rights():
                self._errors.update(not right)
        self._waiting: deque[tuple] = deque()  # corrections that the store has not taken yet, in order
        self._trouble_said, self._failures, self._pauses = "", 0, 0
        self.counts = dict.fromkeys(("images", "failed", "corrections", "undone", "alarms"), 0)
        self.over = False
        if text := named_anyway(self._learner.delta.head):
            tell(Hint(text, is_needed=False))

    def look_at(self, frame: Frame | Note) -> None:
        """Tell the verdict for an image, or why it has none."""
        if isinstance(frame, Note):
            self.tell(frame)
            return
        try:
            seen = self.watcher.look_at(frame, self.settings.reject)
        except InputError as error:
            self._told("failed", Failed(error, {"image": frame.name}))
            return
        self._told("images", seen)
        if seen.drift == DRIFT:
            self._changed(Drift(frame.name))

    def correct(self, said: Iterable[str | About] = (), ended: bool = False) -> None:
        """Learn what was typed of the last image, what other programs say `About` recent ones, and what the
        label file says; no image comes any more if they have `ended`.

        An empty word confirms the verdict. While the store takes nothing, lines wait in the file.
        """
        self._try_again()
        for one in said:
            key, word, mark = (one.key, one.word, "") if isinstance(one, About) else (None, one, None)
            key, word = self.watcher.last if key is None else key, word.strip()
            if key is not None and self.watcher.guess_of(key) is None:
                text = f"{one_line(key, 200)} is none of the last {RECENT} images; name one of them"
                self.tell(Failed(InputError("file-missing", text), {"image": key, "class": word}))
            else:
                self._said(key, word or (key and self.watcher.guess_of(key)) or "", mark)
        for label in self._labels.read(ended) if self._labels and not self._waiting else ():
            if isinstance(label, InputError):
                self.tell(Failed(label, {}))
            else:
                self._said(self._key_of(label.key), label.name, label.mark)

    def idle(self) -> None:
        """Do what waits until no image does."""
        if self._waiting or self._pauses:
            return
        try:
            for event in self._again.due() if self._again else ():
                self.tell(event)
            self.watcher.idle()
            if self._learner is not self.watcher.learner:
                self._labels = self._label_file()  # another delta may know less of it
                self._learner = self.watcher.learner
        except (InputError, StorageError) as error:
            self._put_off(error)
        else:
            self._trouble_said = ""

    def finish(self) -> None:
        """Try a last time to learn what waits. Raises what the store gives as a reason to take nothing."""
        self._pauses = 0
        self._try_again()
        if self._waiting:
            raise self._error

    def end(self) -> None:
        """Tell what the whole session came to."""
        kept = self.watcher.learner.store is not None
        self.tell(Ended(dict(self.counts), self.watcher.class_names, len(self._waiting), kept))

    def help(self) -> None:
        """Tell what can be typed, and the classes."""
        names = self.watcher.class_names
        words = {command: word for word, command in reversed(WORDS.items()) if word not in names}
        does = {UNDO: "to take the last label back", HELP: "for this", QUIT: "to end"}
        ways = ["for the last image type its class or number, Enter if it is right, +NAME for a new class"]
        ways += [f"{words[command]} {what}" for command, what in does.items() if command in words]
        self.tell(Hint(", ".join(ways), is_needed=False))
        numbered = (f"{number} {visible(name)}" for number, name in enumerate(names, 1))
        self.tell(Hint(", ".join(numbered), is_needed=False))

    def _told(self, count: str, event: Event) -> None:
        self.counts[count] += 1
        self.tell(event)

    def _changed(self, drift: Drift, images: int = 0) -> None:
        """Tell a `drift`; the last `images` that were corrected are from after it, if that is known."""
        self._told("alarms", drift)
        if self._again:
            self._again.wanted, self._again.since = True, images

    def _label_file(self) -> LabelFile | None:
        """The label file, if there is one; what the delta before the one in use has learnt of it is old."""
        if self.settings.labels is None:
            return None
        store = self._learner.store
        before = store.before() if store else None
        marks = watched(before.delta.report)["marks"] if before and before.delta else {}
        return LabelFile(self.settings.labels, marks | self.watcher.learner.marks)

    def _said(self, key: str | None, word: str, mark: str | None) -> None:
        """Do what a `word` about image `key` means: of a label file with its `mark`, typed if that is None.

        If the store takes nothing, what has to be kept is done later, in the order in which it was said.
        """
        recent = None
        with contextlib.suppress(InputError):
            if mark is None and word and meaning(word, self.watcher.class_names).command in (HELP, QUIT):
                self._do(key, word, mark, None)
                return
            recent = None if key is None else self.watcher.recall(key)
        if not self._waiting:
            self._pauses = 0
        self._waiting.append((key, word, mark, recent))
        self._try_again()

    def _try_again(self) -> None:
        """Do what waits, unless the store took nothing a moment ago."""
        self._pauses = max(0, self._pauses - 1)
        while self._waiting and not self._pauses:
            try:
                self._do(*self._waiting[0])
            except (InputError, StorageError) as error:
                self._put_off(error)
                return
            self._waiting.popleft()
            self._failures = 0

    def _put_off(self, error: TinytrainError) -> None:
        """The store takes nothing: tell so once, and try again later, less and less often."""
        if not _is_of_store(error) or error.code == "store-changed":
            raise error
        self._error, self._failures = error, self._failures + 1
        self._pauses = min(2 ** (self._failures - 1), MOST_PAUSES)
        if self._trouble_said != error.message:
            self._trouble_said = error.message
            self.tell(Failed(error, {}, "; images are looked at all the same, and corrections wait"))

    def _do(self, key: str | None, word: str, mark: str | None, recent: RecentImage | None) -> None:
        """Raises InputError or StorageError if the store takes nothing."""
        try:
            said = meaning(word, self.watcher.class_names) if word else Meaning()
            if mark is not None and said.command in (HELP, QUIT):
                text = f"{word!r} is for a terminal; for a class of that name write +{word}"
                raise InputError("labels-unreadable", text)
            if said.command == UNDO:
                if done := self.watcher.undo(None if mark is None else key, mark or ""):
                    self._told("undone", done)
                else:
                    self.tell(Hint("no label to take back: what is older is a part of the delta"))
            elif said.command == HELP:
                self.help()
            elif said.command == QUIT:
                self.over = True
            elif key is None:
                self.tell(Hint("there is no image to correct yet"))
            else:
                self._learnt(self.watcher.correct(key, said.name, mark or "", said.new, recent))
        except InputError as error:
            if _is_of_store(error):
                raise
            self.tell(Failed(error, {"image": key, "class": word}))

    def _learnt(self, done: Learned) -> None:
        if done.repeated:
            return
        self._told("corrections", done)
        if self._again:
            self._again.note()
        if self._errors is None or done.guess is None or done.before is not None:
            return  # nothing is known of how it was taken, or that counted with its first label
        if self._errors.update(done.guess != done.name) == DRIFT:
            self._changed(Drift(done.key, CUSUM), self._errors.since)

    def _key_of(self, text: str) -> str:
        """The image that a line of the label file means: as it is called here, or a file in the folder."""
        path = os.path.join(self.settings.folder, text)
        known = self.watcher.guess_of(text) is not None or os.path.isabs(text)
        return text if known or not (self.watcher.guess_of(path) or os.path.isfile(path)) else path


def _is_of_store(error: TinytrainError) -> bool:
    """Whether it is the store that is missing, full or damaged, and not the correction that is wrong."""
    return isinstance(error, StorageError) or error.code.startswith("store-")
