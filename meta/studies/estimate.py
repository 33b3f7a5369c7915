"""How far estimates of accuracy lie from the truth, and what five more images per class bring.

    python -m tinytrain.meta.studies.estimate \\
        --packs gtsrb,dtd10,flowers12,omniglot,pacs_sketch --tasks 6 --out estimate.jsonl

Every task is what a user would have: a folder of images of 2 to 10 classes, 3 to 20 of each, adapted to
without options, so that some are held out if they are enough. It is run with right labels and with 20 % wrong
ones. The truth is the accuracy of the result on many images with right labels that no part of it saw, and
that share no group (such as one physical sign) with those that it saw. "More" is the truth with five more
images per class, labelled as badly, if no image is held out. A run that was stopped goes on where it stopped;
--summary prints the figures of a log.
"""

import math
import sys
from functools import partial

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.folder import folder_episode
from tinytrain.episode.episode import Episode, Images
from tinytrain.meta.bench.sampler import decoded
from tinytrain.meta.studies.label_noise import wrong_labels
from tinytrain.meta.studies.study import ADAPTS, TARGETS, Study, grid, number, table, values_of
from tinytrain.pipeline.check import check
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

RATES = (0.0, 0.2)
WAYS, SHOTS, MORE = (2, 10), (3, 20), 5
LEAST_QUERIES, MOST_QUERIES = 6, 30  # per class
# Groups that a class is split into before its queries are drawn take so many of its images away.
GROUPED = 0.8
ESTIMATES = {
    "estimate": "adapt",
    "check": "check (no image held out)",
    "left_out": "leave-one-out of the adapted head",
}


def drawn(dataset: Dataset, seed: int, task: int) -> tuple[Episode, int]:
    """An episode whose support has MORE images per class than the task, and how many the task has."""
    rng = rng_for(seed, "task", dataset.name, task)
    smallest = min(map(len, dataset.by_class)) * (1 if dataset.groups is None else GROUPED)
    most = min(SHOTS[1], int(smallest) - MORE - LEAST_QUERIES)
    way = int(rng.integers(WAYS[0], min(WAYS[1], dataset.n_classes) + 1))
    shots = math.floor(math.exp(rng.uniform(math.log(SHOTS[0]), math.log(most + 1))))
    queries = min(MOST_QUERIES, int(smallest) - shots - MORE)
    return sample_episode(dataset, way, shots + MORE, queries, seed, task), shots


def photos(episode: Episode, labels: np.ndarray, chosen: np.ndarray) -> Dataset:
    """The support images `chosen`, with `labels` (of all of them), as the folder that a user would have."""
    order = chosen[np.argsort(labels[chosen], kind="stable")]
    taken: Images = episode.support.take(order)
    return Dataset(
        "photos", labels[order], episode.class_names, taken.names, taken.read, may_flip=episode.may_flip
    )


def run_task(network, dataset: Dataset, args, rate: float, task: int) -> dict:
    """The estimates of one task and the truth."""
    episode, shots = drawn(dataset, args.seed, task)
    episode, way = decoded(episode, network), episode.n_way
    labels = episode.support.labels
    first = np.concatenate([np.flatnonzero(labels == k)[:shots] for k in range(way)])
    rest, wrong = np.setdiff1d(np.arange(len(labels)), first), labels.copy()
    for name, part in (("first", first), ("rest", rest)):
        rng = rng_for(args.seed, "wrong labels", dataset.name, name, str(rate), task)
        wrong[part] = wrong_labels(labels[part], way, rate, rng)
    folder, larger = photos(episode, wrong, first), photos(episode, wrong, np.arange(len(labels)))
    device, query = Device(threads=1), episode.query
    adapted = partial(
        adapt, network, budget=Budget(parse_bytes(args.budget)), policy=args.policy, seed=task, device=device
    )

    def truth(report) -> float:
        answers = Predictor(network, report.delta).logits(query).argmax(axis=1)
        return float((answers == query.labels).mean())

    report = adapted(folder_episode(folder, seed=task))
    every = folder_episode(folder, seed=task, hold_out=0)
    whole = adapted(every) if len(report.episode.query) else report
    found = check(network, every, task, device)
    return {
        "way": way, "shots": shots, "queries": len(query), "held_out": len(report.episode.query),
        "accepted": report.guard.accepted, "truth": truth(report), "truth_whole": truth(whole),
        "truth_more": truth(adapted(folder_episode(larger, seed=task, hold_out=0))),
        "estimate": report.estimate.to_json(), "check": found.estimate.to_json(),
        "left_out": report.delta.head.left_out, "five_more": found.gain and found.gain.to_json(),
    }  # fmt: skip


def jobs(args) -> list[dict]:
    return [job | {"rate": rate} for job in grid(args, task=range(args.tasks)) for rate in RATES]


JUDGED = ("above it", "distance", "covered", "width")


def summary(rows: list[dict]) -> list[str]:
    """Lines of figures: by estimate, pack and rate, and over all packs; then what more images bring."""
    known = {key: name for key, name in ESTIMATES.items() if any(key in row for row in rows)}
    body = [line for key, name in known.items() for line in _lines(rows, [name], partial(judged, key))]
    lines = table(("method", "pack", "wrong labels", "tasks", "truth", "estimate", *JUDGED), body)
    header = ("pack", "wrong labels", "tasks", "five more bring", "expected", *JUDGED)
    return [*lines, "", *table(header, _lines(rows, [], _gained))]


def _lines(rows: list[dict], first: list[str], values) -> list[list[str]]:
    """A line for each pack and rate, for each rate, and for all rows; it begins with `first`."""
    found = []
    for pack in [*values_of(rows, "pack"), "all"]:
        for rate in [*values_of(rows, "rate"), *(["all"] if pack == "all" else [])]:
            mine = [r for r in rows if pack in (r["pack"], "all") and rate in (r["rate"], "all")]
            shown = rate if rate == "all" else f"{rate:.0%}"
            found.append([*first, pack, shown, *figures(mine, values)])
    return found


def judged(key: str, row: dict) -> tuple | None:
    """Truth, estimate, low and high of a row; None without such an estimate."""
    truth, found = row["truth" if key in ("estimate", "left_out") else "truth_whole"], row.get(key)
    if key == "left_out":
        return None if found is None else (truth, found, math.nan, math.nan)
    return None if not found or found["accuracy"] is None else (
        truth, found["accuracy"], found["low"], found["high"]
    )  # fmt: skip


def _gained(row: dict) -> tuple | None:
    """What five more images brought, what was expected, low and high; None if nothing was."""
    found = row["five_more"]
    real = row["truth_more"] - row["truth_whole"]
    return None if found is None else (real, found["gain"], found["low"], found["high"])


def figures(rows: list[dict], values) -> list[str]:
    """How many `rows` have `values`, and the figures of these: means of the first two, then JUDGED."""
    found = np.array([v for v in map(values, rows) if v is not None], float).reshape(-1, 4)
    if not len(found):
        return ["0", *["-"] * 6]
    real, expected, low, high = 100 * found.T
    unknown = np.isnan(low).all()
    covered = "-" if unknown else f"{((low <= real) & (real <= high)).mean():.0%}"
    width = "-" if unknown else f"{(high - low).mean():.1f}"
    above = expected - real
    means = (f"{real.mean():.1f}", f"{expected.mean():.1f}", f"{above.mean():+.1f}")
    return [str(len(found)), *means, f"{np.abs(above).mean():.1f}", covered, width]


OPTIONS = (
    *ADAPTS,
    number("--tasks", 6, "per pack and rate of wrong labels"),
    number("--seed", 2, least=0),
)
SETTINGS = ("policy", "budget", "seed")
main = Study("estimate", __doc__, "tinytrain-small", TARGETS, run_task, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
