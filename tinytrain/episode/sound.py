"""Sound as a kind of input: WAV files as log-mel spectra, a row for each step of time."""

import os
import struct
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.episode.decode import named_errors
from tinytrain.episode.kind import Kind, UnknownEndError, content_of
from tinytrain.episode.logmel import HTK, LogMel, log_mel
from tinytrain.episode.wav import MOST_SECONDS, is_open, parsed, resampled, samples_of
from tinytrain.network.input_spec import InputSpec

CONVERT = "is a recording of another form; convert it with 'ffmpeg -i FROM TO.wav'"
OTHERS = (".mp3", ".m4a", ".aac", ".ogg", ".opus", ".flac", ".wma", ".aif", ".aiff", ".amr")
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
        codes = np.maximum(np.roll(x, self.later, axis=0), x.min() + self.floor) + self.louder
        np.copyto(y, np.clip(np.rint(codes), 0, 255), casting="unsafe")


class SoundKind(Kind):
    """Clips of sound: a longer one gives its loudest part, around a shorter one is what is softest in it.

    An item is uint8 (rows, bins, 1), as `LogMel` says; its parameters are those of the `InputSpec`.
    """

    name, noun, plural, suffixes = "sound", "clip", "clips", (".wav", ".wave")

    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        rows, bins, channels = spec.shape
        settings = LogMel.of(dict(spec.parameters))
        count = settings.samples(rows)
        if spec.dtype != "uint8" or channels != 1 or count > MOST_SECONDS * settings.sampling_rate:
            raise InputError("unsupported", f"needs a network of sound, not of {spec.words}")
        samples = _samples(content, settings.sampling_rate)
        if len(samples) > count:
            samples = loudest(samples, count, settings.sequence_stride)
        values = log_mel(samples, settings, bins)
        soft, lack = values.min(axis=0, keepdims=True), rows - len(values)
        around = np.repeat(soft, lack // 2, axis=0), np.repeat(soft, lack - lack // 2, axis=0)
        values = np.concatenate([around[0], values, around[1]])
        codes = (values - settings.low) * (255 / (settings.high - settings.low))
        return np.clip(np.rint(codes), 0, 255).astype(np.uint8)[..., None]

    def check(self, source: str | os.PathLike | bytes) -> None:
        super().check(source)
        with named_errors(source, None, self.noun):
            parsed(source if isinstance(source, bytes) else content_of(source))

    def begins(self, head: bytes) -> bool:
        return head.startswith(b"RIFF") and head[8:12] == b"WAVE"

    def seconds(self, spec: InputSpec) -> float:
        """How much of a clip a network hears."""
        settings = LogMel.of(dict(spec.parameters))
        return settings.samples(spec.shape[0]) / settings.sampling_rate

    def why_not(self, path: str | os.PathLike) -> str:
        return CONVERT if os.fspath(path).lower().endswith(OTHERS) else super().why_not(path)

    def augment(
        self, rng: np.random.Generator, spec: InputSpec, may_flip: bool, ranges: Ranges = USUAL
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


def loudest(samples: np.ndarray, count: int, step: int) -> np.ndarray:
    """The `count` samples with the most energy that begin at a multiple of `step`."""
    energy = np.concatenate([[0], np.cumsum(np.square(samples, dtype=np.float64))])
    start = step * int(np.argmax((energy[count:] - energy[:-count])[::step]))
    return samples[start : start + count]
