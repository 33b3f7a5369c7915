"""Reports and plans for people: plain text, aligned, no colour."""

from tinytrain.base.units import format_bytes, format_count

LABEL = 12  # width of the column of labels
SHOWN = 5  # suspects that are named
UNSEEN = "of a generated domain that no stage of this backbone's training saw"


def render_text(facts: dict) -> str:
    """The report `facts` (`Report.to_json`) as text."""
    blocks = [
        _header(facts),
        [_line("accuracy", text) for text in _accuracy(facts["accuracy"])],
        [_line("guard", text) for text in _guard(facts)],
        _selection(facts["selection"]),
        _memory(facts),
        _macs(facts["macs"]),
        [_line("time", _seconds(facts["seconds"])), _line("threads", _threads(facts))],
    ]
    return "\n".join(_labelled_once(block) for block in blocks if block)


def render_plan(facts: dict) -> str:
    """The result of ``tinytrain plan`` as text."""
    blocks = [_header(facts), _selection(facts["selection"]), _memory(facts), _macs(facts["macs"])]
    rows = [
        _line(
            "for scale",
            f"{row['method']:<10} {row['weights']:>9,} weights, {_both(row['paper'])} as published, "
            f"{row['backward_macs'] / 1e6:.3f} M backward MACs",
        )
        for row in facts["accounting"]
    ]
    return "\n".join(_labelled_once(block) for block in [*blocks, rows] if block)


def _line(label: str, text: str) -> tuple[str, str]:
    return label, text


def _labelled_once(block: list[tuple[str, str]]) -> str:
    """Lines with their label, which is not repeated while it stays the same."""
    lines, last = [], None
    for label, text in block:
        lines.append(f"{'' if label == last else label:<{LABEL}}{text}".rstrip())
        last = label
    return "\n".join(lines)


def _header(facts: dict) -> list:
    e = facts["episode"]
    shots = sorted(set(e["shots"]))
    per_class = f"{shots[0]}" if len(shots) == 1 else f"{shots[0]} to {shots[-1]}"
    return [
        _line("backbone", f"{facts['backbone']}, policy {facts['policy']}"),
        _line("images", e["source"]),
        *([_line("images", UNSEEN)] if facts.get("unseen_domain") else []),
        _line(
            "images",
            f"{len(e['classes'])} classes x {per_class} = {e['n_support']} to adapt to,"
            f" {e['n_query']} to judge by",
        ),
        *([_line("images", _alike(facts["similarity"]))] if facts["similarity"] is not None else []),
    ]


def _alike(similarity: float) -> str:
    return f"to the backbone, those of different classes are {similarity:.2f} alike (mean cosine)"


def _accuracy(a: dict) -> list[str]:
    lines = []
    if a["n_query"]:
        low, mid, high = (100 * x for x in a["difference"])
        lines = [
            f"{a['before']:.1%} -> {a['after']:.1%} on {a['n_query']} images: "
            f"{mid:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})",
            f"{a['before_cosine']:.1%} for cosine prototypes of the unadapted network",
        ]
    if a["left_out"] is not None:
        # The head leaves each image out, the trained weights have seen it: an upper estimate.
        lines.append(f"{a['left_out']:.1%} at most, from leaving each support image out of the head")
    return lines or ["unknown: no images left to judge by"]


def _guard(facts: dict) -> list[str]:
    g, withheld = facts["guard"], facts["accuracy"]["withheld"]
    reasons = "; ".join(r["text"] for r in g["reasons"])
    if g["forced"]:
        lines = [f"kept because it was forced, although {reasons}"]
    elif g["accepted"]:
        lines = ["found nothing against the adaptation"]
    else:
        lines = [f"kept the old weights: {reasons}", "predictions are those of cosine prototypes, unadapted"]
    if withheld is not None:
        lines.append(f"{withheld:.1%} would have been right with the adaptation that was withheld")
    return lines + [_suspect(s) for s in g["suspects"][:SHOWN]] + _more(len(g["suspects"]) - SHOWN)


def _suspect(s: dict) -> str:
    what = (
        f"looks more like {s['looks_like']}"
        if s["reason"] == "mislabelled"
        else "unlike the others of its class"
    )
    return f"suspect: {s['name']} ({s['given']}) {what}, score {s['score']:.1f}"


def _more(count: int) -> list[str]:
    return [f"and {count} more suspects"] if count > 0 else []


def _selection(rows: list[dict]) -> list:
    lines = []
    for row in rows:
        weights = f"{row['n_channels']:>4} of {row['of']:<4} channels" if row["n_channels"] else " " * 21
        share = row["fisher_share"]
        fisher = "" if share is None else f"  {share:>4.0%} of its Fisher information"
        bias = "  bias" if row["bias"] else ""
        inputs = "" if row["inputs"] is None else f"  {len(row['inputs'])} input channels"
        lines.append(
            _line("trained", f"{row['layer']:>3} {row['name']:<20} {weights}{bias:<6}{inputs}{fisher}")
        )
    return lines or [_line("trained", "nothing; only the head was fitted")]


def _memory(facts: dict) -> list:
    m, r = facts["memory"], facts["resources"]
    outside = ", ".join(f"{name.replace('_', ' ')} {format_bytes(n)}" for name, n in m["outside"].items())
    lines = [
        f"arena {m['arena']:,} of {m['budget']:,} bytes ({m['arena'] / max(m['budget'], 1):.0%})"
        + (f", of which the delta keeps {m['delta']:,}" if "delta" in m else ""),
        f"{_both(m['paper'])} as published (16 bytes per trained weight + peak activation)",
        f"not in the budget: {outside}",
        f"{m['trained_numbers']:,} trained parameters, optimizer {r['optimizer']}, head {r['head']}, "
        f"{r['cached_sets']} cached sets of features",
    ]
    if "smallest_budget" in m:
        lines.append(f"{m['smallest_budget']:,} bytes are the least in which this policy trains anything")
    return [_line("memory", text) for text in lines]


def _both(n: int) -> str:
    return f"{format_bytes(n)} ({n / 2**20:.3f} MiB)"


def _macs(m: dict) -> list:
    lines = []
    for key, what in (
        ("backward_per_query", "per pseudo-query"),
        ("dearest_picture", "for the dearest image"),
    ):
        share = f"{m[key] / m['full_backward']:.1%} of full training"
        limit = f", limit {format_count(m['limit'])}" if m["limits"] == key else ""
        lines.append(f"{format_count(m[key])} backward {what} ({share}){limit}")
    if "total" in m:
        stages = ", ".join(f"{name} {format_count(n)}" for name, n in m["stages"].items() if n)
        lines.append(f"{format_count(m['total'])} executed in all: {stages}")
    return [_line("MACs", text) for text in lines]


def _seconds(seconds: dict) -> str:
    stages = ", ".join(f"{name} {s:.2f}" for name, s in seconds.items() if name != "total")
    return f"{seconds['total']:.2f} s: {stages}"


def _threads(facts: dict) -> str:
    t, r = facts["threads"], facts["resources"]
    workers = f"{t['lanes']} image{'s' if t['lanes'] > 1 else ''}"
    at_once = f"{workers} at once, BLAS on {t['blas']} thread each"
    return f"{at_once}, {facts['kernels']} kernels, {r['steps']} steps"
