"""One class alone: are images that are not of it found, and how many of its own are lost?

    python -m tinytrain.meta.studies.normal --out normal.jsonl
    python -m tinytrain.meta.studies.normal \\
        --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --out normal.jsonl
    python -m tinytrain.meta.studies.normal --summary --out results/normal.jsonl

In an episode one class of a pack is normal, and the head "oselm-ae" is fitted to some images of it; anomalies
are images of the other classes of the episode. The network is not adapted. The area under the ROC curve is
that of the head's score, and for comparison that of the distance to the mean of the normal images, and to the
closest of them. "Lost" and "found" are the normal images and the anomalies above the threshold, which follows
from the normal images alone. "After" is the area once the head has learnt the other half of the normal
queries one by one; it is measured on the first half, as "before" is. By default the packs are domains on
which the head was settled, no targets.
"""

import sys
from itertools import product

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.drift.recent import fitted
from tinytrain.heads.registry import find_head
from tinytrain.kernels.blas import one_thread
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.heads import DOMAINS, indices
from tinytrain.meta.studies.strangers import area_under_roc
from tinytrain.meta.studies.study import add_log, run_study, study_parser
from tinytrain.pipeline.check import embed
from tinytrain.runtime.device import Device

HEAD = "oselm-ae"
AREAS = ("score", "to mean", "to closest", "before", "after")
RATES = ("lost", "found")


def run_job(network, dataset, args, shots: int) -> dict:
    """What was found in each episode of a pack, by name."""
    found, sides = {name: [] for name in (*AREAS, *RATES)}, []
    for episode in range(args.episodes):
        (support, labels), (queries, truth) = indices(dataset, args, shots, episode)
        sides.append((support[labels == 0], queries[truth == 0], queries[truth > 0]))
    every = embedded(network, dataset, {i for three in sides for side in three for i in side.tolist()})
    with one_thread(), np.errstate(all="ignore"):
        for three in sides:
            values = judged(*(np.stack([every[i] for i in side.tolist()]) for side in three))
            for name, value in values.items():
                found[name].append(round(value, 3))
    return found


KNOWN: dict[tuple[str, str], dict[int, np.ndarray]] = {}  # embeddings by network, dataset and image


def embedded(network, dataset, images: set[int]) -> dict[int, np.ndarray]:
    """Unit embeddings (d,) by the number of the image: those of `images`, and maybe others."""
    known = KNOWN.setdefault((network.digest, dataset.name), {})
    new = sorted(images - known.keys())
    if new:
        print(f"\n{dataset.name}: {len(new)} images", file=sys.stderr, flush=True)
        known.update(
            zip(new, embed(network, dataset.images([np.array(new)]), Device(threads=1)), strict=True)
        )
    return known


def judged(normal: np.ndarray, own: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """AREAS and RATES for embeddings of the support, of normal queries and of anomalies."""
    kernels = kernel_table.load()
    head = fitted(find_head(HEAD), kernels, normal, np.zeros(len(normal), np.int32))
    grown, half = head.extended(1), len(own) // 2
    grown.update(kernels, own[half:], np.zeros(len(own) - half, np.int32))
    kinds = {"score": scores(head), "to mean": to_mean(normal), "to closest": to_closest(normal)}
    found = {name: area_under_roc(of(others), of(own)) for name, of in kinds.items()}
    for name, one in (("before", head), ("after", grown)):
        found[name] = area_under_roc(scores(one)(others), scores(one)(own[:half]))
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
    return [
        {"pack": pack, "shots": k}
        for pack, k in product(args.packs.split(","), map(int, args.shots.split(",")))
    ]


def summary(rows: list[dict]) -> list[str]:
    """A line for each number of images and pack, and for all packs, in percent."""
    lines = []
    for shots in sorted({row["shots"] for row in rows}):
        some = [row for row in rows if row["shots"] == shots]
        for pack in (*dict.fromkeys(row["pack"] for row in some), "all"):
            mine = [row for row in some if pack in (row["pack"], "all")]
            lines.append((str(shots), pack, *(_mean(mine, name) for name in (*AREAS, *RATES)), _gain(mine)))
    header = ("images", "pack", *(f"area, {name}" for name in AREAS), *RATES, "score above to mean")
    return [table_lines(Table(header, tuple(lines)))]


def _mean(rows: list[dict], name: str) -> str:
    return f"{100 * np.mean([np.mean(row[name]) for row in rows]):.1f}"


def _gain(rows: list[dict]) -> str:
    """By how much the area of the score is above that of the distance to the mean, in the same episodes."""
    found = stratified([np.subtract(row["score"], row["to mean"]) for row in rows])
    return f"{100 * found.mean:+.2f}" + ("" if found.half is None else f" ±{100 * found.half:.2f}")


def parser() -> Parser:
    p = study_parser("normal", __doc__.split("\n")[0], "tinytrain-small", DOMAINS)
    add_log(p, adapts=False)
    p.add_argument("--shots", default="1,5,10", help="images of the normal class, comma-separated")
    p.add_argument("--way", type=at_least(2), default=5, help="classes of an episode, one of them normal")
    p.add_argument("--episodes", type=at_least(1), default=60, help="per pack and number of images")
    p.add_argument("--queries", type=at_least(2), default=10, help="per class")
    p.add_argument("--seed", type=at_least(0), default=27)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    run_study(args, jobs, ("way", "queries", "episodes", "seed", "packs"), run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
