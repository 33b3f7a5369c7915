"""Multiply-accumulates that one adaptation executes, by stage."""

from tinytrain.plan.scores import Scores
from tinytrain.program.mac_counts import macs_by_part
from tinytrain.program.program import Program


def executed(program: Program, scores: Scores | None) -> dict[str, int]:
    """MACs by stage: probe, features (the frozen part, cached), heads and training.

    Forward, recomputed and backward alike. Predicting the queries is no part of an adaptation; fitting the
    head by which the unadapted network predicts them is.
    """
    counted = macs_by_part(program)
    parts = ("features", "heads", "training")
    return {"probe": scores.macs if scores else 0} | {part: counted.get(part, 0) for part in parts}
