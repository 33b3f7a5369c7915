"""Networks alone and side by side, not adapted, with one LDA head, and rules that choose among them.

    python -m tinytrain.meta.studies.committees --ways 2,5,10,20 --shots 1,3,5,15 --packs settle --out FILE
    python -m tinytrain.meta.studies.committees --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --out FILE

Of a pack --classes classes with --images images each are embedded once by every network; episodes draw from
these. A rule chooses by the support images of an episode, each left out once: small, and medium beside it if
more are named rightly with it, as `adapt --backbone auto` does without large; the same with large, too; the
best network alone; the best of all combinations. With one image of a class nothing can be left out.
"""

import sys
from itertools import combinations

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.heads.side_by_side import JointLda
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.heads import embedded
from tinytrain.meta.studies.study import (
    TARGETS,
    Study,
    chosen,
    episodes_option,
    grid,
    number,
    numbers,
    option,
    table,
    values_of,
)
from tinytrain.pipeline.networks import Compared, preferred

NETWORKS = ("small", "medium", "large")
Way = tuple[int, ...]  # the numbers of networks side by side


class Task:
    """An episode of embeddings by each network, whose queries come last in each part (m, d)."""

    def __init__(self, parts: list[np.ndarray], labels: np.ndarray, truth: np.ndarray):
        self.sizes, self.labels, self.truth = [part.shape[1] for part in parts], labels, truth
        self.products = [(part @ part.T).astype(float) for part in parts]

    def right(self, way: Way) -> tuple[float, np.ndarray | None]:
        """The accuracy on queries, and whether each support image is named rightly by the others."""
        head = JointLda(sum(self.products[k] for k in way), self.labels, sum(self.sizes[k] for k in way))
        left_out = None
        if np.bincount(self.labels).min() > 1:
            left_out = head.left_out().argmax(axis=1) == self.labels
        return float((head.logits().argmax(axis=1) == self.truth).mean()), left_out


def run_job(network, dataset, args, shots: int, way: int) -> dict:
    """The accuracy of each combination and of each rule in all episodes."""
    networks = [load_backbone(tier) for tier in NETWORKS]
    pack = drawn_images(dataset, args)
    parts = [embedded(each, dataset, pack.ravel()) for each in networks]
    names, ways = [each.name for each in networks], ways_of(len(networks))
    rows, way = [], min(way, len(pack))
    for episode in range(args.episodes):
        rng = rng_for(args.seed, "committees", dataset.name, shots, way, episode)
        some = rng.permuted(pack[rng.permutation(len(pack))[:way]], axis=1)
        labels, truth = (np.repeat(np.arange(way), k) for k in (shots, args.queries))
        asked = some[:, shots : shots + args.queries]
        numbers = np.concatenate([some[:, :shots].ravel(), asked.ravel()])
        task = Task([part[numbers] for part in parts], labels, truth)
        rows.append(one_episode({w: task.right(w) for w in ways}, names))
    return {kind: {k: [round(row[kind][k], 4) for row in rows] for k in rows[0][kind]} for kind in rows[0]}


def drawn_images(dataset, args) -> np.ndarray:
    """Numbers of the images that episodes draw from, (classes, images)."""
    rng = rng_for(args.seed, "images", dataset.name)
    large = [images for images in dataset.by_class if len(images) >= args.images]
    if len(large) < 2 or args.images < max(args.shots) + args.queries:
        raise UsageError(
            "usage",
            f"{dataset.name} has {len(large)} classes of {args.images} images; give --images as --shots and"
            " --queries need, and no more than the classes have",
        )
    classes = rng.permutation(len(large))[: args.classes]
    return np.array([rng.permutation(large[k])[: args.images] for k in classes])


def ways_of(count: int) -> list[Way]:
    return [way for size in range(count) for way in combinations(range(count), size + 1)]


def one_episode(found: dict[Way, tuple[float, np.ndarray | None]], names: list[str]) -> dict[str, dict]:
    """Accuracies by combination, and by rule those of what it takes."""
    accuracy = {"+".join(names[k] for k in way): right for way, (right, _) in found.items()}
    left_out = {way: right for way, (_, right) in found.items() if right is not None}
    if not left_out:
        return {"accuracy": accuracy, "rules": {}}
    rows = [Compared(tuple(names[k] for k in w), r.mean(), 0, 0, 0) for w, r in left_out.items()]
    best = {row.name: row.accuracy for row in rows}
    small, large, every = names[0], f"{names[0]}+{names[2]}", "+".join(names)
    taken = {
        f"{small}, medium if better": preferred(rows, NETWORKS[:2]),
        f"{large}, medium if better": every if best[every] > best[large] else large,
        "best alone": max(names, key=best.get),
        "best of all": max(best, key=best.get),
    }
    return {"accuracy": accuracy, "rules": {rule: accuracy[name] for rule, name in taken.items()}}


def summary(rows: list[dict]) -> list[str]:
    lines = []
    for shots in values_of(rows, "shots"):
        some = chosen(rows, shots=shots)
        packs = values_of(some, "pack")
        base = next(iter(some[0]["accuracy"]))
        every = {name: ("accuracy", name) for name in some[0]["accuracy"]}
        every |= {f"rule: {name}": ("rules", name) for name in some[0]["rules"]}
        body = []
        for name, keys in every.items():
            values = [_values(some, pack, *keys) for pack in packs]
            above = [v - _values(some, pack, "accuracy", base) for pack, v in zip(packs, values, strict=True)]
            means = [f"{v.mean():.1f}" for v in values]
            body.append((name, *means, stratified(values).text(), stratified(above).text(2, signed=True)))
        ways = ", ".join(map(str, values_of(some, "way")))
        lines += [f"Shots {shots}, classes {ways}:", ""]
        lines += [*table(("networks", *packs, "mean", f"above {base}"), body), ""]
    return lines


def _values(rows: list[dict], pack: str, kind: str, name: str) -> np.ndarray:
    return 100 * np.concatenate([row[kind][name] for row in chosen(rows, pack=pack)])


OPTIONS = (
    option("--ways", "5", "classes of an episode, with commas (default: %(default)s)", type=numbers),
    option("--shots", "1,5,15", "with commas (default: %(default)s)", type=numbers),
    number("--queries", 5, "per class (default: %(default)s)"),
    number("--classes", 20, "of a pack (default: %(default)s)", least=2),
    number("--images", 20, "of a class (default: %(default)s)"),
    number("--seed", 5, least=0),
    episodes_option(60),
)
SETTINGS = ("queries", "classes", "images", "episodes", "seed")


def jobs(args) -> list[dict]:
    """All of a pack first, as its embeddings are at hand."""
    found = grid(args, way=args.ways, shots=args.shots)
    return sorted(found, key=lambda job: args.packs.split(",").index(job["pack"]))


main = Study("committees", __doc__, "small", TARGETS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
