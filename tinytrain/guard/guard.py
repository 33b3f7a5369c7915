"""Decides by evidence which of three candidates is kept: adapted, a new head alone, or cosine prototypes.

A new head alone is that of the recipe, fitted to the network as it is. It is kept if training is not worth
it: if nearly all images are recognised without themselves before it (`no_gain`), if the loss rose (see
RISE_FRACTION), if leave-one-out accuracy fell, or if images that were held out prove it (`vetoed`).
The adaptation is refused if values are not finite, if the labels do not fit the images, or if not even
guessing is beaten. A head that learns labels learns wrong ones, too, so it then takes the place of prototypes
only if it recognises more images without themselves (`Run.keep`).
Leave-one-out accuracy after training would not be enough, because training has seen the images and memorises
even wrong labels. So labels are tested before training, where a left-out image is really unseen.
Everything here is a function of rows of evidence: nothing is trained, no query is seen but by `vetoed`.
"""

import math
from dataclasses import astuple, dataclass, replace

import numpy as np

from tinytrain.base.statistics import median, paired_difference, wilson_interval
from tinytrain.base.units import finite_or_none
from tinytrain.guard.estimate import LeftOut, left_out
from tinytrain.guard.suspects import MISLABELLED, Suspect, chance, find_suspects
from tinytrain.heads.leave_one_out import LIKE, margins
from tinytrain.heads.repeats import Repeats

ADAPTED, HEAD, COSINE = "adapted", "head", "cosine"  # the candidates
# Training does not pay if so few of new images would be taken for another class, as far as the images left
# out before it say (upper end of the 95 % interval).
FEW_ERRORS = 0.1
WORST_FRACTION = 0.1  # of the support images: those that fit their class worst
# Labels are accepted if the mean margin of these images is above LEAST_FIT, in units of the chance similarity
# of images. Half of the median margin, if positive, is subtracted first: if most images are told apart well,
# a few contradicting ones weigh more.
LEAST_FIT, MEDIAN_FRACTION = -2.8, 0.5
# Labels that look wrong hold if what is adapted to half of the images predicts at least so many more of the
# others than cosine prototypes, which learn wrong labels least: in images, and as a fraction of all.
LEAST_MORE, MORE_FRACTION = 3, 0.07
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
    `after` is None if there was no training, or if it was aborted. `macs` is the cost of measuring.
    `repeats`: what images feign that repeat others; None: nothing. `no_gain`: why training was not run.
    """

    losses: list[float]
    steps: int
    finite: bool
    before: np.ndarray
    after: np.ndarray | None
    macs: int
    repeats: Repeats | None = None
    no_gain: "Reason | None" = None


@dataclass(frozen=True)
class Reason:
    """A reason against an adaptation: a short stable `code` and a sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Halves:
    """How many of `n` images are predicted rightly from the other half of their class: by what was `adapted`
    to that, and by `cosine` prototypes of it. `macs` is what it cost to find out.
    """

    n: int = 0
    adapted: int = 0
    cosine: int = 0
    macs: int = 0

    def __add__(self, other: "Halves") -> "Halves":
        return Halves(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def hold(self, n_way: int) -> bool:
        """Whether labels of `n_way` classes are right: images confirm what is learnt of others."""
        more = self.adapted - self.cosine >= max(LEAST_MORE, MORE_FRACTION * self.n)
        return more and wilson_interval(self.adapted, self.n)[0] > 1 / n_way

    def added_to(self, verdict: "Verdict") -> "Verdict":
        """The `verdict` with this evidence, also in the reason against labels if that stands."""
        text = f"; cross-validated, training gets {self.adapted} of {self.n} right, prototypes {self.cosine}"
        reasons = (replace(r, text=r.text + text) if r.code == "labels" else r for r in verdict.reasons)
        shares = {"halves_adapted": self.adapted / self.n, "halves_cosine": self.cosine / self.n}
        measures, macs = verdict.measures | shares, verdict.macs + self.macs
        return replace(verdict, reasons=tuple(reasons), measures=measures, macs=macs)


@dataclass(frozen=True)
class Verdict:
    """`kept`: ADAPTED, HEAD or COSINE; the `reasons` are why not the first of them.

    `refused`: the images or values are wrong, so nothing of it is worth keeping.
    `forced`: it is ADAPTED in spite of `reasons`. `left_out` is what support images, each classified without
    itself before training, say about new ones.
    """

    kept: str
    refused: bool
    forced: bool
    reasons: tuple[Reason, ...]
    suspects: tuple[Suspect, ...]
    measures: dict[str, float | None]
    macs: int
    left_out: LeftOut

    @property
    def accepted(self) -> bool:
        """Whether there is a result that is worth keeping. If not, the adaptation is refused."""
        return not self.refused

    def to_json(self) -> dict:
        return {
            "accepted": self.accepted,
            "kept": self.kept,
            "forced": self.forced,
            "reasons": [{"code": r.code, "text": r.text} for r in self.reasons],
            "suspects": [s.to_json() for s in self.suspects],
            "measures": self.measures,
            "macs": self.macs,
        }


def judge(
    evidence: Evidence,
    images,
    class_names: tuple[str, ...],
    force: bool = False,
    labels_hold: bool = False,
) -> Verdict:
    """The verdict on an adaptation to the labelled support `images`; without training, on the head alone.

    `force` keeps what is adapted in spite of reasons; but a result with NaN or infinity is never kept.
    `labels_hold`: labels are not a reason against it.
    """
    trained = bool(evidence.losses)
    measures = {
        "loss_before": finite_or_none(evidence.losses[0]) if trained else None,
        "loss_after": finite_or_none(final_loss(evidence.losses)) if trained else None,
        "label_fit": label_fit(evidence.before),
        "guessing": 1 / len(class_names),
        "left_out_before": left_out_accuracy(evidence.before),
        "left_out_after": None if evidence.after is None else left_out_accuracy(evidence.after),
        "halves_adapted": None,
        "halves_cosine": None,
    }
    wrong, found = _not_finite(evidence), [evidence.no_gain]
    forced = force and trained and not wrong
    if wrong:
        found = [wrong]
    elif trained:
        labels = None if labels_hold else _labels(evidence.before, measures, images, class_names)
        found = [_diverged(measures), labels, _left_out(evidence.before, measures)]
        wrong = labels or _no_better_than_guessing(measures)
    reasons = tuple(reason for reason in found if reason)
    forced = forced and bool(reasons)
    refused = bool(wrong) and not forced
    kept = COSINE if refused else ADAPTED if forced or (trained and not reasons) else HEAD
    suspects = find_suspects(evidence.before, images, class_names)
    mislabelled = [s.index for s in suspects if s.reason == MISLABELLED]
    shown = left_out(margins(evidence.before), mislabelled, images.labels, class_names, evidence.repeats)
    return Verdict(kept, refused, forced, reasons, suspects, measures, evidence.macs, shown)


def no_gain(before: np.ndarray) -> Reason | None:
    """Why training would not help, by what `leave_one_out.measure` found before it; None if it may."""
    known = _known(before)
    right = int((known > 0).sum())
    if not len(known) or wilson_interval(right, len(known))[0] < 1 - FEW_ERRORS:
        return None
    count = "all" if right == len(known) else f"{right} of"
    return Reason("no-gain", f"{count} {len(known)} images are recognised without themselves as it is")


def vetoed(verdict: Verdict, head: np.ndarray, adapted: np.ndarray, force: bool = False) -> Verdict:
    """`verdict`, unless images that were held out prove that what is adapted is worse than the head alone.

    `head` and `adapted` (n,) say of each of them whether that was right.
    """
    worse = verdict.kept == ADAPTED and proved_worse(head, adapted)
    if not worse:
        return verdict
    low, mid, high = worse
    points = f"{-mid:.0f} points worse than the new head alone on {len(head)} held-out images"
    worse = Reason("left-out", f"adapted it is {points} (95 % interval {low:+.0f} to {high:+.0f})")
    kept = ADAPTED if force else HEAD
    return replace(verdict, kept=kept, forced=force, reasons=(*verdict.reasons, worse))


def proved_worse(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float] | None:
    """How many points the `other` is worse than `one`: low, middle, high; None unless images prove that.

    Both (n,) say of each image whether that was right. The difference and the fraction of better answers
    among those that differ must be clear of chance: of few images the former always is.
    """
    differ, better = int((one != other).sum()), int((other & ~one).sum())
    if wilson_interval(better, differ)[1] >= 0.5:
        return None
    low, mid, high = (100 * x for x in paired_difference(one, other))
    return (low, mid, high) if high < 0 else None


def final_loss(losses: list[float]) -> float:
    """Mean loss of the last steps."""
    return float(np.mean(losses[-max(1, round(LAST_FRACTION * len(losses))) :]))


def label_fit(rows: np.ndarray) -> float | None:
    """How well the worst labels fit; None if no image can be left out."""
    known = np.sort(_known(rows))
    if not len(known):
        return None
    worst = float(known[: math.ceil(WORST_FRACTION * len(known))].mean())
    return (worst - MEDIAN_FRACTION * max(0.0, median(known))) / chance(rows)


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


def _no_better_than_guessing(measures: dict) -> bool:
    return measures["left_out_after"] is not None and measures["left_out_after"] <= measures["guessing"]
