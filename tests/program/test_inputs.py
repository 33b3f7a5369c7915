"""Inputs of one channel, of another form than a square, and with a mean and scale for each channel."""

import numpy as np
import pytest
from cases import each
from toynets import images_of, toy
from toysegments import assert_forward_equals_oracle, assert_gradients_equal_oracle, backward_segment

from tinytrain.episode.episode import Episode, Images
from tinytrain.network.input_spec import InputSpec
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Update
from tinytrain.runtime.predict import Predictor

MEAN, SCALE = (123.675, 116.28, 103.53), (1 / 58.395, 1 / 57.12, 1 / 57.375)  # ImageNet's, of 0..255
SPECS = {
    "one channel": InputSpec((16, 16, 1), mean=96.0, scale=1 / 40),
    "one channel, not square": InputSpec((20, 13, 1), mean=96.0, scale=1 / 40),
    "three channels": InputSpec((16, 16, 3), mean=MEAN, scale=SCALE),
    "three channels, not square": InputSpec((13, 20, 3), mean=MEAN, scale=SCALE),
    "rotated": InputSpec((13, 20, 3), mean=MEAN, scale=SCALE, rotated=True),
}
EACH = each("spec", SPECS.values(), ids=SPECS)


@EACH
@each("name", ["blocks", "headed"])
def test_embeddings_equal_the_oracle(spec, name):
    assert_forward_equals_oracle(toy(name, spec=spec))


@EACH
def test_gradients_of_a_trained_first_layer_equal_the_oracle(spec):
    network = toy("headed", spec=spec)
    stem = Update(0, tuple(range(network.layers[0].cout)), bias=True)
    segment = assert_gradients_equal_oracle(network, [stem], n=2)
    assert any(call.kernel == "enter" for call in segment.calls)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_held_in_as_many_bytes_as_it_has_values(channels):
    network = toy("headed", spec=InputSpec((20, 13, channels)))
    source, *_ = backward_segment(network, [Update(0, (0,))])[1:]
    assert source.nbytes == 20 * 13 * channels


def episode_of(spec, shots=4):
    """Two classes, a dark and a light one."""
    labels = np.repeat(np.arange(2, dtype=np.int32), 2 * shots)
    pixels = images_of(spec.shape, len(labels)) // 3 + np.uint8(160) * labels[:, None, None, None].astype(
        "u1"
    )

    def read(i, size):
        assert size == spec.size
        return pixels[i]

    names = tuple(f"{i}" for i in range(len(labels)))
    both = Images(labels, names, read)
    return Episode(both.take(range(0, len(labels), 2)), both.take(range(1, len(labels), 2)), ("a", "b"), True)


@EACH
def test_a_network_of_any_input_adapts_and_predicts(spec):
    network, episode = toy("blocks", spec=spec), episode_of(spec)
    report = adapt(network, episode, budget=Budget(2_000_000), force=True)
    predictor = Predictor(network, report.delta)
    assert predictor.probabilities(episode.query).argmax(1).tolist() == episode.query.labels.tolist()
