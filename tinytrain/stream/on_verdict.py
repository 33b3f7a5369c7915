"""A command that is run for each verdict, so that a stream can ring, light, count or send anything."""

import json
import os
import shlex
import shutil
import subprocess
import time

from tinytrain.base.errors import UsageError, one_line
from tinytrain.base.events import Event
from tinytrain.stream.camera import end_group
from tinytrain.stream.events import Verdict
from tinytrain.stream.readers import Apart

SECONDS = 30.0  # that one run may take
SLICE = 0.1  # seconds between two looks whether the session is over
LAST = 5.0  # seconds in which a command has to end that is told to


class OnVerdict(Apart):
    """Runs the words of `command`, without a shell, for one verdict after another.

    The facts of the verdict are on its standard input, a line of JSON, and in variables such as
    TINYTRAIN_CLASS, empty for none. What it prints goes to standard error. A run that fails, or takes longer
    than SECONDS and is ended, is said once. Raises UsageError for a command without a program.
    """

    name, patience = "--on-verdict", 60.0

    def __init__(self, command: str):
        super().__init__()
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(
                "usage", f"--on-verdict: {one_line(error)} in {one_line(command, 200)}"
            ) from None
        if not self._words or shutil.which(self._words[0]) is None:
            program = one_line(self._words[0] if self._words else command, 200)
            text = f"--on-verdict: {program!r} is no program; name one, or write sh -c '...' for a shell"
            raise UsageError("usage", text)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Verdict):
            super().__call__(event)

    def hear(self, event: Verdict) -> None:
        facts = event.facts()
        named = {f"TINYTRAIN_{key.upper()}": "" if v is None else str(v) for key, v in facts.items()}
        try:
            process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=2, env={**os.environ, **named},
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # ValueError: a name holds NUL, which no variable can
            self.note(f"{one_line(error, 200)} (said once)")
            return
        if self._has_ended(process, json.dumps(facts).encode() + b"\n"):
            if process.returncode:
                self.note(f"ended with exit code {process.returncode} (said once)")
            return
        end_group(process)
        process.communicate()  # closes its input
        if not self._over:
            self.note(f"took longer than {SECONDS:g} s and was ended (said once)")

    def _has_ended(self, process: subprocess.Popen, given: bytes | None) -> bool:
        """Whether a process that is `given` its input ends in time, before the session is over."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not self._over:
            try:
                process.communicate(given, SLICE)
                return True
            except subprocess.TimeoutExpired:
                given = None  # what is left of it is known
        return False

    def __exit__(self, *exception) -> None:
        super().__exit__(*exception)
        self._thread.join(LAST)  # it ends its command
