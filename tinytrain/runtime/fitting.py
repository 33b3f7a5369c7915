"""Heads of an adaptation, and what the guard is told of its images: both from embeddings of the support."""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from tinytrain.heads.cosine import CosineHead, lengths_of
from tinytrain.heads.head import Batch, Head, Support, first_parts
from tinytrain.heads.leave_one_out import COLUMNS, measure, recognised
from tinytrain.heads.linear import class_means
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.heads.repeats import Repeats, Sketches, feigned, stretches
from tinytrain.program.stages import FitHead, KeepHead
from tinytrain.runtime.trainer import Trainer

CLEAN = range(1)  # the views of an image that are itself


class Embeddings:
    """Unit embeddings of all support images by the network as it is, as many at a time as there is room for.

    To be read only: a batch is overwritten by the next one. The one that lies in the buffer is not computed
    again. So if there is room for all images, whoever looks at the last view once more gets it for nothing.
    """

    def __init__(self, trainer: Trainer, units: str):
        self.trainer, self.units = trainer, units
        self._held: tuple[int, int] | None = None  # view and first place of the batch in the buffer

    def batches(self, view: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices (n,) of images, and the embeddings (n, d) of a view of them."""
        trainer, room = self.trainer, self.trainer.support
        for first in range(0, len(trainer.order), len(room)):
            chosen = trainer.order[first : first + len(room)]
            out = room[: len(chosen)]
            if self._held != (view, first):
                trainer.embed([(view, i) for i in chosen], out, self.units)
                trainer.kernels.normalize_rows(out)
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
                yield from stretches(~copies[chosen], embeddings, self.trainer.labels[chosen])


class HeadFitting:
    """Fits the heads of an adaptation, and measures its images for the guard in the same embeddings.

    `repeats` says which images repeat others, as the network is before training. What `leave_one_out.measure`
    finds goes to the buffers of images left out.
    """

    def __init__(self, trainer: Trainer):
        self.trainer, self.program, self.kernels = trainer, trainer.program, trainer.kernels
        self.array, self.labels = trainer.bind.array, trainer.labels
        self.repeats = Repeats(np.zeros(len(self.labels), bool))
        self.right = self.judged = 0  # images by the recipe's head without them, the last time it was fitted

    def before(self) -> tuple[CosineHead, Head]:
        """Cosine prototypes and the recipe's head, or these again if nobody needs it, before training.

        Heads are fitted without the copies among the images. These show in the embeddings that the first fit
        leaves behind: if there are any, everything is fitted once more.
        """
        copies, order = self.repeats.copies, self.trainer.order
        sketches = Sketches(self.program.network.embedding_size)
        heads, fewer = self._fitted("head before", "embed", 0, sketches), 0.0
        copies[order] = sketches.copies(self.labels[order])
        if copies.any():
            rows = self.array("left out (before)")
            every = recognised(rows)
            heads = self._fitted("head before", "embed", 0)  # without `copies`; writes `rows` anew
            fewer = feigned(every, recognised(rows))
        self.repeats = Repeats(copies, fewer, fewer + sketches.repeated())
        return heads[0], heads[1] or heads[0]

    def after(self, steps: int) -> Head:
        """The recipe's head after so many `steps` of training."""
        cosine, own = self._fitted("head after", "embed after", steps)
        return own or cosine

    def _fitted(
        self, stage: str, units: str, steps: int, sketches: Sketches | None = None
    ) -> tuple[CosineHead | None, Head | None]:
        """Cosine prototypes and another head, those of them that a stage fits; then every image is measured.

        There may be no room to keep embeddings, so prototypes are calibrated in the pass that measures.
        """
        trainer, kernels, copies = self.trainer, self.kernels, self.repeats.copies
        embeddings, cosine, own = Embeddings(trainer, units), None, None
        clean = partial(embeddings.without, copies)
        images = np.bincount(self.labels[~copies], minlength=len(trainer.class_sizes)).astype(np.float32)
        for node in self.program.stage(stage).body:  # prototypes are last, if they are among them
            method, arrays = find_head(node.kind), self._arrays(node, images)
            if method is not BASELINE:
                self.right = self.judged = 0
                support = Support(partial(clean, node.views), clean, images, steps, self._judge)
                own = _as_kept(node, method.fit(kernels, arrays, support))
        means = arrays["means"] if method is BASELINE else trainer.sums
        left_out = trainer.bind.whole(node.left_out)
        class_means(kernels, means, trainer.counts, clean())
        centre = means.mean(axis=0)

        def measured(chosen: np.ndarray, batch: np.ndarray) -> None:
            rows, labels = np.empty((len(chosen), COLUMNS), np.float32), self.labels[chosen]
            # Prototypes of training are free before it and after it.
            measure(rows, batch, labels, means, images, trainer.prototypes)
            left_out[chosen] = rows
            if sketches:
                sketches.add(batch, labels, centre)

        if method is BASELINE:
            support = Support(clean, partial(embeddings.without, copies, each=measured), images, steps)
            cosine = _as_kept(node, method.of_means(kernels, arrays, support))
        else:
            for chosen, batch in embeddings.batches(0):
                measured(chosen, batch)
        if units == "embed":  # training takes the bytes of the means, which their lengths bring back
            lengths_of(means, self.array("head before, cosine: lengths"))
        return cosine, own

    def _judge(self, logits: np.ndarray, label: int) -> None:
        self.right, self.judged = self.right + int(logits.argmax() == label), self.judged + 1

    def is_better_than_prototypes(self) -> bool:
        """Whether the recipe's head recognises more images without themselves, both without training.

        Of a head that is not linear this is unknown.
        """
        if not self.judged:
            return False
        return self.right / self.judged > np.nanmean(recognised(self.array("left out (before)")))

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


def _as_kept(node: FitHead, head: Head) -> Head:
    """Without what only updates need, unless the delta keeps this head."""
    return head if node.kept else head.answering()
