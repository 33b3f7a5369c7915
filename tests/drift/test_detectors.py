"""Drift detectors: public golden numbers, restored states, degenerate streams, bounded memory."""

import json
import math
import random

import pytest

from tinytrain.base.errors import InputError, UsageError
from tinytrain.drift.detector import DRIFT, STABLE, WARNING
from tinytrain.drift.page_hinkley import PageHinkley
from tinytrain.drift.registry import DETECTORS, new_detector, restore

ON_ERRORS = ("cusum", "ddm")  # these take 0 to 1, the others any number


def said(detector, stream) -> dict[str, list[int]]:
    """The places of the stream at which the detector said what."""
    found = {STABLE: [], WARNING: [], DRIFT: []}
    for place, value in enumerate(stream):
        found[detector.update(value)].append(place)
    return found


def alarms(name: str, stream) -> list[int]:
    return said(new_detector(name), stream)[DRIFT]


def bits(rng, count: int, rate: float = 0.5) -> list[int]:
    return rng.choices([0, 1], k=count, weights=[1 - rate, rate])


def pieces(seed: int, of_bits: bool) -> list[float]:
    """A stream of at least 3,000 values whose level changes every few hundred."""
    rng, stream = random.Random(seed), []
    while len(stream) < 3000:
        count = rng.randrange(100, 700)
        if of_bits:
            stream += bits(rng, count, rng.random())
        else:
            mean, deviation = rng.uniform(-5, 5), rng.uniform(0.01, 3)
            stream += [rng.gauss(mean, deviation) for _ in range(count)]
    return stream


def errors_then(rate: float, later: float, seed: int, count: int = 400) -> list[int]:
    rng = random.Random(seed)
    return bits(rng, count, rate) + bits(rng, count, later)


# The alarms of river 0.26.1 with its defaults; seeds 12345 and 42 are those of its documentation.
@pytest.mark.parametrize("name, place", [("adwin", 1023), ("page-hinkley", 1006)])
def test_a_jump_is_found_at_the_published_place(name, place):
    rng = random.Random(12345)
    stream = rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)
    assert alarms(name, stream) == [place]


def test_ddm_warns_and_alarms_at_the_published_places():
    rng = random.Random(42)
    stream = rng.choices([0, 1], k=1000) + rng.choices([0, 1], k=1000, weights=[0.3, 0.7])
    found = said(new_detector("ddm"), stream)
    assert found[DRIFT] == [1334]
    assert found[WARNING][0] == 1084 and min(p for p in found[WARNING] if p > 1334) == 1492


GOLDEN = [
    ("adwin", 1, [287, 511, 895, 1311, 1503, 2175, 2687]),
    ("adwin", 2, [191, 383, 543, 1151, 1471, 1919, 2303, 2591, 2687]),
    ("adwin", 3, [383, 1087, 1279, 1695, 1919, 2591]),
    ("page-hinkley", 1, [252, 489, 804, 1288, 1476, 1606, 1776, 1992, 2137, 2649, 3006]),
    ("page-hinkley", 2, [161, 310, 390, 537, 1127, 1454, 1913, 2181, 2272, 2338, 2483, 2565, 2670]),
    ("page-hinkley", 3, [378, 553, 621, 967, 1044, 1258, 1594, 1921, 2091, 2216, 2398, 2521]),
    ("ddm", 1, [337, 1221]),
    ("ddm", 2, [733, 2751]),
    ("ddm", 3, [1549]),
]


@pytest.mark.parametrize("name, seed, places", GOLDEN)
def test_every_alarm_of_a_stream_with_many_changes_is_that_of_the_reference(name, seed, places):
    assert alarms(name, pieces(seed, name in ON_ERRORS)) == places


def test_cusum_is_the_sum_of_log_likelihood_ratios():
    detector, rng = new_detector("cusum"), random.Random(3)
    wrong, g = 0, 0.0
    for n, error in enumerate(bits(rng, 300, 0.3)):
        p0 = (wrong + 1) / (n + 2)
        p1 = min(0.99, p0 + 0.25)
        g = max(0.0, g + (math.log(p1 / p0) if error else math.log((1 - p1) / (1 - p0))))
        wrong += error
        assert detector.update(error) == STABLE and detector.g == pytest.approx(g, rel=1e-12)


def test_cusum_finds_labels_that_were_permuted_within_a_few_images():
    """A classifier that was right for 97 % is wrong for all but one in ten: alarm near 403 for 400."""
    found = [alarms("cusum", errors_then(0.03, 0.9, seed)) for seed in range(20)]
    assert sorted(min(p for p in places if p >= 400) for places in found)[10] in range(402, 406)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_cusum_rarely_alarms_while_nothing_changes(rate):
    streams = [bits(random.Random(seed), 1000, rate) for seed in range(60)]
    assert sum(bool(alarms("cusum", stream)) for stream in streams) <= 6


@pytest.mark.parametrize("name, beyond", [("cusum", 5), ("ddm", 10), ("adwin", 64)])
def test_since_is_about_the_number_of_values_after_the_change(name, beyond):
    """ADWIN knows it but for the length of a bucket."""
    near = 0
    for seed in range(20):
        detector = new_detector(name)
        for place, value in enumerate(errors_then(0.1, 0.9, seed)):
            if detector.update(value) == DRIFT and place >= 400:
                near += abs(detector.since - (place - 399)) <= beyond
                break
    assert near >= 15


@pytest.mark.parametrize("sign", [1, -1])
def test_since_of_page_hinkley_counts_from_the_lowest_or_the_highest_sum(sign):
    detector, rng = PageHinkley(delta=0.1), random.Random(1)
    stream = [sign * (rng.gauss(0, 0.1) + 10 * (place >= 200)) for place in range(300)]
    place = next(p for p, value in enumerate(stream) if detector.update(value) == DRIFT)
    assert place > 200 and abs(detector.since - (place - 199)) <= 3


@pytest.mark.parametrize("name", DETECTORS)
def test_a_restored_detector_goes_on_as_the_first_would_have(name):
    stream = pieces(5, name in ON_ERRORS)
    whole, parts = new_detector(name), new_detector(name)
    for value in stream:
        parts = restore(json.loads(json.dumps(parts.state(), allow_nan=False)))
        assert parts.update(value) == whole.update(value)
        assert parts.state() == whole.state()


@pytest.mark.parametrize("name", DETECTORS)
def test_a_state_is_a_copy(name):
    detector = new_detector(name)
    for value in pieces(1, True)[:40]:
        detector.update(value)
    state, text = detector.state(), json.dumps(detector.state())
    for value in pieces(2, True):
        detector.update(value)
    assert json.dumps(state) == text


@pytest.mark.parametrize("name", DETECTORS)
def test_reset_forgets_every_value_and_keeps_the_settings(name):
    used = new_detector(name)
    least = used.least = 77
    fresh = {**new_detector(name).state(), "least": least}
    for value in pieces(1, True):
        used.update(value)
    used.reset()
    assert {**used.state(), "since": 0} == fresh


WRONG = [
    {},
    [],
    None,
    {"detector": "nose"},
    {"detector": "adwin"},
    {**new_detector("adwin").state(), "rows": []},
    {**new_detector("adwin").state(), "rows": [[[1.0]]]},
    {**new_detector("adwin").state(), "rows": [[[1.0, math.nan]]]},
    {**new_detector("adwin").state(), "rows": [[[1.0, -1.0]]]},
    {**new_detector("page-hinkley").state(), "mean": math.inf},
    {**new_detector("page-hinkley").state(), "values": -1},
    {**new_detector("ddm").state(), "p": 2.0},
    {**new_detector("cusum").state(), "g": "1"},
    {**new_detector("cusum").state(), "error_rate": 7},
]


@pytest.mark.parametrize("state", WRONG, ids=range(len(WRONG)))
def test_a_state_that_no_detector_can_have_had_is_refused_by_name(state):
    with pytest.raises(InputError) as refused:
        restore(state)
    assert refused.value.code == "drift-state"


def test_an_unknown_detector_is_refused_with_the_closest_name():
    with pytest.raises(UsageError, match="did you mean page-hinkley"):
        new_detector("pagehinkley")


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_finite_number_is_refused_and_changes_nothing(name, value):
    detector = new_detector(name)
    detector.update(1)
    before = detector.state()
    with pytest.raises(InputError) as refused:
        detector.update(value)
    assert refused.value.code == "drift-value" and detector.state() == before


@pytest.mark.parametrize("name", ON_ERRORS)
@pytest.mark.parametrize("value", [-0.01, 1.01])
def test_detectors_of_errors_refuse_what_is_no_error(name, value):
    with pytest.raises(InputError, match="from 0 to 1"):
        new_detector(name).update(value)


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("stream", [[0.0], [1.0], [0, 1]], ids=["zeros", "ones", "alternating"])
def test_a_stream_that_repeats_itself_has_no_drift(name, stream):
    found = said(new_detector(name), (stream * 20_000)[:20_000])
    assert not found[DRIFT]


@pytest.mark.parametrize("name", ["page-hinkley", "adwin"])
def test_a_level_far_from_zero_changes_nothing(name):
    """Sums of 10^9 with changes of 1 keep the precision that these need."""
    rng = random.Random(12345)
    stream = [1e9 + v for v in rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)]
    assert alarms(name, stream) == [{"adwin": 1023, "page-hinkley": 1006}[name]]


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_a_million_values_neither_grow_the_state_nor_blind_the_detector(name):
    detector, rng = new_detector(name), random.Random(0)
    sizes, stream = [], bits(rng, 1000, 0.2)  # the same again and again: whatever is found is rounding
    for turn in range(1000):
        assert sum(detector.update(v) == DRIFT for v in stream) == 0
        if turn in (9, 99, 999):
            sizes.append(len(json.dumps(detector.state())))
    assert sizes[-1] < 6_000
    assert sizes[-1] - sizes[-2] < 1_600  # ADWIN: a row for every doubling; the others: a digit
    if name == "adwin":
        assert detector.width == 10**6
        assert sum(map(len, detector.rows)) <= 5 * math.log2(10**6)
        assert sum(u for row in detector.rows for u, _ in row) == 1000 * sum(stream)
    if name == "page-hinkley":
        assert detector.mean == pytest.approx(sum(stream) / 1000, abs=1e-12)
    assert any(detector.update(1) == DRIFT for _ in range(5_000))
