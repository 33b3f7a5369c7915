"""How sure a head may be: a temperature from the support images, each judged as if it were not among them."""

from collections.abc import Callable

import numpy as np

# Temperature as a share of how far the logit of a support image's own class lies above the others. Images
# that training has learnt by heart cannot tell how sure of others one may be, nor can single ones. Of the
# shares tried, this one had the least log loss on images never seen, of six domains that are no targets, by
# two networks, adapted or not, with 1, 2 and more shots weighed alike (trials that no command repeats).
TEMPERATURE_SHARE = 0.12
# Temperatures to choose from if images that are left out are not as often right as that share implies.
TEMPERATURES = np.geomspace(1e-4, 1e8, 61, dtype=np.float32)
NO_LEAD = 1e-4  # of the largest logit: less is rounding
BLOCK = 1024  # numbers looked at together, so that what that takes does not grow with the task


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def calibrate(
    support,
    logits: Callable[[np.ndarray], np.ndarray],
    leave_out: Callable[[np.ndarray, np.ndarray, int], None],
) -> tuple[float, float | None]:
    """Temperature of a head, and its leave-one-out accuracy (None if every class has a single image).

    `support` is the `heads.head.Support` that the head was fitted to. ``logits(e)`` are those (way,) of the
    unit embedding of a clean image; ``leave_out(logits, e, label)`` turns them into those of the head without
    that image, and is called only if its class has others.
    """
    images = support.images
    lead, largest, seen, right, judged = 0.0, 0.0, 0, 0, 0
    confidence = np.zeros(len(TEMPERATURES))
    for embeddings, labels in support.clean():
        for e, label in zip(embeddings, labels, strict=True):
            found = logits(e)
            others = (float(found.sum()) - float(found[label])) / (len(found) - 1)
            lead, seen = lead + float(found[label]) - others, seen + 1
            largest = max(largest, float(np.abs(found).max()))
            if images[label] < 2:
                continue
            leave_out(found, e, label)
            right, judged = right + int(found.argmax() == label), judged + 1
            confidence += _confidence(found)
    left_out = right / judged if judged else None
    if not lead / seen > NO_LEAD * largest:
        return float(TEMPERATURES[-1]), left_out  # nothing tells the classes apart
    # As sure of the left-out images as they are often right, which by chance they are once in `way`.
    modest = TEMPERATURES[confidence <= max(right, judged / len(images))]
    least = modest[0] if len(modest) else TEMPERATURES[-1]
    return max(TEMPERATURE_SHARE * lead / seen, float(least) if judged else 0.0), left_out


def _confidence(logits: np.ndarray) -> np.ndarray:
    """Probability of the likeliest class at each of TEMPERATURES, as many at a time as BLOCK holds."""
    some = max(1, BLOCK // len(logits))
    parts = (TEMPERATURES[first : first + some, None] for first in range(0, len(TEMPERATURES), some))
    return np.concatenate([softmax(logits / part).max(axis=1) for part in parts])
