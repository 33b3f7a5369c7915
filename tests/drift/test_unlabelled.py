"""The detector for streams without labels: what is a change, and what is none."""

import numpy as np
import pytest
from headdata import unit

from tinytrain.drift.detector import DRIFT
from tinytrain.drift.unlabelled import LEAST_SPREAD, WARMUP, UnlabelledDrift

SIZE, WAY = 32, 4


CENTRES = unit(np.random.default_rng(0).standard_normal((WAY, SIZE)))


def images(classes, seed: int, shift: np.ndarray | float = 0.0, noise: float = 0.08) -> np.ndarray:
    """Unit embeddings around the means of `classes`, all moved by `shift`."""
    rng = np.random.default_rng(seed)
    return unit(CENTRES[classes] + noise * rng.standard_normal((len(classes), SIZE)) + shift)


def mixed(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(WAY, size=count)


def alarms(stream, centres=CENTRES, detector=None) -> list[int]:
    detector = detector or UnlabelledDrift(SIZE)
    return [place for place, e in enumerate(stream) if detector.update(e, centres) == DRIFT]


@pytest.mark.parametrize("centres", [CENTRES, None], ids=["class means", "none"])
def test_streams_that_do_not_change_have_hardly_an_alarm(centres):
    assert sum(bool(alarms(images(mixed(1000, k), k), centres)) for k in range(20)) <= 1


def test_images_farther_from_their_class_means_are_a_change():
    stream = [*images(mixed(100, 1), 1), *images(mixed(50, 2), 2, noise=0.16)]
    (place,) = alarms(stream)
    assert 100 <= place < 130


def test_some_strange_images_raise_no_alarm_however_strange_they_are():
    strange = [-unit(CENTRES.sum(axis=0))] * 4
    for seed in range(5):
        usual = images(mixed(300, seed), seed)
        assert not alarms([*usual[:200], *strange, *usual[200:]])


def test_a_class_is_measured_by_its_own_level():
    """Images of an even class become as various as those of another one always were."""

    def stream(count, seed, noise):
        rng = np.random.default_rng(seed)
        classes = rng.integers(2, size=count)
        return unit(CENTRES[classes] + noise[classes, None] * rng.standard_normal((count, SIZE)))

    before = stream(400, 1, np.array([0.03, 0.12]))
    after = stream(60, 2, np.array([0.12, 0.12]))
    assert not alarms(before) and alarms([*before, *after])


def test_a_shift_too_small_for_single_images_is_found_by_its_direction():
    """The distance to class means grows by less than its deviation between images."""
    shift = 0.2 * unit(np.random.default_rng(9).standard_normal(SIZE))
    before, after = images(mixed(2000, 1), 1), images(mixed(2000, 1), 1, shift)
    far = [1 - (e * CENTRES[mixed(2000, 1)]).sum(axis=1) for e in (before, after)]
    assert far[1].mean() - far[0].mean() < far[0].std()
    found = [
        alarms([*images(mixed(100, k), k), *images(mixed(30, k + 50), k + 50, shift)]) for k in range(20)
    ]
    assert sum(bool(places) and places[0] >= 100 for places in found) >= 18


def test_bursts_of_one_class_are_no_change_and_something_else_among_them_is():
    bursts = np.concatenate([mixed(150, 3), np.repeat(mixed(10, 4), 50)])
    assert not alarms(images(bursts, 3))
    other = unit(np.random.default_rng(5).standard_normal(SIZE))
    stream = [*images(bursts, 3), *unit(other + 0.08 * np.random.default_rng(6).standard_normal((50, SIZE)))]
    assert len(bursts) <= min(alarms(stream)) < len(bursts) + 20


def test_since_is_about_the_number_of_images_after_the_change():
    detector, rng = UnlabelledDrift(SIZE), np.random.default_rng(1)
    stream = [*images(mixed(100, 1), 1), *unit(rng.standard_normal((50, SIZE)))]
    place = next(place for place, e in enumerate(stream) if detector.update(e, CENTRES) == DRIFT)
    assert abs(detector.since - (place - 99)) <= 3


def test_what_comes_after_an_alarm_is_the_new_level():
    shift = 0.5 * unit(np.random.default_rng(9).standard_normal(SIZE))
    stream = [*images(mixed(100, 1), 1), *images(mixed(400, 2), 2, shift), *images(mixed(400, 3), 3)]
    first, back = alarms(stream)
    assert 100 <= first < 120 and 500 <= back < 520


def test_no_alarm_comes_in_the_first_images():
    rng = np.random.default_rng(1)
    assert not alarms([*images(mixed(20, 1), 1), *unit(rng.standard_normal((WARMUP - 20, SIZE)))])


def test_a_class_that_is_added_needs_no_new_detector():
    fifth = unit(np.random.default_rng(8).standard_normal(SIZE))
    detector, rng = UnlabelledDrift(SIZE), np.random.default_rng(2)
    assert not alarms(images(mixed(200, 1), 1), CENTRES, detector)
    more = np.vstack([CENTRES, fifth])
    new = more[rng.integers(WAY + 1, size=300)] + 0.08 * rng.standard_normal((300, SIZE))
    assert not alarms(unit(new), more, detector)


def test_a_head_without_means_gives_its_answers_instead():
    def places(classes, embeddings):
        detector = UnlabelledDrift(SIZE)
        pairs = zip(classes, embeddings, strict=True)
        return [n for n, (k, e) in enumerate(pairs) if detector.update(e, label=int(k)) == DRIFT]

    streams = [(mixed(1000, k), images(mixed(1000, k), k, noise=0.2)) for k in range(20)]
    assert sum(bool(places(*stream)) for stream in streams) <= 1
    classes = np.concatenate([mixed(100, 1), mixed(50, 2)])
    other = unit(np.random.default_rng(9).standard_normal(SIZE))
    stream = [*images(classes[:100], 1, noise=0.2), *images(classes[100:], 2, other, noise=0.2)]
    assert 100 <= min(places(classes, stream)) < 130


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_length_of_an_embedding_does_not_matter(factor):
    stream = np.concatenate([images(mixed(100, 1), 1), images(mixed(50, 2), 2, noise=0.2)])
    assert alarms(stream) == alarms(factor * stream)


@pytest.mark.parametrize("e", [CENTRES[0], np.zeros(SIZE), -CENTRES[0]], ids=["a mean", "zero", "opposite"])
def test_the_same_image_again_and_again_is_no_change(e):
    assert not alarms(np.tile(e.astype(np.float32), (5000, 1)))


def test_two_images_in_turn_are_no_change():
    assert not alarms(np.tile(images([0, 1], 1), (1000, 1)))


def test_rounding_alone_is_no_change():
    still = np.tile(CENTRES[0], (500, 1))
    still[250:] += 1e-3 * LEAST_SPREAD * np.random.default_rng(0).standard_normal((250, SIZE))
    assert not alarms(still)


def test_memory_does_not_grow_with_the_stream():
    detector, sizes = UnlabelledDrift(SIZE), []
    for turn in range(20):
        alarms(images(mixed(1000, turn), turn), CENTRES, detector)
        sizes.append(sum(np.size(value) for value in vars(detector).values()))
    assert len(set(sizes)) == 1
