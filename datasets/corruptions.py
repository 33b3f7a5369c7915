"""What happens to a camera: darker, blurred, turned or noisy images. For studies of streams."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageFilter

FILL = (128, 128, 128)  # what a turned image uncovers: the middle of the range
SIDE = 84  # strengths are those of images of so many pixels a side


def darkened(image: np.ndarray, rng: np.random.Generator, factor: float = 0.2) -> np.ndarray:
    """Every value times `factor`, as with so much less light."""
    return np.rint(image * factor).astype(np.uint8)


def blurred(image: np.ndarray, rng: np.random.Generator, radius: float = 2.0) -> np.ndarray:
    """Out of focus: a Gaussian of `radius` pixels of an image with 84 pixels a side."""
    radius *= image.shape[0] / SIDE
    return np.array(Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))


def rotated(image: np.ndarray, rng: np.random.Generator, degrees: float = 45) -> np.ndarray:
    """Turned about the centre, as if the camera had been."""
    turned = Image.fromarray(image).rotate(degrees, Image.Resampling.BILINEAR, fillcolor=FILL)
    return np.array(turned)


def noisy(image: np.ndarray, rng: np.random.Generator, deviation: float = 40) -> np.ndarray:
    """Gaussian noise of so many grey levels on every value, as of a sensor with little light."""
    noise = rng.standard_normal(image.shape) * deviation
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


# Each takes an uint8 image (h, w, 3), a generator and a strength, and returns a new image of that shape.
CORRUPTIONS: dict[str, Callable[..., np.ndarray]] = {
    "darkened": darkened, "blurred": blurred, "rotated": rotated, "noisy": noisy,
}  # fmt: skip
