"""How sure a linear head is, and what it refuses, by its class means alone: sums have no images."""

import math
from dataclasses import replace

import numpy as np

from tinytrain.heads.calibration import NO_LEAD, TEMPERATURES
from tinytrain.heads.out_of_distribution import limit_finder
from tinytrain.heads.scatter_head import ScatterHead
from tinytrain.kernels.rows import dots


def warmth_of(head: ScatterHead) -> float | None:
    """The temperature as a fraction of the lead of its own class at a mean; None if it tells none apart."""
    lead = _lead(head, _logits(head))
    return None if lead is None else head.temperature / lead


def calibrated_by_means(head: ScatterHead, warmth: float | None) -> ScatterHead:
    """`head` with the temperature of this `warmth`, and the limit of one with single images."""
    logits = _logits(head)
    lead, limit = _lead(head, logits), None
    temperature = float(TEMPERATURES[-1]) if lead is None or warmth is None else warmth * lead
    if head.method.limited and (finder := limit_finder(logits.__getitem__, head.counts)):
        limit = finder.limit(0)
    return replace(head, temperature=temperature, limit=limit)


def _logits(head: ScatterHead) -> np.ndarray:
    """Those of the class means, (way, way)."""
    return np.stack([dots(head.weights, mean) + head.offsets for mean in head.means])


def _lead(head: ScatterHead, logits: np.ndarray) -> float | None:
    """How far the logit of the own class is above the others, which is the same over all embeddings."""
    own, others = np.diag(logits).astype(float), logits.astype(float).sum(axis=1)
    leads = own - (others - own) / max(len(own) - 1, 1)
    lead = math.fsum(x * n for x, n in zip(leads.tolist(), head.counts.tolist(), strict=True)) / head.total
    return lead if lead > NO_LEAD * float(np.abs(logits).max()) else None
