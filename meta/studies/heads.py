"""Every head on the same embeddings: accuracy, bytes, and microseconds of an update.

    python -m tinytrain.meta.studies.heads --out heads.jsonl
    python -m tinytrain.meta.studies.heads --packs gtsrb,omniglot,flowers12,dtd10 --out heads.jsonl
    python -m tinytrain.meta.studies.heads --summary --out heads.jsonl

The network is not adapted, so that nothing differs but the head. Embeddings of a pack are computed once;
episodes are those of the same seed for every head. By default the packs are domains on which heads are
settled, no targets. Bytes are those of the tensors that a delta stores, for the largest of the --shots, and
of those that it keeps once it is updated. An update learns from one image.
"""

import itertools
import sys
import time
from dataclasses import replace
from functools import cache

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.datasets import sample_episode
from tinytrain.heads.head import DELTA_TAKES, FIT_TAKES, Head, HeadMethod, Support
from tinytrain.heads.registry import HEADS, find_head
from tinytrain.kernels.blas import one_thread
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import add_log, run_study, study_parser
from tinytrain.pipeline.check import embed
from tinytrain.runtime.device import Device

DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,fsdd_logmel,signs,leaves,glyphs"
BATCH = 50  # embeddings that a head is fitted to at a time
TIMED = 20  # updates of one episode


def fitted(method: HeadMethod, kernels, embeddings: np.ndarray, labels: np.ndarray) -> Head:
    """A head of unit embeddings (n, d) with labels (n,), as a delta stores it."""

    def batches():
        for first in range(0, len(labels), BATCH):
            part = slice(first, first + BATCH)
            yield embeddings[part], labels[part]

    images = np.bincount(labels)
    buffers = method.buffers_for(len(images), embeddings.shape[1], len(labels))
    arrays = {b.name: (b.allocate(), b.lifetime) for b in buffers}

    def those(lifetimes):
        return {name: array for name, (array, lifetime) in arrays.items() if lifetime in lifetimes}

    head = method.fit(kernels, those(FIT_TAKES), Support(batches, batches, images))
    return head.for_delta(those(DELTA_TAKES))


def microseconds(head: Head, kernels, embeddings: np.ndarray, labels: np.ndarray) -> tuple[float, int]:
    """The median of some updates with one image each, and the bytes that the head has by then."""
    grown, found = head.extended(int(labels.max()) + 1), []
    for k in range(min(TIMED, len(labels))):
        start = time.perf_counter()
        grown.update(kernels, embeddings[k : k + 1], labels[k : k + 1])
        found.append(time.perf_counter() - start)
    return 1e6 * float(np.median(found)), sum(a.nbytes for a in grown.arrays())


def indices(dataset, args, shots: int, episode: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Numbers of the images in the dataset, and their labels, of the support and of the queries."""
    numbered = replace(dataset, read=lambda i, size: i)
    drawn = sample_episode(numbered, args.way, shots, args.queries, args.seed, episode)
    sides = (drawn.support, drawn.query)
    return tuple((np.array([side.read(i, 0) for i in range(len(side))]), side.labels) for side in sides)


def run_job(network, dataset, args, shots: int, head: str) -> dict:
    """What a head gets in all episodes of a pack."""
    every, kernels, method = embedded(network, dataset), kernel_table.load(), find_head(head)
    right, times = [], []
    with one_thread(), np.errstate(all="ignore"):
        for episode in range(args.episodes):
            (support, labels), (query, truth) = indices(dataset, args, shots, episode)
            found = fitted(method, kernels, every[support], labels)
            right.append(float((found.logits(every[query]).argmax(axis=1) == truth).mean()))
            if episode < TIMED:
                timed, kept = microseconds(found, kernels, every[query], truth)
                times.append(timed)
    stored = sum(a.nbytes for a in found.arrays())
    return {"right": right, "bytes": stored, "kept": kept, "microseconds": float(np.median(times))}


@cache
def embedded(network, dataset) -> np.ndarray:
    """Unit embeddings (n, d) of all images of a pack."""
    print(f"\n{dataset.name}: {len(dataset)} images", file=sys.stderr, flush=True)
    whole = dataset.images([np.arange(len(dataset))])
    return embed(network, whole, Device(threads=1))


def jobs(args) -> list[dict]:
    """All of a pack first, as its embeddings are at hand."""
    names = args.heads.split(",")
    cells = itertools.product(args.packs.split(","), map(int, args.shots.split(",")), names)
    return [{"pack": pack, "shots": shots, "head": head} for pack, shots, head in cells]


def summary(rows: list[dict]) -> list[str]:
    """A row for each head: the mean of all packs at every number of shots, then those of each pack."""
    heads, shots = (list(dict.fromkeys(row[key] for row in rows)) for key in ("head", "shots"))
    packs = list(dict.fromkeys(row["pack"] for row in rows))
    header = ("head", *(f"{k} shot{'s' * (k > 1)}" for k in shots), "bytes", "when updated", "us per update")
    lines = [f"Means of {', '.join(packs)}, in percent:", ""]
    lines += [table_lines(Table(header, tuple(_line(rows, head, shots, packs) for head in heads))), ""]
    for k in shots:
        body = tuple((head, *(_mean(rows, head, k, [pack]) for pack in packs)) for head in heads)
        lines += [f"{k} shot{'s' * (k > 1)}:", "", table_lines(Table(("head", *packs), body)), ""]
    return lines


def _line(rows: list[dict], head: str, shots: list[int], packs: list[str]) -> tuple[str, ...]:
    mine = [row for row in rows if row["head"] == head and row["shots"] == max(shots)]
    sizes = (f"{max(row[key] for row in mine):,}" if mine else "" for key in ("bytes", "kept"))
    taken = f"{np.median([row['microseconds'] for row in mine]):.0f}" if mine else ""
    return (head, *(_mean(rows, head, k, packs) for k in shots), *sizes, taken)


def _mean(rows: list[dict], head: str, shots: int, packs: list[str]) -> str:
    mine = [r["right"] for r in rows if r["head"] == head and r["shots"] == shots and r["pack"] in packs]
    if len(mine) < len(packs):
        return ""  # not all of them are in the log
    found = stratified(mine)
    return f"{100 * found.mean:.1f}" + ("" if found.half is None else f" ±{100 * found.half:.1f}")


def _known_heads(text: str) -> str:
    for head in text.split(","):
        find_head(head)
    return text


def parser() -> Parser:
    p = study_parser("heads", __doc__.split("\n")[0], "tinytrain-small", DOMAINS)
    add_log(p, adapts=False)
    p.add_argument("--heads", type=_known_heads, default=",".join(HEADS), help="comma-separated")
    p.add_argument("--shots", default="1,5,20", help="comma-separated")
    p.add_argument("--episodes", type=at_least(1), default=300, help="per pack and number of shots")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--queries", type=at_least(1), default=10, help="per class")
    p.add_argument("--seed", type=at_least(0), default=4)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("way", "queries", "episodes", "seed")
    run_study(args, jobs(args), settings, run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
