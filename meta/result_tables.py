"""The tables of RESULTS.md. Each is a function of the rows of logs that yields its cells, header first."""

from collections.abc import Callable

import numpy as np

from tinytrain.meta.bench.statistics import Interval, stratified

NET = "mcunet-5fps"
HEADLINE = {
    "none": "none", "lda": "LDA head alone", "last_layer": "last layer", "sparse_update": "SparseUpdate",
    "tinytrain_published": "as published", "tinytrain": "default", "tinytrain@30": "default, `--macs 30%`",
    "full": "full",
}  # fmt: skip
KINDS = ("own", "same", "other")  # images of the classes, and of others that are like them or very different
PACKS = ("gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch")
FEW = 24  # episodes of each pack that were run with the large network
TABLES: dict[str, tuple[Callable, tuple[str, ...]]] = {}


def table(*logs: str):
    """Registers a function of the rows of `logs` that returns the cells of a table, its header first."""

    def register(function):
        TABLES[function.__name__] = (function, logs)
        return function

    return register


def percent(interval: Interval) -> str:
    return f"{interval.mean:.1f} ±{interval.half:.1f}"


def points(interval: Interval) -> str:
    text = f"{interval.mean:+.2f} ±{interval.half:.2f}"
    return f"**{text}**" if interval.clear_of_zero() else text


class Method:
    """The rows of a method on a backbone by pack and episode: 5-way 5-shot, the first `most` episodes.

    Its accuracies, in per cent, are those after adapting, or `when` else.
    """

    def __init__(self, rows, backbone: str, label: str, when: str = "after", most: int = 1000):
        self.rows: dict[str, dict[int, dict]] = {pack: {} for pack in PACKS}
        for row in rows:
            is_it = (row["backbone"], row["label"]) == (backbone, label) and row["episode"] < most
            if is_it and row["sampler"].startswith("5-way 5-shot"):
                self.rows[row["pack"]][row["episode"]] = row
        self.accuracies = [
            {k: 100 * r["accuracy"][when] for k, r in pack.items()} for pack in self.rows.values()
        ]

    def mean(self) -> Interval:
        return stratified([list(pack.values()) for pack in self.accuracies])

    def above(self, other: "Method") -> Interval:
        """Of the differences on the episodes that both have."""
        both = zip(self.accuracies, other.accuracies, strict=True)
        return stratified([[v - b[k] for k, v in a.items() if k in b] for a, b in both])

    def costs(self) -> list[str]:
        """Bytes of the largest arena, MACs and seconds of an episode in the mean."""
        rows = [row for of_pack in self.rows.values() for row in of_pack.values()]
        arena = max(row["memory"]["arena"] for row in rows)
        macs, seconds = (np.mean([row[key]["total"] for row in rows]) for key in ("macs", "seconds"))
        return [f"{arena:,}", f"{macs / 1e9:.1f} G", f"{seconds:.2f}"]


@table("results.jsonl.xz")
def headline(rows):
    yield "method", "accuracy", "bytes", "MACs", "seconds", "episodes per pack"
    for label, name in HEADLINE.items():
        lda = label == "lda"
        method = Method(rows, NET, "tinytrain" if lda else label, "before" if lda else "after")
        found = method.mean()
        yield name, percent(found), *(["-"] * 3 if lda else method.costs()), str(found.n // len(PACKS))
    for network in ("small", "large"):
        yield f"{network} network, default", *["-"] * 5


@table("results.jsonl.xz", "tiers.jsonl.xz")
def sizes(rows, tiers):
    yield "network and method", "accuracy", "bytes", "MACs", f"above LDA alone, {FEW} episodes per pack"
    bases = {
        NET: Method(rows, NET, "tinytrain", "before", FEW),
        "medium": Method(tiers, "medium", "none_lda", most=FEW),
        "large": Method(tiers, "large", "none_lda", most=FEW),
    }
    for net, label, name in (
        (NET, "tinytrain", "mcunet-5fps as published, default"),
        (NET, "tinytrain@30", "the same, `--macs 30%`"),
        ("medium", "tinytrain", "mcunet-5fps meta-trained, default"),
        ("medium", "tinytrain@30", "the same, `--macs 30%`"),
        ("medium", "sparse_update", "the same, SparseUpdate"),
        ("large", "none_lda", "efficientnet-lite0 meta-trained, LDA head alone"),
        ("large", "tinytrain@30/4MB", "the same, `--macs 30%`, 4 MB"),
    ):
        method = Method(rows if net == NET else tiers, net, label, most=FEW)
        above = method.above(bases[net])
        yield name, percent(method.mean()), *method.costs()[:2], "" if above.half == 0 else points(above)


@table("operations_policy.jsonl", "operations_before.jsonl")
def halved(after, before):
    yield "", "accuracy before", "after", "difference", "MACs before", "after", "seconds before", "after"
    for form in ("policy@15%", "policy@30%"):
        old, new = (
            [
                {r["episode"]: r["forms"][form] for r in log if r["pack"] == pack and form in r["forms"]}
                for pack in PACKS
            ]
            for log in (before, after)
        )  # a later row of an episode takes the place of an earlier one
        cells = [f"{form[7:-1]} % of the MACs"]
        for log in (old, new):
            cells.append(percent(stratified([[100 * r["accuracy"] for r in pack.values()] for pack in log])))
        pairs = [(a[k], b[k]) for a, b in zip(old, new, strict=True) for k in a]
        gains = [
            [100 * (b[k]["accuracy"] - a[k]["accuracy"]) for k in a] for a, b in zip(old, new, strict=True)
        ]
        cells.append(points(stratified(gains)))
        for key, unit, end in (("executed", 1e9, ".1f"), ("seconds", 1, ".2f")):
            for side in (0, 1):
                mean = np.mean([pair[side][key] for pair in pairs]) / unit
                cells.append(f"{mean:{end}}{' G' if key == 'executed' else ''}")
        yield cells


@table("results.jsonl.xz", "lead.jsonl.xz")
def claims(rows, lead):
    yield "", "difference", "holds"
    for text, log, above, below in (
        ("default above none", rows, "tinytrain", "none"),
        ("default above the last layer", rows, "tinytrain", "last_layer"),
        ("default above the method as published", rows, "tinytrain", "tinytrain_published"),
        ("default above full training", rows, "tinytrain", "full"),
        ("default above SparseUpdate, 200 episodes per pack", lead, "tinytrain", "sparse_update"),
        ("the same with `--macs 30%`", lead, "tinytrain@30", "sparse_update"),
        ("as published above SparseUpdate", rows, "tinytrain_published", "sparse_update"),
        ("Fisher channels above as many random ones", rows, "tinytrain_published", "random"),
        ("Fisher channels above those with the largest weights", rows, "tinytrain_published", "l2"),
    ):
        found = Method(log, NET, above).above(Method(log, NET, below))
        yield text, points(found), "yes" if found.mean > found.half else "no"


@table("estimate.jsonl", "strangers.jsonl")
def guard(estimates, strangers):
    yield "other adaptations", "wrong labels", "number", "refused"
    for name, wrong, rows in (
        ("2 to 10 classes, 3 to 20 images of each", "none", [r for r in estimates if r["rate"] == 0]),
        ("the same", "20 %", [r for r in estimates if r["rate"] == 0.2]),
        ("5 classes, 5 images of each", "none", [r for r in strangers if r["shots"] == 5]),
        ("5 classes, 1 image of each", "none", [r for r in strangers if r["shots"] == 1]),
    ):
        refused = 100 * np.mean([not row["accepted"] for row in rows])
        yield name, wrong, str(len(rows)), f"{refused:.0f} %"


@table("strangers.jsonl")
def unknown(rows):
    yield (
        "images per class",
        "pack",
        "own images called unknown, %",
        "images like them, %",
        "very different ones, %",
    )
    for shots, pack in ((5, "all"), (1, "all"), *((5, pack) for pack in PACKS)):
        mine = [row for row in rows if row["shots"] == shots and pack in (row["pack"], "all")]
        counts = ([sum(r[kind][key] for r in mine) for key in ("refused", "n")] for kind in KINDS)
        yield str(shots), pack, *(f"{100 * refused / n:.1f}" for refused, n in counts)


@table("estimate.jsonl")
def estimate(rows):
    yield (
        "wrong labels",
        "tasks",
        "truth, %",
        "estimate, %",
        "mean distance",
        "interval covers the truth",
        "its width",
    )
    for rates, name in (((0.0,), "none"), ((0.2,), "20 %"), ((0.0, 0.2), "both")):
        mine = [r for r in rows if r["rate"] in rates and r["estimate"]["accuracy"] is not None]
        truth = 100 * np.array([row["truth"] for row in mine])
        found, low, high = (
            100 * np.array([r["estimate"][k] for r in mine]) for k in ("accuracy", "low", "high")
        )
        inside = 100 * np.mean((low <= truth) & (truth <= high))
        figures = (truth.mean(), found.mean(), np.abs(found - truth).mean())
        yield (
            name,
            str(len(mine)),
            *(f"{f:.1f}" for f in figures),
            f"{inside:.0f} %",
            f"{(high - low).mean():.1f}",
        )


@table("int8_training.jsonl")
def int8(rows):
    yield "", "accuracy", "above float32 in 1 MB", "parameters", "bytes"

    def of(form: str, key: str) -> list[np.ndarray]:
        return [np.array([r["forms"][form][key] for r in rows if r["pack"] == pack]) for pack in PACKS]

    base = of("float32@1MB", "accuracy")
    for form in ("none@1MB", "float32@1MB", "int8@1MB", "int8@256KB"):
        mine = of(form, "accuracy")
        above = points(stratified([100 * (a - b) for a, b in zip(mine, base, strict=True)]))
        costs = [f"{np.median(np.concatenate(of(form, key))):,.0f}" for key in ("parameters", "arena")]
        name = form.replace("none@1MB", "unadapted, LDA head").replace("@", ", ")
        yield (
            name,
            percent(stratified([100 * m for m in mine])),
            "" if form == "float32@1MB" else above,
            *costs,
        )
