"""Calls of a stage that numpy does, or that depend on the lists of a step: `HOST` of the signatures.

Each gets the `Work` that it belongs to, None outside of a `Repeat`, and then its arrays and values.
"""

import numpy as np

from tinytrain.delta.delta import Slice, trained_slices
from tinytrain.heads.head import Head
from tinytrain.heads.repeats import herded
from tinytrain.kernels.rows import divide_rows, multiply_rows
from tinytrain.network.quantisation import Codes
from tinytrain.network.replay import int8_codes, range_of, remembered_codes
from tinytrain.program.stages import Items
from tinytrain.runtime.answers import answer
from tinytrain.runtime.schedule import dealt, sampled_divisors


class HostCalls:
    """The calls by name, for one `Runner`."""

    def __init__(self, runner):
        self.runner = runner
        self.labels = runner.source.labels
        self.class_sizes = np.bincount(self.labels, minlength=runner.program.task.n_way).astype(np.float32)
        self.slices: tuple[Slice, ...] = ()
        self.answering: tuple[tuple[Head, ...], np.ndarray] = (), np.empty((0, 0), np.int32)
        self.turns = np.argsort(dealt(self.labels)).tolist()  # place of each image if classes take turns
        self.kept: list[int] = []  # images whose features are kept
        self.seen = np.empty_like(self.class_sizes)  # fraction of each class in a step

    # ---- arrays -------------------------------------------------------------------------------

    def add_lengths(self, work, lengths, embeddings, labels) -> None:
        """Add the length of one embedding to those of its class, in float64.

        Not by BLAS, which adds in an order that depends on the processor.
        """
        lengths[labels[0]] += np.sqrt(np.square(embeddings, dtype=float).sum())

    def add_loss(self, work, total, loss) -> None:
        total[0] += float(loss[0])

    def assign(self, work, y, x) -> None:
        np.copyto(y, x)

    def clear(self, work, y) -> None:
        y.fill(0)

    def divide_rows(self, work, y, x, divisors) -> None:
        divide_rows(x, divisors, out=y)

    def gather_block(self, work, y, x, rows, columns) -> None:
        """y (i, j) = x[rows, columns]."""
        for k, row in enumerate(rows):
            self.runner.kernels.gather_columns(y[k : k + 1], x[row : row + 1], columns)

    def transposed(self, work, y, x) -> None:
        np.copyto(y, x.T)

    # ---- results ------------------------------------------------------------------------------

    def answer(self, work, embedding) -> None:
        """What the heads in `answering` give to one query image."""
        for head, answers in zip(*self.answering, strict=True):
            answers[work.first] = answer(head, embedding)

    def keep_changed(self, work, result) -> None:
        """What training changed, as `slices` whose values lie in `result`."""
        self.slices = trained_slices(self.runner.changed, self.runner.working, result)

    def recall(self, work, codes, ranges) -> None:
        """Features of a replay memory."""
        remembered = self.runner.source.remembered
        np.copyto(codes, remembered.codes)
        np.copyto(ranges, remembered.ranges)

    def recall_codes(self, work, codes) -> None:
        """Features of a replay memory as codes of the layer that they enter."""
        remembered, wanted = self.runner.source.remembered, self._codes()
        for y, x, values in zip(codes, remembered.codes, remembered.ranges, strict=True):
            int8_codes(y, x, values, wanted)

    def _codes(self) -> Codes:
        """Codes of the features that an int8 program keeps or remembers."""
        program = self.runner.program
        return program.network.quantisation.given(program.purpose.start - 1)

    def rows_of_images(self, work, y, embeddings) -> None:
        """Rows of `y` for the images of a batch."""
        for row, (_, i) in zip(embeddings, self.runner.lists[Items.BATCH], strict=True):
            np.copyto(y[i], row)

    def choose_kept(self, work, embeddings) -> None:
        """`kept`: support images that stand for their classes, by their embeddings."""
        self.runner.kernels.normalize_rows(embeddings)
        self.kept = herded(embeddings, self.labels, self.runner.program.task.replay)

    def keep_cached(self, work, codes, ranges, cached, cached_ranges) -> None:
        """Features of those of the images `kept` that are in the cache (sets, images)."""
        for row, i in enumerate(self.kept):
            if i < self.runner.n_images:
                codes[row], ranges[row] = cached[0, i], cached_ranges[0, i]

    def keep_remembered(self, work, codes, ranges, remembered, remembered_ranges) -> None:
        """Features of those of the images `kept` that were remembered."""
        for row, i in enumerate(self.kept):
            if (at := i - self.runner.n_images) >= 0:
                codes[row], ranges[row] = remembered[at], remembered_ranges[at]

    def keep_codes(self, work, codes, ranges, features, first: int) -> None:
        """As both, in int8: `features` are those of the images from `first` on."""
        for row, i in enumerate(self.kept):
            if first <= i < first + len(features):
                remembered_codes(codes[row], features[i - first])
                ranges[row] = range_of(self._codes())

    # ---- lists of a step ------------------------------------------------------------------------

    def labels_of(self, work, labels, items: Items) -> None:
        """Labels of support images; those of others are unknown, 0 holds their place."""
        listed = self.runner.lists[items] if work is None else work.items
        for k, (_, i) in enumerate(listed):
            labels[k] = self.labels[i] if i < len(self.labels) else 0

    def mix_prototypes(self, work, prototypes, sums, counts) -> None:
        """Embeddings of a step replace the fraction of each class that the step has seen; the rest stays.

        `sums` are theirs by class, `counts` how many they are.
        """
        divide_rows(sums, self.class_sizes, out=sums)
        np.divide(counts, self.class_sizes, out=self.seen)
        np.subtract(1, self.seen, out=self.seen)
        multiply_rows(prototypes, self.seen, out=prototypes)
        prototypes += sums

    def start_losses(self, work, losses) -> None:
        """No image has been a pseudo-query yet."""
        losses.fill(np.inf)

    def choose_queries(self, work, losses, keep: int) -> None:
        """Choose the `keep` pseudo-queries with the highest latest losses; images without one come first, in
        turn of classes.
        """
        lists = self.runner.lists
        images = [i for _, i in lists[Items.SHOWN]]
        rows = sorted(range(len(images)), key=lambda k: (-losses[images[k]], self.turns[images[k]]))[:keep]
        lists[Items.HARD] = [lists[Items.SHOWN][k] for k in sorted(rows)]

    def remember_losses(self, work, losses, loss) -> None:
        for (_, i), value in zip(self.runner.lists[Items.HARD], loss, strict=True):
            losses[i] = value

    def hardest(self, work, residual, loss, queries: int, keep: int) -> None:
        """Choose the `keep` pseudo-queries with the highest loss; the others send no gradient."""
        lists, places = self.runner.lists, self.runner.places
        rows = sorted(sorted(range(queries), key=loss.__getitem__, reverse=True)[:keep])
        for k in set(range(queries)).difference(rows):
            residual[k].fill(0)
        rows += range(queries, len(lists[Items.SHOWN]))
        lists[Items.HARD] = [lists[Items.SHOWN][k] for k in rows]
        places[Items.SHOWN] = rows

    def rows_of_labels(self, work, y, x, labels) -> None:
        """Row k of y is row ``labels[k]`` of x."""
        for row, label in zip(y, labels, strict=True):
            np.copyto(row, x[label])

    def sampled_weights(self, work, divisors) -> None:
        """What the gradient of a prototype is divided by for each sampled image."""
        lists, way = self.runner.lists, len(divisors)
        seen, taken = (
            np.bincount(self.labels[[i for _, i in lists[items]]], minlength=way)
            for items in (Items.SUPPORT, Items.SAMPLED)
        )
        np.copyto(divisors, sampled_divisors(self.class_sizes, seen, taken))
