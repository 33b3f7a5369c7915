"""Decides whether an adaptation is kept, using only the support images. Sees no query, trains nothing.

The tests in order: all values are finite; the loss did not rise (see RISE_FRACTION); the labels fit the
images; leave-one-out accuracy did not fall. The last test alone would not be enough, because training has
seen the images and memorises even wrong labels. So labels are tested before training, where a held-out image
is really unseen.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.base.units import finite_or_none
from tinytrain.guard.estimate import LeftOut, left_out
from tinytrain.guard.suspects import MISLABELLED, Suspect, chance, find_suspects
from tinytrain.heads.leave_one_out import LIKE, margins
from tinytrain.heads.repeats import Repeats

WORST_FRACTION = 0.1  # of the support images: those that fit their class worst
# Labels are accepted if the mean margin of these images is above LEAST_FIT, in units of the chance similarity
# of images. Half of the median margin, if positive, is subtracted first: if most images are told apart well,
# a few contradicting ones weigh more.
LEAST_FIT, MEDIAN_FRACTION = -2.8, 0.5
LAST_FRACTION = 0.25  # of the steps: their mean loss is the final loss
# The final loss may be above the first one by this fraction of what lies between that and the loss of a
# guess, and by LEAST_RISE of the latter. The loss of an easy task is small from the first step on, and steps
# differ by their views and by the images that they compute.
RISE_FRACTION, LEAST_RISE = 0.1, 0.01


@dataclass(frozen=True)
class Evidence:
    """Measurements of an adaptation for the guard.

    `losses` of the steps that were run, out of `steps`. `finite`: whether all values of the result are.
    `before` and `after` (n, leave_one_out.COLUMNS), in the arena, are the results of `leave_one_out.measure`;
    `after` is None if training was aborted. `macs` is the cost of measuring. `repeats`: what images feign
    that repeat others; None: nothing.
    """

    losses: list[float]
    steps: int
    finite: bool
    before: np.ndarray
    after: np.ndarray | None
    macs: int
    repeats: Repeats | None = None


@dataclass(frozen=True)
class Reason:
    """A reason against an adaptation: a short stable `code` and a sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """`accepted`: the adapted network is the result. `forced`: it is accepted in spite of `reasons`.

    `left_out` is what support images, each classified without itself before training, say about new ones.
    """

    accepted: bool
    forced: bool
    reasons: tuple[Reason, ...]
    suspects: tuple[Suspect, ...]
    measures: dict[str, float | None]
    macs: int
    left_out: LeftOut

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
    found = [broken]
    if trained and not broken:
        found = [_diverged(measures), _labels(evidence.before, measures, images, class_names)]
        found.append(_left_out(evidence.before, measures))
    reasons = tuple(reason for reason in found if reason)
    accepted = not reasons or (force and not broken)
    suspects = find_suspects(evidence.before, images, class_names)
    wrong = [s.index for s in suspects if s.reason == MISLABELLED]
    shown = left_out(margins(evidence.before), wrong, images.labels, class_names, evidence.repeats)
    forced = accepted and bool(reasons)
    return Verdict(accepted, forced, reasons, suspects, measures, evidence.macs, shown)


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


def _not_finite(evidence: Evidence) -> Reason | None:
    if evidence.finite and np.isfinite(evidence.losses).all():
        return None
    steps = f"{len(evidence.losses)} of {evidence.steps} steps"
    return Reason("not-finite", f"training ended in NaN or infinity after {steps}")


def _diverged(measures: dict) -> Reason | None:
    before, after, guess = measures["loss_before"], measures["loss_after"], -math.log(measures["guessing"])
    if after <= before + max(LEAST_RISE * guess, RISE_FRACTION * (guess - before)):
        return None
    digits = next((d for d in range(3, 17) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return Reason("diverged", f"the training loss rose from {before:.{digits}g} to {after:.{digits}g}")


def _labels(rows: np.ndarray, measures: dict, images, class_names: tuple[str, ...]) -> Reason | None:
    if measures["label_fit"] is None or measures["label_fit"] >= LEAST_FIT:
        return None
    found = margins(rows)
    known, wrong = len(_known(rows)), int((found < 0).sum())
    if wrong:
        looks, own = ("look", "their") if wrong > 1 else ("looks", "its")
        what = f"{wrong} of {known} images {looks} more like another class than {own} own"
    else:
        worst = math.ceil(WORST_FRACTION * known)
        what = f"{worst} of {known} images fit their class far less than the others"
    worst = int(np.nanargmin(found))
    given, like = (class_names[int(k)] for k in (images.labels[worst], rows[worst, LIKE]))
    return Reason("labels", f"{what}, most of all {images.names[worst]} ({given}, looks like {like})")


def _left_out(rows: np.ndarray, measures: dict) -> Reason | None:
    before, after, guess = (measures[key] for key in ("left_out_before", "left_out_after", "guessing"))
    if before is None or (after >= before and after > guess):
        return None
    known = len(_known(rows))
    what = f"{round(after * known)} of {known} images are recognised without themselves after training"
    rest = f"{round(before * known)} were before" if after < before else f"guessing gives {guess * known:.3g}"
    return Reason("left-out", f"{what}, {rest}")
