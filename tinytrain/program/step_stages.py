"""The stages of one step of training: loss and gradients, in two passes over the images or in one."""

from collections.abc import Iterator

import numpy as np

from tinytrain.plan.costs import n_unlabelled
from tinytrain.program.calls import Buffer, Call, Role, Table, View
from tinytrain.program.job import Job
from tinytrain.program.stages import Augment, Items, Listed, Load, Once, Read, Repeat, Rows, Run, Take, Unit


class StepStages:
    """Emits what a step does, and what other stages share with it."""

    def __init__(self, job: Job, buffers: dict[str, Buffer], units: dict[str, tuple[Unit, ...]]):
        self.job, self.buffers, self.units = job, buffers, units
        self.frozen = (Run("prefix"),) if job.start > 0 else ()
        self.cache, self.remembered, self.kept = map(self._features, ("cached", "remembered", "kept"))

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

    # ---- training -----------------------------------------------------------------------------

    def _first_prototypes(self) -> Iterator:
        """Prototypes of the whole support, if a step computes only a part of it."""
        prototypes, counts = self._whole("prototypes"), self._whole("class counts")
        yield Call("clear", (prototypes,))
        yield Call("clear", (counts,))
        labels = Listed(self._whole("labels"), Items.BATCH)
        embeddings = Listed(self._whole("embeddings of support"), Items.BATCH)
        summed = Call("class_sums", (prototypes, counts, embeddings, labels))
        yield self._batches((Call("labels_of", (labels, Items.BATCH)), summed))
        yield Call("divide_rows", (prototypes, prototypes, counts))
        if self.job.single_pass:
            yield Call("start_losses", (self._whole("latest losses"),))

    def _loss(self) -> Iterator:
        """Prototypes of the clean support, and the loss of pseudo-queries in them."""
        r, temperature = self.job.resources, np.float32(self.job.recipe.options.temperature)
        embeddings = self._whole("embeddings of support").rows(0, r.step_queries)
        labels = self._whole("labels")
        sums, counts, prototypes = map(self._whole, ("class sums", "class counts", "prototypes"))
        yield Call("labels_of", (Listed(labels, Items.SUPPORT), Items.SUPPORT))
        yield self._embed(Items.SUPPORT, r.step_queries, embeddings)
        yield from self._class_sums(embeddings, Listed(labels, Items.SUPPORT))
        if r.step_queries < self.job.task.n_support:
            yield Call("mix_prototypes", (prototypes, sums, counts))
        else:
            yield Call("divide_rows", (prototypes, sums, counts))
        yield Call("labels_of", (Listed(labels, Items.SHOWN), Items.SHOWN))
        queries = self._whole("embeddings of queries")
        yield self._embed(Items.SHOWN, self.job.shown, queries)
        outputs = map(self._whole, ("loss", "residual", "cosine"))
        shown = Listed(labels, Items.SHOWN)
        yield Call("prototype_loss", (*outputs, queries, shown, prototypes, temperature))

    def _class_sums(self, embeddings: View, labels: Listed) -> Iterator[Call]:
        sums, counts = self._whole("class sums"), self._whole("class counts")
        yield Call("clear", (sums,))
        yield Call("clear", (counts,))
        yield Call("class_sums", (sums, counts, embeddings, labels))

    def _gradients(self) -> Iterator:
        """Gradient of the loss."""
        job, recipe, r = self.job, self.job.recipe, self.job.resources
        yield Call("clear", (self._whole("gradients"),))
        residual, cosine, queries = map(self._whole, ("residual", "cosine", "embeddings of queries"))
        grad, prototypes, loss = map(self._whole, ("gradient of embeddings", "prototypes", "loss"))
        hard = job.hard
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
        if recipe.step == "both" and job.sampled:
            through = Once(tuple(self._gradient_of_prototypes(residual, cosine, fraction)))
            yield self._backward(Items.SAMPLED, job.sampled, Rows(grad), through)

    def _backward(self, items: Items, count: int, rows: Rows, *before) -> Repeat:
        return self._passes(items, count, (*before, Take(rows), Run("backward")))

    def _passes(self, items: Items, count: int, body: tuple) -> Repeat:
        units, computed = self.units["backward"], self._computed(items, count)
        return Repeat(items, count, (self._load(), *body), units, self.job.resources.micro, computed)

    def _single_pass(self) -> Iterator:
        """Gradient of the loss, from one pass of each image.

        Prototypes are those of the steps before; the support images that pass bring them up to date.
        """
        fraction = np.float32(self.job.recipe.options.temperature / self.job.hard)
        latest = self._whole("latest losses")
        yield Call("clear", (self._whole("gradients"),))
        yield Call("choose_queries", (latest, self.job.hard))
        yield self._hard_pass(fraction)
        yield from self._support_pass(
            Call("remember_losses", (latest, self._whole("loss"))),
            *self._gradient_of_prototypes(*map(self._whole, ("residual", "cosine")), fraction),
        )

    def _hard_pass(self, fraction: np.float32) -> Repeat:
        """Embedding, loss and gradient of each pseudo-query."""
        names = ("embeddings of queries", "labels", "loss", "residual", "cosine", "gradient of embeddings")
        f, labels, *outputs, g = (Rows(self._whole(name)) for name in names)
        prototypes, temperature = self._whole("prototypes"), np.float32(self.job.recipe.options.temperature)
        body = (
            Run("forward", f),
            Call("labels_of", (labels, Items.BATCH)),
            Call("prototype_loss", (*outputs, f, labels, prototypes, temperature)),
            Call("prototype_loss_grad", (g, *outputs[1:], f, prototypes, fraction)),
            Take(g),
            Run("back"),
        )
        return self._passes(Items.HARD, self.job.hard, body)

    def _support_pass(self, *before: Call) -> Iterator:
        """Gradient of the sampled support images, whose embeddings move the prototypes of the next step.

        Their forward passes need not wait for the calls `before`, which end that of pseudo-queries.
        """
        embeddings, g = self._whole("embeddings of support"), self._whole("gradient of embeddings")
        body = (Run("forward", Rows(embeddings)), Once(before), Take(Rows(g)), Run("back"))
        yield self._passes(Items.SAMPLED, self.job.sampled, body)
        labels = Listed(self._whole("labels"), Items.SAMPLED)
        yield from self._class_sums(embeddings.rows(0, self.job.sampled), labels)
        yield Call("mix_prototypes", tuple(map(self._whole, ("prototypes", "class sums", "class counts"))))

    def _gradient_of_prototypes(self, residual: View, cosine: View, fraction) -> Iterator:
        """The gradient that reaches support images through the prototypes.

        Sampled ones also stand for the others of their class, and their classes for those without any.
        """
        turned = [self._whole(f"{name} transposed") for name in ("residual", "cosine")]
        for target, source in zip(turned, (residual, cosine), strict=True):
            yield Call("transposed", (target, source))
        wanted = self._whole("gradient of prototypes")
        others = self._whole("prototypes"), self._whole("embeddings of queries")
        yield Call("prototype_loss_grad", (wanted, *turned, *others, fraction))
        divisors = Table(Role.DIVISORS, (self.job.task.n_way,))
        labels = Listed(self._whole("labels"), Items.SAMPLED)
        grad = self._whole("gradient of embeddings")
        yield Call("sampled_weights", (divisors,))
        yield Call("divide_rows", (wanted, wanted, divisors))
        yield Call("labels_of", (labels, Items.SAMPLED))
        yield Call("rows_of_labels", (Listed(grad, Items.SAMPLED), wanted, labels))
