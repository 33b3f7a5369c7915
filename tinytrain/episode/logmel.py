"""Samples to log-mel spectra, the parameters as Keras' MelSpectrogram names them; with numpy alone.

Spectra are computed in float32 by `portable`: they have the same bits everywhere, also in the C that `emit`
writes (`sound.c`).
"""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.portable import log, log10, powers

SLANEY, HTK = "slaney", "htk"


@dataclass(frozen=True)
class LogMel:
    """How spectra are computed; the rows of a spectrum are `sequence_stride` samples apart.

    A Hann window of `sequence_length` samples, filled up with zeros to `fft_length`, a power of two, gives
    magnitudes to the power `mag_exp`. They go through triangles from `min_freq` to `max_freq` hertz: "slaney"
    as librosa has them (linear in hertz, of one area), "htk" as TensorFlow does (linear in mel, of one
    height, without the constant). Samples are from -1 to 1 times `full_scale`. If `power_to_db`, the result
    is in decibels, at least `min_power` and at most `top_db` below its largest; otherwise it is the logarithm
    of a value and `min_power` together. A uint8 item has codes 0 to 255 for `low` to `high`.
    """

    sampling_rate: int
    fft_length: int
    sequence_length: int
    sequence_stride: int
    min_freq: float
    max_freq: float
    mag_exp: float
    triangles: str
    power_to_db: bool
    min_power: float
    top_db: float
    full_scale: float
    low: float
    high: float

    @classmethod
    def of(cls, parameters: dict) -> "LogMel":
        """Raises InputError ``unsupported`` for parameters that are missing, unknown or make no sense."""
        wanted = {field.name: field.type for field in fields(cls)}
        if wrong := sorted(wanted.keys() ^ parameters.keys()):
            raise InputError("unsupported", f"needs a network with all settings of sound, not {wrong[0]!r}")
        settings = cls(**parameters)
        s, whole = settings, all(type(parameters[n]) is int for n, kind in wanted.items() if kind is int)
        numbers = all(type(parameters[n]) in (int, float) for n, kind in wanted.items() if kind is float)
        if not (
            whole
            and numbers
            and 4_000 <= s.sampling_rate <= 192_000
            and 1 <= s.sequence_stride <= s.sequence_length <= s.fft_length <= 8192
            and s.fft_length & (s.fft_length - 1) == 0
            and 0 <= s.min_freq < s.max_freq <= s.sampling_rate / 2
            and s.triangles in (SLANEY, HTK)
            and s.mag_exp > 0 < s.min_power
            and s.full_scale > 0 <= s.top_db
            and s.low < s.high
        ):
            raise InputError("unsupported", f"needs a network whose settings of sound make sense: {settings}")
        return settings

    def samples(self, rows: int) -> int:
        """Samples of which a spectrum of so many rows is made."""
        return (rows - 1) * self.sequence_stride + self.sequence_length

    def code(self, decibels: float) -> float:
        """Codes of a uint8 item that make a sound so much louder."""
        unit = 1 if self.power_to_db else self.mag_exp * np.log(10) / 20
        return decibels * unit * 255 / (self.high - self.low)


def log_mel(samples: np.ndarray, settings: LogMel, bins: int) -> np.ndarray:
    """Spectra (rows, bins) float32 of samples (n,), by `bins` triangles; less than a row is repeated."""
    samples = np.resize(samples, max(len(samples), settings.sequence_length))
    return below_top(rows_of(samples, settings, bins), settings)


def below_top(values: np.ndarray, settings: LogMel) -> np.ndarray:
    """What depends on more than one row of `rows_of`: at most `top_db` below the largest of all."""
    return np.maximum(values, values.max() - np.float32(settings.top_db)) if settings.power_to_db else values


def rows_of(samples: np.ndarray, settings: LogMel, bins: int) -> np.ndarray:
    """(rows, bins) float32 of samples (n,), of which there are enough for one row."""
    samples = samples.astype(np.float32)
    views = np.lib.stride_tricks.sliding_window_view(samples, settings.sequence_length)
    views = views[:: settings.sequence_stride]
    frames = np.zeros((len(views), settings.fft_length), np.float32)
    frames[:, : settings.sequence_length] = views * window(settings)
    magnitudes, power = powers(frames), settings.mag_exp / 2
    if power != 1:
        magnitudes = np.sqrt(magnitudes) if power == 0.5 else magnitudes ** np.float32(power)
    first, weights = sparse_triangles(settings, bins)
    mel = np.zeros((len(frames), bins), np.float32)
    for k, row in enumerate(weights):
        mel += row * magnitudes[:, np.minimum(first + k, magnitudes.shape[1] - 1)]
    if not settings.power_to_db:
        return log(mel + np.float32(settings.min_power))
    return np.float32(10) * log10(np.maximum(mel, np.float32(settings.min_power)))


def codes_of(values: np.ndarray, settings: LogMel) -> np.ndarray:
    """The codes of a uint8 item for values of a spectrum."""
    scale = np.float32(255 / (settings.high - settings.low))
    return rounded((values - np.float32(settings.low)) * scale)


def rounded(values: np.ndarray) -> np.ndarray:
    """The nearest numbers from 0 to 255, uint8."""
    return np.clip(values + np.float32(0.5), 0, 255).astype(np.uint8)


@lru_cache(4)
def window(settings: LogMel) -> np.ndarray:
    """What the samples of a row are multiplied with, float32."""
    turns = np.arange(settings.sequence_length) / settings.sequence_length
    return ((0.5 - 0.5 * np.cos(2 * np.pi * turns)) * settings.full_scale).astype(np.float32)


@lru_cache(4)
def sparse_triangles(settings: LogMel, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The first frequency (bins,) of each triangle, and weights (most, bins) float32 from there on."""
    dense = triangles(settings, bins)
    first = (dense > 0).argmax(axis=0)
    last = len(dense) - (dense[::-1] > 0).argmax(axis=0)
    counts = np.where(dense.any(axis=0), last - first, 0)
    places = first + np.arange(counts.max(initial=0))[:, None]
    inside = places < first + counts
    weights = np.take_along_axis(dense, np.minimum(places, len(dense) - 1), axis=0)
    return first, np.where(inside, weights, 0).astype(np.float32)


def triangles(settings: LogMel, bins: int) -> np.ndarray:
    """Weights (fft_length // 2 + 1, bins) float64 of the frequencies in each bin."""
    hertz = np.arange(settings.fft_length // 2 + 1) * (settings.sampling_rate / settings.fft_length)
    corners = _corners(settings, bins)
    if settings.triangles == HTK:
        place, height = _htk(hertz), np.where(hertz > 0, 1.0, 0.0)[:, None]
    else:
        place, corners = hertz, _slaney_hertz(corners)
        height = 2 / (corners[2:] - corners[:-2])
    rising = (place[:, None] - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - place[:, None]) / (corners[2:] - corners[1:-1])
    return np.maximum(0, np.minimum(rising, falling)) * height


def _corners(settings: LogMel, bins: int) -> np.ndarray:
    to_mel = _htk if settings.triangles == HTK else _slaney
    return np.linspace(*to_mel(np.array([settings.min_freq, settings.max_freq])), bins + 2)


@lru_cache(4)
def centres(settings: LogMel, bins: int) -> np.ndarray:
    """Hertz (bins,) float64 at which the triangles are highest."""
    mel = _corners(settings, bins)[1:-1]
    return 700 * np.expm1(mel / 1127.0) if settings.triangles == HTK else _slaney_hertz(mel)


def _htk(hertz: np.ndarray) -> np.ndarray:
    return 1127.0 * np.log1p(hertz / 700)


# Slaney's scale: a mel is 200 / 3 Hz up to 1000 Hz, and 27 of them are a factor of 6.4 above.
_BEND, _STEP = 15.0, np.log(6.4) / 27


def _slaney(hertz: np.ndarray) -> np.ndarray:
    return np.where(hertz < 1000, hertz * 3 / 200, _BEND + np.log(np.maximum(hertz, 1000) / 1000) / _STEP)


def _slaney_hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < _BEND, mel * 200 / 3, 1000 * np.exp((mel - _BEND) * _STEP))
