"""What is drawn at random when C is emitted: augmentations, views and sampled images of every step.

Images are numbered class by class, in the order in which a device is given them, so that labels are known
beforehand, and with them all that a Python adaptation draws.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.codegen.device import Device
from tinytrain.codegen.inputs import as_augmentation
from tinytrain.episode.augment import USUAL, Augmentation, Ranges
from tinytrain.episode.kinds import kind_of
from tinytrain.runtime.schedule import rate_factor, reach, sampled_divisors, sampled_items, step_items


@dataclass(frozen=True, eq=False)
class Draws:
    """Tables of one device and one `seed`.

    `probe` (n,), `views` (views, n) and `head` (views, n) are augmentations, of Fisher scoring (none without
    it), of pseudo-queries and of the head alone; those of recordings name rows of `noise`. `shown` (steps,
    shown) are the images that a step looks at, `shown_views` the views of them that are its pseudo-queries,
    `sampled` (steps, count) its sampled images; `divisors` (steps, ways) and `factors` (steps,) are float32.
    """

    seed: int
    noise: list[np.ndarray]
    probe: list[Augmentation]
    views: list[list[Augmentation]]
    head: list[list[Augmentation]]
    shown: np.ndarray
    shown_views: np.ndarray
    sampled: np.ndarray
    divisors: np.ndarray
    factors: np.ndarray


def labels_of(device: Device) -> np.ndarray:
    return np.repeat(np.arange(device.ways, dtype=np.int32), device.shots)


def draws_of(device: Device, seed: int, may_flip: bool) -> Draws:
    """All that an adaptation with `seed` draws."""
    recipe, resources, n = device.recipe, device.training.resources, device.support
    labels, spec, rng = labels_of(device), device.network.input, rng_for(seed, "steps")
    kind, noise = kind_of(spec.kind), []

    def augmentation(view: int, image: int, ranges: Ranges, stream: str = "augmentation") -> Augmentation:
        key = (abs(view), image) if view else (image,)
        return as_augmentation(kind.augment(rng_for(seed, stream, *key), spec, may_flip, ranges), noise)

    items, sampled, divisors, factors = [], [], [], []
    sizes = np.bincount(labels, minlength=device.ways).astype(np.float32)
    for number in range(1, recipe.n_steps + 1):
        support, queries = step_items(resources, labels, number, rng)
        places = sampled_items(recipe, labels, support, seed, number, resources.step_support)
        items.append(queries)
        sampled.append([support[k][1] for k in places])
        seen, taken = (
            np.bincount(labels[images], minlength=device.ways)
            for images in ([i for _, i in support], sampled[-1])
        )
        divisors.append(sampled_divisors(sizes, seen, taken))
        factors.append(rate_factor(recipe, resources.sets, number))
    ranges = reach(device.training)
    count = resources.sets - 1 if resources.sets >= 2 else recipe.n_steps
    views = [[augmentation(v, i, ranges) for i in range(n)] for v in range(1, count + 1)]
    head = [[augmentation(v, i, USUAL) for i in range(n)] for v in range(-1, min(device.head_views) - 1, -1)]
    probe = [augmentation(0, i, USUAL, "probe") for i in range(n if device.probe else 0)]
    seen = np.array(items, np.int32)
    through = np.array(sampled, np.int32).reshape(recipe.n_steps, -1)
    floats = np.array(divisors, np.float32), np.array(factors, np.float32)
    return Draws(seed, noise, probe, views, head, seen[:, :, 1], seen[:, :, 0], through, *floats)
