"""The page of an adaptation: one HTML file that needs nothing else, neither scripts nor a network.

At its top: how good it is, kept or not, what is suspicious.
"""

import re

from tinytrain.base.page import items, page, safe, tag
from tinytrain.report.conclusion import estimate_text, figure, kept_text, normal_text
from tinytrain.report.layout import worded
from tinytrain.report.page.accuracy import answers_section
from tinytrain.report.page.arena import arena_section
from tinytrain.report.page.costs import costs_section, loss_section
from tinytrain.report.page.images import support_section
from tinytrain.report.page.network import network_section
from tinytrain.report.page.settings import input_section, settings_section
from tinytrain.report.page.thumbnails import Thumbnails


def render_html(facts: dict, thumbnails: Thumbnails | None = None) -> str:
    """The report `facts` (`Report.to_json`) as a page, with images if there are `thumbnails` of them."""
    whole = page(
        headline(facts),
        (
            conclusion(facts),
            answers_section(facts, thumbnails),
            support_section(facts, thumbnails),
            input_section(facts),
            network_section(facts),
            arena_section(facts),
            loss_section(facts),
            costs_section(facts),
            settings_section(facts),
        ),
    )
    # A command is to be copied as it is, also if its folder is called images.
    parts = re.split("(<pre>.*?</pre>)", whole, flags=re.DOTALL)
    return "".join(part if part.startswith("<pre>") else worded(facts, part) for part in parts)


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
    measured = estimate["method"] == "held-out"
    first = f"{figure(facts)} named rightly" if measured else f"about {figure(facts)} right expected"
    first = tag("p", first, class_="figure")
    return [first, tag("p", safe(f"{estimate_text(facts)}."))]


def _kept(facts: dict) -> str:
    guard, withheld, kept = facts["guard"], facts["accuracy"]["withheld"], safe(kept_text(facts))
    reasons = "; ".join(safe(reason["text"]) for reason in guard["reasons"])
    more = "" if withheld is None else f" With the training, {withheld:.1%} would have been right."
    if guard["forced"]:
        return tag("p", tag("strong", "Kept because it was forced", class_="warn"), f", although {reasons}.")
    if guard["accepted"]:
        return tag("p", tag("strong", "Kept", class_="good"), f": {kept}.{more}")
    words = f": {reasons}. Predictions are those of the network before the adaptation.{more}"
    return tag("p", tag("strong", "Not kept", class_="bad"), words)


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
