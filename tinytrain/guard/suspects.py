"""Support images that look mislabelled or off-topic, from what `leftout.measure` found before training."""

from dataclasses import asdict, dataclass

import numpy as np

from tinytrain.heads.leave_one_out import CHANCE, LIKE, NEAR, OTHER, OWN

# In units of the similarity that images have by chance:
MARGIN = 0.9  # closer to another class than to its own by this much: perhaps mislabelled
GAP = 1.2  # further from its class than the middle image of the class by this much: perhaps off-topic


@dataclass(frozen=True)
class Suspect:
    """One support image: which, the class it was given, the class it looks like, and why.

    `reason` is "mislabelled" or "off-topic"; `score` is 1 where an image just became suspect.
    """

    index: int
    name: str
    given: str
    looks_like: str
    reason: str
    score: float

    def to_json(self) -> dict:
        return asdict(self)


def margins(rows: np.ndarray) -> np.ndarray:
    """How much closer each image is to its class than to any other, (n,); nan where it is the only one."""
    return rows[:, OWN] - rows[:, OTHER]


def chance(rows: np.ndarray) -> float:
    """Root mean square similarity of two images: a scale on which margins mean the same everywhere."""
    known = rows[:, CHANCE][~np.isnan(rows[:, CHANCE])]
    return float(np.sqrt(max(known.mean(), 1e-6))) if len(known) else 1.0


def find_suspects(rows: np.ndarray, images, class_names: tuple[str, ...]) -> tuple[Suspect, ...]:
    """Suspects by falling score. `rows` (n, leftout.COLUMNS) belong to the labelled `images`.

    An image that is the only one of its class cannot be judged and never becomes a suspect.
    """
    labels, unit = images.labels, chance(rows)
    gaps = np.full(len(labels), np.nan)
    for label in np.unique(labels):
        near = rows[labels == label, NEAR]
        gaps[labels == label] = np.median(near) - near
    found = []
    for i, (margin, gap) in enumerate(zip(margins(rows), gaps, strict=True)):
        scores = {"mislabelled": -margin / unit / MARGIN, "off-topic": gap / unit / GAP}
        reason = max(scores, key=lambda r: np.nan_to_num(scores[r], nan=-np.inf))
        if scores[reason] > 1:
            like = class_names[int(rows[i, LIKE])]
            given = class_names[labels[i]]
            found.append(Suspect(i, images.names[i], given, like, reason, float(scores[reason])))
    return tuple(sorted(found, key=lambda s: -s.score))
