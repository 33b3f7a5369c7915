"""Sound as a kind of input: WAV and FLAC files as log-mel spectra, a row for each step of time."""

import os
import struct
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.episode.decode import named_errors
from tinytrain.episode.kind import Kind, UnknownEndError, content_of
from tinytrain.episode.logmel import HTK, LogMel, below_top, codes_of, log_mel, rounded, rows_of
from tinytrain.episode.wav import FLAC, MOST_SECONDS, is_open, parsed, resampled, samples_of
from tinytrain.network.input_spec import InputSpec

CONVERT = "is a recording of another form; convert it with 'ffmpeg -i FROM TO.wav'"
# A row of a stream is loud if it is so many decibels above the SOFT quantile of the window; a pause is so
# many seconds without one; rows AROUND what is loud belong to it. Chosen on wake words in a stream.
LOUDER, SOFT, PAUSE, AROUND = 10.0, 0.1, 0.12, 3
OTHERS = (".mp3", ".m4a", ".aac", ".ogg", ".opus", ".wma", ".aif", ".aiff", ".amr")
# How a clip is shown without a network.
SHOWN = LogMel(16_000, 512, 400, 160, 60.0, 7800.0, 1.0, HTK, False, 0.001, 0.0, 1.0, -7.0, 4.0)
SHOWN_BINS = 64


@dataclass(frozen=True)
class Change:
    """A clip that begins `later` rows later and is `louder` by so many codes, in noise.

    The noise is `floor` codes above what is softest in the clip. What is pushed out at its end comes in at
    its beginning.
    """

    later: int
    louder: float
    floor: float

    def apply(self, y: np.ndarray, x: np.ndarray, kernels) -> None:
        floor, louder = np.float32(x.min()) + np.float32(self.floor), np.float32(self.louder)
        y[...] = rounded(np.maximum(np.roll(x, self.later, axis=0), floor) + louder)


class SoundKind(Kind):
    """Clips of sound: a longer one gives its loudest part, around a shorter one is what is softest in it.

    An item is uint8 (rows, bins, 1), as `LogMel` says; its parameters are those of the `InputSpec`.
    """

    name, noun, plural, suffixes = "sound", "clip", "clips", (".wav", ".wave", ".flac")

    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        rows, bins, channels = spec.shape
        settings = LogMel.of(dict(spec.parameters))
        count = settings.samples(rows)
        if spec.dtype != "uint8" or channels != 1 or count > MOST_SECONDS * settings.sampling_rate:
            raise InputError("unsupported", f"needs a network of sound, not of {spec.words}")
        samples = _samples(content, settings.sampling_rate)
        if len(samples) > count:
            samples = loudest(samples, count, settings.sequence_stride)
        return coded(log_mel(samples, settings, bins), rows, settings)

    def check(self, source: str | os.PathLike | bytes) -> None:
        super().check(source)
        with named_errors(source, None, self.noun):
            parsed(source if isinstance(source, bytes) else content_of(source))

    def begins(self, head: bytes) -> bool:
        return head.startswith(FLAC) or (head.startswith(b"RIFF") and head[8:12] == b"WAVE")

    def suffix(self, content: bytes) -> str:
        return ".flac" if content.startswith(FLAC) else super().suffix(content)

    def seconds(self, spec: InputSpec) -> float:
        """How much of a clip a network hears."""
        settings = LogMel.of(dict(spec.parameters))
        return settings.samples(spec.shape[0]) / settings.sampling_rate

    def why_not(self, path: str | os.PathLike) -> str:
        return CONVERT if os.fspath(path).lower().endswith(OTHERS) else super().why_not(path)

    def augment(
        self, rng: "np.random.Generator", spec: InputSpec, may_flip: bool, ranges: Ranges = USUAL
    ) -> Change | None:
        """Up to a tenth of its length later or sooner, up to 6 dB louder or softer, in some noise."""
        if rng.random() >= 0.9:
            return None
        reach, step = spec.shape[0] // 10, LogMel.of(dict(spec.parameters)).code(1)
        later = int(rng.integers(-reach, reach + 1))
        return Change(later, float(rng.uniform(-6, 6) * step), float(rng.uniform(0, 20) * step))

    def picture(self, item: np.ndarray) -> np.ndarray:
        """The spectrogram: time goes to the right, high sounds are above."""
        return np.ascontiguousarray(item.transpose(1, 0, 2)[::-1])

    def chart(self, content: bytes) -> np.ndarray:
        spectrum = log_mel(_samples(content, SHOWN.sampling_rate), SHOWN, SHOWN_BINS)
        return self.picture(super().picture(spectrum[..., None]))

    def whole_end(self, data: bytes) -> int | None:
        if len(data) < 12 or data[:4] != b"RIFF":
            raise UnknownEndError
        (size,) = struct.unpack_from("<I", data, 4)
        if is_open(size):
            raise UnknownEndError
        return size + 8 if size + 8 <= len(data) else None


def _samples(content: bytes, rate: int) -> np.ndarray:
    wave = parsed(content)
    return resampled(samples_of(wave), wave.rate, rate)


def coded(values: np.ndarray, rows: int, settings: LogMel) -> np.ndarray:
    """The item (rows, bins, 1) uint8 of spectra (n, bins), n at most `rows`; around fewer is the softest."""
    soft, lack = values.min(axis=0, keepdims=True), rows - len(values)
    around = np.repeat(soft, lack // 2, axis=0), np.repeat(soft, lack - lack // 2, axis=0)
    values = np.concatenate([around[0], values, around[1]])
    return codes_of(values, settings)[..., None]


class Window:
    """The last sound of a stream as an item of `spec`; only rows of new samples are computed.

    It is what is loud up to now, back to the last pause, as clips hold one word each; without a pause it is
    all that the item has room for. `end` is how many samples there have been.
    """

    def __init__(self, spec: InputSpec):
        self.rows, self.bins, _ = spec.shape
        self.settings, self.end = LogMel.of(dict(spec.parameters)), 0
        self._samples, self._values = np.empty(0, np.int16), np.empty((0, self.bins), np.float32)
        self._rest = self._samples  # behind the beginning of the next row

    def add(self, samples: np.ndarray) -> None:
        """Go on by samples (n,) int16 of the rate of the settings."""
        s, self.end = self.settings, self.end + len(samples)
        self._rest = np.concatenate([self._rest, samples])
        if (new := (len(self._rest) - s.sequence_length) // s.sequence_stride + 1) > 0:
            values = rows_of(self._rest.astype(np.float32) / 2**15, s, self.bins)
            self._values = np.concatenate([self._values, values])[-self.rows :]
            whole = np.concatenate([self._samples, self._rest[: new * s.sequence_stride]])
            self._samples = whole[-self.rows * s.sequence_stride :]
            self._rest = self._rest[new * s.sequence_stride :]

    def item(self) -> np.ndarray | None:
        """(rows, bins, 1) uint8, as `SoundKind.decode` gives for `samples`; None before the first row."""
        if not len(self._values):
            return None
        first, last = self._shown()
        return coded(below_top(self._values[first:last], self.settings), self.rows, self.settings)

    def samples(self) -> np.ndarray:
        """Those (n,) int16 that the item shows."""
        (first, last), s = self._shown(), self.settings
        whole = np.concatenate([self._samples, self._rest])
        return whole[first * s.sequence_stride : (last - 1) * s.sequence_stride + s.sequence_length]

    def _shown(self) -> tuple[int, int]:
        """The first row that is shown, and the one behind the last."""
        s = self.settings
        level = self._values.mean(axis=1) * (255 / (s.high - s.low))
        loud = np.flatnonzero(level > np.quantile(level, SOFT) + s.code(LOUDER))
        if not len(loud):
            return 0, len(level)
        pauses = np.flatnonzero(np.diff(loud) * s.sequence_stride > PAUSE * s.sampling_rate)
        first = loud[pauses[-1] + 1] if len(pauses) else loud[0]
        return max(0, first - AROUND), min(len(level), loud[-1] + 1 + AROUND)


def loudest(samples: np.ndarray, count: int, step: int) -> np.ndarray:
    """The `count` samples with the most energy that begin at a multiple of `step`."""
    energy = np.concatenate([[0], np.cumsum(np.square(samples, dtype=np.float64))])
    start = step * int(np.argmax((energy[count:] - energy[:-count])[::step]))
    return samples[start : start + count]
