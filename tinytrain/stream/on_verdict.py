"""A command that is run for each verdict, so that a stream can ring, light, count or send anything."""

import json
import os
import shlex
import shutil
import subprocess

from tinytrain.base.errors import UsageError, one_line
from tinytrain.base.events import Event
from tinytrain.stream.camera import end_group
from tinytrain.stream.events import Verdict
from tinytrain.stream.readers import Apart

SECONDS = 30.0  # that one run may take


class OnVerdict(Apart):
    """Runs the words of `command`, without a shell, for one verdict after another.

    The facts of the verdict are on its standard input, a line of JSON, and in variables such as
    TINYTRAIN_CLASS, empty for none. What it prints goes to standard error. A run that fails, or takes longer
    than SECONDS and is ended, is said once. Raises UsageError for a command without a program.
    """

    name, patience = "--on-verdict", 60.0

    def __init__(self, command: str):
        super().__init__()
        self._process: subprocess.Popen | None = None
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
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=2, env={**os.environ, **named},
                start_new_session=True,
            )  # fmt: skip
            self._process.communicate(json.dumps(facts).encode() + b"\n", SECONDS)
            if self._process.returncode and not self._over:
                self.note(f"ended with exit code {self._process.returncode} (said once)")
        except subprocess.TimeoutExpired:
            self._end()
            self.note(f"took longer than {SECONDS:g} s and was ended (said once)")
        except (OSError, ValueError) as error:  # ValueError: a name holds NUL, which no variable can
            self.note(f"{one_line(error, 200)} (said once)")

    def __exit__(self, kind, *exception) -> None:
        if kind is not None:
            self._over = True  # before another one is begun
            self._end()
        super().__exit__(kind, *exception)
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            end_group(self._process)
