"""Deltas and images for exported files, and how far the answers of a program are from those of ours."""

from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Changes, Delta
from tinytrain.episode.episode import Images
from tinytrain.heads import cosine
from tinytrain.network.committee import Committee
from tinytrain.runtime.predict import Predictor

CLOSE = 1e-5  # of probabilities


def colourful(shape, count: int) -> np.ndarray:
    """(count, *shape) uint8: noise around a colour of each image, so that embeddings differ much."""
    rng = rng_for(0, "colourful")
    colours = rng.uniform(0, 255, (count, 1, 1, shape[-1]))
    return np.clip(colours + rng.normal(0, 30, (count, *shape)), 0, 255).astype(np.uint8)


def given_as(images: np.ndarray) -> Images:
    names = tuple(str(i) for i in range(len(images)))
    return Images(np.zeros(len(images), np.int32), names, lambda i, size: images[i])


def untrained(network, images=None, way=3) -> Delta:
    """A delta that changes nothing, whose head tells the first images apart, around the mean of all."""
    images = colourful(network.input.shape, 20) if images is None else images
    zeros, counts = np.zeros((way, network.embedding_size), "f"), np.ones(way, np.int32)
    head = cosine.CosineHead(cosine.METHOD, zeros, np.zeros(way, "f"), counts, zeros)
    members = tuple(Changes(n.digest, n.name, ()) for n in getattr(network, "members", ()))
    names = tuple(f"class {k}" for k in range(way))
    delta = Delta(network.digest, network.name, (), head, names, {}, members=members)
    embeddings = Predictor(network, delta).embed(given_as(images))
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    weights = unit[:way] - unit.mean(axis=0)
    logits = (unit - unit.mean(axis=0)) @ weights.T
    head = replace(
        head, weights=weights, offsets=-weights @ unit.mean(axis=0), temperature=float(logits.std()) / 2
    )
    return replace(delta, head=head)


def largest_difference(answers, network, delta, images: np.ndarray) -> float:
    """Between the probabilities of the predictor and `answers`, of any image and class."""
    expected = Predictor(network, delta).probabilities(given_as(images))
    assert len(set(expected.argmax(axis=1))) > 1 and expected.std() > 0.1, "not one answer to everything"
    return float(np.abs(answers(network, delta, images) - expected).max())


def pair_of(*networks) -> Committee:
    """A committee whose members normalise pixels differently."""
    return Committee(
        tuple(
            replace(network, name=f"member {k}", input=replace(network.input, mean=60.0 * k, scale=1 / 99))
            for k, network in enumerate(networks)
        )
    )
