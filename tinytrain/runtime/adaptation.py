"""One adaptation from Fisher scoring to the answers: its working copy, arena and bound calls."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import AdaptationRefusedError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.augment import draw
from tinytrain.episode.episode import Episode
from tinytrain.heads import leave_one_out
from tinytrain.heads.repeats import Repeats
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.program.program import Program
from tinytrain.program.ticks import AFTER, BEFORE, RESULT
from tinytrain.runtime.answers import Answers
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.int8_copy import working_copy
from tinytrain.runtime.pace import Pace
from tinytrain.runtime.session import Session
from tinytrain.runtime.stage_runner import Source


@dataclass(frozen=True, eq=False)
class Ran:
    """How an adaptation ran: `threads` at most, mean `losses` of its steps, `seconds` by stage.

    `used` are the seconds spent of the time limit; None without one.
    """

    seed: int
    threads: int
    backend: str
    losses: list[float]
    seconds: dict[str, float]
    used: float | None = None


class Run:
    """The stages of one adaptation, in the order of its methods; `adapt` calls them. A context manager.

    Inside, BLAS has one thread, and overflow warnings are off: the guard looks at every number.
    """

    def __init__(self, device, network: Network, episode: Episode, seed: int):
        self.device, self.network, self.episode, self.seed = device, network, episode, seed
        self.kernels, self.clock = device.kernels(), device.clock()
        self.pace: Pace | None = None

    def __enter__(self) -> "Run":
        with ExitStack() as stack:
            stack.enter_context(one_thread())
            stack.enter_context(np.errstate(all="ignore"))
            self._end = stack.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self._end.__exit__(*exception)

    def limit(self, seconds: float | None) -> None:
        """So much time is given from now on; None for as long as it takes."""
        self.pace = None if seconds is None else Pace(self.clock.now, seconds)

    def measure_fisher(self, program: Program | None) -> Scores | None:
        """Fisher information of the layers that the `program` of a probe inspects; None without one.

        If there is no time for it, the scores name no layer.
        """
        scores = None
        if program is not None:
            support, spec, may_flip = self.episode.support, self.network.input, self.episode.may_flip

            def augmentation(view: int, i: int):
                return draw(rng_for(self.seed, "probe", i), spec.size, may_flip) if view else None

            source = Source(lambda i: support.image(i, spec.shape), augmentation, support.labels)
            scores = measure_fisher(
                *self.device.memory(program),
                working_copy(program, self.network),
                self.kernels,
                source,
                self.pace,
            )
        self.clock.lap("probe")
        return scores

    def load(self, program: Program) -> None:
        """Take memory for the program of a plan and bind its calls."""
        self.clock.lap("plan")
        placed, arena = self.device.memory(program)
        self.working = working_copy(program, self.network)
        self.session = Session(
            placed, arena, self.working, self.kernels, self.episode, self.seed, self.device.threads
        )
        self._end.callback(self.session.close)
        self.recipe = program.recipe

    def cache_features(self) -> None:
        """Run the frozen part over all images and views that the plan caches."""
        self.session.fill(self.device.progress)
        self.clock.lap("features")

    def fit_heads(self) -> None:
        """Cosine prototypes and the recipe's head for the network as it is.

        Raises AdaptationRefusedError if they hold NaN or infinity.
        """
        self._before = self.session.fit_heads(BEFORE)
        self.clock.lap("head")
        if not all(head.is_finite() for head in self._before):
            raise AdaptationRefusedError(
                "not-finite",
                f"{self.network.name} as it is gives NaN or infinity for {len(self.episode.support)} support "
                "images; take another backbone",
            )

    def train(self) -> list[float]:
        """The mean loss of every step, up to the first that is no number; none if nothing is trained."""
        self.losses = []
        if self.recipe.updates:
            if self.pace:
                self.pace.begin(self.session.program, self.clock.seconds["head"])
                self.session.pace = self.pace
            self.losses = self.session.train(self.device.progress)
            self.recipe = self.session.program.recipe
        self.clock.lap("training")
        return self.losses

    def result(self) -> Delta:
        """What training changed and the head fitted to it, in the arena; the rest of that is given back."""
        session, finite = self.session, bool(np.isfinite(self.losses).all())
        self._trained = finite and bool(self.losses)
        cosine, own = self._before
        head = cosine if self.recipe.updates else own
        no_time = bool(self.recipe.updates) and self.recipe.n_steps == 0
        if self._trained or no_time:
            head = session.fit_heads(AFTER)[1]
        replay = session.replay()
        # Features and workspaces are given back before the result is written down and judged.
        session.release(AFTER)
        delta = Delta(
            self.network.digest, self.network.name, session.slices() if self._trained else (),
            session.kept(head), self.episode.class_names, {}, replay,
            self.working.network.quantisation if session.program.precision == "int8" else None,
        )  # fmt: skip
        self.is_finite = finite and delta.is_finite()
        session.release(RESULT)
        self.clock.lap("head")
        return delta

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray | None, int, Repeats]:
        """What `leave_one_out.measure` found before training and after it, the MACs that it cost, and what
        images that repeat others feign.
        """
        before = self.session.array("left out (before)")
        after = self.session.array("left out (after)") if self._trained else None
        batch = self.session.program.resources.step_support
        macs = leave_one_out.macs(len(before), batch, self.episode.n_way, self.network.embedding_size)
        return before, after, macs * (2 if self._trained else 1), self.session.repeats

    def predict(self, delta: Delta) -> None:
        """Predict the queries by the adapted network, then by the network as it was."""
        with self.pace.aside() if self.pace else nullcontext():
            self._predict(delta)

    def _predict(self, delta: Delta) -> None:
        query = self.episode.query
        self._answers = self.session.array("answers") if len(query) else np.empty((3, 0), np.int32)
        if self.is_finite:
            self.session.predict(self._answers[:1], delta.head)
        self.session.trainer.working.restore()
        self.session.predict(self._answers[1:], *self._before)
        self.session.release(RESULT)

    def keep(self, delta: Delta, accepted: bool) -> tuple[Delta, Answers]:
        """`delta`, or cosine prototypes for the network as it was unless it is `accepted`.

        All pages of the arena are given back but those of the arrays that are kept.
        """
        if not accepted:
            delta = replace(delta, slices=(), head=self.session.with_means(self._before[0]))
        self.session.keep([*delta.arrays(), self._answers])
        self.clock.lap("queries")
        if self.pace:
            self.pace.end()
        return delta, Answers(self._answers, accepted, self.is_finite)

    def as_trained(self, plan: Plan, program: Program) -> tuple[Plan, Program]:
        """`plan` and its `program` with the steps that were made."""
        if self.recipe == plan.recipe:
            return plan, program
        return replace(plan, recipe=self.recipe), program.with_recipe(self.recipe)

    def warnings(self) -> tuple[str, ...]:
        """What the time took away, if there was one."""
        return self.pace.warnings(self.recipe) if self.pace else ()

    def facts(self) -> Ran:
        """How it ran, so far."""
        used = self.pace.total if self.pace else None
        return Ran(
            self.seed, self.device.threads, self.kernels.backend, self.losses, self.clock.seconds, used
        )
