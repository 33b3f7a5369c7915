"""Whether an adaptation is kept, judged by the support images alone. Sees no query and trains nothing.

The tests, in the order of their reasons: every value finite; a loss that did not rise; labels that fit the
images; leave-one-out accuracy that did not fall. The last alone would be a poor judge: training has seen
the images and learns even wrong labels by heart. Hence labels are judged before training, where an image
that is left out is one that nothing has seen.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.base.units import finite_or_none
from tinytrain.guard.suspects import Suspect, chance, find_suspects, margins

WORST_SHARE = 0.1  # of the support images: those that fit their class worst
# Labels are believed where the mean margin of these is above LEAST_FIT, in units of the similarity that
# images have by chance and less half of the median margin where that is positive: where most images are
# told apart well, a few that contradict weigh more.
LEAST_FIT, MEDIAN_SHARE = -2.8, 0.5
LAST_SHARE = 0.25  # of the steps: their mean loss is the one at the end of training


@dataclass(frozen=True)
class Evidence:
    """What an adaptation leaves behind for the guard.

    `losses` of the steps that were run, out of `steps`; `finite`: whether every number of the result is;
    `before` and `after` (n, leftout.COLUMNS) are what `leftout.measure` found, in the arena; `after` is None
    if training broke off. `macs` is what measuring cost.
    """

    losses: list[float]
    steps: int
    finite: bool
    before: np.ndarray
    after: np.ndarray | None
    macs: int


@dataclass(frozen=True)
class Reason:
    """Why an adaptation is not kept: a short stable `code`, and a sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """`accepted`: the adapted network is the result. `forced`: although there are `reasons` against it."""

    accepted: bool
    forced: bool
    reasons: tuple[Reason, ...]
    suspects: tuple[Suspect, ...]
    measures: dict[str, float | None]
    macs: int

    def to_json(self) -> dict:
        return {
            "accepted": self.accepted,
            "forced": self.forced,
            "reasons": [{"code": r.code, "text": r.text} for r in self.reasons],
            "suspects": [s.to_json() for s in self.suspects],
            "measures": self.measures,
            "macs": self.macs,
        }


def judge(evidence: Evidence, images, class_names: tuple[str, ...], force: bool = False) -> Verdict:
    """The verdict on an adaptation to the labelled support `images`.

    `force` keeps what only accuracy speaks against; a result with NaN or infinity is never kept.
    """
    trained = bool(evidence.losses)
    measures = {
        "loss_before": finite_or_none(evidence.losses[0]) if trained else None,
        "loss_after": finite_or_none(final_loss(evidence.losses)) if trained else None,
        "label_fit": label_fit(evidence.before),
        "guessing": 1 / len(class_names),
        "left_out_before": left_out_accuracy(evidence.before),
        "left_out_after": None if evidence.after is None else left_out_accuracy(evidence.after),
    }
    broken = _not_finite(evidence)
    tests = (_diverged, _labels, _left_out) if trained and not broken else ()
    reasons = broken or [reason for test in tests for reason in test(measures)]
    accepted = not reasons or (force and not broken)
    suspects = find_suspects(evidence.before, images, class_names)
    return Verdict(accepted, accepted and bool(reasons), tuple(reasons), suspects, measures, evidence.macs)


def final_loss(losses: list[float]) -> float:
    """Mean loss of the last steps."""
    return float(np.mean(losses[-max(1, round(LAST_SHARE * len(losses))) :]))


def label_fit(rows: np.ndarray) -> float | None:
    """How well the labels fit that fit worst; None where no image can be left out."""
    known = np.sort(_known(rows))
    if not len(known):
        return None
    worst = float(known[: math.ceil(WORST_SHARE * len(known))].mean())
    return (worst - MEDIAN_SHARE * max(0.0, float(np.median(known)))) / chance(rows)


def left_out_accuracy(rows: np.ndarray) -> float | None:
    """Share of the images that are closest to their own class; None where no image can be left out."""
    known = _known(rows)
    return float((known > 0).mean()) if len(known) else None


def _known(rows: np.ndarray) -> np.ndarray:
    """Margins of the images that can be left out."""
    found = margins(rows)
    return found[~np.isnan(found)]


def _not_finite(evidence: Evidence) -> list[Reason]:
    if evidence.finite and np.isfinite(evidence.losses).all():
        return []
    steps = f"{len(evidence.losses)} of {evidence.steps} steps"
    return [Reason("not-finite", f"training ended in NaN or infinity after {steps}")]


def _diverged(measures: dict) -> list[Reason]:
    before, after = measures["loss_before"], measures["loss_after"]
    if after <= before:
        return []
    return [Reason("diverged", f"the training loss rose from {before:.3g} to {after:.3g}")]


def _labels(measures: dict) -> list[Reason]:
    fit = measures["label_fit"]
    if fit is None or fit >= LEAST_FIT:
        return []
    text = f"{WORST_SHARE:.0%} of the images look too much like another class than the one they were given"
    return [Reason("labels", f"{text}: label fit {fit:.2f}, the least that is believed is {LEAST_FIT}")]


def _left_out(measures: dict) -> list[Reason]:
    before, after = measures["left_out_before"], measures["left_out_after"]
    if before is None or (after >= before and after > measures["guessing"]):
        return []
    if after < before:
        what = f"fell from {before:.1%} to {after:.1%}"
    else:
        what = f"is {after:.1%} after training, where guessing gives {measures['guessing']:.1%}"
    return [Reason("left-out", f"leave-one-out accuracy on the support {what}")]
