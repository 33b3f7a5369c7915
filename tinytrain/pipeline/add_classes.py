"""More images or classes for a finished adaptation, without the old images.

The head learns from them as its method says (`Head.update`), and a replay memory, if there is one, gets their
features. Everything else stays: the trained weights and the temperature. A class that training never saw is
therefore told apart by features that were trained for the others.
"""

from dataclasses import replace

import numpy as np

from tinytrain.base.class_names import wrong_more_names
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.episode.kinds import kind_of
from tinytrain.guard.suspects import MISLABELLED
from tinytrain.heads.repeats import herded
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.network.replay import Replay
from tinytrain.runtime.embedder import Embedder, embedder_of
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
    backbone, a class without images or names that `wrong_more_names` refuses.
    """
    embedder, spec = embedder_of(network, delta, backend), network.input
    names = (*delta.class_names, *(n for n in class_names if n not in delta.class_names))
    if wrong := wrong_more_names(delta.class_names, class_names):
        raise InputError("class-names", f"{wrong}; leave it out or call it otherwise")
    rows = np.array([names.index(name) for name in class_names], np.int32)[images.labels]
    for name in class_names:
        if names.index(name) not in rows:
            raise InputError("too-few-images", f"class {name!r} has no image to add; add at least one")
    kernels, views = embedder.kernels, range(delta.views)
    embeddings = np.concatenate(
        [embedder.embed(images, _augmentation(view, seed, spec, may_flip)) for view in views]
    )
    kernels.normalize_rows(embeddings)
    head = delta.head.extended(len(names))
    head.update(kernels, embeddings, np.tile(rows, len(views)))
    added = {name: int((rows == names.index(name)).sum()) for name in class_names}
    return replace(
        delta,
        head=head,
        class_names=names,
        replay=_remembered(network, delta, images, embeddings[: len(rows)], rows, backend),
        report={**delta.report, "extended": [*delta.report.get("extended", []), added]},
    )


def doubtful(
    network: Network, delta: Delta, images: Images, class_names: tuple[str, ...], backend: str = "auto"
) -> list[dict]:
    """`images` of classes that `delta` knows which it takes for another class, the surest first.

    Asked before they are added: afterwards they would vouch for themselves. Labels count in `class_names`;
    images of new classes are not judged. The values are JSON: "name", "given", "looks_like", "reason", and
    the "confidence" in what it looks like.
    """
    known = [i for i, label in enumerate(images.labels) if class_names[label] in delta.class_names]
    if not known:
        return []
    probabilities = Predictor(network, delta, backend).probabilities(images.take(known))
    rows = []
    for i, found in zip(known, probabilities, strict=True):
        given, like = class_names[images.labels[i]], delta.class_names[int(found.argmax())]
        if like != given:
            row = {"name": images.names[i], "given": given, "looks_like": like, "reason": MISLABELLED}
            rows.append({**row, "confidence": float(found.max())})
    return sorted(rows, key=lambda row: -row["confidence"])


def _remembered(network, delta: Delta, images: Images, embeddings, labels, backend: str) -> Replay | None:
    """The replay memory with images of `labels` (n,), as many of each class as before; None without one."""
    memory = delta.replay
    if memory is None:
        return None
    counts = np.bincount(memory.labels, minlength=int(labels.max()) + 1)
    chosen = herded(embeddings, labels, np.maximum(counts.max() - counts, 0))
    if delta.codes:
        network = replace(network, quantisation=delta.codes)
    embedder = Embedder(network, None, backend, delta.precision, memory.layer)
    codes, ranges = embedder.codes(images.take(chosen))
    return memory.extended(codes, ranges, labels[chosen])


def _augmentation(view: int, seed: int, spec: InputSpec, may_flip: bool):
    kind = kind_of(spec.kind)

    def augmentation(i: int):
        return kind.augment(rng_for(seed, "extension", view, i), spec, may_flip) if view else None

    return augmentation
