"""The loss by step, and where MACs, bytes and seconds went."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tinytrain.base.page import Bar, bars, safe, section, tag
from tinytrain.base.svg import element, fluid, percent, round_steps, text
from tinytrain.base.units import format_bytes, format_count
from tinytrain.report.conclusion import outside_text
from tinytrain.report.page.arena import KINDS, OTHER, STAGES, kind_of

HEIGHT = 180
# Stages as the report calls them -> as people do.
MACS = {
    "probe": "choosing what to train",
    "features": "frozen part, once per image",
    "heads": "fitting classifiers",
    "training": "training",
}
SECONDS = {
    "probe": "choosing what to train",
    "plan": "planning",
    "features": "frozen part",
    "head": "fitting classifiers",
    "training": "training",
    "queries": "answering held-out images",
}


def costs_section(facts: dict) -> str:
    seconds = {name: s for name, s in facts["seconds"].items() if name != "total"}
    stages, total = facts["macs"]["stages"], facts["macs"]["total"]
    return section(
        "What it cost",
        tag("h3", f"Time: {facts['seconds']['total']:.1f} seconds"),
        _bars(seconds, SECONDS, lambda s: f"{s:.2f} s"),
        tag("h3", f"Computation: {format_count(total)} multiply-accumulates (MACs)"),
        _bars(stages, MACS, format_count),
        tag("p", safe(_backward(facts["macs"])), class_="dim"),
        *_memory(facts),
    )


def _bars(amounts: Mapping[str, float], names: Mapping[str, str], form) -> str:
    total = max(sum(amounts.values()), 1e-9)
    rows = []
    for name, amount in amounts.items():
        label = safe(names.get(name, name.replace("_", " ")))
        rows.append(Bar(label, amount / total, f"{form(amount)} ({amount / total:.0%})"))
    return bars(rows)


def _backward(macs: dict) -> str:
    words = f"Backward per image and step: {format_count(macs['backward_per_query'])} MACs on average"
    words += f" ({macs['backward_per_query'] / macs['full_backward']:.1%} of training everything"
    if macs["limits"] == "backward_per_query":
        words += f"; the limit is {macs['limit'] / macs['full_backward']:.1%}"
    return words + ")."


def _memory(facts: dict) -> list[str]:
    """The fullest stage by kind of buffer, against the budget, and what no budget limits."""
    memory, held = facts["memory"], [Counter() for _ in STAGES]
    for row in facts["arena_table"]:
        for tick in range(row["first"], row["last"] + 1):
            held[tick][kind_of(row["name"])] += row["bytes"]
    fullest = max(range(len(STAGES)), key=lambda tick: held[tick].total())
    budget = max(memory["budget"], 1)
    order = [kind for kind in (*KINDS, OTHER) if held[fullest][kind]]
    rows = [Bar(kind, held[fullest][kind] / budget, _both(held[fullest][kind], budget)) for kind in order]
    words = f"The fullest stage ({STAGES[fullest]}) against the budget of {format_bytes(budget)}."
    if "delta" in memory:
        words += f" The result (delta) takes {format_bytes(memory['delta'])}."
    return [
        tag("h3", f"Memory: an arena of {format_bytes(memory['arena'])}"),
        tag("p", safe(words), class_="dim"),
        bars(rows),
        tag("p", safe(f"Not in the budget: {outside_text(memory)}."), class_="dim"),
    ]


def _both(count: int, budget: int) -> str:
    return f"{format_bytes(count)} ({count / budget:.0%})"


def loss_section(facts: dict) -> str:
    """A curve of the losses. None is a loss that is no number, at which training broke off."""
    losses: Sequence[float | None] = facts["losses"]
    words = "Mean loss of the images of a step. It should fall."
    if members := facts.get("members"):
        steps = ", then ".join(
            f"{row['steps']} steps of {row['backbone']}" for row in members if row["steps"]
        )
        words += f" The networks were trained one after another, so it begins anew with each: {steps}."
    finite = [loss for loss in losses if loss is not None]
    parts = []
    if len(finite) < len(losses):
        parts.append(
            tag("p", f"Training broke off: the loss of step {len(losses)} is no number.", class_="bad")
        )
    if len(finite) > 1:
        parts += [tag("p", safe(words), class_="dim"), _curve(finite)]
    elif not parts:
        return ""
    return section("Loss", *parts)


def _curve(losses: Sequence[float]) -> str:
    top, last = max(max(losses), 1e-9), len(losses) - 1
    marks = round_steps(0, top, 4)
    if marks[-1] < top:  # the curve ends below the last mark
        marks.append(marks[-1] + marks[1])
    top = marks[-1]
    parts = []
    for value in marks:
        y = HEIGHT * (1 - value / top)
        parts.append(element("line", class_="grid", x1="0%", x2="100%", y1=y, y2=y))
        parts.append(text(-6, y + 4, f"{value:.3g}", "end", class_="dim"))
    places = [(percent(k / last), HEIGHT * (1 - loss / top)) for k, loss in enumerate(losses)]
    for (x1, y1), (x2, y2) in pairwise(places):
        parts.append(element("line", class_="loss", x1=x1, y1=y1, x2=x2, y2=y2))
    for step in _steps(len(losses)):
        anchor = "start" if step == 1 else "end" if step == len(losses) else "middle"
        parts.append(text(percent((step - 1) / last), HEIGHT + 16, str(step), anchor, class_="dim"))
    parts.append(text("50%", HEIGHT + 36, "step", "middle", class_="dim"))
    parts.append(element("line", class_="axis", x1=0, x2=0, y1=0, y2=HEIGHT))
    parts.append(element("line", class_="axis", x1="0%", x2="100%", y1=HEIGHT, y2=HEIGHT))
    return fluid(parts, HEIGHT, "loss by step")


def _steps(count: int) -> list[int]:
    """Numbers of steps to write at the axis: the ends and up to three between them."""
    return sorted({1, count, *(1 + round((count - 1) * k / 4) for k in range(1, 4))})
