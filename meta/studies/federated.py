"""Clients whose images differ: what each learns alone, what they learn together, and all images in one place.

    python -m tinytrain.meta.studies.federated --out federated.jsonl
    python -m tinytrain.meta.studies.federated --summary --out results/federated.jsonl

Every job deals the images of an episode out to clients: by `classes` (each client has its own), one class to
each (`single`), by Dirichlet's distribution (`dirichlet-0.1`, `dirichlet-1`), all alike but each client with
another camera (`shift`: turned, darkened), or all alike in quantities from 1 to 16 (`quantity`). "Heads" take
the network as it is: alone, merged (sums), joint (all images). "Layers" are trained by the recipe of a plan
for another, generated domain: averaged once, each client's sums from its own layers, as `merge` does it with
deltas; in rounds (--rounds of --steps) and then sums of the agreed layers; joint in as many steps. Queries
are of all classes; those of "own" are of the classes, and the camera, of one client, told apart among these:
by what it learnt alone, by the merged network, and by that trained on with the client's own images. Clients
with one class train no layers. Domains are no targets unless --packs names some.
"""

import functools
import operator
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import open_dataset
from tinytrain.datasets.corruptions import darkened, rotated
from tinytrain.delta.delta import apply
from tinytrain.episode.episode import Episode, Images
from tinytrain.federate.task import Arrays, Task, arrays_of, changes_of, recipe_of
from tinytrain.federate.work import Client
from tinytrain.heads.moments import Moments, products_of, sums_of
from tinytrain.heads.registry import HEADS
from tinytrain.meta.studies.study import (
    ADAPTS,
    TASK,
    Rows,
    Study,
    by_pack,
    chosen,
    decoded_episode,
    episodes_option,
    grid,
    mean_of_packs,
    names_option,
    number,
    one_of,
    strata,
    stratified,
    table,
    task_options,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.networks import embed
from tinytrain.pipeline.planned import planned
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device

SPLITS = ("classes", "single", "dirichlet-0.1", "dirichlet-1", "shift", "quantity")
DEVICE = Device(threads=1)
PLANNED_ON = "meters"  # the domain whose images the plan of a server is made for
GENERATED = "signs,glyphs,textures,leaves"


def dealt(split: str, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The images of each client, by number; nobody has none."""
    way, order = int(labels.max()) + 1, rng.permutation(len(labels))
    kind, _, alpha = split.partition("-")
    if kind in ("classes", "single"):
        owners = np.arange(way) if kind == "single" else np.arange(way) % min(clients, way // 2)
        found = [np.flatnonzero(owners[labels] == k) for k in range(owners.max() + 1)]
    elif kind == "dirichlet":
        shares = rng.dirichlet([float(alpha)] * clients, way).cumsum(axis=1)[:, :-1]
        of_class = [order[labels[order] == k] for k in range(way)]
        parts = [np.split(x, np.rint(s * len(x)).astype(int)) for x, s in zip(of_class, shares, strict=True)]
        found = [np.concatenate(mine) for mine in zip(*parts, strict=True)]
    else:
        weights = 2.0 ** np.arange(clients) if kind == "quantity" else np.ones(clients)
        ends = np.rint(np.cumsum(weights / weights.sum())[:-1] * len(labels)).astype(int)
        found = np.split(order, ends)
    return [np.sort(np.array(part, int)) for part in found if len(part)]


def seen_by(images: Images, owner: np.ndarray) -> Images:
    """`images` as the cameras of their `owner` (n,) see them: each turned and darkened in its own way."""

    def read(i: int, asked) -> np.ndarray:
        k = int(owner[i])
        return darkened(rotated(images.read(i, asked), None, 25.0 * k), None, 1 - 0.15 * k)

    return replace(images, read=read)


def run_job(network: Network, dataset, args, split: str, episode: int) -> dict:
    """The accuracy of every method, and the mean over clients of those that each client has."""
    way = min(args.way, dataset.n_classes)
    drawn = decoded_episode(network, dataset, args, episode, way=way)
    rng = rng_for(args.seed, "federated", split, episode)
    parts = dealt(split, drawn.support.labels, args.clients, rng)
    camera = None
    if split == "shift":
        owner = np.zeros(len(drawn.support), int)
        for k, part in enumerate(parts):
            owner[part] = k
        camera = rng.integers(0, len(parts), len(drawn.query))
        support = seen_by(drawn.support, owner).held(network.input)
        drawn = replace(drawn, support=support, query=seen_by(drawn.query, camera).held(network.input))
    fleet = Fleet(network, drawn, parts, camera, args, episode)
    return {"clients": len(parts), "accuracy": fleet.accuracies()}


class Fleet:
    """Clients with `parts` of the support of an episode; `camera` (queries,): whose; None: all have one."""

    def __init__(self, network: Network, drawn: Episode, parts: Sequence[np.ndarray], camera, args, seed):
        self.network, self.drawn, self.parts, self.camera, self.args = network, drawn, parts, camera, args
        self.seed = seed
        self.kernels, self.memory = kernel_table.load(), parse_bytes(args.budget)
        self.recipe = server_recipe(network, self.memory, args.seed)
        self.begin = arrays_of(network, self.recipe)

    def accuracies(self) -> dict[str, float]:
        everyone, train = np.arange(len(self.drawn.support)), [p for p in self.parts if self._way(p) > 1]
        plain = self._embedded(self.begin)
        heads = [self._moments(plain, part) for part in self.parts]
        found = {
            "alone": np.mean([self._right(plain, one) for one in heads]),
            "sums": self._right(plain, functools.reduce(operator.add, heads)),
            "joint head": self._right(plain, self._moments(plain, everyone)),
        }
        if train and self.args.rounds:
            found |= self._trained(train, everyone, heads)
        return {name: round(float(value), 4) for name, value in found.items()}

    def _trained(self, train: list[np.ndarray], everyone: np.ndarray, heads: list[Moments]) -> dict:
        steps = self.args.rounds * self.args.steps
        once = [self._learnt(part, self.begin, steps) for part in train]
        before = [self._embedded(a, part) for a, part in zip(once, train, strict=True)]
        own = [self._moments(e, part) for e, part in zip(before, train, strict=True)]
        rest = [h for h, part in zip(heads, self.parts, strict=True) if self._way(part) < 2]
        first = self._embedded(average(once, train))
        agreed = self.begin
        for _ in range(self.args.rounds):
            agreed = average([self._learnt(part, agreed, self.args.steps) for part in train], train)
        merged, joint = self._embedded(agreed), self._embedded(self._learnt(everyone, self.begin, steps))
        sums = self._moments(merged, everyone)
        after = [self._embedded(self._learnt(part, agreed, steps), part) for part in train]
        return {
            "layers once, own sums": self._right(first, functools.reduce(operator.add, own + rest)),
            "rounds of layers, sums": self._right(merged, sums),
            "joint": self._right(joint, self._moments(joint, everyone)),
            "own: alone": self._owns(before, train),
            "own: merged": np.mean([self._own(merged, sums, part) for part in train]),
            "own: merged, then alone": self._owns(after, train),
        }

    def _owns(self, networks, train: list[np.ndarray]) -> float:
        """By the embeddings of each client, and the head of its own images."""
        found = [self._own(e, self._moments(e, part), part) for e, part in zip(networks, train, strict=True)]
        return float(np.mean(found))

    def _way(self, part: np.ndarray) -> int:
        return len(np.unique(self.drawn.support.labels[part]))

    def _learnt(self, part: np.ndarray, arrays: Arrays, steps: int) -> Arrays:
        images = self.drawn.support.take(part)
        names, labels = np.unique(images.labels, return_inverse=True)
        images = replace(images, labels=labels.astype(np.int32))
        class_names = tuple(self.drawn.class_names[k] for k in names)
        episode = Episode(images, images.take([]), class_names, self.drawn.may_flip)
        recipe = replace(self.recipe, steps=steps)
        client = Client(self.network, episode, Budget(self.memory, precision="float32"), DEVICE, self.seed)
        return client.trained(Task(1, 2, self.network.digest, "lda", recipe), arrays)

    def _embedded(self, arrays: Arrays, part: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings of support and queries by the network with these layers; with `part` of its own."""
        network = apply(self.network, changes_of(self.network, self.recipe, arrays, "layers"))
        rows = (None, None) if part is None else (part, np.flatnonzero(self._queries(part)))
        found = []
        for images, some in zip((self.drawn.support, self.drawn.query), rows, strict=True):
            some = np.arange(len(images)) if some is None else some
            found.append(np.zeros((len(images), network.embedding_size), np.float32))
            found[-1][some] = embed(network, images.take(some), DEVICE)
        return tuple(found)

    def _queries(self, part: np.ndarray) -> np.ndarray:
        """Which queries are of the classes and the camera of a client."""
        mine = np.isin(self.drawn.query.labels, self.drawn.support.labels[part])
        if self.camera is not None:
            mine &= self.camera == [part is p for p in self.parts].index(True)
        return mine

    def _moments(self, embedded, part: np.ndarray) -> Moments:
        x, labels, way = embedded[0][part], self.drawn.support.labels[part], self.drawn.n_way
        return Moments(np.bincount(labels, minlength=way), sums_of(x, labels, way), products_of(x))

    def _logits(self, embedded, moments: Moments) -> np.ndarray:
        logits = HEADS["lda"].of_moments(self.kernels, moments).logits(embedded[1])
        return np.where(moments.counts > 0, logits, -np.inf)

    def _right(self, embedded, moments: Moments) -> float:
        return float((self._logits(embedded, moments).argmax(axis=1) == self.drawn.query.labels).mean())

    def _own(self, embedded, moments: Moments, part: np.ndarray) -> float:
        """Of the queries of a client, told apart among its classes."""
        classes, mine = np.unique(self.drawn.support.labels[part]), self._queries(part)
        found = classes[self._logits(embedded, moments)[mine][:, classes].argmax(axis=1)]
        return float((found == self.drawn.query.labels[mine]).mean())


def average(arrays: Sequence[Arrays], parts: Sequence[np.ndarray]) -> Arrays:
    """The mean by images, as Flower's FedAvg."""
    total = sum(map(len, parts))
    return {
        name: sum(a[name] * np.float32(len(p) / total) for a, p in zip(arrays, parts, strict=True))
        for name in arrays[0]
    }


@functools.cache
def server_recipe(network: Network, memory: int, seed: int) -> Recipe:
    """What a server has its clients train that has images of a generated domain alone."""
    args = SimpleNamespace(way=5, shots=5, queries=0, seed=seed)
    episode = decoded_episode(network, open_dataset(PLANNED_ON), args)
    planner = Planner(network, TaskShape.of(episode), "tinytrain", Budget(memory, precision="float32"))
    return recipe_of(planned(episode, planner, seed).plan, network)


METHODS = (
    "alone", "sums", "joint head", "layers once, own sums", "rounds of layers, sums", "joint",
    "own: alone", "own: merged", "own: merged, then alone",
)  # fmt: skip
LEADS = (
    ("sums", "joint head"), ("layers once, own sums", "sums"), ("rounds of layers, sums", "joint"),
    ("rounds of layers, sums", "sums"), ("own: merged, then alone", "own: alone"),
)  # fmt: skip


def summary(rows: Rows) -> list[str]:
    """Per cent by method and split, of every pack and of all; then differences, paired by episode."""
    lines = []
    for pack, mine in by_pack(rows, "all packs"):
        body = [[name, *(_cell(part, name) for _, part in _splits(mine))] for name in METHODS]
        lines += [f"{pack}:", "", *table(("", *(split for split, _ in _splits(mine))), body), ""]
    body = [[f"{a} - {b}", *(_lead(part, a, b) for _, part in _splits(rows))] for a, b in LEADS]
    return [*lines, *table(("points, all packs", *(split for split, _ in _splits(rows))), body)]


def _splits(rows: Rows) -> list[tuple[str, Rows]]:
    return [(split, part) for split in SPLITS if (part := chosen(rows, split=split))]


def _cell(rows: Rows, name: str) -> str:
    rows = [row for row in rows if name in row["accuracy"]]
    return f"{100 * mean_of_packs(rows, lambda row: row['accuracy'][name]):.1f}" if rows else ""


def _lead(rows: Rows, a: str, b: str) -> str:
    rows = [row for row in rows if a in row["accuracy"]]
    found = strata(rows, lambda row: 100 * (row["accuracy"][a] - row["accuracy"][b]))
    few = any(len(values) < 2 for values in found)  # tasks of all packs are the sample then
    return stratified([np.concatenate(found)] if few else found).text(signed=True) if rows else ""


OPTIONS = (
    *ADAPTS[1:],
    names_option("--splits", ",".join(SPLITS), "with commas (default: %(default)s)", one_of(SPLITS, "split")),
    number("--clients", 5),
    number("--rounds", 4, "of layers; 0: heads alone (default: %(default)s)", 0),
    number("--steps", 10, "of training in a round (default: %(default)s)"),
    *task_options(way=10, shots=20),
    episodes_option(3),
)
SETTINGS = ("budget", *TASK, "clients", "rounds", "steps")


def jobs(args) -> Rows:
    return grid(args, split=args.splits.split(","), episode=range(args.episodes))


main = Study("federated", __doc__, "tinytrain-small", GENERATED, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
