"""The tables of RESULTS.md. Each is a function of the rows of logs that yields its cells, header first."""

from collections.abc import Callable
from functools import partial

import numpy as np

from tinytrain.meta.bench.statistics import Interval, mean_interval, paired, stratified
from tinytrain.meta.bench.tables import values
from tinytrain.meta.studies.estimate import figures, judged
from tinytrain.meta.studies.first_try import FORM
from tinytrain.meta.studies.study import TARGETS, chosen, fact, points_above, strata

NET = "mcunet-5fps"
SMALL, LARGE, PAIR = "tinytrain-small-2", "efficientnet-lite0", f"tinytrain-small-2+{NET}"
LARGE_PAIR, THREE = f"{SMALL}+{LARGE}", f"{PAIR}+{LARGE}"
AS_IT_IS, HEAD, FIFTEEN, THIRTY = "none@15%", "before", "policy@15%", "policy@30%"
SPARSE, PUBLISHED = "sparse_update/1.6MB@15%", "tinytrain_published@15%"
NAMES = {
    AS_IT_IS: "as it is, cosine prototypes", HEAD: "new head alone (LDA)", FIFTEEN: "default",
    THIRTY: "default, `--macs 30%`", SPARSE: "SparseUpdate", PUBLISHED: "as published",
    FORM: "logistic regression on 224 x 224 pixels",
}  # fmt: skip
METHODS = {
    NET: (AS_IT_IS, HEAD, PUBLISHED, SPARSE, FIFTEEN, THIRTY), SMALL: (HEAD, FIFTEEN, THIRTY),
    PAIR: (HEAD, THIRTY), LARGE: (FORM, HEAD, THIRTY), LARGE_PAIR: (HEAD, THIRTY),
    THREE: (HEAD, THIRTY),
}  # fmt: skip
PAIRS = (  # a method of a network, and another that it is compared with
    ((NET, FIFTEEN), (NET, SPARSE)), ((NET, THIRTY), (NET, SPARSE)), ((NET, FIFTEEN), (NET, PUBLISHED)),
    ((SMALL, FIFTEEN), (NET, FIFTEEN)),
    ((PAIR, THIRTY), (SMALL, THIRTY)), ((PAIR, THIRTY), (NET, THIRTY)),
    ((LARGE_PAIR, THIRTY), (LARGE, THIRTY)), ((LARGE_PAIR, THIRTY), (SMALL, FIFTEEN)),
    ((SMALL, THIRTY), (LARGE, FORM)), ((PAIR, THIRTY), (LARGE, FORM)), ((LARGE_PAIR, THIRTY), (LARGE, FORM)),
    ((THREE, THIRTY), (LARGE, FORM)),
)  # fmt: skip
KINDS = ("own", "same", "other")  # images of the classes, and of others that are like them or very different
PACKS = TARGETS.split(",")
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
    """The runs of a method on a backbone, 5-way 5-shot: accuracies after adapting, in per cent, by pack."""

    def __init__(self, rows, backbone: str, label: str):
        mine = (row for row in rows if (row["backbone"], row["label"]) == (backbone, label))
        self.accuracies = values([row for row in mine if row["sampler"].startswith("5-way 5-shot")], "after")

    def above(self, other: "Method") -> Interval:
        """Of the differences on the episodes that both have."""
        return stratified([paired(mine, other.accuracies[pack]) for pack, mine in self.accuracies.items()])


class Form:
    """What a form of `meta.studies.operations` found with a network, with so many shots, by episode.

    HEAD is the new head alone, which every form fits before it trains.
    """

    def __init__(self, rows, network: str, form: str, shots: int = 5):
        key, name = ("before", THIRTY) if form == HEAD else ("accuracy", form)
        mine = [r for r in rows if (r["settings"]["network"], r["settings"]["shots"]) == (network, shots)]
        self.facts = {(r["pack"], r["episode"]): r["forms"][name] for r in mine if name in r["forms"]}
        self.accuracies = {k: 100 * facts[key] for k, facts in self.facts.items()}

    def mean(self) -> Interval:
        return self.above(dict.fromkeys(self.accuracies, 0.0))

    def above(self, others: dict) -> Interval:
        """Of the differences to the `others`, accuracies by episode, on the episodes that both have."""
        pairs = {k: mine - others[k] for k, mine in self.accuracies.items() if k in others}
        packs = dict.fromkeys(pack for pack, _ in pairs)
        return stratified([[d for (p, _), d in pairs.items() if p == pack] for pack in packs])

    def cost(self, key: str, how: Callable = np.mean) -> float:
        return how([facts[key] for facts in self.facts.values()])


@table("methods.jsonl.xz", "first_try.jsonl")
def methods(rows, first):
    yield "network", "method", "accuracy", "above its head alone", "bytes", "MACs", "seconds", "episodes"
    for network, forms in METHODS.items():
        head = Form(rows, network, HEAD)
        for form in forms:
            found, trained = Form([*rows, *first], network, form), form not in (AS_IT_IS, HEAD, FORM)
            yield (
                network,
                NAMES[form],
                found.mean().text(),
                points(found.above(head.accuracies)) if trained else "",
                f"{found.cost('arena', max):,}" if trained else "",
                "" if form == HEAD else f"{found.cost('executed') / 1e9:.1f} G",
                f"{found.cost('seconds'):.2f}" if trained else "",
                str(len(found.accuracies)),
            )


@table("methods.jsonl.xz", "first_try.jsonl")
def pairs(rows, first):
    yield "", "above", "difference", "episodes"
    for sides in PAIRS:
        one, other = (Form([*rows, *first], *side) for side in sides)
        names = (f"{network}, {NAMES[form]}" for network, form in sides)
        found = one.above(other.accuracies)
        yield *names, points(found), str(found.n)


@table("methods.jsonl.xz")
def shots(rows):
    """One image and twenty of each class; only what was run."""
    yield "images of each class", "network", "method", "accuracy", "above its head alone", "MACs", "episodes"
    for count in (1, 20):
        for network in (NET, SMALL, PAIR):
            head = Form(rows, network, HEAD, count)
            for form in (SPARSE, FIFTEEN, THIRTY):
                found = Form(rows, network, form, count)
                if found.facts:
                    above = points(found.above(head.accuracies))
                    macs = f"{found.cost('executed') / 1e9:.1f} G"
                    yield (
                        str(count), network, NAMES[form], found.mean().text(), above, macs,
                        str(len(found.facts)),
                    )  # fmt: skip


@table("results.jsonl.xz")
def claims(rows):
    """What the paper says, in points with MCUNet and without meta-training."""
    published = "tinytrain_published"
    yield "claim", "there", "here", "holds"
    for text, there, better, worse in (
        ("TinyTrain as published above the unadapted network", "+21.1", published, "none"),
        ("as published above the last layer", "+11.0", published, "last_layer"),
        ("as published above SparseUpdate", "+1.3", published, "sparse_update"),
        ("full training above TinyTrain as published", "+1.3", "full", published),
        ("Fisher channels above as many random ones", "+1.9 to +2.5", published, "random"),
        ("Fisher channels above those with the largest weights", "+0.8 to +1.7", published, "l2"),
    ):
        found = Method(rows, NET, better).above(Method(rows, NET, worse))
        less = found.mean + found.half < float(there.split()[0])
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
        "wrong labels", "tasks", "truth, %", "estimate, %", "mean distance", "interval covers the truth",
        "its width",
    )  # fmt: skip
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
