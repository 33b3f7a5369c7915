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
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.delta.delta import Delta
from tinytrain.drift.refit import fitted
from tinytrain.episode.episode import Episode, Images
from tinytrain.heads.head import Head
from tinytrain.heads.registry import HEADS
from tinytrain.meta.studies.study import (
    ADAPTS,
    TASK,
    Study,
    adapted,
    by_pack,
    decoded_episode,
    grid,
    number,
    option,
    signed,
    table,
    task_options,
)
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.continual import continued_episode, continued_policy
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

DOMAINS = "tiny_imagenet200,caltech101,signs,leaves"
STEPS = 5
REPLAY = (2, 5)  # images per class that are remembered
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
    drawn = decoded_episode(network, dataset, args, seed, way=way)
    row = {"way": way, "methods": {}}
    for name, method in methods(network, drawn, args, part, seed).items():
        answers = [*method()]
        steps = ((found, dealt_classes(way)[:k]) for k, (found, _) in enumerate(answers, 1))
        accuracies = [_by_step(found, drawn.query.labels, seen) for found, seen in steps]
        row["methods"][name] = {"accuracies": accuracies, "bytes": answers[-1][1]}
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
        return found | {f"stream {name}": lambda name=name: embedded.stream(name) for name in HEADS}
    trained = Adapted(network, drawn, args, seed)
    found = {JOINT[part]: trained.joint, "adapted, no replay": lambda: trained.later(0)}
    return found | {f"adapted, replay {k}": lambda k=k: trained.later(k) for k in REPLAY}


def upto(images: Images, last: int, first: int = 0) -> np.ndarray:
    """Indices of the images of classes `first` to `last`."""
    return np.flatnonzero((images.labels >= first) & (images.labels <= last))


class Embedded:
    """Heads on embeddings of the network as it is."""

    def __init__(self, network, drawn: Episode):
        self.drawn, self.kernels, device = drawn, kernel_table.load(), Device(threads=1)
        self.support, self.query = (embed(network, side, device) for side in (drawn.support, drawn.query))
        self.steps = dealt_classes(drawn.n_way)

    def _images(self, last: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rows = upto(self.drawn.support, last, first)
        return self.support[rows], self.drawn.support.labels[rows]

    def _asked(self, last: int) -> np.ndarray:
        return self.query[upto(self.drawn.query, last)]

    def _answers(self, head: Head, last: int) -> tuple[np.ndarray, int]:
        return head.logits(self._asked(last)).argmax(axis=1), sum(a.nbytes for a in head.arrays())

    def joint(self, name: str) -> Answers:
        for classes in self.steps:
            head = fitted(HEADS[name], self.kernels, *self._images(classes[-1]))
            yield self._answers(head, classes[-1])

    def stream(self, name: str) -> Answers:
        head = fitted(HEADS[name], self.kernels, *self._images(self.steps[0][-1]))
        yield self._answers(head, self.steps[0][-1])
        for classes in self.steps[1:]:
            head = head.extended(int(classes[-1]) + 1)
            head.update(self.kernels, *self._images(classes[-1], classes[0]))
            yield self._answers(head, classes[-1])

    def sgd(self) -> Answers:
        """Softmax regression by gradient descent on the images of each step alone: nothing guards the old."""
        weights = np.zeros((self.drawn.n_way, self.support.shape[1]))
        for classes in self.steps:
            x, labels = self._images(classes[-1], classes[0])
            x, seen = x.astype(float), weights[: classes[-1] + 1]
            target = np.eye(len(seen))[labels]
            for _ in range(SGD_STEPS):
                logits = 10 * x @ seen.T
                powers = np.exp(logits - logits.max(axis=1, keepdims=True))
                seen -= SGD_RATE * 10 * (powers / powers.sum(axis=1, keepdims=True) - target).T @ x / len(x)
            yield (self._asked(classes[-1]) @ seen.T).argmax(axis=1), seen.size * 4


class Adapted:
    """Adaptation with trained layers."""

    def __init__(self, network, drawn: Episode, args, seed: int):
        self.network, self.drawn, self.args, self.seed = network, drawn, args, seed
        self.steps = dealt_classes(drawn.n_way)

    def _images(self, last: int, first: int = 0) -> Images:
        """Support images of classes `first` to `last`, whose labels count from `first`."""
        images = self.drawn.support.take(upto(self.drawn.support, last, first))
        return replace(images, labels=images.labels - np.int32(first))

    def _episode(self, last: int, replay: int = 0) -> Episode:
        names, nothing = self.drawn.class_names[: last + 1], self.drawn.query.take([])
        return replace(
            self.drawn, support=self._images(last), query=nothing, class_names=names, replay=replay
        )

    def _adapted(self, episode: Episode, policy=None) -> Delta:
        return adapted(self.network, episode, self.args, self.seed, policy, force=True).delta

    def _answers(self, delta: Delta) -> tuple[np.ndarray, int]:
        query = self.drawn.query.take(upto(self.drawn.query, len(delta.class_names) - 1))
        return Predictor(self.network, delta).logits(query).argmax(axis=1), delta.nbytes

    def joint(self) -> Answers:
        for classes in self.steps:
            yield self._answers(self._adapted(self._episode(int(classes[-1]))))

    def later(self, each: int) -> Answers:
        """With `each` images per class in the replay memory; without one, classes only join the head."""
        delta = self._adapted(self._episode(int(self.steps[0][-1]), each))
        yield self._answers(delta)
        for classes in self.steps[1:]:
            names = self.drawn.class_names[classes[0] : classes[-1] + 1]
            images = self._images(int(classes[-1]), int(classes[0]))
            if each:
                episode = continued_episode(delta, images, names, self.drawn.may_flip)
                delta = self._adapted(episode, continued_policy(delta))
            else:
                delta = add_classes(self.network, delta, images, names, self.seed, self.drawn.may_flip)
            yield self._answers(delta)


def jobs(args) -> list[dict]:
    return grid(args, part=[args.part], seed=range(args.seeds))


HEADER = ("", "jobs", "average", "last", "behind joint", "forgetting", "beyond", "bytes")


def summary(rows: list[dict]) -> list[str]:
    """A table for each pack, and one over all packs."""
    parts, lines = by_pack(rows, "all packs"), []
    for pack, mine in parts if len(parts) > 2 else parts[:1]:
        lines += [f"{pack}:", "", *table(HEADER, [_line(mine, n) for n in mine[0]["methods"]]), ""]
    return lines


def _line(rows: list[dict], name: str) -> tuple[str, ...]:
    joint = JOINT[rows[0]["part"]]
    average, last, gone = figures_of(rows, name)
    _, best, lost = figures_of(rows, joint)
    behind = ("", "") if name == joint else (signed(last - best), signed(gone - lost))
    nbytes = np.mean([row["methods"][name]["bytes"] for row in rows])
    lost = f"{gone.mean():.1f}", behind[1], f"{nbytes:,.0f}"
    return name, str(len(rows)), f"{average.mean():.1f}", f"{last.mean():.1f}", behind[0], *lost


def figures_of(rows: list[dict], name: str) -> np.ndarray:
    """(3, rows): average and last accuracy, and forgetting, of a method, in points."""
    sizes = ([len(classes) for classes in dealt_classes(row["way"])] for row in rows)
    return np.array([_figures(r["methods"][name], s) for r, s in zip(rows, sizes, strict=True)]).T


def _figures(method: dict, sizes: list[int]) -> tuple[float, float, float]:
    """Average and last accuracy, and forgetting, in points."""
    found = method["accuracies"]
    all_so_far = [float(np.average(step, weights=sizes[: len(step)])) for step in found]
    before = [max(step[k] for step in found[k:-1]) for k in range(len(found) - 1)]
    gone = np.subtract(before, found[-1][:-1]).mean()
    return 100 * float(np.mean(all_so_far)), 100 * all_so_far[-1], 100 * float(gone)


OPTIONS = (
    *ADAPTS,
    option("--part", HEADS_PART, choices=(HEADS_PART, ADAPTED_PART)),
    number("--seeds", 20, "draws of classes and images per domain"),
    number("--way", 10, least=STEPS + 1),
    *task_options(queries=15, seed=3)[1:],
)
SETTINGS = ("policy", "budget", *TASK, "part")
main = Study("continual", __doc__, "tinytrain-small", DOMAINS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
