"""What ``tinytrain watch`` says of images and corrections, and where its corrections come from."""

import contextlib
import json
import os
import select
from collections import deque

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import InputError, StorageError, TinytrainError, UsageError, visible
from tinytrain.cli.commands.common import print_line, say
from tinytrain.cli.commands.readaptation import Readaptation
from tinytrain.cli.commands.verdicts import normal_facts, say_if_all_are_named, verdict_in_words

WIDEST = 60  # letters of a name of an image in the first column
LONGEST_WAIT = 86400.0
MOST_PAUSES = 15  # rounds without an attempt to write, while the store takes nothing


def seconds(text: str) -> float:
    """An argparse type: seconds to wait, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.05 <= value <= LONGEST_WAIT:
        raise UsageError("usage", f"{text!r} is no number of seconds from 0.05 to {LONGEST_WAIT:,.0f}")
    return value


class Keyboard:
    """Lines that are typed while the command runs; none after the end of the input."""

    def __init__(self):
        self._open, self._rest, self._lines = True, "", []

    def wait(self, duration: float) -> None:
        """Wait for a line, at most `duration` seconds."""
        self._poll(duration)

    def lines(self) -> list[str]:
        """The lines that were typed since the last call."""
        self._poll(0)
        found, self._lines = self._lines, []
        return found

    def _poll(self, duration: float) -> None:
        if self._lines:
            return
        if not select.select([0] if self._open else [], [], [], duration)[0]:
            return
        data = os.read(0, 4096).decode(errors="replace")
        self._open = bool(data)
        *lines, self._rest = (self._rest + data).split("\n")
        self._lines += lines


class Session:
    """One run of the command: prints verdicts and corrections as they come, and a summary at the end."""

    def __init__(self, arguments, opened, keyboard: Keyboard | None):
        self.watcher, self.keyboard, self._arguments = opened.watcher, keyboard, arguments
        self._store = opened.store
        self._labels = self._label_file()
        self._again = Readaptation(opened, arguments) if opened.store is not None else None
        self._learner = opened.watcher.learner
        self._waiting: deque[tuple] = deque()  # corrections that the store has not taken yet, in order
        self._trouble_said, self._failures, self._pauses = "", 0, 0
        say_if_all_are_named(opened.watcher.learner.delta.head)
        self.seen = self.learnt = self.undone = self.failed = self.alarms = self._width = 0
        self.over = False  # whether the user has said so
        if keyboard is not None:
            self._help()

    def look_at(self, frame) -> None:
        """Print the verdict for an image, or why it has none."""
        try:
            found = self.watcher.observe(frame.name, frame.content, self._arguments.reject)
        except InputError as error:
            self.failed += 1
            self._trouble({"image": frame.name}, error)
            return
        self.seen += 1
        row = {
            "image": frame.name,
            "class": found.name,
            "best_guess": found.guess,
            "confidence": found.verdict.confidence,
            "verdict": found.verdict.state,
            **normal_facts(found.verdict),
            "drift": found.drift,
        }
        self._print(row, self._verdict_line(row))
        if found.drift == "drift":
            self.alarms += 1
            self._alarm(frame.name)
            if self._again:
                self._again.wanted = True

    def note(self, text: str) -> None:
        """Print what a source of images has to say."""
        say(text, error=True)
        if self._arguments.json:
            self._print({"event": "note", "text": text}, "")

    def correct(self, ended: bool = False) -> None:
        """Learn what the keyboard and the label file say; no image comes any more if they have `ended`.

        While the store takes nothing, lines wait in the file.
        """
        self._try_again()
        for line in self.keyboard.lines() if self.keyboard else ():
            self._typed(line.strip())
        for label in self._labels.read(ended) if self._labels and not self._waiting else ():
            if isinstance(label, InputError):
                self._trouble({}, label)
            else:
                self._said(self._key_of(label.key), label.name, label.mark)

    def idle(self) -> None:
        """Do what waits until no image does."""
        if self._waiting or self._pauses:
            return
        try:
            self.watcher.idle()
            for row, text in self._again.due() if self._again else ():
                say(text, error=True)
                if self._arguments.json:
                    self._print(row, "")
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
        """Print what the whole run came to."""
        names = self.watcher.class_names
        row = {"event": "end", "images": self.seen, "failed": self.failed, "corrections": self.learnt,
               "undone": self.undone, "alarms": self.alarms, "classes": list(names)}  # fmt: skip
        kept = "" if self.watcher.learner.store else ", not kept"
        kept += f", {len(self._waiting)} not learnt" if self._waiting else ""
        back = f", {self.undone} taken back" if self.undone else ""
        say(f"{self.seen} images, {self.failed} unreadable, {self.learnt} corrections learnt{kept}{back}, "
            f"{self.alarms} alarms, {len(names)} classes")  # fmt: skip
        if self._arguments.json:
            self._print(row, "")

    def _label_file(self):
        """The label file, if there is one; what the delta before the one in use has learnt of it is old."""
        from tinytrain.store.replay import watched
        from tinytrain.stream.labels import LabelFile

        if self._arguments.labels is None:
            return None
        before = self._store.before() if self._store else None
        marks = watched(before.delta.report)["marks"] if before and before.delta else {}
        return LabelFile(self._arguments.labels, marks | self.watcher.learner.marks)

    def _help(self) -> None:
        """Say what can be typed, and the classes."""
        from tinytrain.stream.labels import HELP, QUIT, UNDO, WORDS

        names = self.watcher.class_names
        words = {command: word for word, command in reversed(WORDS.items()) if word not in names}
        does = {UNDO: "to take the last label back", HELP: "for this", QUIT: "to end"}
        ways = ["for the last image type its class or number, Enter if it is right, +NAME for a new class"]
        say(", ".join([*ways, *(f"{words[c]} {what}" for c, what in does.items() if c in words)]))
        say(", ".join(f"{number} {visible(name)}" for number, name in enumerate(names, 1)))

    def _typed(self, text: str) -> None:
        last = self.watcher.last
        self._said(last, text or (last and self.watcher.guess_of(last)) or "")

    def _said(self, key: str | None, word: str, mark: str = "") -> None:
        """Do what a `word` about image `key` means, one that was typed or, with a `mark`, read.

        If the store takes nothing, what has to be kept is done later, in the order in which it was said.
        """
        from tinytrain.stream.labels import HELP, QUIT, meaning

        recent = None
        with contextlib.suppress(InputError):
            if not mark and word and meaning(word, self.watcher.class_names).command in (HELP, QUIT):
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
        """The store takes nothing: say so once, and try again later, less and less often."""
        if not _is_of_store(error) or error.code == "store-changed":
            raise error
        self._error, self._failures = error, self._failures + 1
        self._pauses = min(2 ** (self._failures - 1), MOST_PAUSES)
        if self._trouble_said != error.message:
            self._trouble_said = error.message
            self._trouble({}, error, "; images are looked at all the same, and corrections wait")

    def _do(self, key: str | None, word: str, mark: str, recent) -> None:
        """Raises InputError or StorageError if the store takes nothing."""
        from tinytrain.stream.labels import HELP, QUIT, UNDO, Meaning, meaning

        try:
            said = meaning(word, self.watcher.class_names) if word else Meaning()
            if mark and said.command in (HELP, QUIT):
                text = f"{word!r} is for a terminal; for a class of that name write +{word}"
                raise InputError("labels-unreadable", text)
            if said.command == UNDO:
                self._print_undone(self.watcher.undo(key if mark else None, mark))
            elif said.command == HELP:
                self._help()
            elif said.command == QUIT:
                self.over = True
            elif key is None:
                say("there is no image to correct yet", error=True)
            else:
                self._print_correction(self.watcher.correct(key, said.name, mark, said.new, recent))
        except InputError as error:
            if _is_of_store(error):
                raise
            self._trouble({"image": key, "class": word}, error)

    def _print_undone(self, done) -> None:
        if done is None:
            say("no label to take back: what is older is a part of the delta", error=True)
            return
        self.undone += 1
        row = {"event": "undo", "image": done.key, "class": done.name, "before": done.before}
        again = f", it is {visible(done.name)} again" if done.name else ""
        image = self._column(done.key or "an earlier image")
        self._print(row, f"{image}  taken back: {visible(done.before)}{again}")

    def _print_correction(self, done) -> None:
        if done.repeated:
            return
        self.learnt += 1
        if self._again:
            self._again.note(done)
        row = {"event": "correction", "image": done.key, "class": done.name, "new_class": done.new,
               "before": done.before, "replaced": done.replaced,
               "seconds": round(done.seconds, 6)}  # fmt: skip
        took = f" in {1000 * done.seconds:.1f} ms" if self._arguments.verbose else ""
        what = "right" if done.guess == done.name else "new class" if done.new else "corrected"
        if done.before:
            how = "in place of" if done.replaced else "but its older label is a part of the delta and stays:"
            took += f", {how} {visible(done.before)}"
        self._print(row, f"{self._column(done.key)}  {what}: {visible(done.name)}, learnt{took}")

    def _key_of(self, text: str) -> str:
        """The image that a line of the label file means: as it is called here, or a file in the folder."""
        path = os.path.join(self._arguments.source or "", text)
        known = self.watcher.guess_of(text) is not None or os.path.isabs(text)
        return text if known or not (self.watcher.guess_of(path) or os.path.isfile(path)) else path

    def _alarm(self, key: str) -> None:
        text = "the images have changed: verdicts may be wrong now; correct some of the next ones"
        if self._arguments.json:
            self._print({"event": "drift", "image": key, "text": text}, "")
        say(f"{visible(key)}: {text}", error=True)

    def _trouble(self, row: dict, error: TinytrainError, more: str = "") -> None:
        say(f"{error}{more}", error=True)
        if self._arguments.json:
            self._print({"event": "error", **row, **error.facts()}, "")

    def _verdict_line(self, row: dict) -> str:
        return f"{self._column(row['image'])}  {verdict_in_words(row, self._arguments.reject)}"

    def _column(self, key: str) -> str:
        image = visible(key)
        self._width = max(self._width, min(WIDEST, len(image)))
        return f"{image:<{self._width}}"

    def _print(self, row: dict, line: str) -> None:
        print_line(json.dumps(with_old_keys(row), allow_nan=False) if self._arguments.json else line)


def _is_of_store(error: TinytrainError) -> bool:
    """Whether it is the store that is missing, full or damaged, and not the correction that is wrong."""
    return isinstance(error, StorageError) or error.code.startswith("store-")
