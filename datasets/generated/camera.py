"""What generated domains share: checked ranges, spread parameters, a pose in space and a cheap camera.

An image is drawn by `generate(class_id, image_id, seed, size)` when it is read and depends on
the first three alone; `size` only changes its resolution. So nothing that is drawn before the
camera may take a number of random values that depends on `size`.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from tinytrain.base.errors import UsageError
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.episode import sides
from tinytrain.episode.decode import fit
from tinytrain.episode.kinds import IMAGES, kind_of

PER_CLASS = 60  # images of a class of a domain that is opened by its name


@dataclass(frozen=True)
class Domain:
    """Images of `n_classes` classes; ``generate(class_id, image_id, seed, size)`` draws one when it is read.

    Disjoint ranges of classes make disjoint source and target domains. With `families`, classes whose numbers
    leave the same rest when divided by it are alike. A domain that is opened by its name has the classes
    `usual`. For another `kind` than images the size is 0, and what is drawn are the bytes of a file.
    """

    name: str
    n_classes: int
    class_name: Callable[[int], str]
    generate: Callable[[int, int, int, int], np.ndarray | bytes]
    may_flip: bool = False
    families: int = 0
    usual: range = range(48)
    kind: str = IMAGES.name

    def __call__(self, classes: range | None = None, per_class: int = PER_CLASS, seed: int = 0) -> Dataset:
        """`per_class` images of each of `classes`. Raises UsageError for classes that do not exist."""
        classes = self.usual if classes is None else classes
        if not classes or min(classes) < 0 or max(classes) >= self.n_classes or per_class < 1:
            raise UsageError(
                "usage", f"{classes} x {per_class} given; there are classes 0..{self.n_classes - 1}"
            )
        name, range_ = self.name, f"{classes.start}-{classes.stop}-{classes.step}"
        if (classes, per_class, seed) != (self.usual, PER_CLASS, 0):
            name += f"-{range_}x{per_class}-{seed}"
        class_names = tuple(map(self.class_name, classes))
        return Dataset(
            name=name,
            labels=np.repeat(np.arange(len(classes), dtype=np.int32), per_class),
            class_names=class_names,
            names=tuple(f"{name}/{class_name}/{p}" for class_name in class_names for p in range(per_class)),
            read=lambda i, size: self._read(classes[i // per_class], i % per_class, seed, size),
            families=np.array(classes, dtype=np.int32) % self.families if self.families else None,
            may_flip=self.may_flip,
            provenance=Provenance(licence="generated, no restrictions", generated=True),
            kind=self.kind,
        )

    def _read(self, class_id: int, image_id: int, seed: int, asked) -> np.ndarray:
        if self.kind != IMAGES.name:
            return kind_of(self.kind).read(self.generate(class_id, image_id, seed, 0), asked)
        image = self.generate(class_id, image_id, seed, max(sides(asked)))
        return image if isinstance(asked, int) else fit(image, asked)


def spread(index: int, n: int) -> np.ndarray:
    """Point `index` of an evenly spread sequence in the unit cube: float64 (n,).

    Independent random parameters would now and then make two classes that nobody can tell apart.
    """
    root = 2.0
    for _ in range(40):  # of x**(n + 1) = x + 1; its powers fill n dimensions evenly
        root = (1 + root) ** (1 / (n + 1))
    return (0.5 + (index + 1) * root ** -np.arange(1.0, n + 1)) % 1


def as_bytes(colour: np.ndarray) -> tuple[int, ...]:
    """A colour as ImageDraw wants it."""
    return tuple(min(max(int(value), 0), 255) for value in colour)


def corners(points: np.ndarray) -> list[float]:
    """Points (n, 2) as ImageDraw takes them fastest: x, y, x, y and so on."""
    return points.ravel().tolist()


def rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def noise(rng, cells: int, side: int) -> np.ndarray:
    """Smooth noise around 0 with deviation about 1, float32 (side, side), from cells x cells values."""
    coarse = Image.fromarray(rng.standard_normal((cells, cells), dtype=np.float32))
    return np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))


def patchwork(rng, base: np.ndarray, cells: int, deviations: tuple[float, float], side: int) -> Image.Image:
    """Blurred patches around the colour `base`, RGB (side, side); deviations of all channels, and of each."""
    whole, each = deviations
    patches = base + rng.normal(0, whole, (cells, cells, 1)) + rng.normal(0, each, (cells, cells, 3))
    small = Image.fromarray(np.clip(patches, 0, 255).astype(np.uint8))
    return small.resize((side, side), Image.Resampling.BICUBIC)


def pose(rng, side: int, degrees=(7, 14, 22), scale=(0.24, 0.46), shift: float = 0.14):
    """A function from the object's coordinates (..., 2) to pixels: turned in space, seen in perspective.

    `degrees` are deviations of roll, pitch and yaw, `scale` the range of half the object's extent and
    `shift` the largest distance from the centre, both as a fraction of the image's `side`.
    """
    roll, *tilts = np.deg2rad(rng.normal(0, degrees))
    turn, (pitched, yawed), (dipped, swung) = rotation(roll), np.cos(tilts), np.sin(tilts)
    scale = rng.uniform(*scale) * side
    centre = side * (0.5 + rng.uniform(-shift, shift, 2))

    def project(points: np.ndarray) -> np.ndarray:
        x, y = (points @ turn).T
        y, z = y * pitched, y * dipped
        x, z = x * yawed + z * swung, z * yawed - x * swung
        nearness = scale / np.maximum(1 + z / 4, 0.1)
        return centre + np.array([x * nearness, y * nearness]).T

    return project


def through_camera(scene: Image.Image, rng) -> np.ndarray:
    """Light, lens, sensor and compression. Returns uint8 (size, size, 3)."""
    size = scene.width
    radius = rng.exponential(0.45) * size / 128
    if radius > 0.25:
        scene = scene.filter(ImageFilter.GaussianBlur(min(radius, 2.2 * size / 128)))
    light = _light(rng, size)
    tint = rng.normal(1, 0.07, 3).astype(np.float32)
    grain = rng.standard_normal((size, 3 * size), dtype=np.float32) * np.float32(rng.uniform(1, 9))
    sensed = np.array(scene, dtype=np.float32).reshape(grain.shape)  # long rows are much faster
    sensed *= light.repeat(3, axis=1)
    sensed *= np.tile(tint, size)
    sensed += grain
    taken = Image.fromarray(np.clip(sensed, 0, 255, out=sensed).astype(np.uint8).reshape(size, size, 3))
    file = io.BytesIO()
    taken.save(file, "JPEG", quality=int(rng.integers(30, 92)))
    return np.array(Image.open(file))


def _light(rng, size: int) -> np.ndarray:
    """Brightness of every pixel, float32 (size, size): a gradient, sometimes a soft shadow."""
    at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.7)
    across = np.float32(np.cos(angle)) * at[None, :] + np.float32(np.sin(angle)) * at[:, None]
    light = np.float32(np.exp(rng.normal(-0.05, 0.28))) * (1 + np.float32(strength) * across)
    if rng.random() < 0.4:
        angle, offset, depth = rng.uniform(0, 2 * np.pi), rng.uniform(-0.25, 0.25), rng.uniform(0.25, 0.6)
        beyond = np.float32(np.cos(angle)) * at[None, :] + np.float32(np.sin(angle)) * at[:, None] - offset
        light *= 1 - np.float32(depth) * np.clip(beyond * rng.uniform(8, 60), 0, 1).astype(np.float32)
    return light
