"""Decides whether an adaptation is kept, using only the support images. Sees no query, trains nothing.

The tests in order: all values are finite; the loss did not rise; the labels fit the images; leave-one-out
accuracy did not fall. The last test alone would not be enough, because training has seen the images and
memorises even wrong labels. So labels are tested before training, where a held-out image is really unseen.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.base.units import finite_or_none
from tinytrain.guard.suspects import Suspect, chance, find_suspects, margins

WORST_FRACTION = 0.1  # of the support images: those that fit their class worst
# Labels are accepted if the mean margin of these images is above LEAST_FIT, in units of the chance similarity
# of images. Half of the median margin, if positive, is subtracted first: if most images are told apart well,
# a few contradicting ones weigh more.
LEAST_FIT, MEDIAN_FRACTION = -2.8, 0.5
LAST_FRACTION = 0.25  # of the steps: their mean loss is the final loss


@dataclass(frozen=True)
class Evidence:
    """Measurements of an adaptation for the guard.

    `losses` of the steps that were run, out of `steps`. `finite`: whether all values of the result are.
    `before` and `after` (n, leave_one_out.COLUMNS), in the arena, are the results of `leave_one_out.measure`;
    `after` is None if training was aborted. `macs` is the cost of measuring.
    """

    losses: list[float]
    steps: int
    finite: bool
    before: np.ndarray
    after: np.ndarray | None
    macs: int


@dataclass(frozen=True)
class Reason:
    """A reason against an adaptation: a short stable `code` and a sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """`accepted`: the adapted network is the result. `forced`: it is accepted in spite of `reasons`."""

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

    `force` accepts it in spite of reasons; but a result with NaN or infinity is never accepted.
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
    return float(np.mean(losses[-max(1, round(LAST_FRACTION * len(losses))) :]))


def label_fit(rows: np.ndarray) -> float | None:
    """How well the worst labels fit; None if no image can be left out."""
    known = np.sort(_known(rows))
    if not len(known):
        return None
    worst = float(known[: math.ceil(WORST_FRACTION * len(known))].mean())
    return (worst - MEDIAN_FRACTION * max(0.0, float(np.median(known)))) / chance(rows)


def left_out_accuracy(rows: np.ndarray) -> float | None:
    """Fraction of the images that are closest to their own class; None if no image can be left out."""
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
    text = f"{WORST_FRACTION:.0%} of the images look too much like a class other than their own"
    return [Reason("labels", f"{text}: label fit {fit:.2f}, the limit is {LEAST_FIT}")]


def _left_out(measures: dict) -> list[Reason]:
    before, after = measures["left_out_before"], measures["left_out_after"]
    if before is None or (after >= before and after > measures["guessing"]):
        return []
    if after < before:
        what = f"fell from {before:.1%} to {after:.1%}"
    else:
        what = f"is {after:.1%} after training, where guessing gives {measures['guessing']:.1%}"
    return [Reason("left-out", f"leave-one-out accuracy on the support {what}")]
