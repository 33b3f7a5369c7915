"""What an adaptation keeps, against the best of three: the network with prototypes, a new head, adapted.

    python -m tinytrain.meta.studies.kept --backbone mcunet-5fps --out kept.jsonl
    python -m tinytrain.meta.studies.kept --packs confirm --tasks 8 --out kept.jsonl
    python -m tinytrain.meta.studies.kept --summary --out kept.jsonl

A task has 2 to 20 classes and 3 to 30 images of each, both drawn evenly on a logarithmic scale, and is run
with right labels, with 20 % wrong ones, and with shuffled ones. Every task is a line of the log: the
evidence, what was kept, and how many of some 250 queries, by which nothing is decided, each candidate gets
right; what was not run or not kept is adapted once more for that. A run that was stopped goes on where it
stopped; --summary prints the figures of a log.

"Regret" is how far what is kept stays behind the best of the three. Of three that are equally good one is
best by chance; "fair" is the regret against the one that is best on half of the queries, measured on the
other half. "Worse" are tasks whose result gets fewer queries right than the new head alone, by more than 1
and 2 standard errors of the paired difference: of two that are equally good, one is worse by more than 1 in
16 % of all tasks, and by more than 2 in 2 %. A refused adaptation counts with what it falls back to.
"""

import math
import sys
from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.sampler import decoded
from tinytrain.meta.studies.estimate import GROUPED
from tinytrain.meta.studies.label_noise import wrong_labels
from tinytrain.meta.studies.study import (
    ADAPTS,
    Study,
    adapted,
    by_pack,
    chosen,
    grid,
    names_option,
    number,
    one_of,
    percent,
    signed,
    table,
    values_of,
)

WAYS, SHOTS, QUERIES, LEAST = (2, 20), (3, 30), 250, 10  # queries: in all, and of each class at least
WRONG = 0.2
LABELS = ("right", "wrong", "shuffled")


def drawn(dataset: Dataset, seed: int, task: int) -> Episode:
    """The images of a task."""
    rng = rng_for(seed, "task", dataset.name, task)
    smallest = int(min(map(len, dataset.by_class)) * (1 if dataset.groups is None else GROUPED))
    way, shots = (_evenly(rng, *span) for span in (WAYS, SHOTS))
    way, shots = min(way, dataset.n_classes), min(shots, smallest - LEAST)
    queries = max(LEAST, min(smallest - shots, math.ceil(QUERIES / way)))
    return sample_episode(dataset, way, shots, queries, seed, task)


def _evenly(rng, least: int, most: int) -> int:
    """A number from `least` to `most`, evenly on a logarithmic scale."""
    return math.floor(math.exp(rng.uniform(math.log(least), math.log(most + 1))))


def labelled(episode: Episode, how: str, rng) -> Episode:
    """`episode` with labels of the support that are right, wrong in part, or shuffled."""
    found = episode.support.labels
    if how == "wrong":
        found = wrong_labels(found, episode.n_way, WRONG, rng)
    elif how == "shuffled":
        found = rng.permutation(found)
    return replace(episode, support=replace(episode.support, labels=found))


def run_job(network, dataset: Dataset, args, labels: str, task: int) -> dict:
    """What was kept of one task, by which evidence, and how good each candidate is."""
    rng = rng_for(args.seed, "labels", dataset.name, labels, task)
    episode = labelled(decoded(drawn(dataset, args.seed, task), network), labels, rng)
    report = adapted(network, episode, args, task)
    guard, truth = report.guard, episode.query.labels
    trained = report if guard.kept == "adapted" else adapted(network, episode, args, task, force=True)
    answers = trained.answers
    right = np.stack([a == truth for a in (answers.after, answers.before, answers.before_cosine)])
    result = report.answers.after == truth
    difference = result.astype(int) - right[1]
    facts = report.to_json()
    return {
        "way": episode.n_way, "shots": int(episode.shots.min()), "queries": len(truth),
        "kept": guard.kept, "refused": not guard.accepted, "trained": bool(report.ran.losses),
        "reasons": [reason.code for reason in guard.reasons],
        "candidates": dict(zip(("adapted", "head", "cosine"), right.mean(axis=1).tolist(), strict=True)),
        "result": float(result.mean()), "fair": fair(right, result),
        "error": float(difference.std() / math.sqrt(len(truth))), "named": facts["accuracy"]["named"],
        "measures": trained.guard.measures | {k: x for k, x in guard.measures.items() if x is not None},
        "losses": [round(float(x), 4) for x in trained.ran.losses],
        "similarity": facts["similarity"], "suspects": len(guard.suspects),
        "seconds": facts["seconds"]["total"],
    }  # fmt: skip


def fair(right: np.ndarray, result: np.ndarray) -> float:
    """How far `result` (n,) is behind that row of `right` (3, n) that is best on the other half."""
    halves = [np.arange(right.shape[1]) % 2 == k for k in (0, 1)]
    behind = [
        right[right[:, one].mean(axis=1).argmax()][other].mean() - result[other].mean()
        for one, other in (halves, halves[::-1])
    ]
    return float(np.mean(behind))


def jobs(args) -> list[dict]:
    """All labels of a task follow each other."""
    kinds = args.labels.split(",")
    return [job | {"labels": how} for job in grid(args, task=range(args.tasks)) for how in kinds]


HEADER = (
    "labels", "domain", "tasks", "cosine", "head", "adapted", "kept", "regret", "fair", "kept - head",
    "worse by 1, 2 errors", "refused", "not trained",
)  # fmt: skip


def summary(rows: list[dict]) -> list[str]:
    """A line for each domain, and for all of them, by how the labels are."""
    body = [
        (how, pack, *_line(mine))
        for how in values_of(rows, "labels")
        for pack, mine in by_pack(chosen(rows, labels=how))
    ]
    return table(HEADER, body)


def _line(rows: list[dict]) -> list[str]:
    each = {name: [row["candidates"][name] for row in rows] for name in ("cosine", "head", "adapted")}
    result = np.array([row["result"] for row in rows])
    behind, error = np.array(each["head"]) - result, np.array([row["error"] for row in rows])
    best = np.max(list(each.values()), axis=0)
    worse = ", ".join(f"{(behind > k * error + 1e-9).mean():.0%}" for k in (1, 2))
    shares = (np.mean([row["refused"] for row in rows]), np.mean([not row["trained"] for row in rows]))
    return [
        str(len(rows)), *(percent(values) for values in (*each.values(), result)),
        f"{100 * (best - result).mean():.2f}", f"{100 * np.mean([row['fair'] for row in rows]):.2f}",
        signed(-100 * behind), worse, *(f"{share:.0%}" for share in shares),
    ]  # fmt: skip


OPTIONS = (
    *ADAPTS,
    number("--tasks", 10, "per domain (default: %(default)s)"),
    names_option("--labels", ",".join(LABELS), "comma-separated", one_of(LABELS, "kind of labels")),
    number("--seed", 5, least=0),
)
SETTINGS = ("policy", "budget", "seed")
main = Study("kept", __doc__, "tinytrain-small-2", "settle", run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
