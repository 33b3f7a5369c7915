"""What training sees of an image: random resized crop, flip, jitter, and changes of the whole domain.

All draws come from the generator handed over, so a view depends on (seed, episode, image) alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image

from tinytrain import kernels as kernel_table
from tinytrain.base.schema import choice, flag, list_of, number, of, pair
from tinytrain.episode.augment import Augmentation
from tinytrain.network.input_spec import InputSpec

RATIO = (3 / 4, 4 / 3)  # width / height of a crop, as is usual
TRIES = 10

Change = Callable[[np.ndarray], np.ndarray]  # uint8 (n, size, size, 3) to the same


def _invert(rng) -> Change:
    return lambda images: 255 - images


def _permute(rng) -> Change:
    order = (np.array([1, 2, 0]), np.array([2, 0, 1]), np.array([0, 2, 1]), np.array([1, 0, 2]))[
        rng.integers(4)
    ]
    return lambda images: np.ascontiguousarray(images[..., order])


def grey_of(images: np.ndarray) -> np.ndarray:
    """Grey levels uint8 (n, size, size)."""
    return (images.sum(axis=-1, dtype=np.uint16) // 3).astype(np.uint8)


def _three(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None], 3, axis=-1)


def _grey(rng) -> Change:
    return lambda images: _three(grey_of(images))


def _edge(rng) -> Change:
    strength, dark = int(rng.integers(2, 5)), rng.random() < 0.7  # mostly dark lines on white, as drawn

    def edges(images: np.ndarray) -> np.ndarray:
        grey = grey_of(images).astype(np.int16)
        found = np.zeros_like(grey)
        found[:, :, 1:-1] += np.abs(grey[:, :, 2:] - grey[:, :, :-2])
        found[:, 1:-1, :] += np.abs(grey[:, 2:, :] - grey[:, :-2, :])
        found = np.minimum(found * np.int16(strength), 255).astype(np.uint8)
        return _three(255 - found if dark else found)

    return edges


def _posterise(rng) -> Change:
    levels = int(rng.integers(2, 5))
    table = (np.arange(256) * levels // 256 * 255 // (levels - 1)).astype(np.uint8)
    return lambda images: table[images]


TRANSFORMS = {
    "invert": _invert, "permute": _permute, "grey": _grey, "edge": _edge, "posterise": _posterise,
}  # fmt: skip


@dataclass(frozen=True)
class Looks:
    """How images are varied. `crop`: least and largest fraction of the area; `jitter`: 0 leaves the colours.

    `domain` is the probability that a whole episode goes through one of `transforms`.
    """

    crop: tuple[float, float] = of(pair(number(0.01, 1)), (0.5, 1.0))
    jitter: float = of(number(0, 1), 0.4)
    flip: bool = of(flag, True)
    domain: float = of(number(0, 1), 0.6)
    transforms: tuple[str, ...] = of(list_of(choice(*TRANSFORMS)), tuple(TRANSFORMS))

    def seen(self, image: np.ndarray, rng, spec: InputSpec, may_flip: bool, _another) -> np.ndarray:
        """A random view of `image` in a change of domain of its own."""
        seen, changed = view(image, rng, spec.shape[0], self, may_flip), change(rng, self)
        return changed(seen[None])[0] if changed else seen


def crop_box(rng: np.random.Generator, width: int, height: int, fractions) -> tuple[float, ...]:
    """(left, upper, right, lower) of a random crop with a fraction of the area in `fractions`."""
    for _ in range(TRIES):
        area = rng.uniform(*fractions) * width * height
        ratio = np.exp(rng.uniform(*np.log(RATIO)))
        w, h = np.sqrt(area * ratio), np.sqrt(area / ratio)
        if w <= width and h <= height:
            x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
            return x, y, x + w, y + h
    return 0, 0, width, height


def view(image: np.ndarray, rng: np.random.Generator, size: int, looks: Looks, may_flip: bool) -> np.ndarray:
    """A random view of `image`, uint8 (h, w) or (h, w, 3), as uint8 (size, size, 3)."""
    box = crop_box(rng, image.shape[1], image.shape[0], looks.crop)
    image = Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR, box)
    cropped = np.array(image.convert("RGB"))  # a copy: the kernel has one signature, for writable arrays
    flip = bool(looks.flip and may_flip and rng.random() < 0.5)
    s = looks.jitter
    brightness, saturation, contrast = (np.float32(rng.uniform(-s, s)) for _ in range(3))
    out = np.empty_like(cropped)
    look = Augmentation(flip, 0, 0, 64 * brightness, 1 + saturation, 1 + contrast)
    _augment()(out, cropped, *look.arguments())
    return out


@cache
def _augment():
    return kernel_table.load().augment


def change(rng: np.random.Generator, looks: Looks) -> Change | None:
    """The change that all images of one episode go through, or None."""
    if not looks.transforms or rng.random() >= looks.domain:
        return None
    return TRANSFORMS[looks.transforms[rng.integers(len(looks.transforms))]](rng)
