"""Deltas of no network: of any embeddings, and of devices that have some of one set and are merged."""

import numpy as np
from headdata import embeddings, fitted

from tinytrain import kernels
from tinytrain.delta.delta import Delta
from tinytrain.delta.merge import merge
from tinytrain.heads.registry import HEADS

WAY, SIZE = 10, 24
NAMES = tuple(f"class {k}" for k in range(WAY))
X, LABELS = embeddings(400, SIZE, way=WAY)
X = X.astype(np.float32)


def made_up(x, labels, kind="lda", slices=(), report=None, **more):
    """A delta of embeddings (n, d) with labels (n,), for the classes that these have."""
    classes = np.unique(labels)
    head = fitted(HEADS[kind], x, np.searchsorted(classes, labels).astype(np.int32))
    names = tuple(f"class {k}" for k in classes)
    return Delta("0" * 64, "made up", tuple(slices), head, names, report or {}, **more)


def having(classes, part=slice(None)):
    """The images of these classes, by number."""
    return np.flatnonzero(np.isin(LABELS, classes))[part]


def delta_of(chosen, kind="slda", **more):
    """A delta of the images `chosen` with the classes that they have."""
    return made_up(X[chosen], LABELS[chosen], kind, **more)


def merged(*deltas, **how):
    return merge(kernels.load(), deltas, [f"delta {k}" for k in range(len(deltas))], **how)
