"""Made-up embeddings for tests of heads, and heads fitted to them."""

from functools import partial

import numpy as np

from tinytrain import kernels
from tinytrain.heads.head import Support


def unit(x):
    """`x` scaled to length 1 along its last axis."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def unit32(x):
    return unit(x).astype(np.float32)


def embeddings(n, size=40, seed=0, way=3):
    """Unit embeddings (n, size) in float64 that share a direction, as those of networks do; their labels."""
    centres = np.random.default_rng(99).standard_normal((way, size))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n, dtype=np.int32) % way)
    return unit(3 + 2 * centres[labels] + 1.5 * rng.standard_normal((n, size))), labels


def fitted(method, x, labels, dtype="f4", backend="auto", views=1):
    """A head as a delta stores it, fitted to `views` views of images of which the first are clean."""

    def batches(every):
        for first in range(0, every, 11):
            part = slice(first, min(first + 11, every))
            yield x[part].astype(dtype), labels[part]

    shots = np.bincount(labels[: len(x) // views])
    arrays = {b.name: b.allocate(0xFF) for b in method.buffers_for(len(shots), x.shape[1], len(x))}
    arrays = {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in arrays.items()}
    support = Support(partial(batches, len(x)), partial(batches, len(x) // views), shots)
    return method.fit(kernels.load(backend), arrays, support).for_delta(arrays)


def in_form(method, few):
    """`method`, that takes the form for few embeddings whatever their number, or never."""

    def buffers_for(self, way, size, n):
        return self.few_form(way, size, n) if few else self.buffers(way, size)

    return type("InForm", (type(method),), {"buffers_for": buffers_for})()
