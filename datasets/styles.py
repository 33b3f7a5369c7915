"""Photographs in other styles: as edges, painted, printed, at night. For domains of development."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from tinytrain.datasets.corruptions import blurred, noisy
from tinytrain.datasets.generated.camera import noise

SIDE = 96  # pixels a side of what is styled; the result is resized afterwards
HEAT = ((0, 0, 20), (70, 0, 120), (200, 30, 90), (250, 140, 20), (255, 240, 160))  # from cold to hot


def _grey(image: np.ndarray) -> np.ndarray:
    """Brightness stretched to the whole range, float32 (h, w) in 0..1."""
    return np.asarray(ImageOps.autocontrast(Image.fromarray(image).convert("L")), np.float32) / 255


def _steep(grey: np.ndarray) -> np.ndarray:
    """How steep the brightness is at every pixel, (h, w) in 0..1; 1 for the steepest 3 %."""
    size = np.hypot(*np.gradient(grey))
    return np.clip(size / max(np.quantile(size, 0.97), 1e-6), 0, 1)


def _as_rgb(grey: np.ndarray) -> np.ndarray:
    """From (h, w) in 0..1 to uint8 (h, w, 3)."""
    return np.repeat((np.clip(grey, 0, 1) * 255).astype(np.uint8)[..., None], 3, axis=2)


def edges(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bright contours on black, in a colour of their own."""
    return (_as_rgb(_steep(_grey(image))) * rng.uniform(0.5, 1, 3)).astype(np.uint8)


def poster(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three or four flat inks, from dark to light but otherwise any."""
    inks = int(rng.integers(3, 5))
    smooth = _grey(np.array(Image.fromarray(image).filter(ImageFilter.MedianFilter(5))))
    light = np.linspace(20, 235, inks)[:, None] + rng.normal(0, 40, (inks, 3))
    return np.clip(light, 0, 255).astype(np.uint8)[np.minimum((smooth * inks).astype(int), inks - 1)]


def near(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A part of it, a third to a half of its side, from around the middle."""
    side = int(rng.uniform(0.35, 0.55) * len(image))
    top, left = ((len(image) - side) * rng.uniform(0.25, 0.75, 2)).astype(int)
    return image[top : top + side, left : left + side]


def negative(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As on film: dark is light, through an orange mask, with other channels for the colours."""
    mask = np.array((1.0, 0.75, 0.55)) * rng.uniform(0.8, 1)
    return ((255 - image[..., rng.permutation(3)]) * mask).astype(np.uint8)


def drawn(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With a pencil on paper: an image divided by its blurred negative, with grain."""
    grey = _grey(np.array(Image.fromarray(image).filter(ImageFilter.MedianFilter(5))))
    soft = Image.fromarray((grey * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(rng.uniform(2, 4)))
    lines = np.clip(grey / np.maximum(np.asarray(soft) / 255, 0.02), 0, 1) ** rng.uniform(3, 7)
    paper = rng.uniform(0.85, 1) + 0.03 * noise(rng, 80, len(image))
    return _as_rgb(lines * paper)


def painted(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """With a broad brush in few colours: the most frequent one around each pixel, pulled along."""
    side = len(image)
    pull = np.stack([noise(rng, 14, side) for _ in range(2)]) * rng.uniform(0.5, 1.5)
    at = np.clip(np.indices((side, side)) + pull, 0, side - 1).astype(int)
    vivid = np.clip(128 + (image[at[0], at[1]].astype(float) - 128) * 1.3, 0, 255).astype(np.uint8)
    return np.array(Image.fromarray(vivid).filter(ImageFilter.ModeFilter(5)).quantize(12).convert("RGB"))


def night(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Little light, most of it from one lamp, and a noisy sensor."""
    at = np.indices(image.shape[:2]) / len(image)
    away = np.hypot(*(at - rng.uniform(0.1, 0.9, 2)[:, None, None]))
    lamp = rng.uniform(0.08, 0.2) + 0.5 * np.exp(-((away / rng.uniform(0.3, 0.5)) ** 2))
    lit = image * lamp[..., None] * (0.8, 0.85, 1.1)
    return noisy(np.clip(lit, 0, 255).astype(np.uint8), rng, rng.uniform(6, 14))


def thermal(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A camera of heat: unsharp, in false colours; at times what is dark is hot."""
    grey = _grey(blurred(image, rng, rng.uniform(0.8, 1.6)))
    grey = 1 - grey if rng.random() < 0.5 else grey
    at = np.linspace(0, 1, len(HEAT))
    return np.stack([np.interp(grey, at, [h[c] for h in HEAT]) for c in range(3)], axis=2).astype(np.uint8)


def printed(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Dots of one ink on coloured paper, the larger the darker, in lines at an angle."""
    side, angle = len(image), rng.uniform(0, np.pi / 2)
    y, x = np.indices((4 * side, 4 * side)) * (2 * np.pi / (4 * rng.uniform(2, 3)))
    screen = np.sin(x * np.cos(angle) + y * np.sin(angle)) * np.sin(y * np.cos(angle) - x * np.sin(angle))
    large = np.asarray(Image.fromarray(_grey(image)).resize(screen.shape, Image.Resampling.BILINEAR))
    paper = (large * 2 - 1 > screen * 0.95).reshape(side, 4, side, 4).mean(axis=(1, 3))[..., None]
    light, dark = rng.uniform(190, 255, 3), rng.uniform(0, 90, 3)
    return blurred((light * paper + dark * (1 - paper)).astype(np.uint8), rng, rng.uniform(0.5, 1))


def defocused(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Out of focus and shaken."""
    far, angle = rng.uniform(2, 5), rng.uniform(0, np.pi)
    steps = [np.rint(far * t * np.array((np.cos(angle), np.sin(angle)))).astype(int) for t in (-1, 0, 1)]
    shaken = np.mean([np.roll(image, tuple(step), axis=(0, 1)) for step in steps], axis=0)
    return blurred(shaken.astype(np.uint8), rng, rng.uniform(1, 2))


# Each takes an uint8 image (SIDE, SIDE, 3) and a generator, and returns a square one.
STYLES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    style.__name__: style
    for style in (edges, poster, near, negative, drawn, painted, night, thermal, printed, defocused)
}
