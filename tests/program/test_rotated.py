"""Images read rotated: with its kernels turned, a network then pads as TensorFlow's SAME does."""

from dataclasses import replace

import numpy as np
from cases import each
from samepadding import same_padded, turned
from toynets import ROWS, images_of, toy

from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.heads import cosine
from tinytrain.meta.training.full_network import Whole
from tinytrain.network.input_spec import InputSpec
from tinytrain.runtime.predict import Predictor


def embeddings(network, images) -> np.ndarray:
    nothing, none = np.zeros((2, network.embedding_size), "f"), np.zeros(2, "f")
    head = cosine.CosineHead(cosine.METHOD, nothing, none, np.ones(2, np.int32), nothing)
    delta = Delta(network.digest, network.name, (), head, ("a", "b"), {})
    names = tuple(map(str, range(len(images))))
    given = Images(np.zeros(len(images), np.int32), names, lambda i, size: images[i])
    return Predictor(network, delta).embed(given)


@each("name", ROWS)
@each("shape", [(16, 16, 3), (15, 20, 3), (17, 14, 1)])
def test_a_rotated_network_is_the_plain_one_on_turned_images(name, shape):
    plain = toy(name, spec=InputSpec(shape))
    rotated = replace(plain, input=replace(plain.input, rotated=True))
    images = images_of(shape, 3)
    there = embeddings(plain, np.ascontiguousarray(np.rot90(images, 2, (1, 2))))
    np.testing.assert_array_equal(embeddings(rotated, images), there)
    assert np.abs(embeddings(plain, images) - there).max() > 0.01


def test_meta_training_rotates_too():
    plain = toy("blocks")
    images = images_of(plain.input.shape, 4)
    there = Whole(plain, 4, trained=False).embed(np.ascontiguousarray(np.rot90(images, 2, (1, 2))))
    rotated = replace(plain, input=replace(plain.input, rotated=True))
    np.testing.assert_array_equal(Whole(rotated, 4, trained=False).embed(images), there)


@each("size", [16, 18, 15])
@each("stride", [1, 2])
@each("kernel", [3, 5, 7])
def test_with_turned_kernels_it_pads_as_tensorflow_does(kernel, stride, size):
    """Its sides are even and odd on the way: 15 is halved to 8, 18 to 9."""
    rows = (
        ("conv", 4, kernel, stride, True, 0, False), ("depthwise", 4, kernel, 2, True, 1, False),
        ("pointwise", 6, 1, 1, False, 1, False), ("depthwise", 6, kernel, stride, True, 2, False),
        ("pointwise", 8, 1, 1, False, 2, False),
    )  # fmt: skip
    tensorflow = toy(rows, spec=InputSpec((size, size, 3)))
    ours = turned(replace(tensorflow, input=replace(tensorflow.input, rotated=True)))
    images = images_of((size, size, 3), 2)
    expected = same_padded(tensorflow, images)
    assert np.abs(embeddings(ours, images) - expected).max() < 1e-5 * np.abs(expected).max()
    if stride == 2 or size != 15:
        assert np.abs(embeddings(tensorflow, images) - expected).max() > 1e-3 * np.abs(expected).max()
