"""Streams of embeddings without a network: classes as directions, and deltas whose heads know them."""

import numpy as np
from headdata import unit, unit32

from tinytrain import kernels
from tinytrain.delta.delta import Delta
from tinytrain.heads.head import Support
from tinytrain.heads.registry import find_head
from tinytrain.store.journal import LEARN, Entry, framed
from tinytrain.stream.learner import Learner

SIZE = 32


def directions(way, seed=0):
    """(way, SIZE) class means of length 1."""
    return unit(np.random.default_rng(seed).normal(size=(way, SIZE)))


def images(label, count, seed, noise=0.12, way=8):
    """(count, SIZE) float32 embeddings of length 1 of a class."""
    away = np.random.default_rng([seed, label]).normal(size=(count, SIZE))
    return unit32(directions(way)[label] + noise * away)


def entry_bytes(mark_letters):
    """Bytes that a correction to class "class0" adds to a journal."""
    entry = Entry(LEARN, "class0", np.zeros(SIZE, np.float32), mark="0" * mark_letters, image="0" * 16)
    return len(framed(entry, "00" * 32, 0))


def delta_of(way=3, shots=5, head="cosine", seed=0, few=False):
    """A delta whose head was fitted to `shots` embeddings of each of `way` classes.

    It has the form for any number of embeddings, or the one that an adaptation to so `few` gives.
    """
    method, table = find_head(head), kernels.load("numpy")
    labels = np.repeat(np.arange(way, dtype=np.int32), shots)
    x = np.concatenate([images(k, shots, seed) for k in range(way)])
    form = method.buffers_for(way, SIZE, len(x) if few else SIZE**2)
    arrays = {b.name: b.allocate(0xFF) for b in form}
    stream = lambda: [(x, labels)]  # noqa: E731
    head = method.fit(table, arrays, Support(stream, stream, np.full(way, shots)))
    head = head.for_delta(arrays)
    return Delta("0" * 64, "toy", (), head, tuple(f"class{k}" for k in range(way)), {})


def opened(store, delta=None, **options):
    """A learner on `store`, which begins with `delta`."""
    if delta is not None:
        store.commit(delta)
        store.confirm()
    start = store.start()
    return Learner(start.delta, store, start, backend="numpy", **options)
