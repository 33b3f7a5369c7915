"""Verdicts in words, the same for every command that looks at images."""

from tinytrain.base.errors import visible
from tinytrain.cli.commands.common import say

NONE = "none of these"
UNCERTAIN, UNKNOWN = "uncertain", "unknown"  # of `heads.head`, which needs numpy


def normal_facts(verdict) -> dict:
    """What a row of JSON says besides of a `heads.head.HeadVerdict`, if there is one class alone."""
    if verdict.threshold is None:
        return {}
    return {"score": verdict.score, "threshold": verdict.threshold}


def verdict_in_words(row: dict, reject: float | None) -> str:
    """Confidence and class of a row of JSON, or why it has none: with `reject`, the confidence asked for."""
    name, sure = visible(row["best_guess"]), f"{row['confidence']:.1%}"
    if "threshold" in row:
        return _normal_in_words(row, name, reject)
    if row["verdict"] == UNKNOWN:
        return f"        {NONE} (closest: {name}, {sure})"
    if row["class"] is None:
        return f"        {NONE} (best guess {name}, {sure}, below {reject:.0%})"
    return f"{sure:>6}  {name}{', uncertain' if row['verdict'] == UNCERTAIN else ''}"


def _normal_in_words(row: dict, name: str, reject: float | None) -> str:
    """Of the only class: like it or not, and by how much."""
    score, sure = f"score {row['score']:.2f}", f"{row['confidence']:.1%}"
    if row["verdict"] == UNKNOWN:
        return f"        not {name} ({score}, above {row['threshold']:.2f})"
    if row["class"] is None:
        return f"        not surely {name} ({score}, {sure}, below {reject:.0%})"
    return f"{sure:>6}  {name} ({score})"


def say_if_all_are_named(head) -> None:
    """Say on standard error that `head` cannot tell strangers, if that is so."""
    if not head.tells_strangers:
        say(
            f"every image gets a class, whatever it shows: this delta (head {head.kind}) cannot tell images "
            "of other things; --reject 60% of predict and watch refuses unsure answers"
        )
