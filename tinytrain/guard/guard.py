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
from tinytrain.guard.suspects import MISLABELLED, Suspect, chance, find_suspects, margins
from tinytrain.heads.leave_one_out import LIKE
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


@dataclass(frozen=True, eq=False)
class Case:
    """What the tests see of an adaptation to the support `images`."""

    evidence: Evidence
    images: object
    class_names: tuple[str, ...]
    measures: dict[str, float | None]


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
    case = Case(evidence, images, class_names, measures)
    reasons = broken or [reason for test in tests for reason in test(case)]
    accepted = not reasons or (force and not broken)
    suspects = find_suspects(evidence.before, images, class_names)
    return Verdict(
        accepted, accepted and bool(reasons), tuple(reasons), suspects, measures, evidence.macs,
        left_out(
            margins(evidence.before),
            [s.index for s in suspects if s.reason == MISLABELLED],
            images.labels,
            class_names,
            evidence.repeats,
        ),
    )  # fmt: skip


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


def _diverged(case: Case) -> list[Reason]:
    before, after = case.measures["loss_before"], case.measures["loss_after"]
    guess = -math.log(case.measures["guessing"])
    if after <= before + max(LEAST_RISE * guess, RISE_FRACTION * (guess - before)):
        return []
    digits = next((d for d in range(3, 17) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return [Reason("diverged", f"the training loss rose from {before:.{digits}g} to {after:.{digits}g}")]


def _labels(case: Case) -> list[Reason]:
    fit = case.measures["label_fit"]
    if fit is None or fit >= LEAST_FIT:
        return []
    found = margins(case.evidence.before)
    known, wrong = int((~np.isnan(found)).sum()), int((found < 0).sum())
    if wrong:
        looks = (
            "look more like another class than their own"
            if wrong > 1
            else "looks more like another class than its own"
        )
        what = f"{wrong} of {known} images {looks}"
    else:
        what = (
            f"{math.ceil(WORST_FRACTION * known)} of {known} images fit their class far less than the others"
        )
    worst = int(np.nanargmin(found))
    given = case.class_names[case.images.labels[worst]]
    like = case.class_names[int(case.evidence.before[worst, LIKE])]
    text = f"{what}, most of all {case.images.names[worst]} ({given}, looks like {like})"
    return [Reason("labels", text)]


def _left_out(case: Case) -> list[Reason]:
    before, after = case.measures["left_out_before"], case.measures["left_out_after"]
    if before is None or (after >= before and after > case.measures["guessing"]):
        return []
    known = len(_known(case.evidence.before))
    now, then = round(after * known), round(before * known)
    what = f"{now} of {known} images are recognised without themselves after training"
    rest = (
        f"{then} were before" if after < before else f"guessing gives {case.measures['guessing'] * known:.3g}"
    )
    return [Reason("left-out", f"{what}, {rest}")]
