"""What the commands of the offline stage share: a run from recipe to result file, and what it reports."""

from dataclasses import dataclass

from tinytrain.meta.training.checkpoint import Paths
from tinytrain.meta.training.loop import Outcome, Run
from tinytrain.meta.training.validate import Verdict
from tinytrain.network.file import save_network


@dataclass(frozen=True)
class Finished:
    """A finished run: its outcome and the verdicts on the chosen values, in float32 and with int8 weights."""

    outcome: Outcome
    floating: Verdict
    int8: Verdict
    digest: str

    def json(self) -> dict:
        first, out = self.outcome.rows[0], self.outcome
        return {
            "steps": out.steps,
            "best_step": out.best_step,
            "seconds": round(out.seconds, 1),
            "steps_per_second": round(out.steps_per_second, 3),
            "start": {kind: first[kind] for kind in ("left_out", "held_out")},
            "float32": self.floating.json(),
            "int8": self.int8.json(),
            "digest": self.digest,
        }


def finish(task, run: Run, paths: Paths) -> Finished:
    """Run to the end and write the chosen network; what int8 weights cost is measured in any case."""
    outcome = run()
    floating, int8 = task.validate(outcome.values), task.validate(task.fake_quantised(outcome.values))
    network = task.result(outcome.values)
    save_network(network, paths.result)
    return Finished(outcome, floating, int8, network.digest)


def table(finished: Finished) -> str:
    """Accuracy before, after, and after rounding, by domain."""
    first = finished.outcome.rows[0]
    lines = [f"{'':<28}{'start':>8}{'float32':>9}{'int8':>8}{'+-':>6}"]
    for kind, title in (("left_out", "held-out domains"), ("held_out", "held-out classes")):
        lines.append(title)
        floating, int8 = (getattr(v, kind) for v in (finished.floating, finished.int8))
        for name, judged in floating.items():
            cells = (first[kind][name][0], judged.mean, int8[name].mean, int8[name].half)
            a, b, c, half = (100 * cell for cell in cells)
            lines.append(f"  {name:<26}{a:>8.1f}{b:>9.1f}{c:>8.1f}{half:>6.1f}")
    out = finished.outcome
    lines.append(
        f"step {out.best_step} of {out.steps} was chosen by the held-out domains; {out.seconds:.0f} s"
    )
    return "\n".join(lines)
