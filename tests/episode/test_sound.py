"""Sound as a kind of input: spectra by their definition, and what becomes of a clip."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from cases import each
from waves import chunk, header, riff, tone, wav

from tinytrain.base.errors import InputError
from tinytrain.episode.kind import UnknownEndError
from tinytrain.episode.logmel import HTK, SLANEY, LogMel, log_mel, triangles
from tinytrain.episode.sound import Change, SoundKind, loudest
from tinytrain.network.input_spec import InputSpec

SOUND = SoundKind()
PLAIN = LogMel(16_000, 512, 400, 160, 125.0, 7500.0, 1.0, HTK, False, 0.001, 0.0, 1.0, -6.9, 4.0)
DECIBELS = LogMel(16_000, 512, 400, 160, 60.0, 3800.0, 2.0, SLANEY, True, 1e-10, 80.0, 32768.0, -20.0, 120.0)
ROWS, BINS = 24, 32


def spec_of(settings=PLAIN, rows=ROWS, dtype="uint8"):
    return InputSpec((rows, BINS, 1), dtype, 0.0, 1.0, kind="sound", parameters=asdict(settings))


def item_of(samples, settings=PLAIN, **options):
    return SOUND.read(wav(samples, **options), spec_of(settings))


def htk(hertz):
    return 2595 * math.log10(1 + hertz / 700)


def slaney(hertz):
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def place(scale, mel):
    """The frequency with this place on a scale, by halving."""
    low, high = 0.0, 20_000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if scale(middle) < mel else (low, middle)
    return low


def weights(settings):
    """The weight of each of 257 frequencies in each bin, by the definition of the two forms."""
    is_htk = settings.triangles == HTK
    scale, found = htk if is_htk else slaney, np.zeros((257, BINS))
    first, last = scale(settings.min_freq), scale(settings.max_freq)
    for i in range(BINS):
        left, middle, right = (first + (last - first) * (i + k) / (BINS + 1) for k in range(3))
        if not is_htk:
            left, middle, right = (place(scale, mel) for mel in (left, middle, right))
        for k in range(257):
            at = scale(k * 16_000 / 512) if is_htk else k * 16_000 / 512
            height = float(k > 0) if is_htk else 2 / (right - left)
            found[k, i] = height * max(0, min((at - left) / (middle - left), (right - at) / (right - middle)))
    return found


@each(
    "settings", [PLAIN, DECIBELS, replace(PLAIN, min_freq=0.0), replace(DECIBELS, min_freq=0.0, top_db=9.0)]
)
def test_spectra_are_what_their_definition_gives(settings):
    samples = np.random.default_rng(0).normal(0, 0.1, settings.samples(3))
    want = np.empty((3, BINS))
    n = np.arange(settings.sequence_length)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / settings.sequence_length)
    for row in range(3):
        framed = samples[row * 160 :][:400] * window * settings.full_scale
        waves = np.exp(-2j * np.pi * np.arange(257)[:, None] * n / 512)
        want[row] = (abs(waves @ framed) ** settings.mag_exp) @ weights(settings)
    if settings.power_to_db:
        want = 10 * np.log10(np.maximum(want, settings.min_power))
        want = np.maximum(want, want.max() - settings.top_db)
    else:
        want = np.log(want + settings.min_power)
    np.testing.assert_allclose(log_mel(samples, settings, BINS), want, atol=2e-5)


def test_spectra_are_those_of_librosa():
    librosa = pytest.importorskip("librosa")
    settings = replace(DECIBELS, full_scale=1.0)
    samples = np.random.default_rng(0).normal(0, 0.1, settings.samples(30))
    want = librosa.feature.melspectrogram(
        y=np.pad(samples, 56), sr=16_000, n_fft=512, win_length=400, hop_length=160, center=False,
        n_mels=BINS, fmin=60, fmax=3800,
    )  # fmt: skip
    want = librosa.power_to_db(want).T
    np.testing.assert_allclose(log_mel(samples, settings, BINS), want, atol=1e-4)
    filters = librosa.filters.mel(sr=16_000, n_fft=512, n_mels=BINS, fmin=60, fmax=3800)
    np.testing.assert_allclose(triangles(settings, BINS), filters.T, atol=1e-8)


def test_an_item_has_a_code_for_each_value_between_low_and_high():
    samples = tone(1000, 0.6)
    values = log_mel(loudest(samples, PLAIN.samples(ROWS), 160), PLAIN, BINS)
    item = item_of(samples, form=3, bits=32)
    assert item.shape == (ROWS, BINS, 1) and item.dtype == np.uint8
    np.testing.assert_allclose(
        item[..., 0] * (10.9 / 255) - 6.9, np.clip(values, -6.9, 4), atol=0.5 * 10.9 / 255 + 1e-6
    )


def test_a_form_or_rate_that_a_clip_is_kept_in_hardly_changes_its_codes():
    plain = item_of(tone(1000, 0.6)).astype(int)
    for options in ({"bits": 24}, {"form": 3, "bits": 32}, {"extensible": True}):
        assert abs(item_of(tone(1000, 0.6), **options) - plain)[plain > 40].max() <= 2
    for rate in (8_000, 44_100, 48_000):
        near = item_of(tone(1000, 0.6, rate), rate=rate).astype(int)
        assert abs(near - plain)[:, plain[0, :, 0] > 100].max() <= 3


def test_a_long_clip_gives_its_loudest_part_and_around_a_short_one_is_what_is_softest_in_it():
    loud, soft = tone(2000, 0.3), tone(500, 1.5, loud=0.01)
    count = PLAIN.samples(ROWS)
    part = loudest(np.concatenate([soft, loud, soft]), count, 160)
    assert len(part) == count and np.square(part).sum() > 0.8 * np.square(loud).sum()
    short = np.concatenate([tone(300, 0.04, loud=0.01), tone(2000, 0.05)])[: PLAIN.samples(7)]
    item, values = item_of(short, form=3, bits=32)[..., 0], log_mel(short, PLAIN, BINS)
    codes = np.rint((values - PLAIN.low) * (255 / 10.9))
    np.testing.assert_allclose(item[8:15], np.clip(codes, 0, 255), atol=1)
    assert (item[:8] == item[8:15].min(axis=0)).all() and (item[15:] == item[0]).all()
    assert item_of([0.5]).min() > 0 == item_of(np.zeros(9)).max()


@each(
    ("change", "text"),
    [
        ({"fft_length": 300}, "make sense"),
        ({"sequence_stride": 0}, "make sense"),
        ({"fft_length": 10**9}, "make sense"),
        ({"max_freq": 9000.0}, "make sense"),
        ({"triangles": "bark"}, "make sense"),
        ({"sampling_rate": "16000"}, "make sense"),
        ({"sampling_rate": 1.5}, "make sense"),
        ({"min_power": 0.0}, "make sense"),
        ({"low": 4.0}, "make sense"),
        ({"speed": 1}, "'speed'"),
    ],
)
def test_a_network_whose_settings_make_no_sense_is_refused_in_one_line(change, text):
    spec = replace(spec_of(), parameters=asdict(PLAIN) | change)
    with pytest.raises(InputError) as caught:
        SOUND.read(wav(tone(500)), spec, "a.wav")
    assert text in str(caught.value) and "\n" not in str(caught.value) and caught.value.code == "unsupported"


@each(
    "spec",
    [spec_of(dtype="float32"), spec_of(rows=7000), replace(spec_of(), shape=(ROWS, BINS, 3), mean=0.0)],
)
def test_a_network_for_other_items_is_refused(spec):
    with pytest.raises(InputError, match="needs a network of sound, not of sound"):
        SOUND.read(wav(tone(500)), spec, "a.wav")


def test_a_change_moves_a_clip_makes_it_louder_and_keeps_what_it_was_given():
    rng, spec, item = np.random.default_rng(0), spec_of(), item_of(tone(1000, 0.6))
    kept, results = item.copy(), set()
    for _ in range(50):
        if (change := SOUND.augment(rng, spec, False)) is not None:
            change.apply(y := np.empty_like(item), item, None)
            results.add(y.tobytes())
            assert abs(change.later) <= 2 and abs(change.louder) <= PLAIN.code(6) and change.floor >= 0
    np.testing.assert_array_equal(item, kept)
    assert 30 < len(results) < 50
    assert PLAIN.code(20) == pytest.approx(np.log(10) * 255 / 10.9)
    assert DECIBELS.code(20) == pytest.approx(20 * 255 / 140)
    for settings in (PLAIN, DECIBELS):
        other = item_of(tone(1000, 0.6), settings)
        Change(2, -3.0, 20.0).apply(y := np.empty_like(other), other, None)
        want = np.maximum(np.roll(other, 2, axis=0).astype(int), int(other.min()) + 20) - 3
        np.testing.assert_array_equal(y, want)
    double = item_of(tone(1000, 0.6, loud=0.02)).astype(int) - item_of(tone(1000, 0.6, loud=0.01))
    peak = np.argmax(item[5, :, 0])
    assert double[5, peak, 0] == pytest.approx(PLAIN.code(6.02), abs=1)


def test_a_spectrogram_is_shown_with_time_to_the_right_and_high_sounds_above():
    picture = SOUND.picture(item_of(np.concatenate([tone(400, 0.125), tone(6000, 0.13)])))
    assert picture.shape == (BINS, ROWS, 1)
    left, right = (int(np.argmax(picture[:, column, 0])) for column in (2, ROWS - 3))
    assert left > BINS / 2 > right


def test_a_growing_file_ends_where_its_header_says():
    content = wav(tone(500, 0.01))
    assert SOUND.whole_end(content) == len(content) == SOUND.whole_end(content + b"more")
    assert SOUND.whole_end(content[:-1]) is None
    for unknown in (b"RIFF", b"junk of twelve", content[:4] + b"\xff\xff\xff\xff" + content[8:]):
        with pytest.raises(UnknownEndError):
            SOUND.whole_end(unknown)


def test_files_are_checked_by_their_header_and_others_are_told_apart(tmp_path):
    good, bad = tmp_path / "a.WAV", tmp_path / "b.wav"
    good.write_bytes(wav(tone(500)))
    bad.write_bytes(riff(header(form=85) + chunk(b"data", b"\0\0")))
    SOUND.check(good)
    with pytest.raises(InputError, match=r"b\.wav' is MP3, which is not read here; save it as WAV"):
        SOUND.check(bad)
    assert SOUND.owns(good) and not SOUND.owns("a.ogg") and "ffmpeg" in SOUND.why_not("a.ogg")
