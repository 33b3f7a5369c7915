"""Streaming LDA against LDA fitted to everything, in float64."""

import time

import numpy as np
import pytest
from cases import quick
from headdata import embeddings, fitted, unit

from tinytrain import kernels
from tinytrain.heads.lda import STREAMING as METHOD
from tinytrain.heads.moments import UNIT
from tinytrain.heads.registry import HEADS
from tinytrain.heads.triangle import unpacked

WAY, SIZE = 6, 24
STREAM = 2000


def close(found, wanted, error):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=error * np.abs(wanted).max())


@pytest.mark.parametrize("seed", quick(range(3)))
@pytest.mark.parametrize("kind", ["slda", "lda", "mild-lda"])
def test_a_stream_from_one_image_of_each_class_ends_as_lda_of_all_images(kind, seed):
    x, labels = embeddings(STREAM, SIZE, seed, WAY)
    firsts = np.array([np.flatnonzero(labels == k)[0] for k in range(WAY)])
    rest = np.setdiff1d(np.arange(STREAM), firsts)
    head = fitted(HEADS[kind], x[firsts], labels[firsts]).extended(WAY)
    for part in np.array_split(rest, 400):
        head.update(kernels.load(), x[part].astype("f"), labels[part])
    means = np.stack([x[labels == k].mean(axis=0) for k in range(WAY)])
    centred = x - means[labels]
    c, shrinkage, n = centred.T @ centred / STREAM, HEADS[kind].shrinkage, np.bincount(labels)
    s = (1 - shrinkage) * c + (shrinkage * np.trace(c) / SIZE + 1e-7) * np.eye(SIZE)
    weights, excess = means @ np.linalg.inv(s), np.trace(np.linalg.inv(s) @ c)
    close(head.weights, weights, 1e-3)
    close(head.offsets, -0.5 * ((weights * means).sum(axis=1) - excess / n), 1e-3)


def test_sums_stay_exact_when_a_million_images_were_seen():
    """Every one of the last images still counts: a float32 sum of so many would lose its last digits."""
    x, labels = embeddings(STREAM, SIZE, way=WAY)
    head, times = fitted(METHOD, x, labels).extended(WAY), 500
    for values in (head.counts, head.sums, head.products):
        values *= times
    far = unit(x + 0.5 * np.random.default_rng(1).standard_normal(x.shape))
    head.update(kernels.load(), far.astype("f"), labels)
    wanted = times * (x.T @ x) + far.T @ far
    assert np.abs(unpacked(head.products) / UNIT - np.tril(wanted)).max() < times * STREAM * 2**-21
    assert head.total == (times + 1) * STREAM


@pytest.mark.slow
def test_an_update_with_160_numbers_takes_a_few_milliseconds():
    x, labels = embeddings(200, 160, way=5)
    head = fitted(METHOD, x, labels).extended(5)
    table, found = kernels.load(), []
    for k in range(20):
        start = time.process_time()
        head.update(table, x[k : k + 1].astype("f"), labels[k : k + 1])
        found.append(time.process_time() - start)
    assert np.median(found) < 0.02
