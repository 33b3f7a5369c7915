"""What the network answered for the query images of an adaptation."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES
from tinytrain.heads.calibration import softmax
from tinytrain.heads.head import IDENTIFIED, Head

# One int32 holds a label and the confidence in it, in STEPS steps, inverted if the image is left open: no
# byte more for each query image.
STEPS = (2**31 - 1) // MAX_CLASSES - 1


def answer(head: Head, embedding: np.ndarray) -> int:
    """The label that `head` gives to an `embedding` (1, d), its confidence in it, and whether it names it.

    The confidence in logits that are no numbers is 0.
    """
    logits = head.logits(embedding)[0]
    label = int(logits.argmax())
    confidence = float(softmax(logits / head.temperature)[label])
    found = label + MAX_CLASSES * round(STEPS * confidence if math.isfinite(confidence) else 0)
    return found if head.state(embedding[0], logits, confidence) == IDENTIFIED else ~found


def labels_of(answers: np.ndarray) -> np.ndarray:
    """Labels (n,) int32 of the `answers` (n,) of `answer`."""
    return _said(answers) % MAX_CLASSES


def confidence_of(answers: np.ndarray) -> np.ndarray:
    """Confidence (n,) from 0 to 1 in the labels of `answers` (n,)."""
    return (_said(answers) // MAX_CLASSES) / STEPS


def _said(answers: np.ndarray) -> np.ndarray:
    return np.where(answers < 0, ~answers, answers)


@dataclass(frozen=True, eq=False)
class Answers:
    """Labels (n,) predicted for the query images; `raw` (3, n) is what `answer` gave for them.

    The rows of `raw` are those of the delta that training, if there was any, led to; of cosine prototypes of
    the unadapted network; and of the recipe's head for it. `accepted` says which of the first two is kept.
    `withheld` are the labels (n,) of the adapted network, None if it was kept or is no number.
    """

    raw: np.ndarray
    accepted: bool
    withheld: np.ndarray | None = None

    @cached_property
    def before(self) -> np.ndarray:
        """By the recipe's head before training."""
        return labels_of(self.raw[2])

    @cached_property
    def before_cosine(self) -> np.ndarray:
        """By cosine prototypes before training."""
        return labels_of(self.raw[1])

    @cached_property
    def after(self) -> np.ndarray:
        """By what is kept."""
        return labels_of(self._kept)

    @property
    def named(self) -> np.ndarray:
        """(n,): whether the label of `after` is named, or else the image left open: uncertain or unknown."""
        return self._kept >= 0

    @property
    def confidence(self) -> np.ndarray:
        """Confidence (n,) from 0 to 1 in the labels of `after`."""
        return confidence_of(self._kept)

    @property
    def _kept(self) -> np.ndarray:
        return self.raw[0] if self.accepted else self.raw[1]
