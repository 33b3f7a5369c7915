"""The answer of a command on stdout: its result or, with --json, an error. Never both."""

import json

from tinytrain.base.errors import TinytrainError


class Answer:
    def __init__(self):
        self._given = False

    def begin(self) -> None:
        """Start the next command of this process."""
        self._given = False

    def give(self, text: str) -> None:
        self._given = True
        print(text)

    def give_json(self, result: dict) -> None:
        self.give(json.dumps(result, indent=2, allow_nan=False))

    def give_error(self, error: TinytrainError) -> None:
        """``{"error": {"code", "message", "exit_code", ...}}``, unless a result has been given."""
        if not self._given:
            self.give_json({"error": error.facts()})


ANSWER = Answer()
