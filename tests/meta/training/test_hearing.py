"""What training hears of a clip: nothing that was not asked for, and each change as it is described."""

import numpy as np
import pytest

from tinytrain.backbones.sound import OURS, OWN
from tinytrain.base.random_streams import rng_for
from tinytrain.episode.logmel import centres, log_mel
from tinytrain.meta.training.hearing import Hearing

ROWS, BINS, _ = OWN.shape
NAMES = ("pace", "voice", "colour", "gain", "room", "noise", "behind", "narrow", "hidden")
PLAIN = dict.fromkeys(NAMES, 0.0)


def clip(first=0, last=ROWS, peak=20):
    """Codes (rows, bins) of a soft hiss, louder in rows `first` to `last` around the bin `peak`."""
    codes = np.full((ROWS, BINS), 60) + np.arange(ROWS)[:, None] % 2
    codes[first:last] += np.rint(100 * np.exp(-(((np.arange(BINS) - peak) / 3) ** 2))).astype(int)
    return codes.astype(np.uint8)


def heard(item, seed=0, another=None, **changes):
    looks = Hearing(**(PLAIN | changes))
    out = looks.seen(item, rng_for(seed), OWN, False, lambda: another)
    assert (out.shape, out.dtype) == (OWN.shape, np.uint8)
    return out[..., 0].astype(int)


def test_without_variation_a_clip_stays_as_it_is():
    assert np.abs(heard(clip()) - clip()).max() <= 1


@pytest.mark.parametrize(
    "changes", [{name: 0.3} for name in ("pace", "voice")] + [{"colour": 9.0}, {"gain": 9.0}]
)
def test_every_draw_of_a_change_gives_something_else_and_the_same_again(changes):
    found = [heard(clip(), seed, **changes).tobytes() for seed in (0, 1, 2, 0)]
    assert len(set(found)) == 3 and found[0] == found[3]


def test_another_voice_moves_all_frequencies_by_one_factor():
    assert np.allclose(centres(OURS, BINS)[20], centre_of_tone(20), rtol=0.03)
    moved = [int(heard(clip(), seed, voice=0.3)[40].argmax()) for seed in range(40)]
    factors = centres(OURS, BINS)[moved] / centres(OURS, BINS)[20]
    assert 0.7 < factors.min() < 0.85 and 1.15 < factors.max() < 1.45


def centre_of_tone(number):
    """The frequency whose tone makes the bin `number` the loudest."""
    tones = np.arange(100, 3000, 10)
    times = np.arange(2048) / OURS.sampling_rate
    loudest = [log_mel(np.sin(2 * np.pi * f * times), OURS, BINS)[1].argmax() for f in tones]
    return float(np.mean(tones[np.array(loudest) == number]))


def test_a_room_goes_on_after_the_sound_and_never_sounds_before_it():
    item, out = clip(30, 40), heard(clip(30, 40), room=1.0)
    assert (out[41:46, 20] > item[41:46, 20] + 5).all() and np.abs(out[:28] - item[:28]).max() <= 8


def test_noise_and_a_clip_behind_make_only_soft_places_louder():
    loud = np.full((ROWS, BINS), 140, np.uint8)
    for changes in ({"noise": 1.0}, {"behind": 1.0, "another": loud}):
        changed = [heard(clip(), seed, **changes) - clip() for seed in range(20)]
        assert min(c.min() for c in changed) >= -1
        assert max(c[:, 40].mean() for c in changed) > 20 > max(c[:, 20].mean() for c in changed)


def test_a_narrow_line_cuts_off_what_is_high_and_leaves_the_rest():
    out = heard(clip(peak=40), narrow=1.0)
    high = centres(OURS, BINS) > 6000
    assert (out[:, high] < clip(peak=40)[:, high] - 15).all() and np.abs(
        out[:, :30] - clip(peak=40)[:, :30]
    ).max() <= 1


def test_a_gap_hides_some_rows_and_bins_and_no_more_than_a_sixth():
    hidden = heard(clip(), hidden=1.0) < clip() - 5
    assert 0 < hidden[:, 20].mean() <= 1 / 6 + 0.02 or hidden[:, 20].all()


def test_a_short_clip_moves_among_what_is_softest_in_it():
    item = np.full((ROWS, BINS), 50, np.uint8)
    item[40:60] = clip(45, 50)[40:60]
    starts = {int((heard(item, seed)[:, 20] > 100).argmax()) for seed in range(30)}
    assert 43 in starts and len(starts) > 8
