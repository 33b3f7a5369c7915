"""The answer of a command on stdout: its result or, with --json, an error, never both. Its former keys."""

import json

from tinytrain.base.errors import TinytrainError

# Keys of printed JSON whose names version 0.2 knew differently; 0.3 prints both.
OLD_KEYS = {
    "augmentation": "reach",
    "dearest_image": "dearest_picture",
    "fisher_fraction": "fisher_share",
    "hard_fraction": "hard_share",
    "image": "picture",
    "images": "pictures",
    "images_expected": "pictures_expected",
    "resample_channels": "redraw",
    "sampled_fraction": "through_share",
    "support_images": "support_pictures",
    "trained_parameters": "trained_numbers",
}


def with_old_keys(facts: dict) -> dict:
    """`facts`, and beside each key the one that it had in 0.2."""
    return facts | {OLD_KEYS[key]: value for key, value in facts.items() if key in OLD_KEYS}


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
