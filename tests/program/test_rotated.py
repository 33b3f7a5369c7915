"""Images read rotated: with its kernels turned, a network then pads as TensorFlow's SAME does."""

from dataclasses import replace

import numpy as np
import pytest
from toynets import ROWS, images_of, toy

from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.heads import cosine
from tinytrain.meta.training.full_network import Whole
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.runtime.predict import Predictor


def embeddings(network, images) -> np.ndarray:
    nothing, none = np.zeros((2, network.embedding_size), "f"), np.zeros(2, "f")
    head = cosine.CosineHead(cosine.METHOD, nothing, none, nothing, np.ones(2, np.int32))
    delta = Delta(network.digest, network.name, (), head, ("a", "b"), {})
    names = tuple(map(str, range(len(images))))
    given = Images(np.zeros(len(images), np.int32), names, lambda i, size: images[i])
    return Predictor(network, delta).embed(given)


def turned(network) -> Network:
    """`network` with every kernel turned by 180 degrees."""
    weights = []
    for layer, weight in zip(network.layers, network.weights, strict=True):
        taps = weight.reshape(layer.kernel**2, -1, layer.cout)
        weights.append(np.ascontiguousarray(taps[::-1]).reshape(weight.shape))
    return replace(network, weights=tuple(weights))


def same_padded(network, images) -> np.ndarray:
    """Embeddings in float64 as TensorFlow pads: as much as windows need, the odd one at the end."""
    spec = network.input
    x = (images - np.array(spec.mean)) * np.array(spec.scale)
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            skip = x
        weight = network.float_weight(i).astype(float)
        x = same_convolution(layer, x, weight.reshape(layer.kernel, layer.kernel, -1, layer.cout))
        x = x + network.bias(i) + (skip if layer.residual else 0)
        x = np.clip(x, 0, 6) if layer.relu6 else x
    return x.mean(axis=(1, 2))


def same_convolution(layer, x, kernel) -> np.ndarray:
    n, *hw, _ = x.shape
    out = [-(-side // layer.stride) for side in hw]
    needs = [max((o - 1) * layer.stride + layer.kernel - side, 0) for o, side in zip(out, hw, strict=True)]
    x = np.pad(x, [(0, 0), *((need // 2, need - need // 2) for need in needs), (0, 0)])
    y = np.empty((n, *out, layer.cout))
    for r, q in np.ndindex(*out):
        top, left = r * layer.stride, q * layer.stride
        window = x[:, top : top + layer.kernel, left : left + layer.kernel]
        if layer.kind == "depthwise":
            y[:, r, q] = (window * kernel[:, :, 0]).sum(axis=(1, 2))
        else:
            y[:, r, q] = np.tensordot(window, kernel, 3)
    return y


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(16, 16, 3), (15, 20, 3), (17, 14, 1)])
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


@pytest.mark.parametrize("size", [16, 18, 15])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5, 7])
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
