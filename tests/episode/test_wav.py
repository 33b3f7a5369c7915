"""WAV files: every usual form gives its samples, and whatever else a file holds ends in one line."""

import struct
import tracemalloc

import numpy as np
import pytest
from cases import each
from waves import chunk, header, riff, tone, wav

from tinytrain.base.errors import InputError
from tinytrain.episode.kind import MOST_BYTES
from tinytrain.episode.wav import MOST_SECONDS, parsed, resampled, samples_of

SAMPLES = np.random.default_rng(0).uniform(-1, 1, 101)  # an odd number: 8 bits need a byte behind them
STEREO = np.stack([SAMPLES, -SAMPLES / 2], axis=1)


def read(content):
    return samples_of(parsed(content))


@each(
    ("options", "exact"),
    [
        *(({"bits": bits}, 2.0 ** (1 - bits)) for bits in (8, 16, 24, 32)),
        *(({"bits": bits, "form": 3}, 1e-7) for bits in (32, 64)),
        *(({"bits": bits, "extensible": True}, 2.0 ** (1 - bits)) for bits in (8, 16, 24, 32)),
        ({"bits": 32, "form": 3, "extensible": True}, 1e-7),
        ({"more": b"\0\0"}, 2.0**-15),
        ({"before": chunk(b"LIST", b"INFOodd"), "behind": chunk(b"id3 ", b"x" * 9)}, 2.0**-15),
        ({"size": 0}, 2.0**-15),
        ({"size": 2**32 - 1}, 2.0**-15),
        ({"size": 2**31 - 1}, 2.0**-15),
    ],
)
def test_every_form_gives_the_samples_that_were_written(options, exact):
    for samples in (SAMPLES, STEREO):
        found = read(wav(samples, **options))
        want = np.clip(samples.reshape(101, -1), -1, 1 - exact * (options.get("form", 1) == 1)).mean(axis=1)
        np.testing.assert_allclose(found, want, atol=max(exact, 1e-7))
        assert found.dtype == np.float32


def test_a_sound_as_long_as_its_rate_says_is_read_to_its_limit():
    seconds = np.zeros(4000 * MOST_SECONDS)
    assert len(read(wav(seconds, 4000))) == len(seconds)
    with pytest.raises(InputError, match="has 60 seconds; cut it into clips of at most 60") as caught:
        read(wav(np.append(seconds, 0), 4000))
    assert caught.value.code == "image-too-large"


@each("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_a_tone_of_any_rate_is_the_same_tone(rate):
    found = resampled(tone(1234.5, 0.3, rate), rate, 16_000)
    want = tone(1234.5, 0.3)
    assert abs(len(found) - len(want)) <= 1
    np.testing.assert_allclose(found[200:4500], want[200:4500], atol=2e-3)
    np.testing.assert_allclose(resampled(np.ones(5000), rate, 16_000)[200:700], 1, atol=1e-6)


@each("rate", [7_919, 22_051, 47_999, 191_999])
def test_a_rate_that_no_device_has_is_nearly_right_and_costs_no_more(rate):
    found = resampled(tone(1000, 0.5, rate), rate, 16_000)[500:7500]
    peak = np.argmax(np.abs(np.fft.rfft(found * np.hanning(7000), 2**16)))
    assert abs(peak * 16_000 / 2**16 - 1000) < 1 and abs(np.abs(found).max() - 0.5) < 0.01


@each("rate", [22_050, 44_100, 48_000])
def test_what_the_lower_rate_cannot_hold_is_left_out(rate):
    assert np.abs(resampled(tone(9_500, 0.3, rate), rate, 16_000)[200:4500]).max() < 2e-3


def plain(**options):
    return riff(header(**options) + chunk(b"data", b"\0" * 96))


@each(
    ("content", "text"),
    [
        (b"", "no WAV file"),
        (b"RIFF\0\0\0\0AVI ", "no WAV file"),
        (b"ID3\4" + bytes(99), "no WAV file"),
        (b"RF64" + plain()[4:], "is RF64"),
        (riff(b""), "no sound in it"),
        (riff(header()), "no sound in it"),
        (riff(chunk(b"data", b"\0\0") + header()), "before it says what form"),
        (riff(chunk(b"fmt ", b"\1\0") + chunk(b"data", b"\0\0")), "header of 2 bytes"),
        (riff(chunk(b"note", b"") * 2000 + header() + chunk(b"data", b"\0\0")), "no sound in it"),
        (wav(SAMPLES)[:-20], "is cut off: 182 of 202 bytes are there"),
        (riff(header() + chunk(b"data", b"")), "no samples"),
        (riff(header() + chunk(b"data", b"\0")), "no samples"),
        (plain(form=85), "is MP3"),
        (plain(form=7, bits=8), "is mu-law"),
        (plain(form=4711), "is of form 4711"),
        (plain(channels=0), "says 0 channels"),
        (plain(channels=40), "says 40 channels"),
        (plain(bits=0), "says 1 channels of 0 bits"),
        (plain(bits=64), "samples of 64 bits"),
        (plain(form=3, bits=16), "samples of 16 bits"),
        (plain(rate=0), "0 samples a second; 4000 to 192000 are read"),
        (plain(rate=2**32 // 3), "samples a second"),
        (wav([0.1, np.nan, np.inf], form=3, bits=32), "2 samples that are NaN or infinite"),
        (wav([1e300], form=3, bits=64), "1 samples that are NaN or infinite"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_fact_and_the_remedy(content, text):
    with pytest.raises(InputError) as caught:
        read(content)
    assert text in str(caught.value) and ";" in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.code == "image-unreadable"


def test_damaged_files_are_read_or_refused_and_nothing_else():
    rng, good, read_ones = np.random.default_rng(1), wav(STEREO, bits=24, before=chunk(b"LIST", b"abc")), 0
    for _ in range(2000):
        bad = bytearray(good)
        for at in rng.integers(0, 90 if rng.random() < 0.8 else len(bad), rng.integers(1, 6)):
            bad[at] = rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))])
        if rng.random() < 0.2:
            del bad[int(rng.integers(len(bad))) :]
        try:
            found = read(bytes(bad))
            read_ones += 1
            assert found.ndim == 1 and len(found) and np.isfinite(found).all()
        except InputError as error:
            assert "\n" not in str(error)
    assert 100 < read_ones < 1900


@each(("rate", "bits", "channels", "form"), [(191_999, 8, 5, 1), (192_000, 64, 1, 3), (4_001, 8, 32, 1)])
def test_no_file_takes_more_than_256_mb_with_its_own_bytes(rate, bits, channels, form):
    frame = channels * bits // 8
    count = min(MOST_SECONDS * rate, (MOST_BYTES - 100) // frame)
    content = riff(header(rate, bits, channels, form) + chunk(b"data", bytes(count * frame)))
    tracemalloc.start()
    try:
        assert len(resampled(read(content), rate, 16_000)) > 40 * 16_000
        assert tracemalloc.get_traced_memory()[1] + len(content) < 256e6
    finally:
        tracemalloc.stop()


def test_the_length_that_the_file_says_is_not_believed():
    content = bytearray(wav(SAMPLES))
    struct.pack_into("<I", content, 40, 2**31 - 2**13)
    with pytest.raises(InputError, match="is cut off"):
        read(bytes(content))
