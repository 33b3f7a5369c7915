"""The online layer against batch logistic regression, and what a stream may not do to it."""

import tracemalloc

import numpy as np
import pytest
from headdata import embeddings, fitted, unit32
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from tinytrain.heads import softmax
from tinytrain.heads.softmax import METHOD, SoftmaxHead

TRAINED = 1200


@pytest.fixture(scope="module")
def digits():
    """Shuffled images of length 1 (n, 64), and their labels."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return unit32(found.data[order]), found.target[order].astype(np.int32)


def untrained(way, size):
    arrays = {b.name: b.allocate() for b in METHOD.buffers(way, size)}
    return SoftmaxHead(METHOD, **arrays)


def accuracy(head, x, y):
    return float((head.logits(x).argmax(axis=1) == y).mean())


def test_one_pass_is_nearly_as_good_as_batch_logistic_regression(digits):
    x, y = digits
    head = untrained(10, 64)
    for i in range(TRAINED):
        head.update(None, x[i : i + 1], y[i : i + 1])
    batch = LogisticRegression(C=100, max_iter=2000).fit(x[:TRAINED], y[:TRAINED])
    assert batch.score(x[TRAINED:], y[TRAINED:]) > 0.96
    assert accuracy(head, x[TRAINED:], y[TRAINED:]) >= 0.9 * batch.score(x[TRAINED:], y[TRAINED:])


def test_memory_does_not_depend_on_the_length_of_the_stream(digits):
    x, y = digits
    head, peaks = untrained(10, 64), []
    nbytes = sum(b.nbytes for b in METHOD.tensors(10, 64))
    for n in (50, 1000):
        tracemalloc.start()
        for i in range(n):
            head.update(None, x[i : i + 1], y[i : i + 1])
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peaks.append(peak)
        assert kept < 2000 and sum(a.nbytes for a in head.arrays()) == nbytes
    assert abs(peaks[0] - peaks[1]) < 2000


def test_the_standardiser_knows_the_mean_and_the_variance_of_all_that_it_saw(digits):
    x, y = digits
    head = untrained(10, 64)
    head.update(None, x[:700], y[:700])
    wide = x[:700].astype(float)
    assert np.abs(head.statistics[0] - wide.mean(axis=0)).max() < 1e-6
    assert np.abs(head.statistics[1] / 699 - wide.var(axis=0, ddof=1)).max() < 1e-6


def test_a_class_in_the_middle_of_a_stream_is_learnt_in_100_images_and_costs_the_others_little(digits):
    x, y = digits
    old, test = np.flatnonzero(y[:TRAINED] < 9), slice(TRAINED, None)
    head = fitted(METHOD, x[old[:600]], y[old[:600]])
    known = y[test] < 9
    before = accuracy(head, x[test][known], y[test][known])
    grown = head.extended(10)

    def recall():
        return accuracy(grown, x[test][~known], y[test][~known])

    stream, rest, early = np.flatnonzero(y[:TRAINED] == 9), iter(old[600:]), 0.0
    for shown, i in enumerate(stream):  # by turns with an image of the others
        for k in (i, next(rest)):
            grown.update(None, x[k : k + 1], y[k : k + 1])
        early = recall() if shown == 49 else early
    assert early > 0.8 * recall() > 0.6, "after 100 images"
    assert accuracy(grown, x[test][known], y[test][known]) > before - 0.05


def test_a_step_is_that_of_the_gradient_divided_by_the_length_of_its_input():
    x, y = embeddings(40)
    head = fitted(METHOD, x, y)
    wide = head.extended(3)
    e, label = x[:1].astype("f"), int(y[0])
    z, w, b = head.standardised(e)[0].astype(float), head.weights.astype(float), head.biases.astype(float)
    logits = w @ z + b
    p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    step = softmax.RATE / (z @ z + 1) * (np.eye(3)[label] - p)
    rise = wide.step(e[0], label)
    assert np.abs(wide.weights - (w + np.outer(step, z))).max() < 1e-5
    assert np.abs(wide.biases - (b + step)).max() < 1e-5
    own = (wide.logits(e) - head.logits(e))[0, label]
    assert abs(own - rise) < 1e-3, "what leaving the image out takes away again"
