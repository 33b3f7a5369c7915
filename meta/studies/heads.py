"""Every head on the same embeddings: accuracy, bytes, microseconds of an update, and strangers refused.

    python -m tinytrain.meta.studies.heads --out heads.jsonl
    python -m tinytrain.meta.studies.heads \\
        --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --out heads.jsonl
    python -m tinytrain.meta.studies.heads --packs flowers12 --way 12 --shots 60 --queries 20 --episodes 20 \\
        --out heads.jsonl
    python -m tinytrain.meta.studies.heads --summary --out results/heads.jsonl

The network is not adapted, so that nothing differs but the head. Embeddings of a pack are computed once;
episodes are those of the same seed for every head. By default the packs are domains on which heads are
settled; the second command is for the targets, the third trains with three quarters of the images of one.

Bytes are those of the tensors that a delta stores, for the largest of the --shots. An update learns from one
image. "One by one" is the accuracy of a head that was fitted to one image of each class and updated once with
each of the others, in random order. "Kept" is the fraction of the images that a head keeps as prototypes. An
image is refused if the verdict of the head is "unknown": strangers are of other classes of the same pack, or
of the other packs. A head that gives no verdicts has "-". The row "logistic-regression" is no head but
scikit-learn's with its defaults, which sees all images at once; it is left out where scikit-learn is not
installed.
"""

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.drift.refit import fitted
from tinytrain.heads.head import UNKNOWN, Head
from tinytrain.heads.knn import KnnHead
from tinytrain.heads.rce import RceHead
from tinytrain.heads.registry import HEADS, find_head
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import (
    Study,
    chosen,
    episodes_option,
    names_option,
    numbers,
    option,
    percent,
    table,
    task_options,
    values_of,
)
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device

DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,fsdd_logmel,signs,leaves,glyphs"
TIMED = 20  # updates of one episode, and episodes in which they are timed
FEW = 50  # episodes at most for verdicts, and for images that are learnt one by one
STRANGERS = 25  # images of each kind in an episode
KINDS = ("own", "same pack", "other packs")
REFERENCE = "logistic-regression"
KNOWN = (*HEADS, *([REFERENCE] if find_spec("sklearn") else ()))


def microseconds(head: Head, kernels, embeddings: np.ndarray, labels: np.ndarray) -> float:
    """The median of some updates with one image each."""
    grown, found = head.extended(int(labels.max()) + 1), []
    for k in range(min(TIMED, len(labels))):
        start = time.perf_counter()
        grown.update(kernels, embeddings[k : k + 1], labels[k : k + 1])
        found.append(time.perf_counter() - start)
    return 1e6 * float(np.median(found))


def indices(dataset, args, shots: int, episode: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Numbers of the images in the dataset, and their labels, of the support and of the queries."""
    numbered = replace(dataset, read=lambda i, size: i)
    drawn = sample_episode(numbered, args.way, shots, args.queries, args.seed, episode)
    sides = (drawn.support, drawn.query)
    return tuple((np.array([side.read(i, 0) for i in range(len(side))]), side.labels) for side in sides)


def run_job(network, dataset, args, shots: int, head: str) -> dict:
    """What a head gets in all episodes of a pack."""
    every, right, some = embedded(network, dataset), [], []
    packs = (opened(pack, args.data) for pack in args.packs.split(","))
    others = [embedded(network, pack) for pack in packs if pack.name != dataset.name]
    with np.errstate(all="ignore"):
        for episode in range(args.episodes):
            support, (query, truth) = indices(dataset, args, shots, episode)
            task = Task(every[support[0]], support[1], every[query], truth)
            if head == REFERENCE:
                right.append(reference(task))
                continue
            found = head_of(head, task.support, task.labels)
            right.append(accuracy(found, task.queries, task.truth))
            if episode < FEW:
                rng = rng_for(args.seed, "strangers and order", dataset.name, shots, episode)
                outside = np.flatnonzero(~np.isin(dataset.labels, dataset.labels[support[0]]))
                shown = {
                    "own": task.queries,
                    "same pack": every[rng.permutation(outside)[:STRANGERS]],
                    "other packs": from_others(others, rng),
                }
                some.append(facts(found, task, shown, rng, episode < TIMED))
    return {"right": [round(r, 4) for r in right], **(averages(some) if some else {})}


@dataclass(frozen=True, eq=False)
class Task:
    """Unit embeddings of the images of an episode, with their labels."""

    support: np.ndarray
    labels: np.ndarray
    queries: np.ndarray
    truth: np.ndarray


def head_of(name: str, embeddings: np.ndarray, labels: np.ndarray, background: int | None = None) -> Head:
    """The head called `name` for embeddings (n, d) with labels (n,); `background` is as in `fitted`."""
    labels = np.asarray(labels, np.int32)
    return fitted(find_head(name), kernel_table.load(), embeddings, labels, background)


def accuracy(head: Head, embeddings: np.ndarray, truth: np.ndarray) -> float:
    """The fraction of the embeddings (n, d) whose classes are those of `truth` (n,)."""
    return float((head.logits(embeddings).argmax(axis=1) == truth).mean())


def reference(task: Task) -> float:
    """The accuracy of batch logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(task.support, task.labels)
    return float(model.score(task.queries, task.truth))


def from_others(packs: Sequence[np.ndarray], rng) -> np.ndarray:
    """Embeddings of STRANGERS images of the other packs, of all of them about as many."""
    turns = np.bincount(np.arange(STRANGERS) % max(1, len(packs)))
    drawn = [every[rng.choice(len(every), n)] for every, n in zip(packs, turns, strict=False)]
    return np.concatenate(drawn) if drawn else np.zeros((0, 0))


def facts(head: Head, task: Task, shown: dict[str, np.ndarray], rng, timed: bool) -> dict:
    """What a head does in one episode besides being right."""
    kernels = kernel_table.load()
    size = sum(a.nbytes for a in head.arrays())
    found = {"bytes": size, "one by one": one_by_one(head, kernels, task, rng)}
    if timed:
        found["microseconds"] = microseconds(head, kernels, task.queries, task.truth)
    if (kept := prototypes(head)) is not None:
        found["kept"] = kept / len(task.labels)
    if head.tells_strangers:
        for kind, embeddings in shown.items():
            states = [head.verdict(e).state for e in embeddings]
            found |= {kind: states.count(UNKNOWN) / len(states)} if states else {}
    return found


def one_by_one(head: Head, kernels, task: Task, rng) -> float:
    """The accuracy after an image of each class and an update with each of the others."""
    order = rng.permutation(len(task.labels))
    first = np.unique(task.labels[order], return_index=True)[1]
    learnt = fitted(head.method, kernels, task.support[order[first]], task.labels[order[first]])
    learnt = learnt.extended(len(first))
    for i in np.delete(order, first):
        learnt.update(kernels, task.support[i : i + 1], task.labels[i : i + 1])
    return accuracy(learnt, task.queries, task.truth)


def prototypes(head: Head) -> int | None:
    """How many images, or means of some, a head compares with; None if it does otherwise."""
    if isinstance(head, KnnHead):
        return int(np.count_nonzero(head.counts))
    return int(np.count_nonzero(head.neurons.categories)) if isinstance(head, RceHead) else None


def averages(episodes: list[dict]) -> dict:
    """Means of what was found; of times the median, of bytes the most."""
    merge = {"bytes": max, "microseconds": np.median}
    names = dict.fromkeys(name for found in episodes for name in found)
    values = {name: [found[name] for found in episodes if name in found] for name in names}
    return {name: round(float(merge.get(name, np.mean)(some)), 4) for name, some in values.items()}


EMBEDDED: dict[tuple[str, str], np.ndarray] = {}  # by network and dataset; NaN where nobody asked for it


def embedded(network, dataset, images: Sequence[int] | None = None) -> np.ndarray:
    """Unit embeddings (n, d) of a pack, of all of its images or of those with these numbers."""
    unknown = np.full((len(dataset), network.embedding_size), np.nan, np.float32)
    every = EMBEDDED.setdefault((network.digest, dataset.name), unknown)
    asked = np.arange(len(dataset)) if images is None else np.unique(images)
    new = asked[np.isnan(every[asked, 0])]
    if len(new):
        print(f"\n{dataset.name}: {len(new)} images", file=sys.stderr, flush=True)
        every[new] = embed(network, dataset.images([new]), Device(threads=1))
    return every


opened = cache(open_dataset)


def jobs(args) -> list[dict]:
    """All of a pack first, as its embeddings are at hand; not with more shots than a pack has images for."""
    names = args.heads.split(",")
    cells = itertools.product(args.packs.split(","), args.shots, names)
    cells = ((p, k, head) for p, k, head in cells if _has_enough(opened(p, args.data), args, k))
    return [{"pack": pack, "shots": shots, "head": head} for pack, shots, head in cells]


def _has_enough(dataset, args, shots: int) -> bool:
    return sum(len(images) >= shots + args.queries for images in dataset.by_class) >= args.way


REFUSED = tuple(f"{kind} refused" for kind in KINDS)
HEADER = ("bytes", "us per update", "one by one", "kept", *REFUSED)


def summary(rows: list[dict]) -> list[str]:
    """A row for each head: the mean of all packs at every number of shots, then those of each pack."""
    heads, shots, packs = (values_of(rows, key) for key in ("head", "shots", "pack"))
    there = {k: values_of([r for p in packs for r in chosen(rows, shots=k, pack=p)], "pack") for k in shots}
    titles = {k: f"{k} shot{'s' * (k > 1)}" for k in shots}
    titles |= {k: f"{titles[k]}, {len(some)} packs" for k, some in there.items() if some != packs}
    lines = [f"Means of {', '.join(packs)}, accuracy in percent, the rest with {titles[max(shots)]}:", ""]
    body = [
        (h, *(_mean(rows, h, k, there[k]) for k in shots), *_rest(chosen(rows, head=h, shots=max(shots))))
        for h in heads
    ]
    lines += [*table(("head", *titles.values(), *HEADER), body), ""]
    pairs = [(k, kind) for k in shots for kind in KINDS]
    body = [(h, *(_percent(chosen(rows, head=h, shots=k), kind) for k, kind in pairs)) for h in heads]
    header = ("head", *(f"{titles[k]}, {kind}" for k, kind in pairs))
    lines += ["Images refused, in percent:", "", *table(header, body), ""]
    for k in shots:
        body = [(head, *(_mean(rows, head, k, [pack]) for pack in packs)) for head in heads]
        lines += [f"{titles[k]}:", "", *table(("head", *packs), body), ""]
    return lines


def _rest(mine: list[dict]) -> tuple[str, ...]:
    """The cells of HEADER; "-" for what a head does not have."""
    found = []
    for key, of in (("bytes", max), ("microseconds", np.median)):
        values = [row[key] for row in mine if key in row]
        found.append(f"{of(values):,.0f}" if values else "-")
    return (*found, *(_percent(mine, key) for key in ("one by one", "kept", *KINDS)))


def _percent(rows: list[dict], key: str) -> str:
    """The mean of the rows that have it, each as heavy."""
    found = [row[key] for row in rows if key in row]
    return percent(found) if found else "-"


def _mean(rows: list[dict], head: str, shots: int, packs: list[str]) -> str:
    mine = [100 * np.array(r["right"]) for r in chosen(rows, head=head, shots=shots) if r["pack"] in packs]
    return stratified(mine).text() if len(mine) == len(packs) else ""  # not all of them are in the log


OPTIONS = (
    names_option("--heads", ",".join(KNOWN), "comma-separated", find_head, *KNOWN),
    option("--shots", "1,5,20", "comma-separated", type=numbers),
    episodes_option(100, "per pack and number of shots"),
    *(o for o in task_options(seed=4) if o[0] != "--shots"),
)
SETTINGS = ("way", "queries", "episodes", "seed")
main = Study("heads", __doc__, "tinytrain-small", DOMAINS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
