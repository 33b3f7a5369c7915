"""Heads of an adaptation, and what the guard is told of its images: both from embeddings of the support."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from tinytrain.heads.cosine import CosineHead, lengths_of
from tinytrain.heads.head import Batch, Head, HeadMethod, Support, first_parts
from tinytrain.heads.leave_one_out import COLUMNS, measure, recognised
from tinytrain.heads.linear import class_means
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.heads.repeats import Repeats, Sketches, feigned, stretches
from tinytrain.program.stages import FitHead, KeepHead
from tinytrain.runtime.trainer import Trainer

CLEAN = range(1)  # the views of an image that are itself


class Embeddings:
    """Unit embeddings of all support images by one network, as many at a time as there is room for.

    ``embed(view, chosen, out)`` writes those of a view of the images `chosen`. Images come in `order`, and
    `room` (n, d) takes a batch. To be read only: a batch is overwritten by the next one. The one that lies in
    `room` is not computed again. So if there is room for all images, whoever looks at the last view once more
    gets it for nothing.
    """

    def __init__(self, kernels, order: np.ndarray, labels: np.ndarray, room: np.ndarray, embed: Callable):
        self.kernels, self.order, self.labels, self.room, self.embed = kernels, order, labels, room, embed
        self._held: tuple[int, int] | None = None  # view and first place of the batch in the room

    def batches(self, view: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices (n,) of images, and the embeddings (n, d) of a view of them."""
        for first in range(0, len(self.order), len(self.room)):
            chosen = self.order[first : first + len(self.room)]
            out = self.room[: len(chosen)]
            if self._held != (view, first):
                self.embed(view, chosen, out)
                self.kernels.normalize_rows(out)
                self._held = view, first
            yield chosen, out

    def without(self, copies: np.ndarray, views: Iterable[int] = CLEAN, each=None) -> Iterator[Batch]:
        """What heads are fitted to: `views` of the images that are no `copies` (n,).

        ``each(chosen, embeddings)`` is shown every batch before.
        """
        for view in views:
            for chosen, embeddings in self.batches(view):
                if each:
                    each(chosen, embeddings)
                yield from stretches(~copies[chosen], embeddings, self.labels[chosen])


class Fit(NamedTuple):
    """A head to be fitted in `arrays` to `views` of the images; `kept`: the delta keeps it."""

    method: HeadMethod
    arrays: dict[str, np.ndarray]
    views: Iterable[int]
    kept: bool

    def as_kept(self, head: Head) -> Head:
        """Without what only updates need, unless the delta keeps it."""
        return head if self.kept else head.answering()


class Scratch(NamedTuple):
    """Room for class means (way, d), counts (way,) and centred means (way, d)."""

    means: np.ndarray
    counts: np.ndarray
    centred: np.ndarray


def images_of(labels: np.ndarray, copies: np.ndarray, way: int) -> np.ndarray:
    """Images of each class, without the copies, (way,) float32."""
    return np.bincount(labels[~copies], minlength=way).astype(np.float32)


class Fitting(ABC):
    """Fits heads to the images with `labels` (n,) in `order`, and measures these for the guard meanwhile.

    `repeats` says which images repeat others, as the network is before training. What `leave_one_out.measure`
    finds before it goes to `rows` (n, COLUMNS). The class `background` is never an answer.
    """

    def __init__(
        self,
        kernels,
        labels: np.ndarray,
        order: np.ndarray,
        size: int,
        rows: np.ndarray,
        background: int | None,
    ):
        self.kernels, self.labels, self.order, self.size, self.rows = kernels, labels, order, size, rows
        self.background = background
        self.repeats = Repeats(np.zeros(len(labels), bool))
        self.right = self.judged = 0  # images by the recipe's head without them, the last time it was fitted

    @abstractmethod
    def _fitted(
        self, after: bool, steps: int, sketches: Sketches | None = None
    ) -> tuple[CosineHead | None, Head | None]:
        """Cosine prototypes and another head, those of them that are wanted then, as `fit` makes them."""

    def before(self) -> tuple[CosineHead, Head]:
        """Cosine prototypes and the recipe's head, or these again if nobody needs it, before training.

        Heads are fitted without the copies among the images. These show in the embeddings that the first fit
        leaves behind: if there are any, everything is fitted once more.
        """
        copies, order, rows = self.repeats.copies, self.order, self.rows
        sketches = Sketches(self.size)
        heads, fewer = self._fitted(False, 0, sketches), 0.0
        copies[order] = sketches.copies(self.labels[order])
        if copies.any():
            every = recognised(rows)
            del heads  # their arrays, before there are others
            heads = self._fitted(False, 0)  # without `copies`; writes `rows` anew
            fewer = feigned(every, recognised(rows))
        self.repeats = Repeats(copies, fewer, fewer + sketches.repeated())
        return heads[0], heads[1] or heads[0]

    def after(self, steps: int) -> Head:
        """The recipe's head after so many `steps` of training."""
        cosine, own = self._fitted(True, steps)
        return own or cosine

    def fit(
        self,
        embeddings: Embeddings,
        fits: Iterable[Fit],
        scratch: Scratch,
        rows: np.ndarray,
        steps: int,
        sketches: Sketches | None,
    ) -> tuple[CosineHead | None, Head | None, np.ndarray]:
        """Cosine prototypes and another head, those of them in `fits`, prototypes last; and the class means.

        What is measured of every image goes to `rows` (n, COLUMNS). There may be no room to keep embeddings,
        so prototypes are calibrated in the pass that measures.
        """
        kernels, labels, copies, cosine, own = self.kernels, self.labels, self.repeats.copies, None, None
        clean, images = partial(embeddings.without, copies), images_of(labels, copies, len(scratch.counts))
        means, counts = scratch.means, scratch.counts
        for fit in fits:
            if fit.method is BASELINE:
                means, counts = fit.arrays["means"], fit.arrays["class counts"]
                continue
            self.right = self.judged = 0
            support = Support(partial(clean, fit.views), clean, images, steps, self._judge, self.background)
            own = fit.as_kept(fit.method.fit(kernels, fit.arrays, support).knowing(self.background))
        class_means(kernels, means, counts, clean())
        centre = means.mean(axis=0)

        def measured(chosen: np.ndarray, batch: np.ndarray) -> None:
            found = np.empty((len(chosen), COLUMNS), np.float32)
            measure(found, batch, labels[chosen], means, images, scratch.centred, self.background)
            rows[chosen] = found
            if sketches:
                sketches.add(batch, labels[chosen], centre)

        if fit.method is BASELINE:
            measuring = partial(embeddings.without, copies, each=measured)
            support = Support(clean, measuring, images, steps, background=self.background)
            cosine = fit.as_kept(BASELINE.of_means(kernels, fit.arrays, support))
        else:
            for chosen, batch in embeddings.batches(0):
                measured(chosen, batch)
        return cosine, own, means

    def _judge(self, logits: np.ndarray, label: int) -> None:
        if label != self.background:
            self.right, self.judged = self.right + int(logits.argmax() == label), self.judged + 1

    def is_better_than_prototypes(self) -> bool:
        """Whether the recipe's head recognises more images without themselves, both without training.

        Of a head that is not linear this is unknown.
        """
        if not self.judged:
            return False
        return self.right / self.judged > np.nanmean(recognised(self.rows))


class HeadFitting(Fitting):
    """Fits the heads of an adaptation in its arena."""

    def __init__(self, trainer: Trainer, background: int | None = None):
        self.trainer, self.program, self.array = trainer, trainer.program, trainer.bind.array
        size, rows = self.program.network.embedding_size, self.array("left out (before)")
        super().__init__(trainer.kernels, trainer.labels, trainer.order, size, rows, background)

    def _fitted(
        self, after: bool, steps: int, sketches: Sketches | None = None
    ) -> tuple[CosineHead | None, Head | None]:
        trainer, copies = self.trainer, self.repeats.copies
        nodes = self.program.stage("head after" if after else "head before").body
        units = "embed after" if after else "embed"
        images = images_of(self.labels, copies, len(trainer.class_sizes))
        fits = [Fit(find_head(n.kind), self._arrays(n, images), n.views, n.kept) for n in nodes]
        # Prototypes of training are free before it and after it.
        scratch = Scratch(trainer.sums, trainer.counts, trainer.prototypes)
        rows = trainer.bind.whole(nodes[-1].left_out)

        def embed(view: int, chosen: np.ndarray, out: np.ndarray) -> None:
            trainer.embed([(view, i) for i in chosen], out, units)

        embeddings = Embeddings(self.kernels, self.order, self.labels, trainer.support, embed)
        cosine, own, means = self.fit(embeddings, fits, scratch, rows, steps, sketches)
        if not after:  # training takes the bytes of the means, which their lengths bring back
            lengths_of(means, self.array("head before, cosine: lengths"))
        return cosine, own

    def _arrays(self, node: FitHead, images: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a head, those parts of them that so many `images` (way,) of each class take."""
        arrays, size = self._whole(node), self.program.network.embedding_size
        fewer = find_head(node.kind).buffers_for(len(images), size, int(images.sum()) * len(node.views))
        return first_parts(arrays, fewer) if self.repeats.copies.any() else arrays

    def _whole(self, *nodes: FitHead | KeepHead) -> dict[str, np.ndarray]:
        return {name: self.trainer.bind.whole(b) for node in nodes for name, b in node.arrays.items()}

    def kept(self, head: Head) -> Head:
        """`head` as a delta keeps it."""
        if head.method is BASELINE and head.means is None:
            return self.with_means(head)
        nodes = (node for node in self.program.stage("result").body if isinstance(node, KeepHead))
        return head.for_delta(self._whole(*nodes))

    def with_means(self, prototypes: CosineHead) -> CosineHead:
        """The cosine prototypes of the network as it was with their means, which are found up to rounding."""
        lengths = self.array("head before, cosine: lengths")
        return prototypes.with_means(lengths, self.array("head result: means"))
