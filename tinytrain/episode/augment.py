"""Random augmentation of support images, which makes the pseudo-queries of training."""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.episode import Size, sides

FILL = np.uint8(128)  # what a moved image uncovers: the middle of the range


@dataclass(frozen=True, slots=True)
class Augmentation:
    """One augmentation. `down` and `right` are pixels, `brightness` is in grey levels of 0..255.

    `cosine` and `sine` belong to a clockwise rotation about the image centre; both are divided by the zoom.
    """

    flip: bool = False
    down: int = 0
    right: int = 0
    brightness: float = 0.0
    saturation: float = 1.0
    contrast: float = 1.0
    cosine: float = 1.0
    sine: float = 0.0

    def apply(self, y: np.ndarray, x: np.ndarray, kernels) -> None:
        """y = the image x, changed; both uint8 (height, width, 3 or 1)."""
        kernels.augment(y, x, *self.arguments())

    def arguments(self) -> tuple:
        """The arguments of the kernel `augment` after output and input."""
        turn = np.float32(self.cosine), np.float32(self.sine)
        colours = np.float32(self.brightness), np.float32(self.saturation), np.float32(self.contrast)
        return self.flip, self.down, self.right, *turn, *colours, FILL


@dataclass(frozen=True)
class Ranges:
    """Augmentation strength.

    Changes of colour are `colours` times the usual ones: above 1 some images get complementary colours,
    above 2 some become negatives. Rotations are up to ``2 * atan(turn)`` to either side. Images are scaled
    by a factor from ``1 / zoom`` to `zoom`.
    """

    colours: float = 1.0
    turn: float = 0.0
    zoom: float = 1.0

    @property
    def possible(self) -> bool:
        """Whether every value is finite and in its range: `colours` and `turn` from 0, `zoom` from 1."""
        return 0 <= self.colours < math.inf and 0 <= self.turn < math.inf and 1 <= self.zoom < math.inf


USUAL = Ranges()


def draw(rng: "np.random.Generator", size: Size, may_flip: bool, ranges: Ranges = USUAL) -> Augmentation:
    """A random augmentation of an image of `size` pixels: a side, or (height, width).

    The usual ranges are those of the PMF code base, whose protocol TinyTrain follows: applied with
    probability 0.9; brightness +-0.5 in normalised units, saturation 0..2, contrast 0.5..1.5, translation
    +-12.5 %.
    """
    if rng.random() >= 0.9:
        return Augmentation()
    reach = ranges.colours
    flip = bool(may_flip and rng.random() < 0.5)
    down, right = (int(rng.integers(-(side // 8), side // 8 + 1)) for side in sides(size))
    brightness = float(rng.uniform(-0.5, 0.5) * 58) * reach  # ImageNet's standard deviation is 58 levels
    saturation = float(rng.uniform(1 - reach, 1 + reach))
    contrast = float(rng.uniform(1 - 0.5 * reach, 1 + 0.5 * reach))
    turn = _turn(rng, ranges) if ranges.turn or ranges.zoom != 1 else (1.0, 0.0)
    return Augmentation(flip, down, right, brightness, saturation, contrast, *turn)


def _turn(rng: "np.random.Generator", ranges: Ranges) -> tuple[float, float]:
    """Cosine and sine of a random angle, divided by a random zoom.

    Computed without a C library, so that the bits are the same everywhere.
    """
    half, zoom = rng.uniform(-ranges.turn, ranges.turn), rng.uniform(1 / ranges.zoom, ranges.zoom)
    length = (1 + half * half) * zoom
    return float((1 - half * half) / length), float(2 * half / length)
