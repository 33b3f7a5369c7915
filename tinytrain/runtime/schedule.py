"""Which support images and which views of them each training step looks at, and how far it goes."""

from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.episode import Input, spec_of
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.episode.episode import Episode
from tinytrain.episode.kind import Change
from tinytrain.episode.kinds import kind_of
from tinytrain.plan.costs import n_sampled, n_unlabelled
from tinytrain.plan.plan import Plan
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.program import Program

# (view, image): view 0 is the clean image, others are augmented, those below 0 for a head alone.
Item = tuple[int, int]


class CleanImages(Sequence):
    """Clean items of `images`, numbers, without a list of them: thousands would take a megabyte."""

    def __init__(self, images: Sequence[int]):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at):
        return [(0, int(i)) for i in self.images[at]] if isinstance(at, slice) else (0, int(self.images[at]))


def augmentation_of(
    episode: Episode, given: Input, seed: int, ranges: Ranges = USUAL
) -> Callable[[int, int], Change | None]:
    """Augmentation of view v of support image i: the same draw whenever it is asked for.

    `ranges` are those of pseudo-queries; views below 0 are usual ones.
    """

    spec = spec_of(given)
    kind = kind_of(spec.kind)

    def augmentation(view: int, i: int) -> Change | None:
        if view == 0:
            return None
        rng = rng_for(seed, "augmentation", abs(view), i)
        return kind.augment(rng, spec, episode.may_flip, ranges if view > 0 else USUAL)

    return augmentation


def reach(plan: Plan | Program) -> Ranges:
    """Strength of the augmentation. Cached views keep the usual one, since heads are also fitted to them."""
    return USUAL if plan.resources.sets >= 2 else plan.recipe.options.augmentation


def views(resources: Resources, number: int, count: int, rng: np.random.Generator) -> list[int]:
    """A view for each of `count` images in step `number`: a cached one, or a fresh one for this step."""
    if resources.sets >= 2:
        return [int(v) for v in rng.integers(1, resources.sets, count)]
    return [number] * count


def step_items(
    resources: Resources, labels: np.ndarray, number: int, rng: np.random.Generator
) -> tuple[list[Item], list[Item]]:
    """Clean support items and pseudo-queries of step `number`.

    All support images if the plan looks at as many, else a random subset with as many images of each class
    as possible and at least one.
    """
    images = range(len(labels))
    if resources.step_queries < len(labels):
        images = balanced_subset(labels, resources.step_queries, rng)
    drawn = views(resources, number, len(images), rng)
    return [(0, i) for i in images], list(zip(drawn, images, strict=True))


def unlabelled_items(program: Program, number: int, seed: int) -> list[Item]:
    """Query images that step `number` looks at without their labels: all, or some at random."""
    first, n_query = program.task.n_support, program.task.n_query
    count = n_unlabelled(program.recipe, program.resources, program.task)
    if not count:
        return []
    drawn = rng_for(seed, "unlabelled", number).permutation(n_query)[:count]
    return [(0, first + int(i)) for i in sorted(drawn)]


def rate_factor(recipe: Recipe, sets: int, number: int) -> float:
    """What the learning rates are multiplied by in step `number` (from 1) with `sets` of features cached."""
    cached, fresh = recipe.decay
    decay = cached if sets >= 2 else fresh
    left = 1 - (number - 1) / recipe.steps
    return min(1.0, left / decay) if decay else 1.0


def sampled_items(
    recipe: Recipe,
    labels: np.ndarray,
    support: list[Item],
    seed: int,
    number: int,
    n_images: int | None = None,
) -> list[int]:
    """Positions in `support` of the images through which step `number` sends the gradient.

    As many of each class as possible. `support` is what the step looks at of its `n_images` (None: all).
    """
    count = n_sampled(recipe, n_images or len(support), len(support))
    if count in (0, len(support)):
        return list(range(count))
    return balanced_subset(labels[[i for _, i in support]], count, rng_for(seed, "through", number))


def sampled_divisors(sizes: np.ndarray, seen: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """float32 (way,): by class, what the gradient of a prototype is divided by for each sampled image.

    `sizes` are those of the classes, float32; `seen` counts the images of a step by class, `taken` those of
    them that were sampled. A divisor is the size of the class times the fraction of the images of the step
    that each sampled one is, times the fraction of the classes that are among them. A class that is not:
    nothing uses it.
    """
    fraction = np.where(taken > 0, taken / np.maximum(seen, 1), 1)
    fraction = (fraction * max(1, np.count_nonzero(taken)) / np.count_nonzero(seen)).astype(np.float32)
    return sizes * fraction


def balanced_subset(labels: np.ndarray, size: int, rng: np.random.Generator) -> list[int]:
    """`size` image indices in rising order, dealt out class by class in random order."""
    rank = _rank(labels, rng.permutation(len(labels)))
    turn = np.lexsort((rng.permutation(len(labels)), rank))
    return sorted(int(i) for i in turn[:size])


def dealt(labels: np.ndarray) -> np.ndarray:
    """Image indices class by class in turn, so that every stretch of them holds all classes alike."""
    return np.lexsort((labels, _rank(labels, np.arange(len(labels)))))


def _rank(labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """How many images of its class come before each image in `order`."""
    rank = np.empty(len(labels), int)
    for label in set(labels.tolist()):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    return rank
