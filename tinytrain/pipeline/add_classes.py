"""More images or classes for a finished adaptation, without the old images.

Class means are running means, so new images weigh as much as old ones. Everything else stays: the
trained weights, the covariance of an LDA head, and the temperature. A class that training never saw
is therefore told apart by features that were trained for the others.
"""

from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.class_names import wrong_class_names
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.augment import draw
from tinytrain.episode.episode import Images
from tinytrain.episode.image_size import Size
from tinytrain.heads.classifier import Head, excess_of_means, lda_offsets, unpacked
from tinytrain.network.network import Network
from tinytrain.runtime.predict import Predictor


def add_classes(
    network: Network,
    delta: Delta,
    images: Images,
    class_names: tuple[str, ...],
    seed: int = 0,
    may_flip: bool = False,
    backend: str = "auto",
) -> Delta:
    """A delta whose head also knows `images`; their labels count in `class_names`.

    A name the delta knows adds images to that class, any other name adds a class. Images are
    seen in as many views as those the head was fitted to. Raises InputError for a delta of another
    backbone, a class without images or names that `wrong_class_names` refuses.
    """
    predictor = Predictor(network, delta, backend)
    names = (*delta.class_names, *(n for n in class_names if n not in delta.class_names))
    if wrong := wrong_class_names(class_names) or wrong_class_names(names):
        raise InputError("class-names", f"{wrong}; give every class a name of its own")
    rows = np.array([names.index(name) for name in class_names], np.int32)[images.labels]
    for name in class_names:
        if names.index(name) not in rows:
            raise InputError("empty-class", f"class {name!r} has no image to add; add at least one")
    kernels = kernel_table.load(backend)
    head, old = delta.head, len(delta.class_names)
    counts = np.zeros(len(names), np.int32)
    counts[:old] = head.counts
    means = np.zeros((len(names), head.means.shape[1]), np.float32)
    means[:old] = head.means
    sums = means * counts[:, None].astype(np.float64)
    for view in range(delta.views):
        embeddings = predictor.embed(images, _augmentation(view, seed, predictor.input.size, may_flip))
        kernels.normalize_rows(embeddings)
        np.add.at(sums, rows, embeddings)
        np.add.at(counts, rows, 1)
    changed = np.unique(rows)
    means[changed] = sums[changed] / counts[changed, None]
    added = {name: int((rows == names.index(name)).sum()) for name in class_names}
    return replace(
        delta,
        head=_extended_head(head, means, counts, counts / delta.views, changed, kernels),
        class_names=names,
        report={**delta.report, "extended": [*delta.report.get("extended", []), added]},
    )


def _augmentation(view: int, seed: int, size: Size, may_flip: bool):
    def augmentation(i: int):
        return draw(rng_for(seed, "extension", view, i), size, may_flip) if view else None

    return augmentation


def _extended_head(head: Head, means, counts, images, changed, kernels) -> Head:
    """`head` with new means of so many images; only the rows `changed` of its weights are solved again."""
    weights = np.zeros_like(means)
    weights[: len(head.weights)] = head.weights
    offsets = np.zeros(len(means), np.float32)
    offsets[: len(head.offsets)] = head.offsets
    rows = means[changed]
    if head.kind == "lda":
        factor = unpacked(head.factor)
        kernels.cholesky_solve(rows, factor)
        excess = excess_of_means(kernels, factor)
        offsets[changed] = lda_offsets(rows, means[changed], excess, images[changed])
    else:
        kernels.normalize_rows(rows)
    weights[changed] = rows
    # The accuracy of the left-out images was that of other classes.
    return replace(head, weights=weights, offsets=offsets, means=means, counts=counts, left_out=None)
