"""The stages of one adaptation in one arena: fill, head, train, head, predict."""

from collections.abc import Callable

import numpy as np

from tinytrain.augment import Augmentation, draw
from tinytrain.binding import WorkingCopy
from tinytrain.compile import PREDICT
from tinytrain.engine import Item, Trainer
from tinytrain.episode import Episode, Pictures
from tinytrain.fit import Fit
from tinytrain.head import Head, HeadArrays, fit_head
from tinytrain.lane import query_lane
from tinytrain.leftout import COLUMNS, measure
from tinytrain.plan import n_unlabelled
from tinytrain.schedule import dealt, rate_factor, step_items, through_items
from tinytrain.seeds import rng_for

HEAD_PICTURES = 250  # embeddings a head is fitted to, where they must be computed for it alone

Progress = Callable[[str, int, int, float | None], None]


def augmentation_of(episode: Episode, size: int, seed: int) -> Callable[[int, int], Augmentation | None]:
    """Augmentation of view v of support picture i: the same draw whenever it is asked for."""

    def augmentation(view: int, i: int) -> Augmentation | None:
        if view == 0:
            return None
        return draw(rng_for(seed, "augmentation", view, i), size, episode.may_flip)

    return augmentation


def head_views(fit: Fit, kind: str, n_support: int) -> int:
    """Augmented views of every support picture that a head of this kind is fitted to."""
    if kind != "lda":
        return 0
    sets = fit.resources.sets
    return sets - 1 if sets >= 2 else max(1, min(fit.recipe.views, HEAD_PICTURES // n_support))


class Session:
    """One adaptation of `working` to `episode` by the program of `fit`; `adapt` has the order of calls."""

    def __init__(
        self, fit: Fit, arena, working: WorkingCopy, kernels, episode: Episode, seed: int, lanes: int
    ):
        self.fit, self.episode, self.seed, self.kernels = fit, episode, seed, kernels
        self.size = working.network.preprocessing.size
        self.labels = episode.support.labels
        self.dealt = dealt(self.labels)
        self.trainer = Trainer(
            fit.program,
            arena,
            working,
            kernels,
            self._read,
            augmentation_of(episode, self.size, seed),
            self.labels,
            lanes,
        )
        self.array = self.trainer.bind.array
        self._predictor = query_lane(self.trainer.bind)

    def _read(self, i: int) -> np.ndarray:
        """Support picture i; behind the last of them come the query pictures."""
        support, query = self.episode.support, self.episode.query
        side, k = (support, i) if i < len(support) else (query, i - len(support))
        return side.picture(k, self.size)

    def close(self) -> None:
        self.trainer.close()

    def fill(self, progress: Progress) -> None:
        self.trainer.fill(lambda done, total: progress("features", done, total, None))

    # ---- heads -----------------------------------------------------------------------------

    def fit_head(self, name: str, tick: int, kind: str | None = None, left_out: str | None = None) -> Head:
        """Fit a head (the recipe's, or `kind`) to the support as the network is now.

        `name` is "head before" or "head after", `tick` the time at which the arena holds its arrays.
        `left_out` names a buffer that takes what `leftout.measure` finds on the way, for a cosine head.
        """
        kind = kind or self.fit.recipe.head
        arrays = HeadArrays(
            self.array(f"{name}: weights"),
            self.array(f"{name}: offsets"),
            self.array("class sums"),
            self.array("class counts"),
            self.array(f"scatter matrix ({tick})") if kind == "lda" else None,
        )
        views = range(head_views(self.fit, kind, len(self.labels)) + 1)
        return fit_head(
            kind, self.kernels, arrays, lambda: self._embeddings(views),
            lambda: self._measured(left_out), self.trainer.class_sizes,
        )  # fmt: skip

    def _measured(self, left_out: str | None):
        """Batches of the clean pictures, measured once the head has scaled them to length 1."""
        first, trainer = 0, self.trainer
        for embeddings, labels in self._embeddings((0,), self.dealt):
            yield embeddings, labels
            if left_out:
                rows = np.empty((len(labels), COLUMNS), np.float32)
                # Prototypes are free before training and after it.
                measure(rows, embeddings, labels, trainer.sums, trainer.class_sizes, trainer.prototypes)
                self.array(left_out)[self.dealt[first : first + len(labels)]] = rows
                first += len(labels)

    def _embeddings(self, which, order=None):
        """(embeddings, labels) batches of the support in the views `which`, by index or in `order`."""
        out = self.trainer.support
        order = np.arange(len(self.labels)) if order is None else order
        for view in which:
            for first in range(0, len(self.labels), len(out)):
                chosen = order[first : first + len(out)]
                self.trainer.embed([(view, i) for i in chosen], out[: len(chosen)])
                yield out[: len(chosen)], self.labels[chosen]

    # ---- training --------------------------------------------------------------------------

    def train(self, progress: Progress) -> list[float]:
        """All steps of the recipe, or those up to the first loss that is no number; the mean loss of each."""
        trainer, recipe, resources = self.trainer, self.fit.recipe, self.fit.resources
        rng = rng_for(self.seed, "steps")
        trainer.start()
        self._first_prototypes()
        losses, epoch = [], -(-len(self.labels) // resources.step_support)
        for number in range(1, recipe.steps + 1):
            if recipe.redraw and (number - 1) % epoch == 0:
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
        """Query pictures that step `number` looks at without their labels: all, or some at random."""
        first, task = len(self.labels), self.fit.program.detail["task"]
        count = n_unlabelled(self.fit.recipe, self.fit.resources, task)
        if not count:
            return []
        drawn = rng_for(self.seed, "unlabelled", number).permutation(task.n_query)[:count]
        return [(0, first + int(i)) for i in sorted(drawn)]

    def _first_prototypes(self) -> None:
        """Prototypes of the whole support, where a step sees only a part of it."""
        if self.fit.resources.step_support >= len(self.labels):
            return
        sums, counts = self.trainer.sums, self.trainer.counts
        sums.fill(0)
        counts.fill(0)
        for embeddings, labels in self._embeddings((0,)):
            self.kernels.class_sums(sums, counts, embeddings, labels)
        np.divide(sums, counts[:, None], out=self.trainer.prototypes)

    def release(self, *names: str) -> None:
        """Give back the bytes of all buffers but the named ones and those whose values predictions need."""
        program = self.fit.program
        self.trainer.bind.arena.release(
            (row["offset"], row["bytes"])
            for row in program.table()
            if row["first"] < PREDICT == row["last"] or row["name"] in names
        )

    # ---- queries ---------------------------------------------------------------------------

    def predict(self, pictures: Pictures, *heads: Head) -> list[np.ndarray]:
        """Labels (n,) that each head gives to pictures embedded by the network as it is now."""
        labels = [np.empty(len(pictures), np.int64) for _ in heads]
        for i in range(len(pictures)):
            np.copyto(self._predictor.prefix.picture, pictures.picture(i, self.size))
            embedding = self._predictor.embed()
            for head, found in zip(heads, labels, strict=True):
                found[i] = head.logits(embedding[None]).argmax()
        return labels
