"""Random augmentation of support pictures: they become the pseudo-queries that training looks at."""

from dataclasses import dataclass

import numpy as np

FILL = np.uint8(128)  # what a moved picture uncovers: the middle of the range, 0 after preprocessing


@dataclass(frozen=True)
class Augmentation:
    """One draw. `down` and `right` are pixels, `brightness` is in grey levels of 0..255."""

    flip: bool = False
    down: int = 0
    right: int = 0
    brightness: float = 0.0
    saturation: float = 1.0
    contrast: float = 1.0

    def arguments(self) -> tuple:
        """Arguments of the augment kernel after output and input."""
        colours = np.float32(self.brightness), np.float32(self.saturation), np.float32(self.contrast)
        return self.flip, self.down, self.right, *colours, FILL


def draw(rng: np.random.Generator, size: int, may_flip: bool) -> Augmentation:
    """A random augmentation of a picture of `size` pixels.

    Ranges of the PMF code base, whose protocol TinyTrain follows: applied with probability .9;
    brightness +-.5 in normalised units, saturation 0..2, contrast .5..1.5, translation +-12.5 %.
    """
    if rng.random() >= 0.9:
        return Augmentation()
    far = size // 8
    return Augmentation(
        flip=bool(may_flip and rng.random() < 0.5),
        down=int(rng.integers(-far, far + 1)),
        right=int(rng.integers(-far, far + 1)),
        brightness=float(rng.uniform(-0.5, 0.5) * 58),  # ImageNet's standard deviation is 58 levels
        saturation=float(rng.uniform(0, 2)),
        contrast=float(rng.uniform(0.5, 1.5)),
    )
