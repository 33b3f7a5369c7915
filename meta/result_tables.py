"""The tables of RESULTS.md. Each is a function of the rows of logs that yields its cells, header first."""

from collections.abc import Callable
from functools import partial

import numpy as np

from tinytrain.meta.bench.statistics import Interval, mean_interval, paired, stratified
from tinytrain.meta.bench.tables import values
from tinytrain.meta.studies.estimate import figures, judged
from tinytrain.meta.studies.study import TARGETS, chosen, fact, points_above, strata

NET = "mcunet-5fps"
HEADLINE = {
    "none": "none", "lda": "LDA head alone", "last_layer": "last layer", "sparse_update": "SparseUpdate",
    "tinytrain_published": "as published", "tinytrain": "default", "tinytrain@30": "default, `--macs 30%`",
    "full": "full",
}  # fmt: skip
KINDS = ("own", "same", "other")  # images of the classes, and of others that are like them or very different
PACKS = TARGETS.split(",")
FEW = 24  # episodes of each pack that were run with the large network
TABLES: dict[str, tuple[Callable, tuple[str, ...]]] = {}


def table(*logs: str):
    """Registers a function of the rows of `logs` that returns the cells of a table, its header first."""

    def register(function):
        TABLES[function.__name__] = (function, logs)
        return function

    return register


def points(interval: Interval) -> str:
    text = interval.text(2, signed=True)
    return f"**{text}**" if interval.clear_of_zero() else text


def accuracy(rows, form: str) -> str:
    """That of a form, in per cent."""
    found = fact(form, "accuracy")
    return stratified(strata(rows, lambda row: 100 * found(row))).text()


class Method:
    """The runs of a method on a backbone: 5-way 5-shot, the first `most` episodes of each pack.

    Its accuracies, in per cent, are those after adapting, or at another time `when`.
    """

    def __init__(self, rows, backbone: str, label: str, when: str = "after", most: int = 1000):
        mine = (row for row in rows if (row["backbone"], row["label"]) == (backbone, label))
        fixed = (row for row in mine if row["sampler"].startswith("5-way 5-shot"))
        self.rows = [row for row in fixed if row["episode"] < most]
        self.accuracies = values(self.rows, when)

    def mean(self) -> Interval:
        return stratified([list(pack.values()) for pack in self.accuracies.values()])

    def above(self, other: "Method") -> Interval:
        """Of the differences on the episodes that both have."""
        return stratified([paired(mine, other.accuracies[pack]) for pack, mine in self.accuracies.items()])

    def costs(self) -> list[str]:
        """Bytes of the largest arena, MACs and seconds of an episode in the mean."""
        arena = max(row["memory"]["arena"] for row in self.rows)
        macs, seconds = (np.mean([row[key]["total"] for row in self.rows]) for key in ("macs", "seconds"))
        return [f"{arena:,}", f"{macs / 1e9:.1f} G", f"{seconds:.2f}"]


@table("results.jsonl.xz")
def headline(rows):
    yield "method", "accuracy", "bytes", "MACs", "seconds", "episodes per pack"
    for label, name in HEADLINE.items():
        lda = label == "lda"
        method = Method(rows, NET, "tinytrain" if lda else label, "before" if lda else "after")
        found = method.mean()
        yield name, found.text(), *(["-"] * 3 if lda else method.costs()), str(found.n // len(PACKS))
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
        yield name, method.mean().text(), *method.costs()[:2], "" if above.half == 0 else points(above)


@table("operations_policy.jsonl", "operations_before.jsonl")
def halved(after, before):
    yield "", "accuracy before", "after", "difference", "MACs before", "after", "seconds before", "after"
    for form in ("policy@15%", "policy@30%"):
        # A later row of an episode takes the place of an earlier one.
        old, new = (
            {(r["pack"], r["episode"]): r["forms"][form] for r in log if form in r["forms"]}
            for log in (before, after)
        )
        rows = [{"pack": k[0], "forms": {"old": old[k], "new": new[k]}} for k in new if k[0] in PACKS]
        macs, seconds = (
            [np.mean([row["forms"][side][key] for row in rows]) for side in ("old", "new")]
            for key in ("executed", "seconds")
        )
        yield (
            f"{form[7:-1]} % of the MACs",
            accuracy(rows, "old"),
            accuracy(rows, "new"),
            points(points_above(rows, "new", "old")),
            *(f"{mean / 1e9:.1f} G" for mean in macs),
            *(f"{mean:.2f}" for mean in seconds),
        )


@table("results.jsonl.xz", "lead.jsonl.xz")
def claims(rows, lead):
    """What the paper says, in points with MCUNet and without meta-training; empty where it says nothing."""
    published = "tinytrain_published"
    yield "claim", "there", "here", "holds"
    for text, there, log, better, worse in (
        ("TinyTrain as published above the unadapted network", "+21.1", rows, published, "none"),
        ("as published above the last layer", "+11.0", rows, published, "last_layer"),
        ("as published above SparseUpdate", "+1.3", rows, published, "sparse_update"),
        ("full training above TinyTrain as published", "+1.3", rows, "full", published),
        ("Fisher channels above as many random ones", "+1.9 to +2.5", rows, published, "random"),
        ("Fisher channels above those with the largest weights", "+0.8 to +1.7", rows, published, "l2"),
        ("default above none", "", rows, "tinytrain", "none"),
        ("default above the last layer", "", rows, "tinytrain", "last_layer"),
        ("default above the method as published", "", rows, "tinytrain", published),
        ("default above full training", "", rows, "tinytrain", "full"),
        ("default above SparseUpdate, 200 episodes per pack", "", lead, "tinytrain", "sparse_update"),
        ("the same with `--macs 30%`", "", lead, "tinytrain@30", "sparse_update"),
    ):
        found = Method(log, NET, better).above(Method(log, NET, worse))
        less = there and found.mean + found.half < float(there.split()[0])
        yield (
            text,
            there,
            points(found),
            f"yes{', by less' if less else ''}" if found.mean > found.half else "no",
        )


@table("first_job.jsonl")
def first_job(rows):
    """Of each episode the accuracy of the network as it is, with a new head, and adapted."""
    found = [row["accuracy"] for row in rows if row["label"] == "tinytrain"]
    yield "", "accuracy", "above the new head alone"
    for when, name in (
        ("before_cosine", "as it is, cosine prototypes"),
        ("before", "new head alone (LDA)"),
        ("after", "adapted by default"),
    ):
        above = mean_interval([100 * (one[when] - one["before"]) for one in found])
        mean = mean_interval([100 * one[when] for one in found])
        yield name, mean.text(), "" if when == "before" else points(above)


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
    for name, mine in (("none", chosen(rows, rate=0.0)), ("20 %", chosen(rows, rate=0.2)), ("both", rows)):
        tasks, truth, expected, _, distance, covered, width = figures(mine, partial(judged, "estimate"))
        yield name, tasks, truth, expected, distance, covered.replace("%", " %"), width


@table("int8_training.jsonl")
def int8(rows):
    yield "", "accuracy", "above float32 in 1 MB", "parameters", "bytes"
    base = "float32@1MB"
    for form in ("none@1MB", base, "int8@1MB", "int8@256KB"):
        costs = (np.median([row["forms"][form][key] for row in rows]) for key in ("parameters", "arena"))
        yield (
            form.replace("none@1MB", "unadapted, LDA head").replace("@", ", "),
            accuracy(rows, form),
            "" if form == base else points(points_above(rows, form, base)),
            *(f"{cost:,.0f}" for cost in costs),
        )
