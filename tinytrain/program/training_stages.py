"""The stages of an adaptation: cache features, fit heads, train, fit a head again, answer queries."""

from collections.abc import Iterator

import numpy as np

from tinytrain.heads.head import DELTA_TAKES, FIT_TAKES, STORED, HeadMethod
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.plan.costs import n_hard, n_sampled, n_unlabelled
from tinytrain.program import int8_updates, optimizer_stages
from tinytrain.program.buffers import Job
from tinytrain.program.calls import Buffer, Call, Table, View
from tinytrain.program.head_buffers import SHARED, head_buffer, own_before
from tinytrain.program.stages import (
    Augment,
    FitHead,
    Items,
    KeepHead,
    Listed,
    Load,
    Of,
    Read,
    Repeat,
    Rows,
    Run,
    Stage,
    Store,
    Take,
    Unit,
)
from tinytrain.program.ticks import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, RESULT


class TrainingStages:
    """Emits the stages of one training run over buffers and units that are there already."""

    def __init__(self, job: Job, buffers: dict[str, Buffer], units: dict[str, tuple[Unit, ...]]):
        self.job, self.buffers, self.units = job, buffers, units
        self.method = find_head(job.recipe.head)
        self.updates = int8_updates if job.recipe.precision == "int8" else optimizer_stages
        self.frozen = (Run("prefix"),) if job.start > 0 else ()
        self.cache, self.remembered, self.kept = map(self._features, ("cached", "remembered", "kept"))

    def all(self) -> Iterator[Stage]:
        job, r, n = self.job, self.job.resources, self.job.task.n_support
        if self.remembered:
            name = "recall" if self.remembered[1:] else "recall_codes"
            yield Stage("recall", FILL, (Call(name, _whole(self.remembered)),))
        if self.cache:
            body = (Augment(), *self.frozen, Store(self.cache))
            views = Repeat(Items.VIEWS, r.sets, body, self.units["fill"])
            images = Repeat(Items.IMAGES, job.task.n_images, (Read(), views), self.units["fill"])
            yield Stage("cache", FILL, (images,), part="features")
        yield Stage("head before", BEFORE, tuple(self._heads_before()), part="heads")
        if job.trains:
            yield Stage("start", EMBED, tuple(self.updates.start(job, self.buffers)))
            if r.step_queries < n:
                yield Stage("first prototypes", EMBED, tuple(self._first_prototypes()), part="training")
            steps = job.recipe.n_steps
            yield Stage("loss", EMBED, tuple(self._loss()), steps, "training")
            yield Stage("gradients", BACKWARD, tuple(self._gradients()), steps, "training")
            gradient = self.units["backward"][0].gradients.whole
            yield Stage("update", BACKWARD, tuple(self.updates.update(job, self.buffers, gradient)), steps)
            head = self._fit(self.method, "head result", AFTER)
            yield Stage("head after", AFTER, (head,), part="heads")
        if self.kept and job.start > 0:  # images themselves are not remembered
            yield Stage("replay", AFTER if job.trains else BEFORE, tuple(self._replay()), part="heads")
        yield Stage("result", RESULT, tuple(self._result()))
        if job.task.n_query:
            load = Load((), (Read(), Augment(), *self.frozen))
            body = (load, Run("embed", Of.OUTPUT), Call("answer", (Of.OUTPUT,)))
            queries = Repeat(Items.QUERIES, job.task.n_query, body, self.units["queries"])
            yield Stage("queries", PREDICT, (queries,), 1 + job.trains)

    # ---- pieces -----------------------------------------------------------------------------

    def _features(self, of: str) -> tuple[Buffer, ...]:
        """Codes and their ranges of some features; none if the program has no such buffers."""
        names = (f"{of} features", f"{of} feature ranges")
        return tuple(self.buffers[name] for name in names if name in self.buffers)

    def _whole(self, name: str) -> View:
        return self.buffers[name].whole

    def _load(self) -> Load:
        computed = (Read(), Augment(), *self.frozen) if self.job.alive and self.job.task.n_images else ()
        return Load(self.cache, computed, self.remembered)

    def _embed(self, items: Items, count: int, to: View, units: str = "embed") -> Repeat:
        body = (self._load(), Run("embed", Rows(to)))
        computed = self._computed(items, count)
        return Repeat(items, count, body, self.units[units], self.job.resources.micro, computed)

    def _computed(self, items: Items, count: int) -> int:
        """How many of `count` items have no features in the cache."""
        if items not in (Items.SHOWN, Items.HARD):  # clean ones
            return 0 if self.job.resources.sets else count
        unlabelled = self.job.shown - self.job.resources.step_queries
        return unlabelled if self.job.resources.sets >= 2 else count

    def _batches(self, calls: tuple = (), units: str = "embed") -> Repeat:
        """All support images, a step's worth at a time."""
        room = self.job.resources.step_support
        embed = self._embed(Items.BATCH, room, self._whole("embeddings of support"), units)
        return Repeat(Items.BATCHES, self.job.task.n_support, (embed, *calls), micro=room)

    # ---- heads ------------------------------------------------------------------------------

    def _heads_before(self) -> Iterator[FitHead]:
        """First the recipe's head: prototypes are made of the clean embeddings that it leaves behind."""
        job, own = self.job, False
        if self.method is not BASELINE and own_before(job.recipe, job.task):
            own = True
            yield self._fit(self.method, "head before" if job.trains else "head result", BEFORE)
        kept = not job.trains and self.method is BASELINE
        yield self._fit(BASELINE, "head before, cosine", BEFORE, kept, reuses=own)

    def _fit(
        self, method: HeadMethod, name: str, tick: int, kept: bool | None = None, reuses=False
    ) -> FitHead:
        job, kept = self.job, name == "head result" if kept is None else kept
        whole = job.task.n_support <= job.resources.step_support
        # Beside the views: to leave every image out and, after training, means and margins for the guard.
        looks = 0 if whole else 3 if tick == AFTER and method is not BASELINE else 1
        looks += 0 if whole else method.passes - 1
        views = job.head_views(method)
        batches = self._batches(units="embed after" if tick == AFTER else "embed")
        arrays = self._arrays(method, name, tick, kept, FIT_TAKES)
        left_out = self.buffers[f"left out ({'after' if tick == AFTER else 'before'})"]
        return FitHead(method.name, views, looks, reuses and whole, batches, arrays, left_out, kept)

    def _arrays(self, method: HeadMethod, name: str, tick: int, kept: bool, taken) -> dict[str, Buffer]:
        """Buffers of a head by the names that its method declares, those of the lifetimes `taken`."""
        declared = self.job.head_form(method)
        return {
            b.name: self.buffers[head_buffer(b, name, tick, kept)] for b in declared if b.lifetime in taken
        }

    def _replay(self) -> Iterator:
        """Features of the images of each class that stand for it by their embeddings."""
        every, embeddings = map(self._whole, ("embeddings to choose from", "embeddings of support"))
        copied = Call("rows_of_images", (every, Listed(embeddings, Items.BATCH)))
        yield self._batches((copied,), "embed after" if self.job.trains else "embed")
        yield Call("choose_kept", (every,))
        if self.job.recipe.precision == "int8":
            yield from self._kept_codes()
            return
        for name, buffers in (("keep_cached", self.cache), ("keep_remembered", self.remembered)):
            if buffers:
                yield Call(name, _whole(self.kept + buffers))

    def _kept_codes(self) -> Iterator[Call]:
        """Those of an int8 program that are cached, of the clean view, and those that were remembered."""
        if self.cache:
            cached = self.cache[0].whole.rows(0, 1)
            yield Call("keep_codes", (*_whole(self.kept), cached.reshape(*cached.shape[1:]), 0))
        if self.remembered:
            arrays = _whole(self.kept + self.remembered)
            yield Call("keep_codes", (*arrays, self.job.task.n_images))

    def _result(self) -> Iterator:
        """What the delta keeps: new values of what was trained, and the head."""
        if "result" in self.buffers:
            yield Call("keep_changed", (self._whole("result"),))
        if self.method is not BASELINE:
            tick = AFTER if self.job.trains else BEFORE
            arrays = self._arrays(self.method, "head result", tick, True, DELTA_TAKES)
            arrays = {n: b for n, b in arrays.items() if b.name not in SHARED}  # others' by now
            declared = self.job.head_form(self.method)
            yield KeepHead(arrays, frozenset(b.name for b in declared if b.lifetime == STORED))

    # ---- training -----------------------------------------------------------------------------

    def _first_prototypes(self) -> Iterator:
        """Prototypes of the whole support, if a step looks at only a part of it."""
        prototypes, counts = self._whole("prototypes"), self._whole("class counts")
        yield Call("clear", (prototypes,))
        yield Call("clear", (counts,))
        labels = Listed(self._whole("labels"), Items.BATCH)
        embeddings = Listed(self._whole("embeddings of support"), Items.BATCH)
        summed = Call("class_sums", (prototypes, counts, embeddings, labels))
        yield self._batches((Call("labels_of", (labels, Items.BATCH)), summed))
        yield Call("divide_rows", (prototypes, prototypes, counts))

    def _loss(self) -> Iterator:
        """Prototypes of the clean support, and the loss of pseudo-queries in them."""
        r, temperature = self.job.resources, np.float32(self.job.recipe.options.temperature)
        embeddings = self._whole("embeddings of support").rows(0, r.step_queries)
        labels = self._whole("labels")
        sums, counts, prototypes = map(self._whole, ("class sums", "class counts", "prototypes"))
        yield Call("labels_of", (Listed(labels, Items.SUPPORT), Items.SUPPORT))
        yield self._embed(Items.SUPPORT, r.step_queries, embeddings)
        yield Call("clear", (sums,))
        yield Call("clear", (counts,))
        yield Call("class_sums", (sums, counts, embeddings, Listed(labels, Items.SUPPORT)))
        yield Call("divide_rows", (sums, sums, counts))
        if r.step_queries < self.job.task.n_support:
            yield Call("mix_prototypes", (prototypes, sums, counts))
        else:
            yield Call("assign", (prototypes, sums))
        yield Call("labels_of", (Listed(labels, Items.SHOWN), Items.SHOWN))
        queries = self._whole("embeddings of queries")
        yield self._embed(Items.SHOWN, self.job.shown, queries)
        outputs = map(self._whole, ("loss", "residual", "cosine"))
        shown = Listed(labels, Items.SHOWN)
        yield Call("prototype_loss", (*outputs, queries, shown, prototypes, temperature))

    def _gradients(self) -> Iterator:
        """Gradient of the loss into the first accumulator."""
        job, recipe, r = self.job, self.job.recipe, self.job.resources
        accumulators = [unit.gradients.whole for unit in self.units["backward"]]
        for accumulator in accumulators:
            yield Call("clear", (accumulator,))
        residual, cosine, queries = map(self._whole, ("residual", "cosine", "embeddings of queries"))
        grad, prototypes, loss = map(self._whole, ("gradient of embeddings", "prototypes", "loss"))
        hard = n_hard(recipe.options.hard_fraction, r.step_support, r.step_queries)
        unlabelled = n_unlabelled(recipe, r, job.task)
        yield Call("hardest", (residual, loss, r.step_queries, hard))
        if unlabelled:
            weight = np.float32(recipe.options.entropy * hard / unlabelled)
            tail = (a.rows(r.step_queries, job.shown) for a in (loss, residual, cosine))
            yield Call("entropy", (*tail, np.float32(recipe.options.temperature), weight))
        fraction = np.float32(recipe.options.temperature / hard)
        shown = grad.rows(0, job.shown)
        yield Call("prototype_loss_grad", (shown, residual, cosine, queries, prototypes, fraction))
        yield self._backward(Items.HARD, hard + unlabelled, Rows(grad, Items.SHOWN))
        if recipe.step == "both":
            yield from self._gradient_of_prototypes(residual, cosine, fraction)
        for accumulator in accumulators[1:]:
            yield Call("accumulate", (accumulators[0], accumulator))

    def _backward(self, items: Items, count: int, rows: Rows) -> Repeat:
        body = (self._load(), Take(rows), Run("backward"))
        units, computed = self.units["backward"], self._computed(items, count)
        return Repeat(items, count, body, units, self.job.resources.micro, computed)

    def _gradient_of_prototypes(self, residual: View, cosine: View, fraction) -> Iterator:
        """The gradient that reaches support images through the prototypes.

        Sampled ones also stand for the others of their class, and their classes for those without any.
        """
        r = self.job.resources
        count = n_sampled(self.job.recipe, r.step_support, r.step_queries)
        turned = [self._whole(f"{name} transposed") for name in ("residual", "cosine")]
        for target, source in zip(turned, (residual, cosine), strict=True):
            yield Call("transposed", (target, source))
        wanted = self._whole("gradient of prototypes")
        others = self._whole("prototypes"), self._whole("embeddings of queries")
        yield Call("prototype_loss_grad", (wanted, *turned, *others, fraction))
        if not count:
            return
        divisors = Table("images that a sampled one stands for", (self.job.task.n_way,))
        labels = Listed(self._whole("labels"), Items.SAMPLED)
        grad = self._whole("gradient of embeddings")
        yield Call("sampled_weights", (divisors,))
        yield Call("divide_rows", (wanted, wanted, divisors))
        yield Call("labels_of", (labels, Items.SAMPLED))
        yield Call("rows_of_labels", (Listed(grad, Items.SAMPLED), wanted, labels))
        yield self._backward(Items.SAMPLED, count, Rows(grad))


def _whole(buffers: tuple[Buffer, ...]) -> tuple[View, ...]:
    return tuple(buffer.whole for buffer in buffers)
