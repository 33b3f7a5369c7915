"""Smaller selections to be tried, one after another, if what a policy chooses does not fit the memory."""

from collections.abc import Iterator

from tinytrain.plan.scores import Scores
from tinytrain.policies.common import FRACTIONS

LARGE = 3  # of the fractions are tried before the shallowest layer is left out


def retreats(scores: Scores | None, shrinks: bool, precision: str) -> Iterator[tuple[float, Scores | None]]:
    """Fractions of the policy's selection, with the scores of the layers that it may choose from.

    In int8 the gradients of shallow layers take more bytes than what is trained. So deeper ones are tried
    before the selection becomes small.
    """
    if not shrinks:
        yield 1.0, scores
        return
    layers = sorted(scores.fisher) if scores and precision == "int8" else []
    for skipped in range(len(layers) - 1):
        kept = scores.without_shallowest(skipped)
        yield from ((fraction, kept) for fraction in FRACTIONS[:LARGE])
    if layers:
        scores = scores.without_shallowest(len(layers) - 1)
    yield from ((fraction, scores) for fraction in FRACTIONS)
