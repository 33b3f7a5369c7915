"""The terminal of ``tinytrain watch``: the lines that are typed there, and the events that it shows."""

import json
import os
import select

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import visible
from tinytrain.base.events import Progress
from tinytrain.cli.commands.common import print_line, say
from tinytrain.stream.events import Hint, Learned, TakenBack, Verdict

WIDEST = 60  # letters of a name of an image in the first column


class Keyboard:
    """Lines that are typed while the command runs; none after the end of the input."""

    def __init__(self):
        self._open, self._rest, self._lines = True, "", []

    def wait(self, duration: float) -> bool:
        """Wait for a line, at most `duration` seconds; whether there is one."""
        if not self._lines and select.select([0] if self._open else [], [], [], duration)[0]:
            data = os.read(0, 4096).decode(errors="replace")
            self._open = bool(data)
            *lines, self._rest = (self._rest + data).split("\n")
            self._lines += lines
        return bool(self._lines)

    def lines(self) -> list[str]:
        """The lines that were typed since the last call."""
        self.wait(0)
        found, self._lines = self._lines, []
        return found


class Printer:
    """Prints events: verdicts and labels in two columns, what else there is to say on standard error.

    With --json standard output has a line of JSON for each event but hints and progress, and nothing else.
    """

    def __init__(self, arguments, kind):
        self._json, self._verbose, self._width = arguments.json, arguments.verbose, 0
        self._in_words = kind.words

    def __call__(self, event) -> None:
        if isinstance(event, Progress):
            return
        is_result = isinstance(event, Verdict | Learned | TakenBack)
        if not is_result:
            say(self._in_words(event.words()), error=event.is_needed)
        if self._json and not isinstance(event, Hint):
            print_line(json.dumps(with_old_keys(event.facts()), allow_nan=False))
        elif is_result:
            image = visible(event.key or "an earlier image")
            timed = self._verbose and isinstance(event, Learned)
            self._width = max(self._width, min(WIDEST, len(image)))
            words = event.words(timed=True) if timed else event.words()
            print_line(f"{image:<{self._width}}  {words}")
