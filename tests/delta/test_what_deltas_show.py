"""What somebody can read in a delta of few images, by sums and by layers: the reasons for masks and noise."""

import numpy as np
from cases import each
from headdata import embeddings, fitted
from oracle import Oracle
from toynets import everything, images, items, recipe, toy, trainer

from tinytrain.heads.moments import UNIT
from tinytrain.heads.registry import HEADS
from tinytrain.heads.triangle import unpacked

SIZE, WAY = 40, 3
X, LABELS = embeddings(60, SIZE, way=WAY)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_sum_of_a_single_image_is_its_embedding():
    sums = fitted(HEADS["lda"], X[:WAY], LABELS[:WAY]).moments.sums
    for x, label in zip(X[:WAY], LABELS[:WAY], strict=True):
        assert cosine(sums[label], x) > 0.999999


def test_the_difference_of_two_releases_is_the_image_that_was_learnt_between_them():
    before, after = (fitted(HEADS["lda"], X[:n], LABELS[:n]).moments for n in (59, 60))
    learnt = after - before
    assert learnt.counts.sum() == 1
    assert cosine(learnt.sums[LABELS[59]] / UNIT, X[59]) > 0.999999


def test_products_of_few_images_span_the_space_of_their_embeddings_and_no_other():
    triangle = unpacked(fitted(HEADS["lda"], X[:5], LABELS[:5]).moments.products / UNIT)
    values, vectors = np.linalg.eigh(triangle + np.tril(triangle, -1).T)
    inside = vectors[:, values > 1e-3]
    assert inside.shape[1] == 5
    outside = X[:5] - X[:5] @ inside @ inside.T
    assert np.linalg.norm(outside, axis=1).max() < 1e-3 < np.linalg.norm(X[5:] @ inside, axis=1).min()
    assert np.linalg.norm(X[5:] - X[5:] @ inside @ inside.T, axis=1).min() > 0.1, "others are not in it"


@each("image", range(2))
def test_a_layer_that_was_trained_on_one_image_shows_what_it_was_given(image):
    """Of a layer with one place, the change of the weights of a channel by that of its bias is the input."""
    network, pixels = toy("headed", size=4), images(2, 4)
    plan = recipe(everything(network), step="constant")  # so that no other image has a part in the gradient
    made = trainer(network, plan, pixels, np.array([0, 1]))
    made.run("start")
    made.step(1, items(2), [(0, image)] * 2)
    last = len(network.layers) - 1
    weights, biases = (made.working.part(last, part) for part in ("weight", "bias"))
    moved = weights.astype(float) - network.weights[last], (biases.astype(float) - network.biases[last])[0]
    channel = np.abs(moved[1]).argmax()
    run = Oracle(network).forward(pixels[image][None])
    given = run.inputs[last].ravel()
    assert cosine(moved[0][:, channel] / moved[1][channel], given) > 0.999
