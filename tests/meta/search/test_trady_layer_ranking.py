"""TraDy's ranking of layers: norms of the exact gradient per number that training a channel takes."""

import numpy as np
import pytest
from oracle import Oracle, gradients
from toynets import images, rng, toy

from tinytrain import kernels
from tinytrain.episode.episode import Episode, Images
from tinytrain.meta.search.trady_layer_ranking import channel_norms, highest, layer_ranks
from tinytrain.runtime.session import augmentation_of

LABELS = np.array([0, 1, 2, 0, 1, 2], np.int32)


def test_a_rank_is_the_gradient_norm_of_input_channels_over_the_numbers_they_take():
    for i, layer in enumerate(toy("blocks").layers):
        g, total = rng("gradient", i).standard_normal((layer.fan_in, layer.cout)), 0.0
        plane = layer.in_hw[0] * layer.in_hw[1]
        for c in range(layer.cin):
            own = g[:, c] if layer.kind == "depthwise" else g[c :: layer.cin]
            total += np.linalg.norm(own) / (own.size + plane)
        assert channel_norms(layer, g).sum() == pytest.approx(total)


def test_ranks_of_a_network_are_those_of_the_oracle_s_gradient():
    network, support_images = toy("blocks"), images(6)
    support = Images(LABELS, tuple("abcdef"), lambda i, size: support_images[i])
    episode = Episode(support, support.take([]), ("x", "y", "z"))
    draw, augmented = augmentation_of(episode, 16, 0), np.empty_like(support_images)
    for i, image in enumerate(support_images):
        kernels.load("numba").augment(augmented[i], image, *draw(1, i).arguments())
    _, want = gradients(Oracle(network), support_images, LABELS, augmented, LABELS)
    exact = [channel_norms(x, g).sum() for x, g in zip(network.layers, want.weights, strict=True)]
    np.testing.assert_allclose(layer_ranks(network, episode), exact, rtol=1e-4)


def test_the_fewest_layers_that_hold_a_share_are_kept_in_layer_order():
    ranks = np.array([1.0, 50.0, 4.0, 45.0])
    assert highest(ranks, 0.5) == (1,) and highest(ranks, 0.51) == (1, 3)
    assert highest(ranks, 0.97) == (1, 2, 3) and highest(ranks, 1.0) == (0, 1, 2, 3)
