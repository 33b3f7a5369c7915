"""WAV and FLAC files to samples of one channel, and samples of one rate to those of another."""

import io
import struct
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.extras import needed

MOST_SECONDS, MOST_CHANNELS, MOST_CHUNKS = 60, 32, 1000
RATES = 4_000, 192_000  # samples a second, the least and the most
INTEGER, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
COMPRESSED = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 49: "GSM", 85: "MP3"}
OPEN_END = 0x7FFFF000
FLAC, PIECE = b"fLaC", 2**16  # its first bytes; frames that are decoded at once
SMALL = 8  # bytes in front of the content of a chunk: its name and its length
FILTER, STEEP = 16, 8.6  # zeros of the sinc on either side, and beta of Kaiser's window
PHASES = 640  # of 11,025 samples a second


class Wave(NamedTuple):
    """What the header says: `form` INTEGER or FLOAT, bytes of a sample; `data` are the frames' bytes."""

    form: int
    width: int
    channels: int
    rate: int
    data: memoryview


def is_open(size: int) -> bool:
    """Whether a length is what programs write that do not know it: nothing, or about the most."""
    return not 0 < size < OPEN_END


def parsed(content: bytes) -> Wave:
    """The parts of a WAV file, or what a FLAC file would be as one.

    Raises InputError, whose message has no subject, for what cannot be read.
    """
    if content[:4] == FLAC:
        return _decompressed(content)
    if content[:4] in (b"RF64", b"RIFX", b"BW64"):
        raise _unreadable(f"is {content[:4].decode()}, a form for very long or old recordings")
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise _unreadable("is no WAV file by its first bytes")
    at, header = 12, None
    for _ in range(MOST_CHUNKS):
        if at + SMALL > len(content):
            break
        name, size = struct.unpack_from("<4sI", content, at)
        at += SMALL
        if name == b"fmt " and header is None:
            header = _header(content[at : at + min(size, 40)])
        elif name == b"data":
            if header is None:
                raise _unreadable("has its sound before it says what form it has")
            return _wave(header, content, at, size)
        at += size + size % 2  # a chunk of an odd length has one more byte behind it
    raise _unreadable("has no sound in it: its header is damaged or it is cut off")


def _header(chunk: bytes) -> tuple[int, int, int, int, int]:
    if len(chunk) < 16:
        raise _unreadable(f"has a header of {len(chunk)} bytes; it is damaged")
    form, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if form == EXTENSIBLE and len(chunk) >= 26:
        (form,) = struct.unpack_from("<H", chunk, 24)  # the first bytes of the GUID of the true form
    return form, channels, rate, frame, bits


def _wave(header: tuple, content: bytes, at: int, size: int) -> Wave:
    form, channels, rate, frame, bits = header
    width = frame // channels if channels else 0
    if form not in (INTEGER, FLOAT):
        raise _unreadable(f"is {COMPRESSED.get(form, f'of form {form}')}, which is not read here")
    if not 1 <= channels <= MOST_CHANNELS or frame != channels * width or not 1 <= bits <= 8 * width:
        raise _unreadable(f"says {channels} channels of {bits} bits in {frame} bytes, which cannot be")
    if width not in ((1, 2, 3, 4) if form == INTEGER else (4, 8)):
        raise _unreadable(f"has samples of {8 * width} bits, which are not read here")
    there = len(content) - at
    if size > there and not is_open(size):
        raise InputError(
            "image-unreadable", f"is cut off: {there:,} of {size:,} bytes are there; copy it again"
        )
    count = (there if is_open(size) else size) // frame
    _check(count, rate)
    return Wave(form, width, channels, rate, memoryview(content)[at : at + count * frame])


def _decompressed(content: bytes) -> Wave:
    with needed("soundfile", "flac", "a FLAC file"):
        import soundfile
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.channels > MOST_CHANNELS:
                raise _unreadable(f"has {file.channels} channels; at most {MOST_CHANNELS} are read")
            _check(file.frames, file.samplerate)
            # Piece by piece, as a small file may become large; each as samples of a WAV file.
            pieces = [
                samples_of(Wave(INTEGER, 4, file.channels, file.samplerate, memoryview(frames).cast("B")))
                for frames in file.blocks(PIECE, dtype="int32", always_2d=True)
            ]
    except soundfile.SoundFileError as error:
        raise _unreadable(f"cannot be decoded ({one_line(error)})") from error
    samples = memoryview(np.concatenate(pieces)).cast("B")
    return Wave(FLOAT, 4, 1, file.samplerate, samples)


def _check(count: int, rate: int) -> None:
    """Raises InputError for too few or too many samples, in all or a second."""
    if not RATES[0] <= rate <= RATES[1]:
        raise _unreadable(f"has {rate} samples a second; {RATES[0]} to {RATES[1]} are read")
    if not count:
        raise InputError("image-unreadable", "has no samples; record it again")
    if count > MOST_SECONDS * rate:
        seconds = count / rate
        raise InputError(
            "image-too-large", f"has {seconds:.0f} seconds; cut it into clips of at most {MOST_SECONDS}"
        )


def samples_of(wave: Wave) -> np.ndarray:
    """The mean of all channels, (n,) float32; integers of any width are from -1 to 1. Raises InputError."""
    count = len(wave.data) // (wave.width * wave.channels)
    frames = np.frombuffer(wave.data, np.uint8).reshape(count, wave.channels, wave.width)
    total = np.zeros(count, np.float32)
    for channel in range(wave.channels):  # one by one: the file may be large
        total += _channel(np.ascontiguousarray(frames[:, channel]), wave.form)
    total /= wave.channels
    if bad := int(count - np.isfinite(total).sum()):
        raise InputError("image-unreadable", f"has {bad} samples that are NaN or infinite; record it again")
    return total


def _channel(raw: np.ndarray, form: int) -> np.ndarray:
    """Numbers of the bytes (n, width) of a channel."""
    count, width = raw.shape
    if form == FLOAT:
        with np.errstate(over="ignore"):
            return raw.view(f"<f{width}")[:, 0].astype(np.float32)
    if width == 1:  # alone without a sign
        return (raw[:, 0].astype(np.float32) - 128) / 128
    wide = np.zeros((count, 4), np.uint8)
    wide[:, 4 - width :] = raw
    return wide.view("<i4")[:, 0].astype(np.float32) / 2**31


def resampled(x: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Samples (n,) of `rate` a second as (m,) float32 of `wanted`, by a sinc in Kaiser's window.

    What the lower of the two rates cannot hold is left out.
    """
    if rate == wanted:
        return x
    # A rate that needs more phases than usual ones do is taken for one beside it, within 0.1 %.
    down, up = Fraction(rate, wanted).limit_denominator(PHASES).as_integer_ratio()
    cut = min(1.0, up / down) * 0.95  # the window's flank lies below half of the lower rate
    half = ceil(FILTER / cut)
    distance = np.arange(1 - half, half + 1) - np.arange(up)[:, None] / up
    window = np.i0(STEEP * np.sqrt(np.maximum(0, 1 - (distance / half) ** 2)))
    table = np.sinc(distance * cut) * window
    table = (table / table.sum(axis=1, keepdims=True)).astype(np.float32)  # constants stay
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, (half - 1, half + 1)), 2 * half)
    y = np.empty(-(-len(x) * up // down), np.float32)
    for start in range(0, len(y), 8192):
        at = np.arange(start, min(start + 8192, len(y)), dtype=np.int64) * down
        y[start : start + len(at)] = np.einsum("ij,ij->i", views[at // up], table[at % up])
    return y


def _unreadable(what: str) -> InputError:
    return InputError("image-unreadable", f"{what}; save it as WAV with 16 bits")


def wav_of(samples: np.ndarray, rate: int) -> bytes:
    """A WAV file of samples (n,) int16, 16 bits each."""
    data = samples.astype("<i2").tobytes()
    head = b"RIFF", 36 + len(data), b"WAVEfmt ", 16, INTEGER, 1, rate, 2 * rate, 2, 16, b"data", len(data)
    return struct.pack("<4sI8sIHHIIHH4sI", *head) + data
