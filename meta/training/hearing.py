"""What training hears of a clip: another voice, room, microphone and background, computed on its spectrum.

All draws come from the generator handed over, as those of `augment` do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tinytrain.base.schema import number, of
from tinytrain.episode.logmel import LogMel, below_top, centres, codes_of
from tinytrain.network.input_spec import InputSpec

SOFT = 1e-4  # power below which nothing is heard


@dataclass(frozen=True)
class Hearing:
    """How clips are varied. `pace` and `voice`: largest change of tempo and of all frequencies, as a
    logarithm; `colour`: deviation in dB of how loud frequencies are; `gain`: deviation of the loudness.

    `room`, `noise`, `behind`, `narrow`: probabilities of an echo, of noise, of another clip in the
    background, and of a line that cuts off high frequencies. `hidden`: that of a gap in time, and in pitch.
    """

    pace: float = of(number(0, 1), 0.2)
    voice: float = of(number(0, 1), 0.15)
    colour: float = of(number(0, 30), 4.0)
    gain: float = of(number(0, 30), 5.0)
    room: float = of(number(0, 1), 0.3)
    noise: float = of(number(0, 1), 0.5)
    behind: float = of(number(0, 1), 0.2)
    narrow: float = of(number(0, 1), 0.2)
    hidden: float = of(number(0, 1), 0.2)

    def seen(
        self, clip: np.ndarray, rng: np.random.Generator, spec: InputSpec, _may_flip: bool,
        another: Callable[[], np.ndarray],
    ) -> np.ndarray:  # fmt: skip
        """A random change of `clip`, uint8 (rows, bins), as uint8 (rows, bins, 1)."""
        settings = LogMel.of(dict(spec.parameters))
        rows, bins = clip.shape
        power = _power(np.linspace(settings.low, settings.high, 256))
        heard = np.flatnonzero((clip > clip.min(axis=0)).any(axis=1))
        first, last = (heard[0], heard[-1] + 1) if len(heard) else (0, rows)
        x = power[self._warped(clip[first:last], rng, settings, rows)]
        if rng.random() < self.room:
            x = _echo(len(x), float(rng.uniform(6, 60))) @ x
        x = x * _power(rng.normal(0, self.colour / 2, 4) @ _curves(bins) + rng.normal(0, self.gain))
        level = x.max(axis=1).mean()
        if rng.random() < self.behind:
            other = power[another()]
            x = x + other[: len(x)] * (level * 10 ** rng.uniform(-3, 0) / (other.max(axis=1).mean() + SOFT))
        if rng.random() < self.noise:
            shape = _power(rng.normal(0, 5, 4) @ _curves(bins))
            shape = shape * np.float32(level * 10 ** rng.uniform(-5, -0.7) / shape.max())
            x = x + rng.standard_exponential(x.shape, np.float32) * shape
        if rng.random() < self.narrow:
            cut = int(np.searchsorted(centres(settings, bins), rng.uniform(3200, 6000)))
            x[:, cut:] *= np.float32(10 ** rng.uniform(-6, -2))
        for axis in (0, 1):
            if rng.random() < self.hidden:
                width = int(rng.integers(1, 2 + x.shape[axis] // 6))
                at = int(rng.integers(0, x.shape[axis] - width + 1))
                np.moveaxis(x, axis, 0)[at : at + width] = x.min(axis=axis)
        # Around a shorter clip comes what is softest in it, as where a clip is read.
        values = np.empty((rows, bins), np.float32)
        start = int(rng.integers(0, rows - len(x) + 1)) if rng.random() < 0.5 else (rows - len(x)) // 2
        values[:] = x.min(axis=0)
        values[start : start + len(x)] = x
        values = 10 * np.log10(np.maximum(values, settings.min_power))
        return codes_of(below_top(values, settings), settings)[..., None]

    def _warped(self, clip: np.ndarray, rng, settings: LogMel, most: int) -> np.ndarray:
        """`clip` (n, bins) in another tempo, its frequencies moved together; codes, at most `most` rows."""
        n, bins = clip.shape
        pace, voice = np.exp(rng.uniform(-1, 1, 2) * (self.pace, self.voice))
        count = min(most, max(1, round(n * pace)))
        hertz = centres(settings, bins)
        columns = np.interp(hertz * voice, hertz, np.arange(bins))
        rows = np.minimum(np.arange(count) / pace, n - 1)
        return _between(_between(clip, rows).T, columns).T


def _between(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows of x at `places` between them, to the next whole number."""
    low = np.minimum(places.astype(np.intp), len(x) - 1)
    high, share = np.minimum(low + 1, len(x) - 1), np.float32(places - low)[:, None]
    return np.rint(x[low] * (1 - share) + x[high] * share).astype(np.uint8)


def _power(x: np.ndarray) -> np.ndarray:
    return np.float32(10 ** (x / 10))


def _echo(rows: int, length: float) -> np.ndarray:
    """What each row keeps of those before it, (rows, rows) float32: 60 dB less after `length` rows."""
    since = np.arange(rows)[:, None] - np.arange(rows)
    kept = np.where(since > 0, 0.3 * 10 ** (-6 * np.maximum(since, 0) / length), since == 0)
    return kept.astype(np.float32)


@cache
def _curves(bins: int) -> np.ndarray:
    """Slow curves (4, bins) float64 over the bins."""
    at = (np.arange(bins) + 0.5) / bins
    return np.cos(np.pi * np.arange(1, 5)[:, None] * at)
