"""FLAC, where soundfile is installed: the samples of a WAV file with the same integers, or one line."""

import io
import sys
import tracemalloc

import numpy as np
import pytest
from waves import tone, wav

from tinytrain.base.errors import InputError
from tinytrain.episode.sound import SoundKind
from tinytrain.episode.wav import parsed, samples_of

RATE = 44_100


@pytest.fixture(scope="module")
def flac():
    """A function that gives the FLAC file of samples (n,) or (n, channels)."""
    soundfile = pytest.importorskip("soundfile")

    def written(samples, rate=RATE, bits=16):
        file = io.BytesIO()
        soundfile.write(file, samples, rate, f"PCM_{bits}", format="FLAC")
        return file.getvalue()

    return written


@pytest.mark.parametrize("bits", [16, 24])
def test_a_flac_file_has_the_samples_of_the_wav_file_with_the_same_integers(flac, bits):
    rng = np.random.default_rng(0)
    whole = rng.integers(-(2**15), 2**15, (100_001, 2)) / 2**15
    found = parsed(flac(whole, bits=bits))
    assert (samples_of(found) == samples_of(parsed(wav(whole, RATE, bits)))).all()
    assert found.rate == RATE


def test_a_damaged_file_is_read_or_refused_in_one_line(flac):
    rng, good = np.random.default_rng(1), flac(tone(500))
    for _ in range(200):
        bad = bytearray(good)
        bad[int(rng.integers(4, len(bad)))] ^= int(rng.integers(1, 256))
        try:
            found = samples_of(parsed(bytes(bad[: int(rng.integers(len(bad) // 2, len(bad)))])))
            assert found.ndim == 1 and np.isfinite(found).all()
        except InputError as error:
            assert "\n" not in str(error) and error.code in ("image-unreadable", "image-too-large")


def test_a_small_file_of_many_samples_takes_what_they_take_as_one_channel(flac):
    content = flac(np.zeros((59 * RATE, 8)))
    tracemalloc.start()
    assert len(samples_of(parsed(content))) == 59 * RATE
    assert tracemalloc.get_traced_memory()[1] < 59 * RATE * 4 * 4
    tracemalloc.stop()
    with pytest.raises(InputError, match="has 61 seconds; cut it"):
        parsed(flac(np.zeros(61 * RATE)))


def test_without_soundfile_the_remedy_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"package-missing: .*pip install 'soundfile"):
        parsed(b"fLaC" + bytes(40))


def test_a_file_without_a_name_is_called_after_what_it_is():
    kind = SoundKind()
    assert kind.begins(b"fLaC") and kind.owns("a.FLAC")
    assert (kind.suffix(b"fLaC"), kind.suffix(wav(tone(500)))) == (".flac", ".wav")
