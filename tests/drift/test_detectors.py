"""The detector of a risen error rate: its sum, what it finds, degenerate streams, bounded memory."""

import math
import random

import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.drift.detector import DRIFT, STABLE, Cusum


def alarms(stream) -> list[int]:
    """The places of the stream with an alarm."""
    detector = Cusum()
    return [place for place, value in enumerate(stream) if detector.update(value) == DRIFT]


def bits(rng, count: int, rate: float = 0.5) -> list[int]:
    return rng.choices([0, 1], k=count, weights=[1 - rate, rate])


def errors_then(rate: float, later: float, seed: int, count: int = 400) -> list[int]:
    rng = random.Random(seed)
    return bits(rng, count, rate) + bits(rng, count, later)


def test_it_is_the_sum_of_log_likelihood_ratios():
    detector, rng = Cusum(), random.Random(3)
    wrong, g = 0, 0.0
    for n, error in enumerate(bits(rng, 300, 0.3)):
        p0 = (wrong + 1) / (n + 2)
        p1 = min(0.99, p0 + 0.25)
        g = max(0.0, g + (math.log(p1 / p0) if error else math.log((1 - p1) / (1 - p0))))
        wrong += error
        assert detector.update(error) == STABLE and detector.g == pytest.approx(g, rel=1e-12)


def test_labels_that_were_permuted_are_found_within_a_few_images():
    """A classifier that was right for 97 % is wrong for all but one in ten: alarm near 403 for 400."""
    found = [alarms(errors_then(0.03, 0.9, seed)) for seed in range(20)]
    assert sorted(min(p for p in places if p >= 400) for places in found)[10] in range(402, 406)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_it_rarely_alarms_while_nothing_changes(rate):
    streams = [bits(random.Random(seed), 1000, rate) for seed in range(60)]
    assert sum(bool(alarms(stream)) for stream in streams) <= 6


def test_since_is_about_the_number_of_values_after_the_change():
    near = 0
    for seed in range(20):
        detector = Cusum()
        for place, value in enumerate(errors_then(0.1, 0.9, seed)):
            if detector.update(value) == DRIFT and place >= 400:
                near += abs(detector.since - (place - 399)) <= 5
                break
    assert near >= 15


def test_after_an_alarm_every_value_is_forgotten_and_the_settings_stay():
    used = Cusum(least=77)
    assert any(used.update(value) == DRIFT for value in errors_then(0.1, 0.9, 1))
    assert vars(used) == {**vars(Cusum(least=77)), "since": used.since}


@each("value", [math.nan, math.inf, -math.inf, -0.01, 1.01])
def test_what_is_no_error_is_refused_and_changes_nothing(value):
    detector = Cusum()
    detector.update(1)
    before = dict(vars(detector))
    with pytest.raises(InputError, match="from 0 to 1") as refused:
        detector.update(value)
    assert refused.value.code == "bad-value" and vars(detector) == before


@pytest.mark.parametrize("stream", [[0.0], [1.0], [0, 1]], ids=["zeros", "ones", "alternating"])
def test_a_stream_that_repeats_itself_has_no_drift(stream):
    assert not alarms((stream * 20_000)[:20_000])


@pytest.mark.slow
def test_a_million_values_do_not_blind_it():
    detector, stream = Cusum(), bits(random.Random(0), 1000, 0.2)  # the same again and again
    for _ in range(1000):
        assert sum(detector.update(v) == DRIFT for v in stream) == 0
    assert any(detector.update(1) == DRIFT for _ in range(5_000))
