"""The stages of one adaptation in one arena: fill, head, train, head, predict."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from tinytrain.base.progress import Progress
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Slice, trained_slices
from tinytrain.episode.augment import USUAL, Augmentation, Ranges, draw
from tinytrain.episode.episode import Episode, Images
from tinytrain.heads.classifier import Batch, Batches, Head, HeadArrays, class_means, fit_head, packed
from tinytrain.heads.leave_one_out import COLUMNS, measure
from tinytrain.kernels.rows import multiply_rows
from tinytrain.plan.costs import n_unlabelled
from tinytrain.plan.plan import Plan
from tinytrain.program.compile import AFTER, BEFORE, own_before
from tinytrain.program.program import Program
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.schedule import Item, dealt, rate_factor, step_items, through_items
from tinytrain.runtime.trainer import Trainer
from tinytrain.runtime.worker import query_lane

HEAD_IMAGES = 250  # embeddings a head is fitted to, where they must be computed for it alone


def augmentation_of(
    episode: Episode, size: int, seed: int, ranges: Ranges = USUAL
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
    """How far pseudo-queries are changed: cached ones as is usual, because heads are fitted to them too."""
    return USUAL if plan.resources.sets >= 2 else plan.recipe.options.augmentation


def head_views(program: Program, kind: str, n_support: int) -> range:
    """Views of every support image that a head of this kind is fitted to, the clean one last.

    Cached ones, or usual ones made for it.
    """
    sets = program.resources.sets
    if kind != "lda":
        return range(1)
    if sets >= 2:
        return range(sets - 1, -1, -1)
    return range(-max(1, min(program.recipe.views, HEAD_IMAGES // n_support)), 1)


class Session:
    """One adaptation of `working` to `episode` by `program`; `adapt` has the order of calls."""

    def __init__(
        self, program: Program, arena, working: WorkingCopy, kernels, episode: Episode, seed: int, lanes: int
    ):
        self.program, self.episode, self.seed, self.kernels = program, episode, seed, kernels
        self.size = working.network.preprocessing.size
        self.labels = episode.support.labels
        self.dealt = dealt(self.labels)
        self.trainer = Trainer(
            program,
            arena,
            working,
            kernels,
            self._read,
            augmentation_of(episode, self.size, seed, reach(program)),
            self.labels,
            lanes,
        )
        self.array = self.trainer.bind.array
        self._predictor = query_lane(self.trainer.bind)
        # View and first image of the unit embeddings in the buffer for those of the support.
        self._at_hand: tuple[int, int] | None = None

    def _read(self, i: int) -> np.ndarray:
        """Support image i; behind the last of them come the query images."""
        support, query = self.episode.support, self.episode.query
        side, k = (support, i) if i < len(support) else (query, i - len(support))
        return side.image(k, self.size)

    def close(self) -> None:
        self.trainer.close()

    def fill(self, progress: Progress) -> None:
        self.trainer.fill(lambda done, total: progress("features", done, total, None))

    # ---- heads -----------------------------------------------------------------------------

    def fit_heads(self, tick: int) -> tuple[Head | None, Head]:
        """Cosine prototypes and the recipe's head (or these again, if nobody needs it) as the network is.

        `tick`, BEFORE or AFTER training, is when the arena holds their arrays. The buffer "left out (before)"
        or "(after)" takes what `leftout.measure` finds on the way. After training, prototypes are None if
        the recipe's head is another one.
        """
        recipe, when = self.program.recipe, "before" if tick == BEFORE else "after"
        result = tick == AFTER or not recipe.updates  # the recipe's head is what is kept
        wanted = result or own_before(recipe, self.program.task)
        own = f"head {'result' if result else when}"
        # First: prototypes are made of the clean embeddings that it leaves behind, if these are all.
        head = self._fit_head("lda", own, tick, self._clean) if recipe.head == "lda" and wanted else None
        if tick == AFTER and head:
            class_means(self.kernels, self.trainer.sums, self.trainer.counts, self._clean())
            for _ in self._measured("left out (after)", self.trainer.sums):
                pass
            return None, head
        name = own if tick == AFTER else "head before, cosine"
        means = self._means(name)
        cosine = self._fit_head("cosine", name, tick, lambda: self._measured(f"left out ({when})", means))
        if tick == BEFORE:  # training takes the bytes of the means, which their lengths bring back
            squares = (np.square(mean, dtype=float).sum() for mean in means)
            self.array(f"{name}: lengths")[:] = [np.sqrt(s + 1e-12) for s in squares]  # as `normalize_rows`
        return cosine, head or cosine

    def _clean(self) -> Iterator[Batch]:
        return self._unit(0)

    def _fit_head(self, kind: str, name: str, tick: int, clean: Batches) -> Head:
        """A head in the arrays `name`, without its means if there is no room for them there."""
        means = self._means(name)
        arrays = HeadArrays(
            self.array(f"{name}: weights"),
            self.array(f"{name}: offsets"),
            means,
            self.trainer.counts,
            self.array(f"scatter matrix ({tick})") if kind == "lda" else None,
        )
        views = head_views(self.program, kind, len(self.labels))
        head = fit_head(
            kind, self.kernels, arrays, lambda: chain.from_iterable(map(self._unit, views)),
            clean, self.trainer.class_sizes,
        )  # fmt: skip
        return replace(head, means=None) if means is self.trainer.sums else head

    def _means(self, name: str) -> np.ndarray:
        """Where class means are computed for a head: in its own array, if it keeps them."""
        recipe = self.program.recipe
        kept = name == "head result" or (recipe.head == "cosine" and not recipe.updates)
        return self.array("head result: means") if kept else self.trainer.sums

    def kept(self, head: Head, tick: int) -> Head:
        """`head`, fitted at `tick`, as a delta keeps it: LDA with its factor, cosine with its means."""
        if head.kind == "lda":
            factor = packed(self.array(f"scatter matrix ({tick})"), self.array("head result: factor"))
            return replace(head, factor=factor)
        return head if head.means is not None else self.with_means(head)

    def with_means(self, prototypes: Head) -> Head:
        """The cosine prototypes of the network as it was with their means, which are found up to rounding."""
        means = self.array("head result: means")
        multiply_rows(prototypes.weights, self.array("head before, cosine: lengths"), out=means)
        return replace(prototypes, means=means)

    def slices(self) -> tuple[Slice, ...]:
        """What training changed."""
        return trained_slices(self.trainer.changed, self.trainer.working, self.array("result"))

    def _measured(self, left_out: str, means: np.ndarray) -> Iterator[Batch]:
        """Batches of the clean images, measured against the class means on the way."""
        trainer = self.trainer
        for chosen, (embeddings, labels) in zip(self._stretches(), self._unit(0), strict=True):
            rows = np.empty((len(labels), COLUMNS), np.float32)
            # Prototypes are free before training and after it.
            measure(rows, embeddings, labels, means, trainer.class_sizes, trainer.prototypes)
            self.array(left_out)[chosen] = rows
            yield embeddings, labels

    def _unit(self, view: int) -> Iterator[Batch]:
        """Batches of one view of the support, of length 1; to be read only, as they may be used again."""
        for chosen in self._stretches():
            wanted = view, int(chosen[0])
            if self._at_hand != wanted:
                self.kernels.normalize_rows(self._embed(view, chosen))
                self._at_hand = wanted
            yield self.trainer.support[: len(chosen)], self.labels[chosen]

    def _embed(self, view: int, chosen: np.ndarray) -> np.ndarray:
        out = self.trainer.support[: len(chosen)]
        self.trainer.embed([(view, i) for i in chosen], out)
        return out

    def _stretches(self) -> Iterator[np.ndarray]:
        """Indices of all support images, as many at a time as there is room for embeddings."""
        size = len(self.trainer.support)
        return (self.dealt[first : first + size] for first in range(0, len(self.dealt), size))

    # ---- training --------------------------------------------------------------------------

    def train(self, progress: Progress) -> list[float]:
        """All steps of the recipe, or those up to the first loss that is no number; the mean loss of each."""
        trainer, recipe, resources = self.trainer, self.program.recipe, self.program.resources
        rng, self._at_hand = rng_for(self.seed, "steps"), None
        trainer.start()
        self._first_prototypes()
        losses, epoch = [], -(-len(self.labels) // resources.step_support)
        for number in range(1, recipe.steps + 1):
            if recipe.options.resample_channels and (number - 1) % epoch == 0:
                trainer.redraw(rng_for(self.seed, "channels", number))
            trainer.scale_rates(rate_factor(recipe, resources.sets, number))
            support, queries = step_items(resources, self.labels, number, rng)
            through = through_items(recipe, self.labels, support, self.seed, number)
            losses.append(trainer.step(number, support, queries, self._unlabelled(number), through))
            progress("training", number, recipe.steps, losses[-1])
            if not np.isfinite(losses[-1]):
                return losses
        trainer.finish()
        return losses

    def _unlabelled(self, number: int) -> list[Item]:
        """Query images that step `number` looks at without their labels: all, or some at random."""
        first, task = len(self.labels), self.program.task
        count = n_unlabelled(self.program.recipe, self.program.resources, task)
        if not count:
            return []
        drawn = rng_for(self.seed, "unlabelled", number).permutation(task.n_query)[:count]
        return [(0, first + int(i)) for i in sorted(drawn)]

    def _first_prototypes(self) -> None:
        """Prototypes of the whole support, where a step sees only a part of it."""
        if self.program.resources.step_support >= len(self.labels):
            return
        batches = ((self._embed(0, chosen), self.labels[chosen]) for chosen in self._stretches())
        class_means(self.kernels, self.trainer.prototypes, self.trainer.counts, batches)

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

    def predict(self, labels: np.ndarray, images: Images, *heads: Head) -> None:
        """`labels` (heads, n) that each head gives to images embedded by the network as it is now."""
        for i in range(len(images)):
            np.copyto(self._predictor.prefix.image, images.image(i, self.size))
            embedding = self._predictor.embed()
            for head, found in zip(heads, labels, strict=True):
                found[i] = head.logits(embedding[None]).argmax()
