"""The stages of one adaptation in one arena: fill, head, train, head, predict."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count

import numpy as np

from tinytrain.base.progress import Progress
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Slice
from tinytrain.episode import Size
from tinytrain.episode.augment import USUAL, Augmentation, Ranges, draw
from tinytrain.episode.episode import Episode
from tinytrain.heads.cosine import CosineHead, lengths_of
from tinytrain.heads.head import Batch, Batches, Head, Support, first_parts
from tinytrain.heads.leave_one_out import COLUMNS, measure, recognised
from tinytrain.heads.linear import class_means
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.heads.repeats import Repeats, Sketches, feigned, stretches
from tinytrain.network.replay import Replay
from tinytrain.plan.costs import n_unlabelled
from tinytrain.plan.plan import Plan
from tinytrain.program.program import Program
from tinytrain.program.stages import FitHead, Items, KeepHead
from tinytrain.program.ticks import AFTER, BEFORE
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.pace import Pace
from tinytrain.runtime.schedule import (
    CleanImages,
    Item,
    dealt,
    rate_factor,
    sampled_items,
    step_items,
)
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer


def augmentation_of(
    episode: Episode, size: Size, seed: int, ranges: Ranges = USUAL
) -> Callable[[int, int], Augmentation | None]:
    """Augmentation of view v of support image i: the same draw whenever it is asked for.

    `ranges` are those of pseudo-queries; views below 0 are usual ones.
    """

    def augmentation(view: int, i: int) -> Augmentation | None:
        if view == 0:
            return None
        rng = rng_for(seed, "augmentation", abs(view), i)
        return draw(rng, size, episode.may_flip, ranges if view > 0 else USUAL)

    return augmentation


def reach(plan: Plan | Program) -> Ranges:
    """Strength of the augmentation. Cached views keep the usual one, since heads are also fitted to them."""
    return USUAL if plan.resources.sets >= 2 else plan.recipe.options.augmentation


class Session:
    """One adaptation of `working` to `episode` by `program`; `adapt` has the order of calls."""

    def __init__(
        self,
        program: Program,
        arena,
        working: WorkingCopy,
        kernels,
        episode: Episode,
        seed: int,
        workers: int,
    ):
        self.program, self.episode, self.seed, self.kernels = program, episode, seed, kernels
        self.input = working.network.input
        self.labels = episode.support.labels
        self.dealt = dealt(self.labels)
        self.trainer = Trainer(
            program,
            arena,
            working,
            kernels,
            Source(
                self._read,
                augmentation_of(episode, self.input.size, seed, reach(program)),
                self.labels,
                episode.remembered,
            ),
            workers,
        )
        self.array = self.trainer.bind.array
        if "rounding seed" in self.trainer.bind.tables:
            self.trainer.bind.tables["rounding seed"][0] = seed & 0x7FFFFFFF
        # View and first image of the unit embeddings in the buffer for those of the support.
        self._at_hand: tuple[int, int] | None = None
        self.pace: Pace | None = None  # of training, if the time of the adaptation is limited
        self.copies = np.zeros(len(self.labels), bool)  # images that heads are not fitted to
        self.repeats: Repeats | None = None  # as the network is before training
        self._sketches: Sketches | None = Sketches(program.network.embedding_size)

    def _read(self, i: int) -> np.ndarray:
        """Support image i; behind the last of them come the query images."""
        support, query = self.episode.support, self.episode.query
        side, k = (support, i) if i < len(support) else (query, i - len(support))
        return side.image(k, self.input.shape)

    def close(self) -> None:
        self.trainer.close()

    def fill(self, progress: Progress) -> None:
        self.trainer.fill(lambda done, total: progress("features", done, total, None))

    # ---- heads -----------------------------------------------------------------------------

    def fit_heads(self, tick: int) -> tuple[CosineHead | None, Head]:
        """Cosine prototypes and the recipe's head (or these again, if nobody needs it) as the network is.

        `tick`, BEFORE or AFTER training, is when the arena holds their arrays. The buffer of left-out images
        takes what `leave_one_out.measure` finds on the way. After training, prototypes are None if the
        recipe's head is another one. Heads are fitted without the copies among the images: once more if these
        are found only now.
        """
        heads, sketches, fewer = self._fitted(tick), self._sketches, 0.0
        if sketches:  # after training they would say nothing about new images
            self._sketches = None
            self.copies[self.dealt] = sketches.copies(self.labels[self.dealt])
            if self.copies.any():
                rows = self.array("left out (before)")
                before, heads = recognised(rows), self._fitted(tick)
                fewer = feigned(before, recognised(rows))
            self.repeats = Repeats(self.copies, fewer, fewer + sketches.repeated())
        return heads

    def _fitted(self, tick: int) -> tuple[CosineHead | None, Head]:
        cosine = head = None
        steps = self.program.recipe.n_steps if tick == AFTER else 0
        for node in self.program.stage("head before" if tick == BEFORE else "head after").body:
            arrays = {name: self.trainer.bind.whole(buffer) for name, buffer in node.arrays.items()}
            if find_head(node.kind) is BASELINE:
                means = arrays["means"]
                cosine = self._fit_head(node, arrays, partial(self._measured, node, means), steps)
            else:
                head = self._fit_head(node, arrays, partial(self._seen, 0), steps)
        if cosine is None:
            class_means(self.kernels, self.trainer.sums, self.trainer.counts, self._seen(0))
            for _ in self._measured(node, self.trainer.sums):
                pass
        elif tick == BEFORE:  # training takes the bytes of the means, which their lengths bring back
            lengths_of(means, self.array("head before, cosine: lengths"))
        return cosine, head or cosine

    def _fit_head(self, node: FitHead, arrays: dict[str, np.ndarray], clean: Batches, steps: int) -> Head:
        """A head in `arrays` after `steps` of training; without what only updates need unless it is kept."""

        def every_view():
            return chain.from_iterable(map(self._seen, node.views))

        images, method = self._images(), find_head(node.kind)
        support = Support(every_view, clean, images, steps)
        if self.copies.any():
            size, embeddings = self.program.network.embedding_size, int(images.sum()) * len(node.views)
            arrays = first_parts(arrays, method.buffers_for(len(images), size, embeddings))
        head = method.fit(self.kernels, arrays, support)
        return head if node.kept else head.answering()

    def _images(self) -> np.ndarray:
        """(way,) float32: how many images of each class heads are fitted to."""
        way = len(self.trainer.class_sizes)
        return np.bincount(self.labels[~self.copies], minlength=way).astype(np.float32)

    def _seen(self, view: int) -> Iterator[Batch]:
        """Batches of one view without copies; to be read only."""
        for chosen, embeddings in self._normalized(view):
            yield from stretches(~self.copies[chosen], embeddings, self.labels[chosen])

    def kept(self, head: Head) -> Head:
        """`head` as a delta keeps it."""
        if head.method is BASELINE and head.means is None:
            return self.with_means(head)
        nodes = (node for node in self.program.stage("result").body if isinstance(node, KeepHead))
        arrays = {name: self.trainer.bind.whole(b) for node in nodes for name, b in node.arrays.items()}
        return head.for_delta(arrays)

    def with_means(self, prototypes: CosineHead) -> CosineHead:
        """The cosine prototypes of the network as it was with their means, which are found up to rounding."""
        lengths = self.array("head before, cosine: lengths")
        return prototypes.with_means(lengths, self.array("head result: means"))

    def replay(self) -> Replay | None:
        """Features of some images of each class, if the plan keeps any."""
        if not self.program.task.replay:
            return None
        self.trainer.lists[Items.BATCHES] = [(0, int(i)) for i in self.dealt]
        self.trainer.run("replay")
        kept = self.trainer.host.kept
        codes, ranges = self.array("kept features"), self.array("kept feature ranges")
        return Replay(self.program.purpose.start, codes[: len(kept)], ranges[: len(kept)], self.labels[kept])

    def slices(self) -> tuple[Slice, ...]:
        """What training changed."""
        self.trainer.run("result")
        return self.trainer.host.slices

    def _measured(self, node: FitHead, means: np.ndarray) -> Iterator[Batch]:
        """Batches of the clean images, measured against the class means on the way."""
        trainer, left_out, images = self.trainer, self.trainer.bind.whole(node.left_out), self._images()
        centre = means.mean(axis=0)
        for chosen, embeddings in self._normalized(0):
            labels = self.labels[chosen]
            rows = np.empty((len(labels), COLUMNS), np.float32)
            # Prototypes are free before training and after it.
            measure(rows, embeddings, labels, means, images, trainer.prototypes)
            left_out[chosen] = rows
            if self._sketches:
                self._sketches.add(embeddings, labels, centre)
            yield from stretches(~self.copies[chosen], embeddings, labels)

    def _normalized(self, view: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices of all support images, as many at a time as there is room for, and embeddings of one view.

        These have length 1; to be read only, as they may be used again.
        """
        size = len(self.trainer.support)
        for first in range(0, len(self.dealt), size):
            chosen = self.dealt[first : first + size]
            wanted = view, int(chosen[0])
            if self._at_hand != wanted:
                self.kernels.normalize_rows(self._embed(view, chosen))
                self._at_hand = wanted
            yield chosen, self.trainer.support[: len(chosen)]

    def _embed(self, view: int, chosen: np.ndarray) -> np.ndarray:
        out = self.trainer.support[: len(chosen)]
        self.trainer.embed([(view, i) for i in chosen], out)
        return out

    # ---- training --------------------------------------------------------------------------

    def train(self, progress: Progress) -> list[float]:
        """All steps of the recipe, or those up to the first loss that is no number; the mean loss of each.

        With a `pace`, `program` is then for the number of steps that it had time for.
        """
        trainer, recipe, resources = self.trainer, self.program.recipe, self.program.resources
        rng, self._at_hand = rng_for(self.seed, "steps"), None
        trainer.start()
        if trainer.single_pass or resources.step_queries < len(self.labels):
            trainer.lists[Items.BATCHES] = [(0, int(i)) for i in self.dealt]
            trainer.run("first prototypes")
        losses, epoch = [], -(-len(self.labels) // resources.step_queries)
        for number in count(1):
            if self.pace:
                recipe = self.pace.fitted(recipe, resources.sets, number - 1)
            if number > recipe.n_steps:
                break
            if recipe.options.resample_channels and (number - 1) % epoch == 0:
                trainer.resample(rng_for(self.seed, "channels", number))
            trainer.scale_rates(rate_factor(recipe, resources.sets, number))
            support, queries = step_items(resources, self.labels, number, rng)
            size = resources.step_support
            through = sampled_items(recipe, self.labels, support, self.seed, number, size)
            losses.append(trainer.step(number, support, queries, self._unlabelled(number), through))
            progress("training", number, recipe.n_steps, losses[-1])
            if not np.isfinite(losses[-1]):
                return losses
        trainer.finish()
        if self.pace:
            self.program = self.program.with_recipe(recipe)
        return losses

    def _unlabelled(self, number: int) -> list[Item]:
        """Query images that step `number` looks at without their labels: all, or some at random."""
        first, task = len(self.labels), self.program.task
        count = n_unlabelled(self.program.recipe, self.program.resources, task)
        if not count:
            return []
        drawn = rng_for(self.seed, "unlabelled", number).permutation(task.n_query)[:count]
        return [(0, first + int(i)) for i in sorted(drawn)]

    def release(self, tick: int) -> None:
        """Give back all pages but those of buffers that hold a value at `tick` and are needed after it."""
        program = self.program
        self.trainer.bind.arena.release(
            (row["offset"], row["bytes"]) for row in program.table() if row["first"] <= tick < row["last"]
        )

    def keep(self, arrays: list[np.ndarray]) -> None:
        """Give back all pages but those that hold `arrays`."""
        self.trainer.bind.arena.keep(arrays)

    # ---- queries ---------------------------------------------------------------------------

    def predict(self, answers: np.ndarray, *heads: Head) -> None:
        """`answers` (heads, n) of each head for the query images, embedded by the network as it is now."""
        first, count = len(self.labels), len(self.episode.query)
        self.trainer.lists[Items.QUERIES] = CleanImages(first, count)
        self.trainer.host.answering = heads, answers
        if count:
            self.trainer.run("queries")
