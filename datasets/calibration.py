"""Generated images to calibrate a network with, if a user gives none of their own."""

import numpy as np

from tinytrain.datasets import DOMAINS, Dataset, open_dataset
from tinytrain.datasets.generated.sounds import sounds
from tinytrain.episode.episode import Images

LEFT_OUT = {"leaves", "meters"}  # the domains that shipped networks have never seen
IMAGES = 20  # of each domain
STRIDE = 37  # from one image to the next: all classes have their turn


def images_from(dataset: Dataset, most: int) -> Images:
    """At most `most` images of `dataset`, the same ones every time."""
    count = min(most, len(dataset))
    chosen = [(k * STRIDE) % len(dataset) if len(dataset) % STRIDE else k for k in range(count)]
    return Images(
        np.zeros(count, np.int32),
        tuple(dataset.names[i] for i in chosen),
        lambda k, size: dataset.read(chosen[k], size),
        dataset.kind,
    )


def calibration_images(kind: str = "image") -> Images:
    """Some images of each generated domain but those left out; of the kind "sound" clips of all rhythms."""
    if kind == "sound":
        return images_from(sounds(range(0, sounds.n_classes, 33)), 6 * IMAGES)
    parts = [images_from(open_dataset(name), IMAGES) for name in DOMAINS if name not in LEFT_OUT]
    where = [(part, k) for part in parts for k in range(len(part))]

    def read(i: int, size):
        part, k = where[i]
        return part.read(k, size)

    return Images(np.zeros(len(where), np.int32), tuple(part.names[k] for part, k in where), read)
