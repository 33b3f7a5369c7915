"""Ridge regression against scikit-learn's, at once and in a stream."""

import numpy as np
import pytest
from headdata import embeddings, fitted, in_form

from tinytrain import kernels
from tinytrain.heads.ridge import METHOD

WAY, SIZE = 5, 30
SIZES = pytest.mark.parametrize("n", [8, 60, 400])


def reference(x, labels, alpha=METHOD.alpha):
    model = pytest.importorskip("sklearn.linear_model").Ridge(alpha=alpha)
    return model.fit(x, np.eye(labels.max() + 1)[labels])


def with_alpha(alpha):
    return type("WithAlpha", (type(METHOD),), {"alpha": alpha})()


@pytest.mark.parametrize("alpha", [0.01, METHOD.alpha, 10.0])
@pytest.mark.parametrize(
    "n, few", [(8, True), (60, True), (150, True), (8, False), (60, False), (400, False)]
)
def test_in_float64_it_is_that_of_scikit_learn(n, alpha, few):
    """But for what rounds embeddings and their products: that counts for more if alpha is small."""
    x, labels = embeddings(n, SIZE, way=WAY)
    head, model = (
        fitted(in_form(with_alpha(alpha), few), x, labels, "f8", "numpy"),
        reference(x, labels, alpha),
    )
    error = 1e-5 + 5e-6 / alpha
    np.testing.assert_allclose(head.weights, model.coef_, rtol=0, atol=error * np.abs(model.coef_).max())
    np.testing.assert_allclose(head.offsets, model.intercept_, rtol=0, atol=error)


@SIZES
def test_in_float32_it_gives_the_same_answers(n):
    x, labels = embeddings(n, SIZE, way=WAY)
    new, _ = embeddings(300, SIZE, seed=1, way=WAY)
    found, wanted = fitted(METHOD, x, labels).logits(new), reference(x, labels).predict(new)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_its_classes_are_those_of_scikit_learns_classifier():
    """Which has targets of -1 and 1: the same up to a factor."""
    x, labels = embeddings(60, SIZE, way=WAY)
    new, _ = embeddings(300, SIZE, seed=1, way=WAY)
    model = pytest.importorskip("sklearn.linear_model").RidgeClassifier(alpha=METHOD.alpha).fit(x, labels)
    assert (fitted(METHOD, x, labels).logits(new).argmax(axis=1) == model.predict(new)).all()


@pytest.mark.parametrize("first", [10, 100])
def test_a_stream_with_new_classes_ends_at_the_regression_on_all_images(first):
    x, labels = embeddings(600, SIZE, way=WAY)
    order = np.argsort(labels >= 2, kind="stable")  # classes that come later are new
    x, labels = x[order], labels[order]
    head = fitted(METHOD, x[:first], labels[:first])
    for k in range(first, len(x), 10):
        way = max(len(head.counts), int(labels[k : k + 10].max()) + 1)
        head = head.extended(way)
        head.update(kernels.load(), x[k : k + 10].astype("f"), labels[k : k + 10])
    new, _ = embeddings(300, SIZE, seed=1, way=WAY)
    np.testing.assert_allclose(head.logits(new), reference(x, labels).predict(new), atol=1e-3)


@pytest.mark.parametrize("n", [10, 60])
def test_what_is_left_out_leaves_the_regression_on_the_others(n, monkeypatch):
    """Up to rounding, for all classes; an image that is alone in its class is not left out."""
    x, labels = embeddings(n, SIZE, way=WAY)
    found = []

    def calibrated(head, support, leave_out, logits, finder):
        for e, label in zip(x, labels, strict=True):
            found.append(logits(e))
            leave_out(found[-1], e, label)
        return head

    monkeypatch.setattr("tinytrain.heads.calibration.calibrated", calibrated)
    fitted(METHOD, x, labels, "f8", "numpy")
    assert len(found) == n
    for i, logits in enumerate(found):
        others = np.arange(n) != i
        wanted = reference(x[others], labels[others]).predict(x[i : i + 1])[0]
        np.testing.assert_allclose(logits, wanted, atol=1e-4)
