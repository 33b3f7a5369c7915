"""The top of the page: how good, kept or not, what is suspicious."""

from tinytrain.base.page import items, safe, tag
from tinytrain.report.conclusion import estimate_text, figure, kept_text, normal_text


def headline(facts: dict) -> str:
    """The title of the page."""
    adapted = "adapted" if facts["guard"]["accepted"] else "not adapted"
    count = len(facts["episode"]["classes"])
    return f"{facts['backbone']}, {adapted} to {f'{count} classes' if count > 1 else 'one class'}"


def conclusion(facts: dict) -> str:
    """Everything that one should know first, in a box."""
    accepted = facts["guard"]["accepted"]
    return tag(
        "div",
        *_accuracy(facts),
        _kept(facts),
        items(_remarks(facts)),
        class_="conclusion" if accepted else "conclusion refused",
    )


def _accuracy(facts: dict) -> list[str]:
    estimate = facts["estimate"]
    if "normal" in facts:
        return [tag("p", "Normal or not", class_="figure"), tag("p", safe(f"{normal_text(facts)}."))]
    if estimate["accuracy"] is None:
        return [tag("p", "Accuracy unknown", class_="figure"), tag("p", safe(estimate["why"]))]
    figure = tag("p", _figure(facts), class_="figure")
    return [figure, tag("p", safe(f"{estimate_text(facts)}."))]


def _figure(facts: dict) -> str:
    """The accuracy, measured or expected."""
    estimate = facts["estimate"]
    about = "about " if estimate["method"] == "cross-validation" else ""
    return f"{about}{figure(facts)} right{' expected' if about else ''}"


def _kept(facts: dict) -> str:
    guard, withheld, kept = facts["guard"], facts["accuracy"]["withheld"], safe(kept_text(facts))
    reasons = "; ".join(safe(reason["text"]) for reason in guard["reasons"])
    if guard["forced"]:
        return tag("p", tag("strong", "Kept because it was forced", class_="warn"), f", although {reasons}.")
    if guard["accepted"]:
        return tag("p", tag("strong", "Kept", class_="good"), f": {kept}.")
    more = "" if withheld is None else f" With the adaptation, {withheld:.1%} would have been right."
    told = f": {reasons}. Predictions are those of the network before the adaptation.{more}"
    return tag("p", tag("strong", "Not kept", class_="bad"), told)


def _remarks(facts: dict) -> list[str]:
    """Short lines about what deserves a look, with links to it."""
    found = (
        (facts["guard"]["suspects"], "support image looks", "support images look", "suspicious", "support"),
        (facts["skipped"], "file was", "files were", "skipped", "input"),
        (facts["duplicates"], "image is", "images are", "there more than once", "input"),
    )
    lines = [
        tag("a", f"{len(rows)} {one if len(rows) == 1 else many} {what}", href=f"#{where}")
        for rows, one, many, what, where in found
        if rows
    ]
    return lines + [safe(warning) for warning in facts["warnings"]]
