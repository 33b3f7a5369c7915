"""The sections of a report, from the figures of `tables` to blocks of a document."""

import re

from tinytrain.base.units import format_count
from tinytrain.meta.bench.document import Block, Figure, Heading, Table, Text
from tinytrain.meta.bench.plots import Point, against_macs, against_memory, against_shots, time_per_stage
from tinytrain.meta.bench.published import published_blocks
from tinytrain.meta.bench.rates import Rates
from tinytrain.meta.bench.statistics import Interval

MIB = 2**20
DEFAULT = "tinytrain"
MAX_STEM = 150  # of the name of a file, which many file systems cut at 255
COUNTED = (
    "Arena: the most bytes that were really held, on any episode. As published: 16 bytes per trained "
    "weight + peak activation of inference at batch 1; full and tinytl with saved activations at batch "
    "100. Equal batch 1: one rule for all, 16 bytes per trained number + what a framework saves for the "
    "backward pass of one image, or the peak of inference. Backward MACs: of one back-propagated "
    "image, as published; per pseudo-query, which is what a step costs, in per cent of a full backward "
    "pass. Total MACs: all that an adaptation executes. Seconds on the machine of the run, one thread."
)


def report_blocks(facts: dict, rates: Rates | None = None) -> list[Block]:
    """All blocks, with the trials of learning rates if they are given."""
    blocks: list[Block] = [Text(_opening(facts))]
    if rates:
        blocks += _rates(rates)
    for group in facts["groups"]:
        blocks += _group(group)
    for row in facts["between"]:
        blocks += _between(row)
    blocks += _shots(facts["groups"])
    return blocks + published_blocks(facts["groups"])


def _opening(facts: dict) -> str:
    code = ", ".join(f"{name} ({count} runs)" for name, count in facts["code"].items())
    text = (
        f"{facts['runs']} runs. Top-1 accuracy in per cent. Every policy of a table saw the same episodes "
        f"with the same seeds: numbers 1 to {facts['episodes']} of the list in meta/bench/seeds.txt. "
        "Intervals are 95 %, from Student's t distribution over episodes; a mean weighs every pack alike."
        f" Differences are paired, episode by episode; bold ones are clear of zero. Code: {code}."
    )
    if len(facts["code"]) > 1:
        text += (
            " The runs were made by different versions of the code: run the matrix again before citing them."
        )
    if facts["refused"]:
        text += f" {facts['refused']} adaptations were refused and count as the unadapted network."
    return text


def _rates(rates: Rates) -> list[Block]:
    rows, strong, edge = [], set(), []
    for r, (label, tuned) in enumerate(rates.policies.items()):
        rows.append((label, *("" if mean is None else f"{100 * mean:.1f}" for mean in tuned.accuracy)))
        strong.add((r, rates.grid.index(tuned.scale) + 1))
        edge += [label] * tuned.edge
    text = (
        f"The same factors on the learning rates of every policy, tried on {rates.episodes} episodes each of "
        f"{' and '.join(rates.packs)} ({rates.sampler}, {rates.backbone}), no targets; bold ones were taken: "
        "a policy leaves its own rates (x1) only for a factor whose paired lead over them is clear of zero. "
        "Where the best was at an end of the grid, the policy also got the next factor beyond. "
    )
    at_edge = f"At the edge of the grid, so that the optimum may lie beyond it: {', '.join(edge)}."
    text += at_edge if edge else "Every optimum lies inside the grid."
    header = ("policy", *(f"x{scale:g}" for scale in rates.grid))
    return [Heading("Learning rates"), Text(text), Table(header, tuple(rows), frozenset(strong))]


def figure(interval: Interval | str | None, signed: bool = False) -> str:
    """``81.0 ±2.7``; without a half-width if there was a single value. A text is shown as it is."""
    if isinstance(interval, Interval):
        return interval.text(2 if signed else 1, signed)
    return "-" if interval is None else interval


def _group(group: dict) -> list[Block]:
    title = f"{group['backbone']}, {group['sampler']}"
    return [
        Heading(title),
        _accuracy(group),
        Heading("Paired differences, mean over packs: row minus column", 3),
        _square(group),
        *_by_pack(group),
        Heading("Memory, MACs and time", 3),
        Text(COUNTED),
        _costs(group),
        *_figures(group),
    ]


def _accuracy(group: dict) -> Table:
    rows = []
    for method in group["methods"]:
        counts = [interval.n for interval in method["accuracy"].values()]
        cells = [figure(method["accuracy"].get(pack)) for pack in group["packs"]]
        rate = f"x{method['rate_scale']:g}" if "rate_scale" in method else ""
        rows.append((method["label"], *cells, figure(method["mean"]), f"{min(counts)}", rate))
    return Table(("policy", *group["packs"], "mean", "episodes per pack", "rate"), tuple(rows))


def _differences(header: tuple[str, ...], lines: list[tuple[str, list]]) -> Table:
    """Names and intervals of differences, or texts; intervals clear of zero stand out."""
    rows = tuple((name, *(figure(i, signed=True) for i in found)) for name, found in lines)
    strong = frozenset(
        (r, c)
        for r, (_, found) in enumerate(lines)
        for c, i in enumerate(found, 1)
        if isinstance(i, Interval) and i.clear_of_zero()
    )
    return Table(header, rows, strong)


def _square(group: dict) -> Table:
    names = [method["label"] for method in group["methods"] if "policy" in method]
    found = {(row["a"], row["b"]): row["mean"] for row in group["differences"]}
    lines = [(a, [found.get((a, b)) if a != b else "" for b in names]) for a in names]
    return _differences(("", *names), lines)


def _by_pack(group: dict) -> list[Block]:
    """Every variant of the default policy against every other policy, pack by pack."""
    ours = [m["label"] for m in group["methods"] if m.get("policy") == DEFAULT]
    lines = [
        (f"{row['a']} - {row['b']}", [*(row["packs"].get(pack) for pack in group["packs"]), row["mean"]])
        for row in group["differences"]
        if row["a"] in ours and row["b"] not in ours
    ]
    title = Heading(f"Paired differences of {DEFAULT}, by pack", 3)
    return [title, _differences(("", *group["packs"], "mean"), lines)] if lines else []


def _costs(group: dict) -> Table:
    header = (
        "policy", "budget, bytes", "arena, bytes", "as published, MiB", "equal batch 1, MiB",
        "trained numbers", "backward MACs per image", "per pseudo-query", "total MACs", "seconds",
    )  # fmt: skip
    rows = []
    for method in group["methods"]:
        cost = method.get("cost")
        if cost:
            rows.append(
                (
                    method["label"],
                    f"{method['budget']:,}",
                    f"{cost['arena']:,}",
                    f"{cost['published'] / MIB:.3f}",
                    f"{cost['batch_1'] / MIB:.3f}",
                    f"{cost['trained_parameters']:,}",
                    format_count(cost["backward_per_sample"]),
                    f"{100 * cost['backward_per_query'] / cost['full_backward']:.1f} %",
                    format_count(cost["total"]),
                    f"{sum(cost['seconds'].values()):.2f}",
                )
            )
    return Table(header, tuple(rows))


def _figures(group: dict) -> list[Figure]:
    methods = [m for m in group["methods"] if m.get("cost") and m["mean"]]
    if not methods:
        return []

    def points(cost) -> list[Point]:
        return [Point(m["label"], cost(m["cost"]), m["mean"].mean, m["mean"].half or 0.0) for m in methods]

    of = f"{group['backbone']}, {group['sampler']}"
    stem = _stem(of)
    memory = against_memory(points(lambda cost: cost["arena"]))
    macs = against_macs(points(lambda cost: 100 * cost["backward_per_query"] / cost["full_backward"]))
    time = time_per_stage({m["label"]: m["cost"]["seconds"] for m in methods})
    front = "Dashed: the Pareto front."
    return [
        Figure(f"{stem}-memory.svg", f"Mean accuracy against memory: {of}. {front}", memory),
        Figure(f"{stem}-macs.svg", f"Mean accuracy against backward MACs: {of}. {front}", macs),
        Figure(f"{stem}-time.svg", f"Seconds per stage, mean over episodes: {of}", time),
    ]


def _stem(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_STEM]


def _between(row: dict) -> list[Block]:
    packs = row["packs"]
    lines = [(m["label"], [*(m["packs"].get(pack) for pack in packs), m["mean"]]) for m in row["methods"]]
    return [
        Heading(f"{row['backbone']} minus {row['reference']}, {row['sampler']}"),
        Text("The same policy on the same episodes with the other backbone, paired."),
        _differences(("policy", *packs, "mean"), lines),
    ]


def _shots(groups: list[dict]) -> list[Block]:
    """Accuracy against shots for every backbone that has at least two numbers of them on the same packs."""
    lines: dict[tuple, dict[str, list[Point]]] = {}
    for group in groups:
        match = re.fullmatch(r"(\d+-way) (\d+)-shot, .*", group["sampler"])
        for method in group["methods"] if match else ():
            if method["mean"] and method.get("cost"):
                key = (group["backbone"], match[1], tuple(sorted(group["packs"])))
                point = Point(method["label"], int(match[2]), method["mean"].mean, method["mean"].half or 0.0)
                lines.setdefault(key, {}).setdefault(method["label"], []).append(point)
    blocks: list[Block] = []
    for (backbone, way, packs), found in lines.items():
        kept = {label: sorted(line, key=lambda p: p.cost) for label, line in found.items() if len(line) > 1}
        if kept:
            title = f"Accuracy against shots: {backbone}, {way}, mean of {', '.join(packs)}"
            blocks.append(Figure(_stem(f"{backbone} {way} shots") + ".svg", title, against_shots(kept)))
    return [Heading("Accuracy against shots"), *blocks] if blocks else []
