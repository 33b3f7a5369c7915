"""What a device that lies does to a merged delta, and what noise for privacy costs.

    python -m tinytrain.meta.studies.trust --out trust.jsonl
    python -m tinytrain.meta.studies.trust --summary --out results/trust.jsonl

The images of an episode are divided among --clients devices, each with some of every class; heads are fitted
to the embeddings of a network that is not adapted, and merged. One of the devices lies: "rolled" gives every
class the name of another one, "flipped" turns the sign of its sums, "scatter" tells the truth about class
means and puts all that varies inside of classes where classes differ; times 3 or 10 it claims so many times
its images. Or it is honest, but its camera is turned by 30 degrees, or gets 0.4 of the light. "Robust" is
what `merge --robust` makes of it, "left out" how often in per cent the device was, "others" how many honest
ones were. "Refused" counts where nobody could tell. With noise, all images are on one device, which exports
its delta with --epsilon; there images that look like copies of others count as well, as those are exported.
"""

import operator
import random
import sys
from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError
from tinytrain.datasets.corruptions import darkened, rotated
from tinytrain.delta.delta import Delta
from tinytrain.delta.merge import merge
from tinytrain.drift.refit import fitted
from tinytrain.heads.lda import METHOD
from tinytrain.heads.moments import UNIT, Moments, products_of, sums_of
from tinytrain.heads.scatter_head import ScatterHead
from tinytrain.heads.triangle import packed, unpacked
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.heads import embedded, indices
from tinytrain.meta.studies.study import (
    Study,
    by_pack,
    episodes_option,
    number,
    percent,
    strata,
    table,
    task_options,
)
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device
from tinytrain.trust.noise import private

EPSILONS = (8.0, 3.0, 1.0)
LIES = ("rolled", "rolled x3", "rolled x10", "flipped", "flipped x10", "scatter", "scatter x10")
CAMERAS = {
    "turned": lambda image: rotated(image, None, 30),
    "darkened": lambda image: darkened(image, None, 0.4),
}


def run_job(network, dataset, args, episode: int) -> dict:
    """Accuracy of merged and of noisy heads on the queries of an episode."""
    (support, labels), (query, truth) = indices(dataset, args, args.shots, episode)
    every = embedded(network, dataset, [*support, *query])
    kernels, shares = kernel_table.load(), [_share(labels, k, args.clients) for k in range(args.clients)]

    def right(delta: Delta) -> float:
        return float((delta.head.logits(every[query]).argmax(axis=1) == truth).mean())

    def merged(first: Delta, **how):
        deltas = [first, *honest[1:]]
        return merge(kernels, deltas, [str(k) for k in range(len(deltas))], **how)

    honest = [_delta(kernels, every[support[share]], labels[share]) for share in shares]
    others = {name: _lying(honest[0], name) for name in LIES}
    for name, camera in CAMERAS.items():
        x = embed(network, _seen(dataset.images([support[shares[0]]]), camera), Device(threads=1))
        others[name] = _delta(kernels, x, labels[shares[0]])
    found = {}
    for name, delta in {"honest": honest[0], **others}.items():
        row = found[name] = {"merged": right(merged(delta).delta), "robust": None, "out": 0, "others": 0}
        try:
            robust = merged(delta, robust=True)
        except InputError:  # nobody can tell who is right
            continue
        row |= {"robust": right(robust.delta), "out": int("0" in robust.outvoted)}
        row["others"] = len(robust.outvoted) - row["out"]
    whole = _of(METHOD.of_moments(kernels, _moments(every[support], labels)))
    noise = {"inf": right(whole)}
    for epsilon in EPSILONS:
        noise[f"{epsilon:g}"] = right(private(whole, epsilon, random.Random(episode)))
    return {"lies": found, "noise": noise}


def _share(labels: np.ndarray, client: int, clients: int) -> np.ndarray:
    """Numbers of the images of a client, as many of each class as the others have."""
    return np.concatenate([np.flatnonzero(labels == k)[client::clients] for k in np.unique(labels)])


def _delta(kernels, x: np.ndarray, labels: np.ndarray) -> Delta:
    return _of(fitted(METHOD, kernels, x, labels))


def _of(head: ScatterHead) -> Delta:
    return Delta("0" * 64, "study", (), head, tuple(map(str, range(len(head.counts)))), {})


def _moments(x: np.ndarray, labels: np.ndarray) -> Moments:
    return Moments(np.bincount(labels), sums_of(x, labels, int(labels.max()) + 1), products_of(x))


def _lying(delta: Delta, lie: str) -> Delta:
    kind, _, times = lie.partition(" x")
    head, times = delta.head.for_any_number(), int(times or 1)
    counts, sums, products = (a.astype(np.int64) for a in (head.counts, head.sums, head.products))
    if kind == "rolled":
        counts, sums = np.roll(counts, 1), np.roll(sums, 1, axis=0)
    elif kind == "flipped":
        sums = -sums
    else:
        means = sums / (counts[:, None] * UNIT)
        around = (means * counts[:, None]).T @ means
        between = (means - means.mean(axis=0)).T @ (means - means.mean(axis=0))
        rest = np.trace(unpacked(products / UNIT)) - np.trace(around)
        products = np.rint(packed(around + between / np.trace(between) * rest) * UNIT).astype(np.int64)
    fields = {"counts": (counts * times).astype(np.int32), "sums": sums * times, "products": products * times}
    return replace(delta, head=replace(head, **fields))


def _seen(images, camera):
    """The images as another camera sees them."""
    return replace(images, read=lambda i, size: camera(np.asarray(images.read(i, size))))


HEADER = ("one device", "merged", "points", "robust", "points", "left out", "others", "refused")


def summary(rows: list[dict]) -> list[str]:
    """What each liar costs, with and without ``--robust``, and each epsilon; "-" where nobody could tell."""
    body = []
    for name in rows[0]["lies"]:
        known = [row for row in rows if row["lies"][name]["robust"] is not None]
        out, others = ([row["lies"][name][key] for row in known] for key in ("out", "others"))
        told = [percent(out), f"{np.mean(others):.2f}"] if known else ["-", "-"]
        cells = [*_cells(rows, name, "merged"), *_cells(known, name, "robust"), *told]
        body.append((name, *cells, f"{len(rows) - len(known)} of {len(rows)}"))
    lines = table(HEADER, body)
    names = list(rows[0]["noise"])
    body = [
        (pack, *(percent([row["noise"][name] for row in mine]) for name in names))
        for pack, mine in by_pack(rows)
    ]
    lines += ["", *table(("epsilon", *names), body), ""]
    for name in names[1:]:
        lost = [row | {"lost": 100 * (row["noise"][name] - row["noise"]["inf"])} for row in rows]
        lines.append(f"Epsilon {name}: {_points(lost)} points.")
    return lines


def _cells(rows: list[dict], name: str, key: str) -> list[str]:
    lost = [row | {"lost": 100 * (row["lies"][name][key] - row["lies"]["honest"]["merged"])} for row in rows]
    return [percent([row["lies"][name][key] for row in rows]), _points(lost)] if rows else ["-", "-"]


def _points(rows: list[dict]) -> str:
    return stratified(strata(rows, operator.itemgetter("lost"))).text(signed=True)


OPTIONS = (
    *task_options(seed=4, way=6, shots=50),
    number("--clients", 5, least=3),
    episodes_option(4),
)
SETTINGS = ("way", "shots", "queries", "clients", "episodes", "seed")
PACKS = "signs,leaves,meters,pacs_photo,tiny_imagenet200"
main = Study("trust", __doc__, "small", PACKS, run_job, summary, OPTIONS, SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
