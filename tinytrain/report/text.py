"""Reports and plans for people: the conclusion first, then all details; plain text, no colour."""

from functools import partial

from tinytrain.base.units import as_option, format_bytes, format_count
from tinytrain.report.conclusion import (
    LINES,
    UNSEEN,
    Written,
    class_counts,
    conclude,
    duplicate_text,
    estimate_text,
    outside_text,
    suspect_text,
    warnings_item,
)
from tinytrain.report.layout import WIDTH, Command, Item, fitted, labelled, short, worded, wrapped

FALL_BACK = {"cosine": "cosine prototypes, unadapted", "head": "a new head alone"}


def render_text(facts: dict, written: Written | None = None, width: int = WIDTH) -> str:
    """The report `facts` (`Report.to_json`) as text: the conclusion, an empty line, and everything else."""
    blocks = [
        _header(facts),
        [("accuracy", text) for text in _accuracy(facts)],
        [("guard", text) for text in _guard(facts)],
        _left_out(facts),
        _selection(facts["selection"]),
        _memory(facts),
        _macs(facts["macs"]),
        [("time", _seconds(facts["seconds"]) + _given(facts)), ("threads", _threads(facts))],
    ]
    rest = worded(facts, "\n".join(_lines(blocks, width)))
    return "\n".join([*conclude(facts, written, width), "", rest])


def summarize_plan(facts: dict, then: tuple[str, ...], out: str | None = None, width: int = WIDTH) -> str:
    """The result of ``tinytrain plan`` in eight lines at most; `then`: the words of the next command."""
    items = [
        *_precisions(facts),
        Item("budgets", advice_text(facts["advice"])),
        Item("images", _counts(facts["episode"])),
        warnings_item(facts["warnings"]),
        Item("written", short(out)) if out else None,
        Command("next", then),
    ]
    return "\n".join(fitted([item for item in items if item], width, LINES, partial(worded, facts)))


def render_plan(facts: dict, width: int = WIDTH) -> str:
    """All about the result of ``tinytrain plan`` as text."""
    blocks = [_header(facts), _selection(facts["selection"]), _memory(facts), _macs(facts["macs"])]
    rows = [
        (
            "for scale",
            f"{row['method']:<10} {row['weights']:>9,} weights, {_both(row['paper'])} as published, "
            f"{row['backward_macs'] / 1e6:.3f} M backward MACs",
        )
        for row in facts["accounting"]
    ]
    warnings = [("warning", warning) for warning in facts["warnings"]]
    return worded(facts, "\n".join(_lines([*blocks, rows, warnings], width)))


def _precisions(facts: dict) -> list[Item]:
    """What plans of two precisions train and cost, the one that is taken first."""
    rows, taken = facts["precisions"], facts["precisions"]["taken"]
    names = sorted((n for n, row in rows.items() if isinstance(row, dict)), key=lambda name: name != taken)
    return [
        *(Item(name.partition(":")[0], _planned(rows[name], facts)) for name in names[:2]),
        Item("taken", f"{taken}: {rows['why']}"),
    ]


def _planned(row: dict, facts: dict) -> str:
    """The plan of one precision in a line."""
    if "refused" in row:
        return f"needs {row['needs']:,} bytes at the least" if row["needs"] else f"not possible: {row['why']}"
    network, budget = facts["network"], max(facts["memory"]["budget"], 1)
    layers = f"{row['layers']} of {network['layers']} layers"
    if row["modules"]:
        layers += f" and {row['modules']} of lite residual modules"
    trained = f"{layers}, {row['channels']:,} channels" if row["layers"] + row["modules"] else "only the head"
    share = row["backward_per_query"] / facts["macs"]["full_backward"]
    cost = f"{row['arena']:,} bytes ({row['arena'] / budget:.0%})"
    macs = f"{format_count(row['backward_per_query'])} MACs ({share:.0%})"
    time = "" if row["seconds"] is None else f"; roughly {_rough(row['seconds'])} s"
    return f"{trained}; {cost}; {macs}{time}"


def _rough(seconds: float) -> str:
    """One digit that counts: all that such an estimate has."""
    return f"{float(f'{seconds:.0e}'):g}"


def advice_text(advice: dict) -> str:
    """Three budgets (`Planner.advice`) in words."""
    smallest, sensible, everything = (
        as_option(advice[name]) for name in ("smallest", "sensible", "everything")
    )
    return (
        f"{smallest} is the least, {sensible} is sensible (all chosen channels), {everything} keeps all "
        "(faster)"
    )


def _lines(blocks: list, width: int) -> list[str]:
    """All lines of all blocks, wrapped; a label is not repeated while it stays the same."""
    lines, last = [], None
    for label, text in (row for block in blocks for row in block):
        lines += labelled("" if label == last else label, wrapped(text, width))
        last = label
    return lines


def _header(facts: dict) -> list:
    return [
        ("backbone", f"{facts['backbone']}, policy {facts['policy']}"),
        ("images", facts["episode"]["source"]),
        *([("images", UNSEEN)] if facts.get("unseen_domain") else []),
        ("images", _counts(facts["episode"])),
        *([("images", _alike(facts))] if facts["similarity"] is not None else []),
    ]


def _counts(episode: dict) -> str:
    classes, per_class = class_counts(episode)
    support = f"{classes} x {per_class} = {episode['n_support']} to adapt to"
    return f"{support}, {episode['n_query']} to judge by"


def _alike(facts: dict) -> str:
    """What the images are to the backbone: how strongly they are augmented follows it."""
    return f"to the backbone, those of different classes are {facts['similarity']:.2f} alike (mean cosine)"


def _accuracy(facts: dict) -> list[str]:
    a = facts["accuracy"]
    lines = [estimate_text(facts)]
    if a["n_query"]:
        low, mid, high = (100 * x for x in a["difference"])
        lines += [
            f"{a['before']:.1%} -> {a['after']:.1%} on {a['n_query']} images: "
            f"{mid:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})",
            f"{a['before_cosine']:.1%} for cosine prototypes of the unadapted network",
        ]
    return lines


def _guard(facts: dict) -> list[str]:
    g, withheld = facts["guard"], facts["accuracy"]["withheld"]
    reasons = "; ".join(r["text"] for r in g["reasons"])
    if g["forced"]:
        lines = [f"kept because it was forced, although {reasons}"]
    elif g["accepted"] and g["kept"] == "head":
        lines = [f"kept a new head alone{': ' * bool(reasons)}{reasons}"]
    elif g["accepted"]:
        lines = ["found nothing against the adaptation"]
    else:
        lines = [f"kept the old weights: {reasons}", f"predictions are those of {FALL_BACK[g['kept']]}"]
    if withheld is not None:
        lines.append(f"{withheld:.1%} would have been right with the adaptation that was withheld")
    return lines + [f"suspect: {suspect_text(s)}, score {s['score']:.1f}" for s in g["suspects"]]


def _left_out(facts: dict) -> list:
    """All skipped files, identical images and warnings."""
    rows = [("duplicate", duplicate_text(d)) for d in facts["duplicates"]]
    rows += [("skipped", f"{s['file']}: {s['reason']}") for s in facts["skipped"]]
    return rows + [("warning", warning) for warning in facts["warnings"]]


def _selection(rows: list[dict]) -> list:
    lines = []
    for row in rows:
        weights = f"{row['n_channels']:>4} of {row['of']:<4} channels" if row["n_channels"] else " " * 21
        share = row["fisher_fraction"]
        fisher = "" if share is None else f"  {share:>4.0%} of its Fisher information"
        bias = "  bias" if row["bias"] else ""
        inputs = "" if row["inputs"] is None else f"  {len(row['inputs'])} input channels"
        lines.append(("trained", f"{row['layer']:>3} {row['name']:<20} {weights}{bias:<6}{inputs}{fisher}"))
    return lines or [("trained", "nothing; only the head was fitted")]


def _memory(facts: dict) -> list:
    m, r = facts["memory"], facts["resources"]
    used = f"{m['arena']:,} of {m['budget']:,} bytes ({m['arena'] / max(m['budget'], 1):.0%})"
    lines = [
        f"arena {used}" + (f", of which the delta keeps {m['delta']:,}" if "delta" in m else ""),
        f"{_both(m['paper'])} as published (16 bytes per trained weight + peak activation)",
        f"not in the budget: {outside_text(m)}",
        f"{m['trained_parameters']:,} trained parameters, {m.get('precision', 'float32')}, "
        f"optimizer {r['optimizer']}, head {r['head']}, "
        f"{r['cached_sets']} cached sets of features",
    ]
    if "advice" in facts:
        lines.append(f"budgets: {advice_text(facts['advice'])}")
    return [("memory", text) for text in lines]


def _both(n: int) -> str:
    return f"{format_bytes(n)} ({n / 2**20:.3f} MiB)"


def _macs(m: dict) -> list:
    lines, whats = [], {"backward_per_query": "per pseudo-query", "dearest_image": "for the dearest image"}
    for key, what in whats.items():
        share = f"{m[key] / m['full_backward']:.1%} of full training"
        limit = f", limit {format_count(m['limit'])}" if m["limits"] == key else ""
        lines.append(f"{format_count(m[key])} backward {what} ({share}){limit}")
    if "total" in m:
        stages = ", ".join(f"{name} {format_count(n)}" for name, n in m["stages"].items() if n)
        lines.append(f"{format_count(m['total'])} executed in all: {stages}")
    return [("MACs", text) for text in lines]


def _seconds(seconds: dict) -> str:
    stages = ", ".join(f"{name} {s:.2f}" for name, s in seconds.items() if name != "total")
    return f"{seconds['total']:.2f} s: {stages}"


def _given(facts: dict) -> str:
    """How much of the time that was given was used, if it was; answers for queries are no part of it."""
    time = facts.get("time")
    return f"; {time['used']:.2f} of {time['asked']:g} s given" if time else ""


def _threads(facts: dict) -> str:
    t, r = facts["threads"], facts["resources"]
    at_once = f"{t['lanes']} image{'s' if t['lanes'] > 1 else ''} at once"
    return f"{at_once}, {facts['kernels']} kernels, {r['steps']} steps"
