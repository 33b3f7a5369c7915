"""Herding: the embeddings of the published rule are chosen, and their mean is near that of the class."""

import numpy as np
from cases import each

from tinytrain.heads.repeats import herded


def unit(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def by_the_book(x, count):
    """Equation 4 of iCaRL, written out."""
    x, chosen = x.astype(float), []
    for k in range(1, count + 1):
        best = min(
            (i for i in range(len(x)) if i not in chosen),
            key=lambda i: np.linalg.norm(x.mean(axis=0) - (x[i] + x[chosen].sum(axis=0)) / k),
        )
        chosen.append(best)
    return chosen


@each("count", [1, 2, 5, 11])
def test_the_embeddings_are_those_of_the_published_rule(count):
    x, labels = unit(24, 8), np.tile([1, 0], 12)
    found = herded(x, labels, count)
    expected = [np.flatnonzero(labels == k)[by_the_book(x[labels == k], count)] for k in (0, 1)]
    assert found == [*sorted(expected[0]), *sorted(expected[1])]


def test_their_mean_is_nearer_to_the_class_than_that_of_random_ones():
    x, rng = unit(30, 16), np.random.default_rng(1)
    mean = x.mean(axis=0)
    own = np.linalg.norm(x[herded(x, np.zeros(30, int), 5)].mean(axis=0) - mean)
    drawn = [np.linalg.norm(x[rng.permutation(30)[:5]].mean(axis=0) - mean) for _ in range(50)]
    assert own < min(drawn)


def test_small_classes_are_taken_whole_and_a_class_without_room_is_left_out():
    labels = np.array([2, 0, 0, 2, 5])
    assert herded(unit(5, 4), labels, 3) == [1, 2, 0, 3, 4]
    assert herded(unit(5, 4), labels, [0, 9, 1, 9, 9, 9])[-1] == 4
    assert len(herded(unit(5, 4), labels, [0, 9, 1, 9, 9, 9])) == 2


def test_embeddings_that_are_all_alike_or_no_numbers_give_as_many():
    for values in (np.zeros((6, 3), np.float32), np.full((6, 3), np.nan, np.float32)):
        assert len(set(herded(values, np.zeros(6, int), 4))) == 4
