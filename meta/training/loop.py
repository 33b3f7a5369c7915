"""The loop of a run: steps, validation, choice of the checkpoint, early stop, and resuming to the byte.

Nothing random and no time enters the state: what a step does follows from its number, so a run that was
killed goes on from its last checkpoint as if nothing had happened.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import AdaptationRefusedError, InputError
from tinytrain.base.files import write_bytes
from tinytrain.meta.run_log import Log
from tinytrain.meta.training.batches import Batch, Prefetch
from tinytrain.meta.training.checkpoint import Paths, load_checkpoint, save_checkpoint
from tinytrain.meta.training.curve import curve
from tinytrain.meta.training.optimizers import KINDS, clip, schedule
from tinytrain.meta.training.task import Task

GROWN = 100  # weights whose rms is this many times what it was at the start are lost


@dataclass
class State:
    """Everything that a run goes on from; `averaged` is the running mean that is judged."""

    values: np.ndarray
    averaged: np.ndarray
    best_values: np.ndarray
    step: int = 0
    best: float = -1.0
    best_step: int = 0
    waited: int = 0  # validations since the best one
    seconds: float = 0.0

    def parts(self) -> tuple[dict, dict]:
        """Arrays and numbers by name."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return arrays, {name: value for name, value in vars(self).items() if name not in arrays}


@dataclass(frozen=True)
class Outcome:
    """`values` (m,) of the best step, the verdict on the start and on them, and how long it took."""

    values: np.ndarray
    rows: list[dict]
    steps: int
    best_step: int
    seconds: float
    steps_per_second: float


Report = Callable[[int, int, float | None, str], None]  # step, steps, loss, note


class Run:
    """One run of a `task` by a recipe, with its files at `paths`; `digest` says which run it is."""

    def __init__(self, task: Task, recipe, paths: Paths, digest: str, report: Report, say=lambda text: None):
        self.task, self.recipe, self.paths, self.digest = task, recipe, paths, digest
        self.report, self.say = report, say
        self.optimizer = KINDS[recipe.optimizer.kind](len(task.first), recipe.optimizer.betas)
        self.state = State(*(task.first.copy() for _ in range(3)))
        self.norm = float(np.linalg.norm(task.first))
        self._resume()

    def _log(self, size: int) -> Log:
        """The log, as long as the checkpoint says: rows of a lost interval disappear."""
        log = Log(self.paths.log, size=size)
        if log.size != size:
            raise InputError(
                "file-damaged", f"{log.path} is shorter than its checkpoint says; give --restart"
            )
        if log.path.exists():
            log.append([])
        return log

    def _resume(self) -> None:
        self.paths.sweep()
        found = load_checkpoint(self.paths.checkpoint, self.digest)
        if found is None:
            self.log = self._log(0)
            return
        arrays, numbers = found
        self.log = self._log(numbers["log"])
        for name in vars(self.state):
            setattr(self.state, name, arrays[name] if name in arrays else numbers[name])
        for name in self.optimizer.state:
            self.optimizer.state[name] = arrays[f"optimizer.{name}"]
        self._draw()  # a run may have ended between its last checkpoint and the curve of it
        self.say(f"goes on from step {self.state.step} of {self.recipe.steps}")

    @property
    def finished(self) -> bool:
        patience = self.recipe.validate.patience
        return self.state.step >= self.recipe.steps or bool(patience and self.state.waited >= patience)

    def __call__(self) -> Outcome:
        """Train to the end. Raises AdaptationRefusedError ``diverged``, StorageError and what data raises."""
        state, every, begun = self.state, self.recipe.validate.every, time.perf_counter()
        first, before, trained = state.step, state.seconds, 0.0
        if not self.log.rows:
            self._judge(None, None, {})
            self._save()
        start = self.log.rows[0]["left_out"]
        self.task.validator.start = {name: mean for name, (mean, _) in start.items()}
        losses, hits = [], []
        ahead = Prefetch(self.task.batch, state.step, self.recipe.steps)
        try:
            while not self.finished:
                started = time.perf_counter()
                loss, accuracy, figures = self._step(ahead.get())
                trained += time.perf_counter() - started
                losses.append(loss)
                hits.append(accuracy)
                note = f"validation {100 * state.best:.1f} %  {(state.step - first) / trained:.2f} steps/s"
                self.report(state.step, self.recipe.steps, sum(losses[-20:]) / len(losses[-20:]), note)
                if state.step % every == 0 or state.step == self.recipe.steps:
                    known = float(np.mean(hits)) if np.isfinite(hits).all() else None  # not every loss has it
                    self._judge(float(np.mean(losses)), known, figures)
                    state.seconds = before + time.perf_counter() - begun
                    self._save()
                    losses, hits = [], []
        finally:
            ahead.close()
        speed = (state.step - first) / trained if trained else 0.0
        return Outcome(state.best_values, self.log.rows, state.step, state.best_step, state.seconds, speed)

    def _rounds(self, number: int) -> bool:
        """Whether the passes of step `number` (from 0) see int8 weights: the last part of a run does."""
        return number >= (1 - self.recipe.optimizer.rounded) * self.recipe.steps

    def _interpolated(self) -> tuple[float, np.ndarray]:
        """The best way from the first values to the present ones, and the values there.

        Half of the way often keeps what the first weights knew of domains that training does not show, and
        gains most of what it does show (Wortsman et al. 2022, WiSE-FT).
        """
        first, fractions = self.task.first, self.recipe.validate.blend
        last = self.state.averaged
        if self.state.step == 0 or fractions == (1.0,):
            return 1.0, last
        # Where training sees int8 weights, those are what it made; the others only remember how.
        last = self.task.fake_quantised(last) if self._rounds(self.state.step - 1) else last
        candidates = {f: first + np.float32(f) * (last - first) for f in fractions}
        best = max(fractions, key=lambda f: self.task.selection_score(self.task.exported(candidates[f])))
        return best, candidates[best]

    def _step(self, batch: Batch) -> tuple[float, float, dict]:
        state, settings = self.state, self.recipe.optimizer
        seen = self.task.fake_quantised(state.values) if self._rounds(state.step) else state.values
        loss, accuracy, gradient = self.task.step(seen, batch)
        norm = clip(gradient, settings.clip)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._diverged(f"the loss is {loss:g} and its gradient has norm {norm:g}")
        factor = schedule(*self.task.phase(state.step), settings.warm_up, settings.floor)
        state.step += 1
        self.optimizer.step(state.values, gradient, self.task.rates, self.task.decays, factor, state.step)
        grown = float(np.linalg.norm(state.values)) / self.norm
        if not grown <= GROWN:
            self._diverged(f"the weights grew {grown:.3g} times")
        figures = self.task.constrain(state.values)
        # While the mean is short it follows the values: else it would hold on to the random start.
        keep = min(settings.ema, state.step / (10 + state.step))
        state.averaged += np.float32(1 - keep) * (state.values - state.averaged)
        return loss, accuracy, {"factor": round(factor, 6), **figures}

    def _diverged(self, what: str) -> None:
        raise AdaptationRefusedError(
            "diverged",
            f"{what} in step {self.state.step} at rate {self.recipe.optimizer.rate:g}; the checkpoint"
            f" {self.paths.checkpoint} holds the last good state; lower optimizer.rate and give --restart",
        )

    def _judge(self, loss, accuracy, figures: dict) -> None:
        """Validate what would be exported now; keep it where held-out domains find it the best so far."""
        state = self.state
        fraction, values = self._interpolated()
        verdict = self.task.validate(self.task.exported(values))
        best = verdict.selection_score > state.best
        if best:
            state.best, state.best_step, state.waited = verdict.selection_score, state.step, 0
            np.copyto(state.best_values, values)
        else:
            state.waited += 1
        row = {"step": state.step, "loss": loss, "accuracy": accuracy, **figures, "blend": fraction}
        row |= verdict.json()
        self.log.append([row | {"best": best}])
        told = "" if loss is None else f"  loss {loss:.3f}"
        for name, judged in (("domains", verdict.score), ("classes", verdict.source)):
            told += f"  held-out {name} {100 * judged.mean:.1f} ±{100 * judged.half:.1f} %" if judged else ""
        self.say(f"step {state.step}{told}{'  *' if best else ''}")

    def _save(self) -> None:
        arrays, numbers = self.state.parts()
        arrays |= {f"optimizer.{name}": array for name, array in self.optimizer.state.items()}
        numbers |= {"digest": self.digest, "log": self.log.size}
        save_checkpoint(self.paths.checkpoint, arrays, numbers)
        self._draw()

    def _draw(self) -> None:
        write_bytes(self.paths.curve, curve(self.log.rows, self.recipe.name).encode())
