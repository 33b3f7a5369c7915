"""WAV files of every form, byte by byte, clips, a toy encoder that hears them, and a chaotic series."""

import struct
from dataclasses import asdict

import numpy as np
from toynets import toy

from tinytrain.episode.logmel import HTK, LogMel
from tinytrain.network.file import save_network
from tinytrain.network.input_spec import InputSpec

SETTINGS = LogMel(16_000, 512, 400, 320, 125.0, 7500.0, 1.0, HTK, False, 0.001, 0.0, 1.0, -6.9, 4.0)
SPEC = InputSpec((32, 16, 1), "uint8", 127.5, 0.02, rotated=True, kind="sound", parameters=asdict(SETTINGS))
HEARD = SETTINGS.samples(32) / 16_000  # seconds
ROWS = (
    ("conv", 8, 3, 2, True, 0, False),
    ("depthwise", 8, 3, 2, True, 1, False),
    ("pointwise", 12, 1, 1, True, 1, False),
)
SPECTRA = LogMel(16_000, 256, 200, 160, 125.0, 7500.0, 1.0, HTK, False, 0.001, 0.0, 1.0, -6.9, 4.0)
SMALL = InputSpec((16, 16, 1), rotated=True, kind="sound", parameters=asdict(SPECTRA))  # of any toy network
GUID = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"  # the end of that of any form


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    length = len(content) if size is None else size
    return name + struct.pack("<I", length) + content + b"\0" * (len(content) % 2)


def coded(samples: np.ndarray, bits: int, form: int) -> bytes:
    """Samples (n, channels) from -1 to 1 as a file has them, at the nearest number."""
    if form == 3:
        return samples.astype(f"<f{bits // 8}").tobytes()
    whole = np.rint(samples * 2 ** (bits - 1)).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype(np.int64)
    whole += 128 if bits == 8 else 0
    return b"".join(int(x).to_bytes(bits // 8, "little", signed=bits > 8) for x in whole.ravel())


def header(rate=16_000, bits=16, channels=1, form=1, extensible=False, more=b"") -> bytes:
    frame = channels * bits // 8
    plain = struct.pack("<HIIHH", channels, rate, rate * frame, frame, bits)
    if extensible:
        plain = struct.pack("<H", 0xFFFE) + plain + struct.pack("<HHIH", 22, bits, 0, form) + GUID
    else:
        plain = struct.pack("<H", form) + plain
    return chunk(b"fmt ", plain + more)


def wav(
    samples, rate=16_000, bits=16, form=1, extensible=False, more=b"", before=b"", behind=b"", size=None
) -> bytes:
    """A file of `samples` (n,) or (n, channels); `size` is what it says of the length of its sound."""
    samples = np.asarray(samples, float).reshape(len(samples), -1)
    head = header(rate, bits, samples.shape[1], form, extensible, more)
    return riff(head + before + chunk(b"data", coded(samples, bits, form), size) + behind)


def riff(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def tone(hertz, seconds=0.5, rate=16_000, loud=0.5) -> np.ndarray:
    return loud * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def clip(label: int, number: int, rate: int = 16_000) -> np.ndarray:
    """A sound of class `label`: a tone, a glide or a hiss, with noise, of 0.3 to 0.9 seconds."""
    rng = np.random.default_rng([label, number])
    times = np.arange(round(rate * rng.uniform(0.3, 0.9))) / rate
    pitch = (300, 900, 2500, 5000)[label % 4] * rng.uniform(0.9, 1.1) * (1 + (label % 2) * times)
    return rng.uniform(0.2, 0.9) * np.sin(2 * np.pi * pitch * times) + rng.normal(0, 0.01, len(times))


def write_clips(folder, numbers, classes):
    """A folder of each of the `classes`, with a clip for each of the `numbers`."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in numbers:
            (folder / name / f"{number}.wav").write_bytes(wav(clip(label, number)))
    return folder


def write_encoder(path):
    save_network(toy(ROWS, spec=SPEC), path)
    return path


def mackey_glass(count, tau=17):
    """The delay differential equation by Runge-Kutta steps of 1, the delayed value held in between."""
    x = [1.2] * (tau + 1)
    slope = lambda now, past: 0.2 * past / (1 + past**10) - 0.1 * now  # noqa: E731
    for _ in range(count):
        now, past = x[-1], x[-1 - tau]
        a = slope(now, past)
        b = slope(now + a / 2, past)
        c = slope(now + b / 2, past)
        x.append(now + (a + 2 * b + 2 * c + slope(now + c, past)) / 6)
    return np.array(x[tau + 1 :])[:, None]
