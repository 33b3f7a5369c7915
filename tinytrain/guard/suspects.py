"""Support images that look mislabelled or off-topic in `leave_one_out.measure` before training."""

from dataclasses import asdict, dataclass

import numpy as np

from tinytrain.base.statistics import median
from tinytrain.heads.leave_one_out import CHANCE, LIKE, NEAR, margins

MISLABELLED, OFF_TOPIC = "mislabelled", "off-topic"
# Limits in units of the chance similarity of images:
MARGIN = 0.9  # an image that is closer to another class than to its own by this much may be mislabelled
GAP = 1.2  # an image that is further from its class than the median by this much may be off-topic
NAMED_RIGHT = 0.06  # of images with the right label that are suspects (`meta.studies.label_noise`)


@dataclass(frozen=True)
class Suspect:
    """One suspect support image: its index and name, its given class, and the class it looks like.

    `reason` is MISLABELLED or OFF_TOPIC; `score` is above 1, the limit for suspects.
    """

    index: int
    name: str
    given: str
    looks_like: str
    reason: str
    score: float

    def to_json(self) -> dict:
        return asdict(self)


def chance(rows: np.ndarray) -> float:
    """Root mean square similarity of two images: the unit that makes margins comparable between tasks."""
    known = rows[:, CHANCE][~np.isnan(rows[:, CHANCE])]
    return float(np.sqrt(max(known.mean(), 1e-6))) if len(known) else 1.0


def wrong_among(suspects: int, images: int) -> int:
    """How many of so many `suspects` among `images` have a wrong label, as a rule."""
    return round(max(0.0, suspects - NAMED_RIGHT * images))


def find_suspects(rows: np.ndarray, images, class_names: tuple[str, ...]) -> tuple[Suspect, ...]:
    """Suspects by falling score. `rows` (n, leave_one_out.COLUMNS) belong to the labelled `images`.

    The only image of a class cannot be judged and is never a suspect.
    """
    labels, unit = images.labels, chance(rows)
    gaps = np.full(len(labels), np.nan)
    for label in set(labels.tolist()):
        near = rows[labels == label, NEAR]
        gaps[labels == label] = median(near) - near
    found = []
    for i, (margin, gap) in enumerate(zip(margins(rows), gaps, strict=True)):
        scores = {MISLABELLED: -margin / unit / MARGIN, OFF_TOPIC: gap / unit / GAP}
        reason = max(scores, key=lambda r: np.nan_to_num(scores[r], nan=-np.inf))
        if scores[reason] > 1:
            like = class_names[int(rows[i, LIKE])]
            given = class_names[labels[i]]
            found.append(Suspect(i, images.names[i], given, like, reason, float(scores[reason])))
    return tuple(sorted(found, key=lambda s: -s.score))
