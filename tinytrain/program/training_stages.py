"""The stages of an adaptation: cache features, fit heads, train, fit a head again, answer queries."""

from collections.abc import Iterator

from tinytrain.heads.head import FIT_TAKES, FITTING, HeadMethod
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.program.calls import (
    AFTER,
    BACKWARD,
    BEFORE,
    EMBED,
    FILL,
    PREDICT,
    RESULT,
    Buffer,
    Call,
    Role,
    View,
)
from tinytrain.program.head_buffers import head_buffer, own_before
from tinytrain.program.job import Job
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
    Run,
    Stage,
    Store,
    Unit,
)
from tinytrain.program.step_stages import StepStages


class TrainingStages(StepStages):
    """Emits the stages of one training run over buffers and units that are there already."""

    def __init__(self, job: Job, buffers: dict[str, Buffer], units: dict[str, tuple[Unit, ...]]):
        super().__init__(job, buffers, units)
        self.method = find_head(job.recipe.head)
        self.updates = job.backend.updates

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
            if job.single_pass or r.step_queries < n:
                yield Stage("first prototypes", EMBED, tuple(self._first_prototypes()), part="training")
            steps = job.recipe.n_steps
            if not job.single_pass:
                yield Stage("loss", EMBED, tuple(self._loss()), steps, "training")
            gradients = self._single_pass() if job.single_pass else self._gradients()
            yield Stage("gradients", BACKWARD, tuple(gradients), steps, "training")
            gradient = self._whole("gradients")
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
        if self.job.backend.in_codes:
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
            arrays = self._arrays(self.method, "head result", tick, True, (FITTING,))
            arrays = {n: b for n, b in arrays.items() if b.role is not Role.CLASS_SUMS}  # others' by now
            yield KeepHead(arrays)


def _whole(buffers: tuple[Buffer, ...]) -> tuple[View, ...]:
    return tuple(buffer.whole for buffer in buffers)
