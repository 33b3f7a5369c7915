"""Whether a merged delta is any good: on a few images that are at hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import AdaptationRefusedError, InputError
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.guard.guard import proved_worse
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.runtime.predict import Predictor


class Judged(NamedTuple):
    """How many of `n` images are recognised by each delta that was merged, and by all of them `merged`."""

    n: int
    each: tuple[int, ...]
    merged: int


def judge(
    network: Network | Committee,
    deltas: Sequence[Delta],
    merged: Delta,
    images: Images,
    class_names: Sequence[str],
    backend: str = "auto",
) -> Judged:
    """Recognise `images`, whose labels count in `class_names`, by each of `deltas` and by `merged`.

    Raises AdaptationRefusedError ``left-out`` if the best of the former is better beyond chance, InputError
    for no images or a class that `merged` does not know.
    """
    if not len(images):
        raise InputError("too-few-images", "0 usable images to check with; add some")
    for name in class_names:
        merged.label_of(name)
    rows = [_right(network, delta, images, class_names, backend) for delta in (*deltas, merged)]
    found = Judged(len(images), tuple(int(row.sum()) for row in rows[:-1]), int(rows[-1].sum()))
    best = int(np.argmax(found.each))
    if worse := proved_worse(rows[best], rows[-1]):
        low, mid, high = worse
        raise AdaptationRefusedError(
            "left-out",
            f"merged it is {-mid:.0f} points worse than the best of the deltas on {len(images)} images (95 %"
            f" interval {low:+.0f} to {high:+.0f}); merge fewer of them, or keep that one",
        )
    return found


def _right(network, delta: Delta, images: Images, class_names: Sequence[str], backend: str) -> np.ndarray:
    """Whether each image is recognised, (n,)."""
    answers = Predictor(network, delta, backend).probabilities(images).argmax(axis=1)
    return np.array(
        [delta.class_names[a] == class_names[k] for a, k in zip(answers, images.labels, strict=True)], bool
    )
