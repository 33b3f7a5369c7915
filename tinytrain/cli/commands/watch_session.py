"""What ``tinytrain watch`` says of images and corrections, and where its corrections come from."""

import json
import os
import select
import unicodedata

from tinytrain.base.console import suggestion
from tinytrain.base.errors import InputError, UsageError, visible
from tinytrain.cli.commands.common import print_line, say
from tinytrain.cli.commands.readaptation import Readaptation
from tinytrain.cli.commands.verdicts import normal_facts, say_if_all_are_named, verdict_in_words

WIDEST = 60  # letters of a name of an image in the first column
NEW, LIST = "+", "?"
LONGEST_WAIT = 86400.0


def seconds(text: str) -> float:
    """An argparse type: seconds to wait, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.05 <= value <= LONGEST_WAIT:
        raise UsageError("bad-number", f"{text!r} is no number of seconds from 0.05 to {LONGEST_WAIT:,.0f}")
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
        from tinytrain.stream.labels import LabelFile

        self.watcher, self.keyboard, self._arguments = opened.watcher, keyboard, arguments
        self._labels = None
        if arguments.labels is not None:
            self._labels = LabelFile(arguments.labels, opened.mark)
        self._again = Readaptation(opened, arguments) if opened.watcher.kept else None
        say_if_all_are_named(opened.watcher.learner.delta.head)
        self.seen = self.learnt = self.failed = self.alarms = self._width = 0

    def look_at(self, frame) -> None:
        """Print the verdict for an image, or why it has none."""
        try:
            found = self.watcher.observe(frame.name, frame.content, self._arguments.reject)
        except InputError as error:
            self.failed += 1
            self._trouble({"picture": frame.name}, error)
            return
        self.seen += 1
        row = {
            "picture": frame.name,
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

    def correct(self) -> None:
        """Learn what the keyboard and the label file say."""
        for line in self.keyboard.lines() if self.keyboard else ():
            self._typed(line.strip())
        for label in self._labels.read() if self._labels else ():
            if isinstance(label, InputError):
                self._trouble({}, label)
            else:
                self._correct(self._key_of(label.key), label.name, label.mark)

    def idle(self) -> None:
        """Do what waits until no image does."""
        self.watcher.idle()
        if self._again is None:
            return
        for row, text in self._again.due():
            say(text, error=True)
            if self._arguments.json:
                self._print(row, "")
        self.watcher = self._again.watcher

    def end(self) -> None:
        """Print what the whole run came to."""
        names = self.watcher.class_names
        row = {"event": "end", "pictures": self.seen, "failed": self.failed, "corrections": self.learnt,
               "alarms": self.alarms, "classes": list(names)}  # fmt: skip
        kept = "" if self.watcher.learner.store else ", not kept"
        say(f"{self.seen} images, {self.failed} unreadable, {self.learnt} corrections learnt{kept}, "
            f"{self.alarms} alarms, {len(names)} classes")  # fmt: skip
        if self._arguments.json:
            self._print(row, "")

    def _typed(self, text: str) -> None:
        names, key = self.watcher.class_names, self.watcher.last
        if text == LIST:
            say(", ".join(f"{number} {visible(name)}" for number, name in enumerate(names, 1)))
            return
        if key is None:
            say("there is no image to correct yet", error=True)
            return
        try:
            name = self.watcher.guess_of(key) if not text else chosen(text, names)
        except UsageError as error:
            say(str(error), error=True)
            return
        self._correct(key, name)

    def _correct(self, key: str, name: str, mark: str = "") -> None:
        try:
            done = self.watcher.correct(key, name, mark)
        except InputError as error:
            self._trouble({"picture": key, "class": name}, error)
            return
        if done.repeated:
            return
        self.learnt += 1
        if self._again:
            self._again.note(done)
        row = {"event": "correction", "picture": key, "class": name, "new_class": done.new,
               "seconds": round(done.seconds, 6)}  # fmt: skip
        took = f" in {1000 * done.seconds:.1f} ms" if self._arguments.verbose else ""
        what = "right" if done.guess == name else "new class" if done.new else "corrected"
        self._print(row, f"{self._column(key)}  {what}: {visible(name)}, learnt{took}")

    def _key_of(self, text: str) -> str:
        """The image that a line of the label file means: as it is called here, or a file in the folder."""
        path = os.path.join(self._arguments.source or "", text)
        known = self.watcher.guess_of(text) is not None or os.path.isabs(text)
        return text if known or not (self.watcher.guess_of(path) or os.path.isfile(path)) else path

    def _alarm(self, key: str) -> None:
        text = "the images have changed: verdicts may be wrong now; correct some of the next ones"
        if self._arguments.json:
            self._print({"event": "drift", "picture": key, "text": text}, "")
        say(f"{visible(key)}: {text}", error=True)

    def _trouble(self, row: dict, error: InputError) -> None:
        say(str(error), error=True)
        if self._arguments.json:
            self._print({"event": "error", **row, **error.facts()}, "")

    def _verdict_line(self, row: dict) -> str:
        return f"{self._column(row['picture'])}  {verdict_in_words(row, self._arguments.reject)}"

    def _column(self, key: str) -> str:
        image = visible(key)
        self._width = max(self._width, min(WIDEST, len(image)))
        return f"{image:<{self._width}}"

    def _print(self, row: dict, line: str) -> None:
        print_line(json.dumps(row, allow_nan=False) if self._arguments.json else line)


def mark_of(delta) -> str:
    """Where corrections of a label file go on that a delta, or None, has learnt from."""
    return "" if delta is None else delta.report.get("watched", {}).get("mark", "")


def chosen(text: str, names: tuple[str, ...]) -> str:
    """The class that a typed line means: a name, a number from 1, or a new class.

    Raises UsageError ``new-class`` if the name is close to that of a class, which `NEW` before it overrules.
    """
    name = unicodedata.normalize("NFC", text)
    if name in names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    if name.startswith(NEW) and name[1:].strip():
        return name[1:].strip()
    if hint := suggestion(name, names):
        raise UsageError("new-class", f"no class {name!r}{hint} For a new class write {NEW}{name}")
    return name
