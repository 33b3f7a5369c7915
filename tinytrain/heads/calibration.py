"""The temperature of a head, from its logits for the support images, each left out of its class in turn."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinytrain.heads.out_of_distribution import BackgroundFinder

# The least temperature, as a fraction of the mean lead of a support image's own class over the others. It is
# needed because memorised images, and the only image of a class, say nothing about confidence in new ones.
LEAD_FRACTION = 0.12
# Training memorises more with every step behind the first ones, and more of a class with fewer images. This
# is added to the fraction at MANY_STEPS or more: always, and divided by the images of a class.
FEW_STEPS, MANY_STEPS = 10, 40
MEMORISED, MEMORISED_PER_IMAGE = 0.04, 0.04
# Candidates for a higher temperature, if left-out images are right less often than that one implies.
TEMPERATURES = np.geomspace(1e-4, 1e8, 61, dtype=np.float32)
NO_LEAD = 1e-4  # fraction of the largest logit: a smaller lead is rounding
# So much more confidence than accuracy is none: at high temperatures rounding alone is more than the rest.
ROUNDING = 1e-4
BLOCK = 1024  # values per pass, so that temporary memory does not grow with the task


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def calibrated(
    head,
    support,
    leave_out: Callable[[np.ndarray, np.ndarray, int], None],
    logits: Callable[[np.ndarray], np.ndarray] | None = None,
    finder=None,
):
    """`head` with its temperature, its leave-one-out accuracy (None if every class has a single image), and
    the limit that `finder` has found meanwhile, if there is one; above a background it needs none.

    `support` is the `heads.head.Support` that the head was fitted to. ``logits(e)`` are those (way,) of the
    unit embedding of a clean image, by default those of the head; ``leave_out(logits, e, label)`` turns them
    into those of the head without that image; it is called only if the class has other images.
    """
    images, logits = support.images, logits or (lambda e: head.logits(e[None])[0])
    lead, largest, seen, right, judged = 0.0, 0.0, 0, 0, 0
    own = None if finder or support.background is None else BackgroundFinder(support.background)
    confidence = np.zeros(len(TEMPERATURES))
    for e, label in support.each():
        found = logits(e)
        others = (float(found.sum()) - float(found[label])) / max(len(found) - 1, 1)
        lead, seen = lead + float(found[label]) - others, seen + 1
        largest = max(largest, float(np.abs(found).max()))
        if images[label] < 2:
            continue
        leave_out(found, e, label)
        if own:
            own.add(found, label)
        right, judged = right + int(found.argmax() == label), judged + 1
        confidence += _confidence(found)
    if lead / seen > NO_LEAD * largest:
        # Mean confidence in left-out images must not exceed their accuracy, or that of guessing.
        modest = TEMPERATURES[confidence <= (1 + ROUNDING) * max(right, judged / len(images))]
        least = float(modest[0] if len(modest) else TEMPERATURES[-1]) if judged else 0.0
        temperature = max(lead_fraction(support) * lead / seen, least)
    else:
        temperature = float(TEMPERATURES[-1])  # the classes cannot be told apart
    facts = {"temperature": temperature, "left_out": right / judged if judged else None}
    finder = finder or own
    return replace(head, **facts, limit=finder and finder.limit(support.steps))


def lead_fraction(support) -> float:
    """The least temperature as a fraction of the lead, for a `heads.head.Support`."""
    trained = min(max(support.steps - FEW_STEPS, 0) / (MANY_STEPS - FEW_STEPS), 1.0)
    images = float(support.images.sum()) / len(support.images)
    return LEAD_FRACTION + trained * (MEMORISED + MEMORISED_PER_IMAGE / images)


def _confidence(logits: np.ndarray) -> np.ndarray:
    """Probability of the likeliest class at each of TEMPERATURES, computed BLOCK values at a time."""
    some = max(1, BLOCK // len(logits))
    parts = (TEMPERATURES[first : first + some, None] for first in range(0, len(TEMPERATURES), some))
    return np.concatenate([softmax(logits / part).max(axis=1) for part in parts])
