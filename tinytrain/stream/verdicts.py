"""What is said of an image that was seen. A prediction needs this and no event of a session."""

from tinytrain.base.errors import visible

NONE = "none of these"
UNCERTAIN, UNKNOWN = "uncertain", "unknown"  # of `heads.head`, which needs numpy
NAMED_ANYWAY = (
    "every image gets a class, whatever it shows: this delta (head {}) cannot tell images of other things; "
    "--reject 60% of predict and watch refuses unsure answers"
)


def named_anyway(head) -> str:
    """What to say of a `head` that cannot tell strangers; "" if it can."""
    return "" if head.tells_strangers else NAMED_ANYWAY.format(head.kind)


def normal_facts(verdict) -> dict:
    """What a row of JSON says besides of a `heads.head.HeadVerdict`, if there is one class alone."""
    if verdict.threshold is None:
        return {}
    return {"score": verdict.score, "threshold": verdict.threshold}


def verdict_in_words(row: dict, reject: float | None) -> str:
    """Confidence and class of a row of JSON, or why it has none: with `reject`, the confidence asked for."""
    name, sure = visible(row["best_guess"]), f"{row['confidence']:.1%}"
    score = f"score {row['score']:.2f}" if "score" in row else None  # of the only class
    if row["verdict"] == UNKNOWN:
        above = f"not {name} ({score}, above {row['threshold']:.2f})" if score else ""
        return " " * 8 + (above or f"{NONE} (closest: {name}, {sure})")
    if row["class"] is None:
        guess = f"not surely {name} ({score}, {sure}" if score else f"{NONE} (best guess {name}, {sure}"
        return f"        {guess}, below {reject:.0%})"
    more = f" ({score})" if score else ", uncertain" if row["verdict"] == UNCERTAIN else ""
    return f"{sure:>6}  {name}{more}"
