"""Classes that come one step after another, without the images of the old ones.

    python -m tinytrain.meta.studies.continual --out continual.jsonl
    python -m tinytrain.meta.studies.continual --part adapted --seeds 5 --out continual.jsonl
    python -m tinytrain.meta.studies.continual --summary --out results/continual.jsonl

Every job draws classes of a domain and deals them out to five steps. After each step a method is asked about
query images of all classes so far. "Heads" learn from embeddings of the network as it is: joint (fitted to
all images so far, each time) or as a stream (only the images of the step). "Adapted" methods train layers,
too: joint, with a replay memory of K images per class, or without one, where later classes only join the
head. `average` is the mean accuracy over the steps, `last` that after the last one. `forgetting`: how much
less of the classes of a step is right in the end than at best before, in the mean over all steps but the
last. More classes are harder to tell apart, so a joint method "forgets" as well; `beyond` is what a method
forgets more than the joint one of its kind. Domains are no targets unless --packs names some. A run that was
stopped goes on where it stopped; --summary prints the figures of a log.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import sample_episode
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.heads.registry import HEADS
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.study import add_log, run_study, study_parser
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.continual import continued_episode, continued_policy
from tinytrain.pipeline.head_conformance import fitted
from tinytrain.pipeline.head_tasks import Task
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import FORWARD_ONLY, Predictor

DOMAINS = "tiny_imagenet200,caltech101,signs,leaves"
STEPS = 5
HEADS_PART, ADAPTED_PART = "heads", "adapted"
JOINT = {HEADS_PART: "joint lda", ADAPTED_PART: "adapted, joint"}
SGD_RATE, SGD_STEPS = 1.0, 100  # of the plain last layer; chosen so that joint training is as good as LDA

# For the queries (n,) of all classes so far: labels that a method gives, after each step, with its bytes.
Answers = Iterator[tuple[np.ndarray, int]]


def dealt_classes(way: int) -> list[np.ndarray]:
    """The labels of each step, in order."""
    return np.array_split(np.arange(way), STEPS)


def run_job(network, dataset, args, part: str, seed: int) -> dict:
    """Accuracies of all methods of one part, by step and by the step that the classes came in."""
    way = min(args.way, dataset.n_classes)
    drawn = sample_episode(dataset, way, args.shots, args.queries, args.seed, seed)
    shape = network.input.shape
    drawn = replace(drawn, support=drawn.support.held(shape), query=drawn.query.held(shape))
    row = {"way": way, "methods": {}}
    for name, method in methods(network, drawn, args, part, seed).items():
        start, accuracies, seconds, sizes = time.perf_counter(), [], [], []
        for step, (found, nbytes) in enumerate(method()):
            seconds.append(time.perf_counter() - start)
            sizes.append(nbytes)
            accuracies.append(_by_step(found, drawn.query.labels, dealt_classes(way)[: step + 1]))
            start = time.perf_counter()
        row["methods"][name] = {
            "accuracies": accuracies, "bytes": sizes[-1], "seconds": round(float(np.mean(seconds)), 4)
        }  # fmt: skip
    return row


def _by_step(found: np.ndarray, labels: np.ndarray, steps: list[np.ndarray]) -> list[float]:
    """Accuracy of the classes of each step."""
    seen = labels[labels <= steps[-1][-1]]
    return [round(float((found == seen)[np.isin(seen, classes)].mean()), 4) for classes in steps]


def methods(network, drawn: Episode, args, part: str, seed: int) -> dict[str, Callable[[], Answers]]:
    """Those of a part by name; each is to be called once."""
    if part == HEADS_PART:
        embedded = Embedded(network, drawn)
        found = {JOINT[part]: lambda: embedded.joint("lda"), "last layer, SGD": embedded.sgd}
        found |= {f"stream {name}": lambda name=name: embedded.stream(name) for name in HEADS}
        return found
    adapted = Adapted(network, drawn, Budget(parse_bytes(args.budget)), args.policy, seed)
    found = {JOINT[part]: adapted.joint, "adapted, no replay": adapted.alone}
    return found | {
        f"adapted, replay {k}": lambda k=int(k): adapted.replay(k) for k in args.replay.split(",")
    }


def upto(images: Images, last: int, first: int = 0) -> np.ndarray:
    """Indices of the images of classes `first` to `last`."""
    return np.flatnonzero((images.labels >= first) & (images.labels <= last))


class Embedded:
    """Heads on embeddings of the network as it is."""

    def __init__(self, network, drawn: Episode):
        self.drawn, self.kernels = drawn, kernel_table.load()
        nothing = Delta(network.digest, network.name, (), _no_head(network), ("a", "b"), {})
        predictor = Predictor(network, nothing)
        self.support, self.query = predictor.embed(drawn.support), predictor.embed(drawn.query)
        for rows in (self.support, self.query):
            self.kernels.normalize_rows(rows)
        self.steps = dealt_classes(drawn.n_way)

    def _task(self, last: int) -> Task:
        rows = upto(self.drawn.support, last)
        return Task("continual", self.support[rows], self.drawn.support.labels[rows], int(last) + 1)

    def _asked(self, last: int) -> np.ndarray:
        return self.query[upto(self.drawn.query, last)]

    def joint(self, name: str) -> Answers:
        for classes in self.steps:
            head = fitted(HEADS[name], self.kernels, self._task(classes[-1]))
            yield head.logits(self._asked(classes[-1])).argmax(axis=1), sum(a.nbytes for a in head.arrays())

    def stream(self, name: str) -> Answers:
        head = None
        for classes in self.steps:
            if head is None:
                head = fitted(HEADS[name], self.kernels, self._task(classes[-1]))
            else:
                head = head.extended(int(classes[-1]) + 1)
                rows = upto(self.drawn.support, classes[-1], classes[0])
                head.update(self.kernels, self.support[rows], self.drawn.support.labels[rows])
            yield head.logits(self._asked(classes[-1])).argmax(axis=1), sum(a.nbytes for a in head.arrays())

    def sgd(self) -> Answers:
        """Softmax regression by gradient descent on the images of each step alone: nothing guards the old."""
        weights = np.zeros((self.drawn.n_way, self.support.shape[1]))
        for classes in self.steps:
            rows = upto(self.drawn.support, classes[-1], classes[0])
            x, seen = self.support[rows].astype(float), weights[: classes[-1] + 1]
            target = np.eye(len(seen))[self.drawn.support.labels[rows]]
            for _ in range(SGD_STEPS):
                logits = 10 * x @ seen.T
                powers = np.exp(logits - logits.max(axis=1, keepdims=True))
                seen -= SGD_RATE * 10 * (powers / powers.sum(axis=1, keepdims=True) - target).T @ x / len(x)
            yield (self._asked(classes[-1]) @ seen.T).argmax(axis=1), seen.size * 4


def _no_head(network):
    """Any head of the right size: only embeddings are asked for."""
    method, size = HEADS[FORWARD_ONLY.head], network.embedding_size
    task = Task("any", np.eye(2, size, dtype=np.float32), np.arange(2, dtype=np.int32), 2)
    return fitted(method, kernel_table.load(), task)


class Adapted:
    """Adaptation with trained layers."""

    def __init__(self, network, drawn: Episode, budget: Budget, policy: str, seed: int):
        self.network, self.drawn, self.budget, self.policy, self.seed = network, drawn, budget, policy, seed
        self.steps, self.device = dealt_classes(drawn.n_way), Device(threads=1)

    def _images(self, last: int, first: int = 0) -> Images:
        """Support images of classes `first` to `last`, whose labels count from `first`."""
        images = self.drawn.support.take(upto(self.drawn.support, last, first))
        return replace(images, labels=images.labels - np.int32(first))

    def _episode(self, last: int, replay: int = 0) -> Episode:
        names, nothing = self.drawn.class_names[: last + 1], self.drawn.query.take([])
        return replace(
            self.drawn, support=self._images(last), query=nothing, class_names=names, replay=replay
        )

    def _adapted(self, episode: Episode, policy) -> Delta:
        return adapt(self.network, episode, self.budget, policy, self.seed, self.device, force=True).delta

    def _answers(self, delta: Delta) -> tuple[np.ndarray, int]:
        query = self.drawn.query.take(upto(self.drawn.query, len(delta.class_names) - 1))
        return Predictor(self.network, delta).logits(query).argmax(axis=1), delta.nbytes

    def joint(self) -> Answers:
        for classes in self.steps:
            yield self._answers(self._adapted(self._episode(int(classes[-1])), self.policy))

    def alone(self) -> Answers:
        delta = self._adapted(self._episode(int(self.steps[0][-1])), self.policy)
        yield self._answers(delta)
        for classes in self.steps[1:]:
            names = self.drawn.class_names[classes[0] : classes[-1] + 1]
            images = self._images(int(classes[-1]), int(classes[0]))
            delta = add_classes(self.network, delta, images, names, self.seed, self.drawn.may_flip)
            yield self._answers(delta)

    def replay(self, each: int) -> Answers:
        delta = self._adapted(self._episode(int(self.steps[0][-1]), each), self.policy)
        yield self._answers(delta)
        for classes in self.steps[1:]:
            names = self.drawn.class_names[classes[0] : classes[-1] + 1]
            images = self._images(int(classes[-1]), int(classes[0]))
            episode = continued_episode(delta, images, names, self.drawn.may_flip)
            delta = self._adapted(episode, continued_policy(delta))
            yield self._answers(delta)


def jobs(args) -> list[dict]:
    """Every pack gets as many seeds, in the order in which they are run."""
    packs = args.packs.split(",")
    return [{"pack": pack, "part": args.part, "seed": k} for k in range(args.seeds) for pack in packs]


HEADER = ("", "jobs", "average", "last", "behind joint", "forgetting", "beyond", "bytes", "seconds a step")


def summary(rows: list[dict]) -> list[str]:
    """A table for each pack, and one over all packs."""
    packs, lines = list(dict.fromkeys(row["pack"] for row in rows)), []
    for pack in (*packs, *(["all packs"] if len(packs) > 1 else [])):
        mine = [row for row in rows if pack in (row["pack"], "all packs")]
        names = list(mine[0]["methods"])
        lines += [f"{pack}:", "", table_lines(Table(HEADER, tuple(_line(mine, n) for n in names))), ""]
    return lines


def _line(rows: list[dict], name: str) -> tuple[str, ...]:
    mine, joint = ([row["methods"][n] for row in rows] for n in (name, JOINT[rows[0]["part"]]))
    weights = [list(map(len, dealt_classes(row["way"]))) for row in rows]
    average, last, gone = map(np.array, zip(*map(_figures, mine, weights), strict=True))
    _, best, lost = map(np.array, zip(*map(_figures, joint, weights), strict=True))
    behind = ("", "") if name == JOINT[rows[0]["part"]] else (_signed(last - best), _signed(gone - lost))
    nbytes, seconds = (np.mean([m[key] for m in mine]) for key in ("bytes", "seconds"))
    return (
        name, str(len(rows)), f"{average.mean():.1f}", f"{last.mean():.1f}", behind[0], f"{gone.mean():.1f}",
        behind[1], f"{nbytes:,.0f}", f"{seconds:.3g}",
    )  # fmt: skip


def _figures(method: dict, sizes: list[int]) -> tuple[float, float, float]:
    """Average and last accuracy, and forgetting, in points."""
    found = method["accuracies"]
    all_so_far = [float(np.average(step, weights=sizes[: len(step)])) for step in found]
    before = [max(step[k] for step in found[k:-1]) for k in range(len(found) - 1)]
    gone = np.subtract(before, found[-1][:-1]).mean()
    return 100 * float(np.mean(all_so_far)), 100 * all_so_far[-1], 100 * float(gone)


def _signed(differences: np.ndarray) -> str:
    found = mean_interval(differences)
    return f"{found.mean:+.1f}" + ("" if found.half is None else f" ±{found.half:.1f}")


def parser() -> Parser:
    p = study_parser("continual", __doc__.split("\n")[0], "tinytrain-small", DOMAINS)
    add_log(p)
    p.add_argument("--part", choices=(HEADS_PART, ADAPTED_PART), default=HEADS_PART)
    p.add_argument("--seeds", type=at_least(1), default=20, help="draws of classes and images per domain")
    p.add_argument("--replay", default="2,5", help="comma-separated images per class that are remembered")
    p.add_argument("--way", type=at_least(STEPS + 1), default=10)
    p.add_argument("--shots", type=at_least(1), default=5)
    p.add_argument("--queries", type=at_least(1), default=15, help="per class")
    p.add_argument("--seed", type=at_least(0), default=3)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("policy", "way", "shots", "queries", "budget", "seed", "part", "replay")
    run_study(args, jobs, settings, run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
