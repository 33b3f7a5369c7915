"""What the network answered for the query images of an adaptation."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES
from tinytrain.heads.calibration import softmax
from tinytrain.heads.head import Head

# One int32 holds a label and the confidence in it, in STEPS steps: no byte more for each query image.
STEPS = (2**31 - 1) // MAX_CLASSES - 1


def answer(head: Head, embedding: np.ndarray) -> int:
    """The label that `head` gives to an `embedding` (1, d), and its confidence in it, as one number.

    The confidence in logits that are no numbers is 0.
    """
    logits = head.logits(embedding)[0]
    label = int(logits.argmax())
    confidence = float(softmax(logits / head.temperature)[label])
    return label + MAX_CLASSES * round(STEPS * confidence if math.isfinite(confidence) else 0)


def labels_of(answers: np.ndarray) -> np.ndarray:
    """Labels (n,) int32 of the `answers` (n,) of `answer`."""
    return answers % MAX_CLASSES


def confidence_of(answers: np.ndarray) -> np.ndarray:
    """Confidence (n,) from 0 to 1 in the labels of `answers` (n,)."""
    return (answers // MAX_CLASSES) / STEPS


@dataclass(frozen=True, eq=False)
class Answers:
    """Labels (n,) predicted for the query images; `raw` (3, n) is what `answer` gave for them.

    The rows of `raw` are those of the adapted network, of cosine prototypes of the unadapted network, and
    of the recipe's head for it. `accepted` says which of the first two is kept; `finite` whether the first
    one holds anything.
    """

    raw: np.ndarray
    accepted: bool
    finite: bool

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
        """By what is kept: the adapted network, or cosine prototypes of the unadapted one."""
        return labels_of(self._kept)

    @cached_property
    def withheld(self) -> np.ndarray | None:
        """What the adapted network would have said; None if it was kept or is no number."""
        return None if self.accepted or not self.finite else labels_of(self.raw[0])

    @property
    def confidence(self) -> np.ndarray:
        """Confidence (n,) from 0 to 1 in the labels of `after`."""
        return confidence_of(self._kept)

    @property
    def _kept(self) -> np.ndarray:
        return self.raw[0] if self.accepted else self.raw[1]
