"""One adaptation from Fisher scoring to the answers: its working copy, arena and bound calls."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tinytrain.base.errors import AdaptationRefusedError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode
from tinytrain.episode.kinds import kind_of
from tinytrain.heads import leave_one_out
from tinytrain.heads.head import Head
from tinytrain.heads.repeats import Repeats
from tinytrain.network.network import Network
from tinytrain.network.replay import Replay
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.program.backends.working_copy import working_copy
from tinytrain.program.calls import AFTER, RESULT, Role
from tinytrain.program.program import Program
from tinytrain.runtime.answers import Answers, labels_of
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.fitting import HeadFitting
from tinytrain.runtime.schedule import (
    augmentation_of,
    rate_factor,
    reach,
    sampled_items,
    step_items,
    unlabelled_items,
)
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.time_budget import TimeBudget
from tinytrain.runtime.trainer import Trainer


@dataclass(frozen=True, eq=False)
class RunFacts:
    """How an adaptation ran: `threads` at most, mean `losses` of its steps, `seconds` by stage.

    `repeated`: all but the training was done once more, as the training was not kept. `used` are
    the seconds spent of the time limit; None without one.
    """

    seed: int
    threads: int
    backend: str
    losses: list[float]
    seconds: dict[str, float]
    used: float | None = None
    repeated: bool = False


class Run:
    """The stages of one adaptation, in the order of its methods; `adapt` calls them. A context manager.

    Inside, overflow warnings are off: the guard looks at every number.
    """

    def __init__(self, device, network: Network, episode: Episode, seed: int):
        self.device, self.network, self.episode, self.seed = device, network, episode, seed
        self.kernels, self.clock = device.kernels(), device.clock()
        self.time: TimeBudget | None = None
        self.repeated = False  # without the training

    def __enter__(self) -> "Run":
        with ExitStack() as stack:
            stack.enter_context(np.errstate(all="ignore"))
            self._end = stack.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self._end.__exit__(*exception)

    def limit(self, seconds: float | None, asked: float | None = None) -> None:
        """So much time is given from now on, a part of what was `asked`; None for as long as it takes."""
        self.time = None if seconds is None else TimeBudget(self.clock.now, seconds, asked)

    def measure_fisher(self, program: Program | None) -> Scores | None:
        """Fisher information of the layers that the `program` of a probe inspects; None without one.

        If there is no time for it, the scores name no layer.
        """
        scores = None
        if program is not None:
            support, spec, may_flip = self.episode.support, self.network.input, self.episode.may_flip

            kind = kind_of(spec.kind)

            def augmentation(view: int, i: int):
                return kind.augment(rng_for(self.seed, "probe", i), spec, may_flip) if view else None

            source = Source(lambda i: support.image(i, spec), augmentation, support.labels)
            scores = measure_fisher(
                *self.device.memory(program),
                working_copy(program, self.network),
                self.kernels,
                source,
                self.time,
                1 if self.time else self.device.threads,  # training may have fewer workers than scoring
            )
        self.clock.lap("probe")
        return scores

    def load(self, program: Program) -> None:
        """Take memory for the program of a plan and bind its calls."""
        self.clock.lap("plan")
        placed, arena = self.device.memory(program)
        support, query, spec = self.episode.support, self.episode.query, self.network.input

        def read(i: int) -> np.ndarray:
            side, k = (support, i) if i < len(support) else (query, i - len(support))
            return side.image(k, spec)

        augmentation = augmentation_of(self.episode, spec, self.seed, reach(program))
        source = Source(read, augmentation, support.labels, self.episode.remembered)
        working = working_copy(program, self.network)
        self.trainer = Trainer(placed, arena, working, self.kernels, source, self.device.threads)
        self._end.callback(self.trainer.close)
        self.array, tables = self.trainer.bind.array, self.trainer.bind.tables
        if Role.SEED in tables:
            tables[Role.SEED][0] = self.seed & 0x7FFFFFFF
        self.fitting, self.recipe = HeadFitting(self.trainer, self.episode.background), program.recipe

    def cache_features(self) -> None:
        """Run the frozen part over all images and views that the plan caches."""
        self.trainer.progress = lambda done, total: self.device.progress("features", done, total, None)
        self.trainer.run("recall")
        self.trainer.run("cache")
        self.trainer.progress = None
        self.clock.lap("features")

    def fit_heads(self) -> None:
        """Cosine prototypes and the recipe's head for the network as it is.

        Raises AdaptationRefusedError if they hold NaN or infinity.
        """
        self._before = self.fitting.before()
        self.clock.lap("head")
        if not all(head.is_finite() for head in self._before):
            raise AdaptationRefusedError(
                "not-finite",
                f"{self.network.name} as it is gives NaN or infinity for {len(self.episode.support)} support "
                "images; take another backbone",
            )

    def doubted(self, why_not: Callable[[np.ndarray], object]):
        """What ``why_not(rows)`` says of the rows of `leave_one_out.measure` before training.

        None if there is nothing to train, or if it goes on from one adaptation to the next.
        """
        doubtful = self.recipe.updates and not self.episode.continues
        return why_not(self.array("left out (before)")) if doubtful else None

    def train(self, wanted: bool = True) -> list[float]:
        """The mean loss of every step, up to the first that is no number; none if nothing is trained.

        Unless that is `wanted`, the head alone is what results.
        """
        self.losses, self.wanted = [], wanted
        if self.recipe.updates and not wanted:
            self.recipe = replace(self.recipe, options=replace(self.recipe.options, last_step=0))
        elif self.recipe.updates:
            if self.time:
                self.time.begin(self.trainer.program, self.clock.seconds["head"])
            self._train()
        self.clock.lap("training")
        return self.losses

    def _train(self) -> None:
        """All steps of the recipe, or as many of them as there is time for."""
        trainer, recipe, labels = self.trainer, self.recipe, self.trainer.labels
        resources = trainer.resources
        rng, epoch = rng_for(self.seed, "steps"), -(-len(labels) // resources.step_queries)
        trainer.run("start")
        trainer.run("first prototypes")
        for number in count(1):
            if self.time:
                recipe = self.time.fitted(recipe, resources.sets, number - 1)
            if number > recipe.n_steps:
                break
            if recipe.options.resample_channels and (number - 1) % epoch == 0:
                trainer.resample(rng_for(self.seed, "channels", number))
            trainer.scale_rates(rate_factor(recipe, resources.sets, number))
            support, queries = step_items(resources, labels, number, rng)
            through = sampled_items(recipe, labels, support, self.seed, number, resources.step_support)
            unlabelled = unlabelled_items(trainer.program, number, self.seed)
            self.losses.append(trainer.step(number, support, queries, unlabelled, through))
            self.device.progress("training", number, recipe.n_steps, self.losses[-1])
            if not np.isfinite(self.losses[-1]):
                return
        self.recipe = recipe

    def result(self) -> Delta:
        """What training changed and the head fitted to it, in the arena; the rest of that is given back."""
        return self._result(self.losses)

    def _result(self, losses: list[float]) -> Delta:
        trainer, finite = self.trainer, bool(np.isfinite(losses).all())
        self._trained = finite and bool(losses)
        cosine, own = self._before
        head = cosine if self.recipe.updates else own
        if self.recipe.updates and finite:
            head = self.fitting.after(self.recipe.n_steps if losses else 0)
        replay = self._replay()
        # Features and workspaces are given back before the result is written down and judged.
        self.release(AFTER)
        if self._trained:
            trainer.run("result")
        delta = Delta(
            self.network.digest, self.network.name, trainer.host.slices if self._trained else (),
            self.fitting.kept(head), self.episode.class_names, {}, replay=replay,
            **trainer.program.backend.stored(trainer.program.network),
        )  # fmt: skip
        self.is_finite = finite and delta.is_finite()
        self.release(RESULT)
        self.clock.lap("head")
        return delta

    def _replay(self) -> Replay | None:
        """Features of some images of each class, if the plan keeps any."""
        if not self.trainer.program.task.replay:
            return None
        self.trainer.run("replay")
        kept = self.trainer.host.kept
        codes, ranges = (self.array(name)[: len(kept)] for name in ("kept features", "kept feature ranges"))
        return Replay(self.trainer.program.purpose.start, codes, ranges, self.trainer.labels[kept])

    def release(self, tick: int) -> None:
        """Give back all pages but those of buffers that hold a value at `tick` and are needed after it."""
        rows = self.trainer.program.table()
        self.trainer.bind.arena.release(
            (row["offset"], row["bytes"]) for row in rows if row["first"] <= tick < row["last"]
        )

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray | None, int, Repeats]:
        """What `leave_one_out.measure` found before training and after it, the MACs that it cost, and what
        images that repeat others feign.
        """
        before = self.array("left out (before)")
        after = self.array("left out (after)") if self._trained else None
        batch = self.trainer.resources.step_support
        macs = leave_one_out.macs(len(before), batch, self.episode.n_way, self.network.embedding_size)
        return before, after, macs * (2 if self._trained else 1), self.fitting.repeats

    def predict(self, delta: Delta) -> None:
        """Predict the queries by the adapted network, then by the network as it was."""
        with self.time.aside() if self.time else nullcontext():
            query = self.episode.query
            self._answers = self.array("answers") if len(query) else np.empty((3, 0), np.int32)
            if self.is_finite:
                self._answer(self._answers[:1], delta.head)
            self.trainer.working.restore()
            self._answer(self._answers[1:], *self._before)
            self.release(RESULT)

    def _answer(self, answers: np.ndarray, *heads: Head) -> None:
        """`answers` (heads, n) of each head for the query images, embedded by the network as it is now."""
        self.trainer.host.answering = heads, answers
        self.trainer.run("queries")

    def right(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether the head alone, and what was adapted, are right on each query that decides, (n,) both."""
        labels = self.episode.query.labels if self.episode.decides else np.empty(0, np.int32)
        alone, adapted = (labels_of(self._answers[row, : len(labels)]) == labels for row in (2, 0))
        return alone, adapted

    def keep(self, delta: Delta, verdict) -> tuple[Delta, Answers, object]:
        """What the `verdict` of the guard keeps of `delta`, and the verdict on that.

        In place of what was trained that is the recipe's head alone for the network as it was; or cosine
        prototypes, if the verdict does not accept anything and these are better by leave-one-out.
        All pages of the arena are given back but those of the arrays that are kept.
        """
        prototypes, withheld = not verdict.accepted, None
        if self._trained and verdict.kept != "adapted":
            withheld = labels_of(self._answers[0]).copy() if self.is_finite else None
            delta = self._without_training()
            prototypes = prototypes and not self.fitting.is_better_than_prototypes()
        if prototypes:
            delta = replace(delta, slices=(), head=self.fitting.with_means(self._before[0]))
        elif not verdict.accepted:
            verdict = replace(verdict, kept="head")
        self.trainer.bind.arena.keep([*delta.arrays(), self._answers])
        self.clock.lap("queries")
        if self.time:
            self.time.end()
        return delta, Answers(self._answers, not prototypes, withheld), verdict

    def _without_training(self) -> Delta:
        """The delta of the recipe's head alone: everything once more but the training, in the same arena."""
        self.fitting, self.repeated = HeadFitting(self.trainer, self.episode.background), True
        self.cache_features()
        self.fit_heads()
        delta = self._result([])
        self.predict(delta)
        return delta

    def as_trained(self, plan: Plan, program: Program) -> tuple[Plan, Program]:
        """`plan` and its `program` with the steps that were made."""
        if self.recipe == plan.recipe:
            return plan, program
        return replace(plan, recipe=self.recipe), program.with_recipe(self.recipe)

    def warnings(self) -> tuple[str, ...]:
        """What the time took away, if there was one."""
        return self.time.warnings(self.recipe, self.wanted) if self.time else ()

    def facts(self) -> RunFacts:
        """How it ran, so far."""
        used = self.time.total if self.time else None
        return RunFacts(
            self.seed,
            self.device.threads,
            self.kernels.backend,
            self.losses,
            self.clock.seconds,
            used,
            self.repeated,
        )
