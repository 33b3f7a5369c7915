"""What is measured of left-out images, against the definition in float64; suspects that follow from it."""

import numpy as np
import pytest
from cases import each
from headdata import unit

from tinytrain.episode.episode import Images
from tinytrain.guard.suspects import GAP, MARGIN, chance, find_suspects
from tinytrain.heads.leave_one_out import CHANCE, COLUMNS, LIKE, NEAR, OTHER, OWN, macs, measure

WAY, SIZE = 4, 12
LABELS = np.array([0, 1, 2, 3, 0, 1, 2, 0, 1, 0], np.int32)
SHOTS = np.bincount(LABELS).astype(np.float32)


def embeddings(seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((WAY, SIZE))
    return unit(2 * centres[LABELS] + noise * rng.standard_normal((len(LABELS), SIZE)) + 3).astype("f")


def means(x):
    return np.stack([x[k == LABELS].mean(axis=0) for k in range(WAY)])


def measured(x, batch=10):
    rows = np.full((len(x), COLUMNS), 7, np.float32)
    for first in range(0, len(x), batch):
        part = slice(first, first + batch)
        measure(rows[part], x[part], LABELS[part], means(x), SHOTS, np.empty((WAY, SIZE), "f"))
    return rows


def by_definition(x):
    """The same from images that are really left out, in float64."""
    x, rows = x.astype(float), np.full((len(x), COLUMNS), np.nan)
    centre = x.mean(axis=0)
    for i, label in enumerate(LABELS):
        e = unit(x[i] - centre)
        similar = unit(means(x) - centre) @ e
        similar[label] = -np.inf
        rows[i, OTHER], rows[i, LIKE] = similar.max(), similar.argmax()
        rows[i, CHANCE] = np.mean([(e @ unit(x[j] - centre)) ** 2 for j in range(len(x)) if j != i])
        left = x[(label == LABELS) & (np.arange(len(x)) != i)]
        if len(left):
            rows[i, OWN], rows[i, NEAR] = e @ unit(left.mean(axis=0) - centre), x[i] @ unit(left.mean(axis=0))
    return rows


@each("seed", range(5))
def test_measures_are_those_of_images_that_are_really_left_out(seed):
    x = embeddings(seed)
    np.testing.assert_allclose(measured(x), by_definition(x), atol=2e-5)


def test_a_class_of_one_image_cannot_be_judged():
    rows = measured(embeddings())
    assert np.isnan(rows[3, OWN]) and np.isnan(rows[3, NEAR]) and np.isfinite(rows[3, OTHER])


def test_batches_change_only_the_images_that_similarity_by_chance_is_taken_over():
    x = embeddings()
    rows, parts = measured(x), measured(x, batch=4)
    np.testing.assert_allclose(parts[:, :CHANCE], rows[:, :CHANCE], atol=1e-5)
    assert chance(parts) == pytest.approx(chance(rows), rel=0.4)
    assert np.isnan(measured(x, batch=1)[:, CHANCE]).all() and chance(measured(x, batch=1)) == 1


@pytest.mark.parametrize("x", [np.ones((10, SIZE)), np.eye(10, SIZE), np.zeros((10, SIZE))])
def test_images_that_are_all_alike_or_have_nothing_in_common_give_finite_measures(x):
    rows = measured((x / max(1, np.linalg.norm(x[0]))).astype("f"))
    judged = np.arange(len(rows)) != 3
    assert np.isfinite(rows[judged]).all() and (np.abs(rows[judged][:, [OWN, OTHER, NEAR]]) <= 1.001).all()
    assert chance(rows) > 0


def test_macs_grow_with_images_ways_and_size():
    assert macs(25, 25, 5, 160) == 25 * (25 + 17) * 160 + 10 * 160
    assert macs(500, 50, 50, 160) < 20e6


def images(labels=LABELS):
    return Images(labels, tuple(f"p{i}" for i in range(len(labels))), lambda i, size: None)


NAMES = ("ant", "bee", "cat", "dog")


def rows_with(changes: dict) -> np.ndarray:
    """Rows of images that all fit their class, but for `changes`: {(image, column): value}."""
    rows = np.tile(np.array([0.6, 0.1, 2, 0.8, 0.04], np.float32), (len(LABELS), 1))
    for place, value in changes.items():
        rows[place] = value
    return rows


def test_a_image_that_is_closer_to_another_class_is_suspected_of_a_wrong_label():
    (found,) = find_suspects(rows_with({(4, OWN): 0.0, (4, OTHER): 0.5}), images(), NAMES)
    assert (found.index, found.name, found.given, found.looks_like) == (4, "p4", "ant", "cat")
    assert found.reason == "mislabelled" and found.score == pytest.approx(0.5 / 0.2 / MARGIN, rel=1e-4)


def test_a_image_far_from_the_others_of_its_class_is_suspected_of_being_off_topic():
    (found,) = find_suspects(rows_with({(1, NEAR): 0.3}), images(), NAMES)
    assert (found.index, found.reason) == (1, "off-topic")
    assert found.score == pytest.approx(0.5 / 0.2 / GAP, rel=1e-4)


def test_suspects_come_by_falling_score_and_images_without_company_never():
    changes = {(0, OWN): -0.3, (5, OWN): -0.9, (3, OWN): np.nan, (3, NEAR): np.nan}
    assert [s.index for s in find_suspects(rows_with(changes), images(), NAMES)] == [5, 0]
    nothing = rows_with({(i, column): np.nan for i in range(10) for column in (OWN, NEAR)})
    assert find_suspects(nothing, images(), NAMES) == ()


def test_a_wrong_label_among_clear_classes_is_the_first_suspect():
    found = 0
    for seed in range(20):
        x, label = embeddings(seed, noise=0.6), LABELS[0]
        try:
            LABELS[0] = 2
            suspects = find_suspects(measured(x), images(), NAMES)
        finally:
            LABELS[0] = label
        found += bool(suspects) and suspects[0].index == 0 and suspects[0].looks_like == "ant"
    assert found >= 18
