"""Differential privacy: a delta of which nobody can tell whether any single image was among those it learnt.

The sums of classes, and how many embeddings they have, get normal noise in whole numbers. By an image more or
less they change by no more than the length of its embedding, which is 1, so noise hides it. Let P be the
probability of what is published with an image, Q that without it: then P <= exp(epsilon) Q + delta, and the
other way round. How much noise that takes is by Balle and Wang, "Improving the Gaussian mechanism for
differential privacy", ICML 2018. Sums are whole numbers, so rounded noise is the noise of the Gaussian
mechanism, rounded afterwards, which takes no privacy. What follows looks at nothing but the noisy sums: their
products, the head, how sure it is. How embeddings vary inside of classes is not given away: the noise that
hides an image in so many products is more than some hundred images have to say.
"""

import math
import random
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from tinytrain import kernels
from tinytrain.base.errors import UsageError
from tinytrain.delta.delta import Delta
from tinytrain.delta.merge import source_of
from tinytrain.heads.by_means import calibrated_by_means
from tinytrain.heads.calibration import LEAD_FRACTION
from tinytrain.heads.moments import UNIT, Moments

DELTA = 1e-5  # of epsilon and delta: how likely at most it is that more can be told
SHARES = 0.2, 0.8  # of the square of the distance: counts, class sums
CDF = NormalDist().cdf


def check_sums_alone(delta: Delta) -> None:
    """Raise UsageError if anything would show images but the sums of one network's embeddings.

    They must be such as can be merged.
    """
    source_of(delta)
    for met, what, remedy in (
        (delta.is_trained, "has trained layers, which show images", "with --no-train"),
        (delta.members, f"is for {len(delta.members)} networks, and sums are those of one", "one network"),
        (delta.precision != "float32", f"is in {delta.precision}, not in float32", "in float32"),
    ):
        if met:
            raise UsageError("unsupported", f"the delta {what}; adapt {remedy}")


def delta_at(epsilon: float, distance: float) -> float:
    """The delta of normal noise with `epsilon`; `distance` is what may change in units of its deviation."""
    a, b = distance / 2, epsilon / distance
    return CDF(a - b) - math.exp(epsilon) * CDF(-a - b)


def distance_for(epsilon: float, delta: float = DELTA) -> float:
    """The largest `distance` with at most this `delta`; `epsilon` is above 0 and at most 50."""
    low, high = 0.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(epsilon, middle) <= delta else (low, middle)
    return low


def private(delta: Delta, epsilon: float, rng: random.Random | None = None) -> Delta:
    """`delta` with noise for `epsilon` and DELTA, and without anything else that its images had a part in.

    Several of the same images add up: n of them have n times the epsilon and the delta at most. Raises
    UsageError for a delta that is not one of sums alone. `rng` is for tests: without it noise comes from the
    system, so that nobody can compute it.
    """
    check_sums_alone(delta)
    head = delta.head
    if "merged" in delta.report:
        text = "it was merged of several deltas, whose images may have different numbers of views"
        raise UsageError("unsupported", f"{text}; add noise to each of them before they are merged")
    episode = delta.report.get("episode", {})
    shots = dict(zip(episode.get("classes", ()), episode.get("shots", ()), strict=False))
    if any(n < shots.get(k, 0) * head.views for k, n in zip(delta.class_names, head.counts, strict=True)):
        # An image more or less may then change which others count.
        text = "images that look like copies of others are not counted, and which ones depends on all of them"
        raise UsageError("unsupported", f"{text}; adapt without bursts")
    noisy = _noisy(head.moments, head.views, distance_for(epsilon), rng or random.SystemRandom())
    fitted = head.method.of_moments(kernels.load(), noisy, views=head.views)
    report = {"private": {"epsilon": epsilon, "delta": DELTA}, **delta.report_of_kind}
    # As sure as usual heads are: how sure that of the delta itself is would show something.
    return replace(delta, head=calibrated_by_means(fitted, LEAD_FRACTION), report=report, replay=None)


def _noisy(moments: Moments, views: int, distance: float, rng: random.Random) -> Moments:
    """Noisy counts and class sums, whose squared distances add to that of `distance`, and products to them.

    An image has so many `views`. No mean is longer than 1, and embeddings vary inside of classes as much as
    those of length 1 do, in all directions alike.
    """
    size = moments.sums.shape[1]

    def normal(like: np.ndarray, deviation: float) -> np.ndarray:
        return np.array([round(rng.gauss(0, deviation)) for _ in range(like.size)]).reshape(like.shape)

    for_counts, for_sums = (distance * math.sqrt(share) for share in SHARES)
    counts = np.maximum(moments.counts + views * normal(moments.counts, 1 / for_counts), views)
    # Rounded to whole numbers an embedding may be longer than 1.
    sums = moments.sums + normal(moments.sums, views * (UNIT + size) / for_sums)
    longer = np.linalg.norm(sums, axis=1) / (counts * float(UNIT))
    sums = np.rint(sums / np.maximum(longer, 1)[:, None]).astype(np.int64)
    means = sums / (counts[:, None] * UNIT)
    products = (means * counts[:, None]).T @ means
    products[np.diag_indices(size)] += float(counts @ (1 - np.square(means).sum(axis=1))) / size
    return Moments(counts, sums, np.rint(products[np.tril_indices(size)] * UNIT).astype(np.int64))
