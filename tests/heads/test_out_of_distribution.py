"""The limit of the energy: against its formula, on tasks of known distribution, and where nothing is."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from headdata import unit, unit32
from scipy.special import logsumexp
from scipy.stats import t as student

from tinytrain import kernels
from tinytrain.heads import calibration, out_of_distribution
from tinytrain.heads.head import FITTING, IDENTIFIED, UNCERTAIN, UNKNOWN, Support
from tinytrain.heads.lda import RIDGE
from tinytrain.heads.out_of_distribution import (
    ALWAYS,
    LOST,
    MOST_STEPS,
    SCALE,
    TAKEN,
    TRAINED,
    Limit,
    LimitFinder,
    above,
    energy,
    quantile,
)
from tinytrain.heads.registry import HEADS

SIZE, WAY = 24, 5
LINEAR = each("kind", ["cosine", "lda", "mild-lda"])


class Task:
    """Gaussian classes around random centres: `images(n)` are n of each, `others(n)` of new classes."""

    def __init__(self, seed: int, spread: float = 1.0):
        self.rng, self.spread = np.random.default_rng(seed), spread
        self.centres = self.rng.standard_normal((WAY, SIZE))

    def images(self, n: int):
        labels = np.repeat(np.arange(WAY, dtype=np.int32), n)
        noise = self.rng.standard_normal((len(labels), SIZE))
        return unit32(2 * self.centres[labels] + self.spread * noise), labels

    def others(self, n: int):
        return unit32(2 * self.rng.standard_normal((n, SIZE)) + self.rng.standard_normal((n, SIZE)))


def fitted(kind, embeddings, labels, steps=0, background=None):
    def batches():
        yield embeddings, labels

    images, way, size = np.bincount(labels), labels.max() + 1, embeddings.shape[1]
    any_number, for_them = HEADS[kind].buffers(way, size), HEADS[kind].buffers_for(way, size, len(labels))
    buffers = (*any_number, *(b for b in for_them if b.lifetime == FITTING))  # the form that updates keep
    arrays = {b.name: b.allocate(0xFF) for b in buffers}
    return HEADS[kind].fit(kernels.load(), arrays, Support(batches, batches, images, steps, None, background))


def states(head, embeddings):
    return [head.verdict(e).state for e in embeddings]


@each("kind", list(HEADS))
def test_a_verdict_computes_logits_once(kind, monkeypatch):
    x, labels = Task(0).images(4)
    head, calls = fitted(kind, x, labels), []
    logits = type(head).logits
    monkeypatch.setattr(type(head), "logits", lambda self, e: calls.append(e.shape) or logits(self, e))
    assert head.verdict(x[0]).label == labels[0]
    assert calls == [(1, SIZE)]


def lead_of(head, embeddings, labels):
    logits = head.logits(embeddings).astype(float)
    own = logits[np.arange(len(labels)), labels]
    return (own - (logits.sum(axis=1) - own) / (logits.shape[1] - 1)).mean()


def left_out(kind, x, labels, i):
    """Logits (way,) of image i by a head that has not seen it; the ridge and the noise of means stay."""
    rest, n = np.arange(len(x)) != i, len(x)
    means = np.stack([x[rest & (labels == k)].mean(axis=0) for k in range(WAY)])
    if kind == "cosine":
        return unit(means) @ x[i]
    shrinkage = HEADS[kind].shrinkage
    scatter, without = (
        sum(np.cov(x[some & (labels == k)].T, bias=True) * (some & (labels == k)).sum() for k in range(WAY))
        for some in (np.ones(n, bool), rest)
    )
    ridge = (shrinkage * np.trace(scatter) / n / SIZE + RIDGE) * np.eye(SIZE)
    whole = np.linalg.inv((1 - shrinkage) * scatter / n + ridge)
    noise = np.trace(whole @ scatter / n)
    left = np.bincount(labels[rest])
    inverse = np.linalg.inv((1 - shrinkage) * without / n + ridge)
    return means @ inverse @ x[i] - 0.5 * (np.einsum("kd,de,ke->k", means, inverse, means) - noise / left)


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_the_energy_is_a_scaled_logarithm_of_a_sum_of_exponentials(scale):
    logits = np.random.default_rng(0).standard_normal(7).astype(np.float32) * 50
    expected = scale * logsumexp(logits.astype(float) / scale)
    assert energy(logits, scale) == pytest.approx(expected, rel=1e-12)


@each("count", [1, 2, 3, 10, 11, 25, 97])
def test_the_lowest_energies_give_the_quantile_of_all(count):
    values = np.random.default_rng(count).standard_normal(count)
    finder = LimitFinder(1.0, 0.0, count)
    for value in values:
        finder.add(np.array([value, -1e9]), 0)
    assert len(finder.lowest) <= LOST * count + 2, "it keeps a tenth"
    found = quantile(sorted(-e for e in finder.lowest), count)
    assert found == pytest.approx(np.quantile(values, LOST), abs=1e-12)


@LINEAR
def test_the_limit_follows_from_left_out_images_and_the_lead(kind, monkeypatch):
    """Logits of left-out images are those of float64, with another mean and another covariance."""
    seen, add = [], LimitFinder.add
    monkeypatch.setattr(
        LimitFinder, "add", lambda self, logits, k: (seen.append(logits.copy()), add(self, logits, k))
    )
    x, labels = Task(0).images(6)
    head = fitted(kind, x, labels, steps=20)
    lead = lead_of(head, x, labels)
    assert head.limit.scale == pytest.approx(SCALE * lead, rel=1e-4)
    expected = np.array([left_out(kind, x.astype(float), labels, i) for i in range(len(labels))])
    np.testing.assert_allclose(seen, expected, atol=1e-4 * lead)
    energies = [energy(row, head.limit.scale) for row in seen]
    expected = np.quantile(energies, LOST) - lead * (ALWAYS + TRAINED * 20 / MOST_STEPS)
    assert len(seen) == len(labels) and head.limit.least == pytest.approx(expected, abs=1e-3 * lead)


@LINEAR
@each("shots", [5, 20])
def test_new_images_of_untrained_tasks_are_lost_as_seldom_as_promised(kind, shots):
    lost = refused = 0.0
    for seed in range(30):
        task = Task(seed)
        head = fitted(kind, *task.images(shots))
        lost += np.mean([s == UNKNOWN for s in states(head, task.images(8)[0])]) / 30
        refused += np.mean([s == UNKNOWN for s in states(head, task.others(40))]) / 30
    assert 0.02 < lost < LOST + 0.02
    assert refused > 0.9, "unrelated classes are far away in these tasks"


@LINEAR
def test_training_lowers_the_limit_and_raises_the_temperature_up_to_so_many_steps(kind):
    x, labels = Task(1).images(5)
    heads = [fitted(kind, x, labels, steps) for steps in (0, 10, 40, 400)]
    least, temperature = zip(*((h.limit.least, h.temperature) for h in heads), strict=True)
    assert least[0] > least[1] > least[2] == least[3]
    assert temperature[0] == temperature[1] < temperature[2] == temperature[3]
    lead = lead_of(heads[0], x, labels)
    assert temperature[0] == pytest.approx(calibration.LEAD_FRACTION * lead, rel=1e-3)
    assert least[0] - least[2] == pytest.approx(TRAINED * lead, rel=1e-3)


def test_fewer_images_of_a_class_are_memorised_more():
    def fraction(shots: int) -> float:
        return calibration.lead_fraction(Support(None, None, np.full(3, shots), steps=40))

    assert fraction(1) > fraction(5) > calibration.LEAD_FRACTION


@LINEAR
def test_a_single_image_per_class_gives_a_limit_below_its_own_energy(kind):
    task = Task(2, spread=0.5)
    x, labels = task.images(1)
    head = fitted(kind, x, labels)
    assert np.isfinite(head.limit[:2]).all() and set(states(head, x)) == {IDENTIFIED}
    own = np.mean([s != UNKNOWN for s in states(head, task.images(20)[0])])
    strangers_refused = np.mean([s == UNKNOWN for s in states(head, task.others(100))])
    assert own > 0.8 and strangers_refused > 0.5


@each("kind", list(HEADS))
def test_images_that_are_all_alike_give_no_limit_and_no_error(kind):
    same = unit32(np.ones((9, SIZE)))
    head = fitted(kind, same, np.repeat(np.arange(3, dtype=np.int32), 3))
    if kind not in ("rce", "oselm-ae"):  # which say so by themselves
        assert head.limit is None and states(head, same[:1]) == [IDENTIFIED]


@each("kind", list(HEADS))
def test_every_head_gives_finite_limits_and_known_states(kind):
    for shots in (1, 2, 5):
        x, labels = Task(3).images(shots)
        head = fitted(kind, x, labels, steps=10)
        assert head.limit is None or (np.isfinite(head.limit[:2]).all() and head.limit.scale > 0)
        assert set(states(head, Task(4).others(5))) <= {IDENTIFIED, UNCERTAIN, UNKNOWN}


def test_classes_of_one_image_beside_others_do_not_spoil_the_limit():
    x, labels = Task(5).images(6)
    some = np.flatnonzero((labels > 0) | (np.arange(len(labels)) == 0))  # class 0 has one image
    whole, uneven = fitted("lda", x, labels), fitted("lda", x[some], labels[some])
    assert uneven.limit.least == pytest.approx(whole.limit.least, abs=0.5 * lead_of(whole, x, labels))


def test_logits_that_are_no_numbers_are_of_no_class():
    limit = Limit(1.0, -1e30)
    assert limit.admits(np.zeros(3, "f"))
    for wrong in (np.nan, -np.inf, np.inf):
        assert not limit.admits(np.array([0, 1, np.nan], "f")) and not limit.admits(np.full(3, wrong, "f"))


def test_a_lead_that_is_no_number_gives_no_limit():
    assert out_of_distribution.limit_finder(lambda k: np.full(3, np.nan), np.ones(3)) is None
    assert LimitFinder(1.0, np.nan, 0).limit(0) is None


def test_a_head_says_unknown_uncertain_or_identified():
    x, labels = Task(6).images(5)
    head = fitted("lda", x, labels)
    assert head.verdict(x[0]).state == IDENTIFIED and not head.verdict(x[0]).refused
    far = replace(head, limit=head.limit._replace(least=1e9)).verdict(x[0])
    assert far.state == UNKNOWN and far.refused and not far.rejected and far.label == labels[0]
    assert replace(head, temperature=1e9).verdict(x[0]).state == UNCERTAIN
    without = replace(head, limit=None, temperature=1e9).verdict(x[0], reject=0.9)
    assert without.state == IDENTIFIED and without.refused, "as deltas from before there was a limit"


def test_classes_that_are_added_keep_the_limit():
    x, labels = Task(7).images(5)
    head = fitted("cosine", x, labels)
    grown = head.extended(WAY + 1)
    new = Task(8).others(1).repeat(3, axis=0)
    before = states(head, new)
    grown.update(kernels.load(), new, np.full(3, WAY, np.int32))
    assert before == [UNKNOWN] * 3 and grown.limit == head.limit and states(grown, new) == [IDENTIFIED] * 3


# A class that is never an answer: the last one of these tasks.
LAST = WAY - 1


def with_background(task, shots, clips):
    """Images of a task, `shots` of each class but LAST, and `clips` of that."""
    x, labels = task.images(max(shots, clips))
    count = {LAST: clips}
    kept = [np.flatnonzero(labels == k)[: count.get(k, shots)] for k in range(WAY)]
    return x[np.concatenate(kept)], labels[np.concatenate(kept)]


def test_the_quantiles_of_student_are_those_of_scipy():
    for degrees in (2, 4, 9, 39, 1000):
        found = sum(part / degrees**power for power, part in enumerate(out_of_distribution.STUDENT))
        assert found == pytest.approx(student.ppf(1 - TAKEN, degrees), rel=0.02)


@LINEAR
def test_the_limit_is_what_new_images_of_the_background_are_seldom_above(kind):
    """By the formula of a prediction interval, from logits of left-out images in float64."""
    x, labels = with_background(Task(0, spread=6.0), 6, 12)
    head = fitted(kind, x, labels, background=LAST)
    mine = np.flatnonzero(labels == LAST)
    own = [above(left_out(kind, x.astype(float), labels, i), LAST) for i in mine]
    high = student.ppf(1 - TAKEN, len(own) - 1) * np.std(own, ddof=1) * np.sqrt(1 + 1 / len(own))
    assert head.limit.least == pytest.approx(np.mean(own) + high, rel=0.02) and head.limit.least > 0


@LINEAR
@each("clips", [5, 40])
def test_new_images_of_the_background_are_taken_as_seldom_as_promised_and_it_is_no_answer(kind, clips):
    taken = kept = 0.0
    for seed in range(20):
        task = Task(seed, spread=3.0)
        head = fitted(kind, *with_background(task, 5, clips), background=LAST)
        new, truth = task.images(20)
        found = [head.verdict(e) for e in new]
        assert all(v.state == UNKNOWN for v in found if v.label == LAST)
        named = np.array([v.label if v.state != UNKNOWN else -1 for v in found])
        taken += np.mean(named[truth == LAST] >= 0) / 20
        kept += np.mean((named == truth)[truth != LAST]) / 20
    assert 0.01 < taken < TAKEN + 0.02 and kept > 0.3


@pytest.mark.parametrize("kind", HEADS)
def test_no_head_answers_the_background_whatever_its_method_knows_of_it(kind):
    task = Task(1)
    x, labels = with_background(task, 4, 8)
    for head in (fitted(kind, x, labels, background=LAST), fitted(kind, x, labels).knowing(LAST)):
        found = [head.verdict(e) for e in np.concatenate([x, task.others(40)])]
        assert {v.state for v in found if v.label == LAST} == {UNKNOWN}
        assert any(v.state != UNKNOWN for v in found), "the others still are answers"


def test_a_background_of_one_image_refuses_what_is_likest_to_it_alone():
    x, labels = with_background(Task(2), 4, 1)
    head = fitted("lda", x, labels, background=LAST)
    assert head.limit == Limit(1.0, 0.0, LAST)
    assert [s == UNKNOWN for s in states(head, x)] == [k == LAST for k in labels]


def test_the_background_is_the_same_class_after_another_one_was_forgotten():
    x, labels = with_background(Task(3), 4, 8)
    head = fitted("lda", x, labels, background=LAST)
    assert head.limit.least == 0, "far from all, it need not be further away than the class is"
    fewer = head.without_class(0, WAY)
    assert fewer.limit.background == LAST - 1
    assert set(states(fewer, x[labels == LAST])) == {UNKNOWN}
    assert head.without_class(LAST, WAY).limit is None, "nothing is left to measure against"
    first = replace(head, limit=head.limit._replace(background=0))
    assert first.without_class(2, WAY).limit.background == 0
