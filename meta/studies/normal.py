"""One class alone: are images that are not of it found, and how many of its own are lost?

    python -m tinytrain.meta.studies.normal --out normal.jsonl
    python -m tinytrain.meta.studies.normal \\
        --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --out normal.jsonl
    python -m tinytrain.meta.studies.normal --summary --out results/normal.jsonl

In an episode one class of a pack is normal, and the head "oselm-ae" is fitted to some images of it; anomalies
are images of the other classes of the episode. The network is not adapted. The area under the ROC curve is
that of the head's score, and for comparison that of the distance to the mean of the normal images, and to the
closest of them. "Lost" and "found" are the normal images and the anomalies above the threshold, which follows
from the normal images alone. By default the packs are domains on which the head was settled, no targets.
"""

import sys

import numpy as np

from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.heads import DOMAINS, embedded, head_of, indices
from tinytrain.meta.studies.strangers import area_under_roc
from tinytrain.meta.studies.study import (
    Study,
    by_pack,
    chosen,
    episodes_option,
    grid,
    number,
    numbers,
    option,
    percent,
    table,
    task_options,
)

HEAD = "oselm-ae"
AREAS = ("score", "to mean", "to closest")
RATES = ("lost", "found")


def run_job(network, dataset, args, shots: int) -> dict:
    """What was found in each episode of a pack, by name."""
    found, sides = {name: [] for name in (*AREAS, *RATES)}, []
    for episode in range(args.episodes):
        (support, labels), (queries, truth) = indices(dataset, args, shots, episode)
        sides.append((support[labels == 0], queries[truth == 0], queries[truth > 0]))
    every = embedded(network, dataset, np.concatenate([side for three in sides for side in three]))
    with np.errstate(all="ignore"):
        for three in sides:
            for name, value in judged(*(every[side] for side in three)).items():
                found[name].append(round(value, 3))
    return found


def judged(normal: np.ndarray, own: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """AREAS and RATES for embeddings of the support, of normal queries and of anomalies."""
    head = head_of(HEAD, normal, np.zeros(len(normal)))
    kinds = {"score": scores(head), "to mean": to_mean(normal), "to closest": to_closest(normal)}
    found = {name: area_under_roc(of(others), of(own)) for name, of in kinds.items()}
    threshold = head.normal().threshold
    found["lost"], found["found"] = (float((scores(head)(x) > threshold).mean()) for x in (own, others))
    return found


def scores(head):
    """The function that returns the scores (n,) of embeddings by a `head` of one class."""
    return lambda x: np.array([head.verdict(e).score for e in x])


def to_mean(normal: np.ndarray):
    return lambda x: np.square(x - normal.mean(axis=0)).sum(axis=1)


def to_closest(normal: np.ndarray):
    return lambda x: np.square(x[:, None] - normal).sum(axis=2).min(axis=1)


def jobs(args) -> list[dict]:
    return grid(args, shots=args.shots)


def summary(rows: list[dict]) -> list[str]:
    """A line for each number of images and pack, and for all packs, in percent."""
    lines = []
    for shots in sorted({row["shots"] for row in rows}):
        for pack, mine in by_pack(chosen(rows, shots=shots)):
            means = (percent([np.mean(row[name]) for row in mine]) for name in (*AREAS, *RATES))
            # By how much the area of the score is above that of the distance to the mean, paired.
            gain = stratified([100 * np.subtract(row["score"], row["to mean"]) for row in mine])
            lines.append((str(shots), pack, *means, gain.text(2, signed=True)))
    header = ("images", "pack", *(f"area, {name}" for name in AREAS), *RATES, "score above to mean")
    return table(header, lines)


OPTIONS = (
    option("--shots", "1,5,10", "images of the normal class, comma-separated", type=numbers),
    number("--way", 5, "classes of an episode, one of them normal", least=2),
    episodes_option(60, "per pack and number of images"),
    number("--queries", 10, "per class", least=2),
    task_options(seed=27)[-1],
)
SETTINGS = ("way", "queries", "episodes", "seed", "packs")
main = Study("normal", __doc__, "tinytrain-small", DOMAINS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
