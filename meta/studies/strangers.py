"""How many strangers a delta refuses, and how many images of its own classes it loses by that.

    python -m tinytrain.meta.studies.strangers --backbone tinytrain-small --out strangers.jsonl
    python -m tinytrain.meta.studies.strangers --summary --out results/strangers.jsonl

Every episode is adapted to, and its delta gives a verdict on images that it never saw: of its classes, of
other classes of the same pack ("same"), and of the other packs ("other"). An image is refused if the verdict
is "unknown". For each kind of stranger the table has the area under the ROC curve of the energy that the
verdict goes by, the fraction refused, the fraction that a limit would refuse which loses just a tenth of the
images of that episode (nobody knows that limit beforehand), and what answers below a confidence of 60 %
would refuse. "Error" is the expected calibration error in ten bins (mean distance of confidence and accuracy,
weighted by predictions; Guo et al., ICML 2017) over all episodes. Adaptations that the guard refused count
with the head that stands. A run that was stopped goes on where it stopped; --summary prints the figures of a
log.
"""

import sys
from dataclasses import replace

import numpy as np

from tinytrain.base.console import at_least, guarded
from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta.delta import Delta
from tinytrain.heads.head import UNCERTAIN, UNKNOWN
from tinytrain.heads.strangers import LOST, energy
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.studies.study import add_log, run_study, study_parser
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

PACKS = "gtsrb,omniglot,flowers12,dtd10,pacs_sketch"
OUTSIDE = 2  # classes of a pack that are not in the episode
BINS = 10
REJECT = 0.6
KINDS = ("same", "other")


def area_under_roc(own: np.ndarray, strangers: np.ndarray) -> float:
    """Probability that an image of the classes scores higher than a stranger; a tie counts half."""
    above = (own[:, None] > strangers).mean()
    return float(above + (own[:, None] == strangers).mean() / 2)


def run_job(network, dataset: Dataset, args, shots: int, episode: int) -> dict:
    """What one delta says of images of its classes and of strangers."""
    drawn = sample_episode(dataset, args.way + OUTSIDE, shots, args.queries, args.seed, episode)
    sides = (drawn.support, drawn.query)
    support, query = (s.take(np.flatnonzero(s.labels < args.way)) for s in sides)
    outside = drawn.query.take(np.flatnonzero(drawn.query.labels >= args.way))
    known = replace(drawn, support=support, query=query, class_names=drawn.class_names[: args.way])
    budget = Budget(parse_bytes(args.budget))
    report = adapt(network, known, budget, args.policy, episode, Device(threads=1))
    delta, predictor = report.delta, Predictor(network, report.delta)
    embedded = {"own": predictor.embed(query), "same": predictor.embed(outside)}
    embedded["other"] = np.concatenate([predictor.embed(i) for i in others(dataset, args, episode)])
    scores = {kind: energies(delta, x) for kind, x in embedded.items()}
    row = {kind: counts(delta, x) for kind, x in embedded.items()}
    tenth = np.quantile(scores["own"], LOST)
    for kind in KINDS:
        row[kind]["area"] = round(area_under_roc(scores["own"], scores[kind]), 4)
        row[kind]["at a tenth"] = round(float((scores[kind] < tenth).mean()), 4)
    facts = {"head": delta.head.kind, "accepted": report.guard.accepted, "steps": report.plan.recipe.steps}
    return {**row, "bins": bins(delta.head.probabilities(embedded["own"]), query.labels), **facts}


def others(dataset: Dataset, args, episode: int):
    """Images of the other packs, twice as many as a class has queries, of all packs about as many."""
    names = [name for name in args.packs.split(",") if open_dataset(name, args.data).name != dataset.name]
    rng = rng_for(args.seed, "strangers", dataset.name, episode)
    for k, name in enumerate(names):
        pack = open_dataset(name, args.data)
        few = -(-(2 * args.queries - k) // len(names))
        yield pack.images([rng.choice(len(pack.labels), few, replace=False).tolist()])


def energies(delta: Delta, embeddings: np.ndarray) -> np.ndarray:
    """(n,) energies by the scale of the limit, or largest logits if the head has none."""
    limit, logits = delta.head.limit, delta.head.logits(embeddings)
    return logits.max(axis=1) if limit is None else np.array([energy(row, limit.scale) for row in logits])


def counts(delta: Delta, embeddings: np.ndarray) -> dict:
    """How many of the images there are, how many are refused, uncertain, and below REJECT."""
    verdicts = [delta.head.verdict(embedding, REJECT) for embedding in embeddings]
    states = [verdict.state for verdict in verdicts]
    return {
        "n": len(verdicts),
        "refused": states.count(UNKNOWN),
        "uncertain": states.count(UNCERTAIN),
        "below": sum(verdict.rejected for verdict in verdicts),
    }


def bins(probabilities: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """Predictions, the sum of their confidence, and how many are right, by confidence in BINS bins."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = [which == b for b in range(BINS)]
    return [[int(p.sum()), round(float(confidence[p].sum()), 4), int(right[p].sum())] for p in parts]


def calibration_error(rows: list[dict]) -> tuple[float, float, float]:
    """Expected calibration error, mean confidence and accuracy over the bins of all `rows`."""
    n, confidence, right = np.sum([row["bins"] for row in rows], axis=0).T
    total = n.sum()
    return float(np.abs(confidence - right).sum() / total), confidence.sum() / total, right.sum() / total


def jobs(args) -> list[dict]:
    """Every pack gets as many episodes with each number of shots, in the order in which they are run."""
    shots = [int(k) for k in args.shots.split(",")]
    packs = args.packs.split(",")
    return [{"pack": p, "shots": k, "episode": e} for e in range(args.episodes) for k in shots for p in packs]


HEADER = (
    "shots", "pack", "episodes", "accuracy", "confidence", "error", "own lost", "uncertain", "strangers",
    "area", "refused", "if a tenth is lost", "by 60 %", "own below 60 %",
)  # fmt: skip


def summary(rows: list[dict]) -> list[str]:
    """A line for each number of shots, pack and kind of stranger, and for all packs together."""
    lines = []
    for shots in sorted({row["shots"] for row in rows}, reverse=True):
        some = [row for row in rows if row["shots"] == shots]
        for pack in (*dict.fromkeys(row["pack"] for row in some), "all"):
            mine = [row for row in some if pack in (row["pack"], "all")]
            lines += [_line(shots, pack, mine, (kind,)) for kind in KINDS]
            if pack == "all":
                lines.append(_line(shots, pack, mine, KINDS))
    return [table_lines(Table(HEADER, tuple(lines)))]


def _line(shots: int, pack: str, rows: list[dict], kinds: tuple[str, ...]) -> tuple[str, ...]:
    error, confidence, accuracy = calibration_error(rows)

    def fraction(kinds, what: str) -> str:
        parts = [[sum(r[kind][key] for r in rows) for key in (what, "n")] for kind in kinds]
        return _percent(np.mean([found / n for found, n in parts]))

    def mean(what: str) -> str:
        return _percent(np.mean([row[kind][what] for row in rows for kind in kinds]))

    own, name = ("own",), " and ".join(kinds)
    return (
        str(shots), pack, str(len(rows)), _percent(accuracy), _percent(confidence), _percent(error),
        fraction(own, "refused"),
        fraction(own, "uncertain"), name, mean("area"), fraction(kinds, "refused"), mean("at a tenth"),
        fraction(kinds, "below"), fraction(own, "below"),
    )  # fmt: skip


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def parser():
    p = study_parser("strangers", __doc__.split("\n")[0], "tinytrain-small", PACKS)
    add_log(p)
    p.add_argument("--episodes", type=at_least(1), default=24, help="per pack and number of shots")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--shots", default="5,1", help="comma-separated")
    p.add_argument("--queries", type=at_least(1), default=8, help="per class")
    p.add_argument("--seed", type=at_least(0), default=27)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    run_study(args, jobs, ("policy", "way", "queries", "budget", "seed", "packs"), run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
