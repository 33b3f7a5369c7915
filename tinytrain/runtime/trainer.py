"""Training by a Program whose calls were bound to the arena beforehand: from here on only kernels are called.

Lanes are threads. Which image lands in which micro-batch and partition is fixed by the plan,
so the number of lanes changes the time and never a bit of the result.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tinytrain.episode.augment import Augmentation
from tinytrain.kernels.rows import divide_rows, multiply_rows
from tinytrain.plan.costs import n_hard
from tinytrain.program.calls import Columns
from tinytrain.program.compile import partition
from tinytrain.program.program import Program
from tinytrain.program.trained_arrays import columns_of, redrawn, slots, union
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, WorkingCopy, run
from tinytrain.runtime.schedule import Item
from tinytrain.runtime.thread_pool import Workers
from tinytrain.runtime.worker import Lane, Prefix


class Trainer:
    """One training run in one arena.

    `read(i)` returns support image i as uint8 (size, size, 3), and behind the last of them the query
    images, where the recipe looks at these; `augmentation(view, i)` the
    `Augmentation` of a view, None for view 0; `labels` is (n_support,) int32. `lanes` workers run
    at once, at most as many as the plan has lanes.
    """

    def __init__(
        self,
        program: Program,
        arena: Arena,
        working: WorkingCopy,
        kernels,
        read: Callable[[int], np.ndarray],
        augmentation: Callable[[int, int], Augmentation | None],
        labels: np.ndarray,
        lanes: int = 1,
    ):
        self.program, self.working, self.kernels = program, working, kernels
        self.recipe, self.resources = program.detail["recipe"], program.detail["resources"]
        self.temperature = self.recipe.options.temperature
        self.read, self.augmentation, self.labels = read, augmentation, labels
        self.class_sizes = np.bincount(labels, minlength=program.detail["task"].n_way).astype(np.float32)
        self.seen = np.empty_like(self.class_sizes)  # share of each class in a step
        self.slots = self.changed = slots(program.network, self.recipe)
        self.bind = Binder(program, arena, working, kernels, columns_of(self.slots))
        self._bind_lanes()
        self.workers = min(lanes, self.resources.lanes)
        self.others = Workers(self.workers - 1)
        self._bind_cache()
        self._bind_step()

    def close(self) -> None:
        self.others.close()

    # ---- binding -------------------------------------------------------------------------

    def _bind_lanes(self) -> None:
        def lanes(count: int, kind: str, stage: str) -> list[Lane]:
            names = [name for name in self.program.segments if name.split()[0] == kind]
            units = [f"lane {k}" for k in range(count)]
            return [Lane(self.bind, names, u, f"{stage}, {u}") for u in units]

        self.lanes = lanes(self.resources.lanes, "embed", "embedding")
        self.lanes_after = lanes(self.resources.lanes, "embed", "head after")
        trains = bool(self.recipe.updates)
        self.backward_lanes = lanes(self.resources.partitions if trains else 0, "backward", "backward")

    def _bind_cache(self) -> None:
        array, r = self.bind.array, self.resources
        self.filler = Prefix(self.bind, "fill", "workspace (fill)") if r.sets else None
        self.cache = self.ranges = None
        if r.sets:  # (set, image, values); an array of its own for each would take 240 bytes of heap
            codes = array("cached features")
            self.cache = codes.reshape(*codes.shape[:2], -1)
        if "cached feature ranges" in self.program.buffers:
            self.ranges = array("cached feature ranges")

    def _bind_step(self) -> None:
        array = self.bind.array
        self.support = array("embeddings of support")
        self.sums, self.counts = array("class sums"), array("class counts")
        self.prototypes = array("prototypes")
        if not self.recipe.updates:
            return
        self.queries = array("embeddings of queries")
        self.grad = array("gradient of embeddings")
        self.step_labels = array("labels")
        self.loss, self.residual, self.cosine = array("loss"), array("residual"), array("cosine")
        if self.recipe.step == "both":
            self.residual_t, self.cosine_t = array("residual transposed"), array("cosine transposed")
            self.grad_prototypes = array("gradient of prototypes")
        self.trained = array("trained numbers")
        self.gradients = [array(f"gradients (lane {p})") for p in range(self.resources.partitions)]
        self.states = [self.bind.array(n) for n in self.program.buffers if n.startswith("optimizer state")]
        if self.states:
            self.work = array("optimizer workspace")
        self.starts = np.array([*(s.start for s in self.slots), len(self.trained)], np.int32)
        rates = {u.layer: r for u, r in zip(self.recipe.updates, self.recipe.rates, strict=True)}
        self.full_rates = np.array([rates[s.layer][s.part == "bias"] for s in self.slots], np.float32)
        self.rates = self.full_rates.copy()
        self.write_back = [self._write_back_call(s) for s in self.slots]

    def _write_back_call(self, slot):
        values = self.trained[slot.start : slot.start + slot.size]
        target = self.working.part(slot.layer, slot.part)
        if slot.size == target.size:
            return self.kernels.copy, (target.reshape(-1), values)
        columns, every_row = self.bind.columns, np.arange(len(target), dtype=np.int32)
        rows = columns.get(Columns(slot.layer, "inputs"), every_row)
        return self.kernels.scatter_block, (
            target, rows, columns[Columns(slot.layer)], values.reshape(slot.shape)
        )  # fmt: skip

    # ---- images and features -------------------------------------------------------------

    def fill(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Run the frozen part over every support image and view that the plan caches."""
        if not self.resources.sets:
            return
        prefix = self.filler
        for i in range(len(self.labels)):
            np.copyto(prefix.image, self.read(i))
            for view in range(self.resources.sets):
                self._store(view, i, prefix.features(self.augmentation(view, i)))
            if progress:
                progress(i + 1, len(self.labels))

    def _store(self, view: int, i: int, features: np.ndarray) -> None:
        if self.ranges is not None:
            self.kernels.quantize(self.cache[view, i], self.ranges[view, i], features.reshape(-1))
        else:
            np.copyto(self.cache[view, i], features.reshape(-1))

    def load(self, lane: Lane, row: int, item: Item) -> None:
        view, i = item
        target = lane.features[row].reshape(-1)
        if 0 <= view < self.resources.sets and i < len(self.labels):
            if self.ranges is not None:
                self.kernels.dequantize(target, self.cache[view, i], self.ranges[view, i])
            else:
                np.copyto(target, self.cache[view, i])
            return
        np.copyto(lane.prefix.image, self.read(i))
        np.copyto(target, lane.prefix.features(self.augmentation(view, i)).reshape(-1))

    # ---- passes -------------------------------------------------------------------------------

    def _on_lanes(self, lanes: list[Lane], work: Callable[[Lane, list], None], count: int) -> None:
        """work(lane, micro-batches) for every lane's partition of `count` images."""
        shares = zip(lanes, partition(count, len(lanes), self.resources.micro), strict=True)
        self.others.run([partial(work, lane, batches) for lane, batches in shares])

    def embed(self, items: Sequence[Item], out: np.ndarray) -> None:
        """Embeddings of `items` into the rows of `out`."""

        def work(lane, batches):
            for first, last in batches:
                for row in range(last - first):
                    self.load(lane, row, items[first + row])
                calls, outputs = lane.segments[f"embed {last - first}"]
                run(calls)
                np.copyto(out[first:last], outputs[0])

        self._on_lanes(self.lanes, work, len(items))

    def backward(self, items: Sequence[Item], rows: Sequence[int]) -> None:
        """Accumulate the gradients of `items`; row `rows[k]` of the embedding gradient belongs to item k."""

        def work(lane, batches):
            for first, last in batches:
                for row in range(last - first):
                    self.load(lane, row, items[first + row])
                    np.copyto(lane.grad_embedding[row], self.grad[rows[first + row]])
                run(lane.segments[f"backward {last - first}"][0])

        self._on_lanes(self.backward_lanes, work, len(items))

    def set_prototypes(self, labels: np.ndarray) -> None:
        """Class means of the support embeddings of this step.

        Where the step sees only some images of a class, their mean replaces that share of the
        prototype and the rest of it stays.
        """
        self.sums.fill(0)
        self.counts.fill(0)
        self.kernels.class_sums(self.sums, self.counts, self.support, labels)
        divide_rows(self.sums, self.counts, out=self.sums)
        if len(labels) < len(self.labels):
            np.divide(self.counts, self.class_sizes, out=self.seen)
            multiply_rows(self.sums, self.seen, out=self.sums)
            np.subtract(1, self.seen, out=self.seen)
            multiply_rows(self.prototypes, self.seen, out=self.prototypes)
            self.prototypes += self.sums
        else:
            np.copyto(self.prototypes, self.sums)

    # ---- one step -------------------------------------------------------------------------------

    def start(self) -> None:
        """Trained numbers from the working copy, optimizer state zero."""
        self._gather()
        for state in self.states:
            state.fill(0)

    def _gather(self) -> None:
        """What is trained of the working copy into the flat vector of trained numbers."""
        for slot in self.slots:
            part = self.working.part(slot.layer, slot.part)
            values = self.trained[slot.start : slot.start + slot.size].reshape(-1, len(slot.channels))
            channels = np.array(slot.channels, np.int32)
            for k, row in enumerate(range(len(part)) if slot.inputs is None else slot.inputs):
                self.kernels.gather_columns(values[k : k + 1], part[row : row + 1], channels)

    def redraw(self, rng: np.random.Generator) -> None:
        """Other channels of every layer, drawn at random, from the values that the network now has.

        `changed` keeps all that was ever trained.
        """
        self.slots = tuple(redrawn(s, self.program.network, rng) for s in self.slots)
        self.changed = tuple(map(union, self.changed, self.slots))
        for columns, drawn in columns_of(self.slots).items():
            np.copyto(self.bind.columns[columns], drawn)  # the arrays that the bound calls read
        self.start()

    def finish(self) -> None:
        """Training is over: its bytes are free for others, and embeddings are computed elsewhere."""
        self.lanes = self.lanes_after

    def scale_rates(self, factor: float) -> None:
        """Learning rates of the next steps: `factor` times those of the recipe."""
        np.multiply(self.full_rates, np.float32(factor), out=self.rates)

    def step(
        self,
        number: int,
        support: Sequence[Item],
        queries: Sequence[Item],
        unlabelled: Sequence[Item] = (),
        through: Sequence[int] | None = None,
    ) -> float:
        """Step `number` (from 1) on clean support items and pseudo-queries; the mean loss before it.

        `unlabelled` are query images, for a recipe with `entropy`. `through`: positions in `support` of the
        images through which the gradient of the prototypes goes; None for all. Without effect on a recipe
        whose prototypes are constant.
        """
        loss = self.compute_gradients(support, queries, unlabelled, through)
        self.update(number)
        return loss

    def compute_gradients(
        self,
        support: Sequence[Item],
        queries: Sequence[Item],
        unlabelled: Sequence[Item] = (),
        through: Sequence[int] | None = None,
    ) -> float:
        """Gradient of the loss into partition 0; the loss: its mean over all pseudo-queries."""
        self._set_labels(support)
        self.embed(support, self.support)
        self.set_prototypes(self.step_labels[: len(support)])
        shown = [*queries, *unlabelled]
        self._set_labels(shown)
        self.embed(shown, self.queries)
        self.kernels.prototype_loss(
            self.loss, self.residual, self.cosine, self.queries, self.step_labels[: len(shown)],
            self.prototypes, np.float32(self.temperature),
        )  # fmt: skip
        # From here on the gradients may use the bytes in which the embeddings were computed.
        for gradient in self.gradients:
            gradient.fill(0)
        rows = self._hardest(len(queries))
        for k in set(range(len(queries))).difference(rows):
            self.residual[k].fill(0)
        if unlabelled:
            self._set_entropy(len(queries), len(rows))
        share = np.float32(self.temperature / len(rows))
        self.kernels.prototype_loss_grad(
            self.grad[: len(shown)], self.residual, self.cosine, self.queries, self.prototypes, share
        )
        rows += range(len(queries), len(shown))
        self.backward([shown[k] for k in rows], rows)
        if self.recipe.step == "both":
            self._backward_support(support, range(len(support)) if through is None else through, share)
        for gradient in self.gradients[1:]:
            self.kernels.accumulate(self.gradients[0], gradient)
        loss = float(self.loss[: len(queries)].mean())
        if not unlabelled:
            return loss
        return loss + self.recipe.options.entropy * float(self.loss[len(queries) :].mean())

    def _set_labels(self, items: Sequence[Item]) -> None:
        """Labels of support images; those of others are unknown, 0 holds their place."""
        for k, (_, i) in enumerate(items):
            self.step_labels[k] = self.labels[i] if i < len(self.labels) else 0

    def _set_entropy(self, first: int, chosen: int) -> None:
        """Entropy instead of cross-entropy from row `first` on, in units of a mean over `chosen` rows."""
        weight = np.float32(self.recipe.options.entropy * chosen / (len(self.loss) - first))
        part = slice(first, None)
        self.kernels.entropy(
            self.loss[part], self.residual[part], self.cosine[part], np.float32(self.temperature), weight
        )

    def _hardest(self, count: int) -> list[int]:
        """Positions of the pseudo-queries with the highest loss, in their own order."""
        keep = n_hard(self.recipe.options.hard_fraction, count)
        return sorted(sorted(range(count), key=self.loss.__getitem__, reverse=True)[:keep])

    def _backward_support(self, support: Sequence[Item], through: Sequence[int], share: float) -> None:
        """The gradient that reaches the support images through the prototypes.

        Those at the positions `through` also stand for the others of their class, and their classes for
        those of which none is among them.
        """
        np.copyto(self.residual_t, self.residual.T)
        np.copyto(self.cosine_t, self.cosine.T)
        self.kernels.prototype_loss_grad(
            self.grad_prototypes, self.residual_t, self.cosine_t, self.prototypes, self.queries, share
        )
        chosen = [support[k] for k in through]
        if not chosen:
            return
        divisor = self.class_sizes * self._stood_for(support, chosen)
        divide_rows(self.grad_prototypes, divisor, out=self.grad_prototypes)
        for k, (_, i) in enumerate(chosen):
            np.copyto(self.grad[k], self.grad_prototypes[self.labels[i]])
        self.backward(chosen, range(len(chosen)))

    def _stood_for(self, support: Sequence[Item], chosen: Sequence[Item]) -> np.ndarray:
        """float32 (way,): by class, the share of the images of `support` that each of `chosen` is.

        Times the share of the classes that are among them. 1 for a class that is not: nothing uses it.
        """
        way = len(self.class_sizes)
        seen, taken = (
            np.bincount(self.labels[[i for _, i in items]], minlength=way) for items in (support, chosen)
        )
        share = np.where(taken > 0, taken / np.maximum(seen, 1), 1)
        return (share * np.count_nonzero(taken) / np.count_nonzero(seen)).astype(np.float32)

    def update(self, number: int) -> None:
        """One optimizer step, then the new values into the working copy."""
        gradient, kernels = self.gradients[0], self.kernels
        if self.recipe.optimizer == "sgd":
            kernels.sgd(self.trained, gradient, self.starts, self.rates)
        elif self.recipe.optimizer == "momentum":
            kernels.momentum(
                self.trained, gradient, self.states[0], self.work, self.starts, self.rates, np.float32(0.9)
            )
        else:
            kernels.adam(
                self.trained, gradient, *self.states, self.work, self.starts, self.rates,
                np.float32(0.9), np.float32(0.999), number,
            )  # fmt: skip
        run(self.write_back)
