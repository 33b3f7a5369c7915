"""This engine against PyTorch: same weights, same images, same number of threads, in one run.

    python -m tinytrain.meta.pytorch.speed [--backbone NET] [--json FILE] [--only a,b,c1,c2]

(a) forward; (b) forward and backward of every weight and bias; (c1) a whole adaptation against PyTorch
as people write it; (c2) against the same algorithm in PyTorch. Both sides must agree on features and
gradients before anything is timed. Without PyTorch this engine is timed alone, and that is said.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from tinytrain.backbones.catalogue import DEFAULT_BACKBONE
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.files import write_bytes
from tinytrain.meta.pytorch.our_side import COUNT, Whole, images_of, support_episode, variants
from tinytrain.meta.pytorch.timing import Row, Timing, in_turn
from tinytrain.meta.studies.study import numbers
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.costs import cut_layer
from tinytrain.runtime.device import Device

CASES = ("a", "b", "c1", "c2")
BOTH = "features + training"
# Rows of adaptations: the case, and the part of an adaptation that is compared.
ADAPTATIONS = {"c1": ("c1", "total"), "c2": ("c2", BOTH), "c2: training alone": ("c2", "training")}
AGREE = 1e-3  # largest relative difference between the sides
NO_TORCH = "PyTorch is not installed: this engine is timed alone, all comparisons are skipped"


def load_torch():
    """The modules of the PyTorch side (networks, training), or (None, None) if PyTorch is missing."""
    try:
        from tinytrain.meta.pytorch import torch_reference, torch_training
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None, None
    return torch_reference, torch_training


class Benchmark:
    """All comparisons for one network, on the support of one generated episode."""

    def __init__(self, network: Network, repeats: int):
        self.network, self.repeats = network, repeats
        self.episode = support_episode(network)
        self.images = images_of(network, self.episode)
        self.reference, self.training = load_torch()
        self.formats = list(self.reference.FORMATS) if self.reference else []
        self.parts: dict[int, dict[str, Timing]] = {}

    def references(self) -> dict:
        return {name: self.reference.TorchNetwork(self.network, name) for name in self.formats}

    def check(self) -> dict[str, float]:
        """Largest relative differences between the sides; SystemExit if they do not agree."""
        if not self.reference:
            return {}
        whole = Whole(self.network, self.episode, micro=1, workers=1)
        found = self.reference.differences(whole, self.images, self.episode.support.labels)
        for what, value in found.items():
            if not value <= AGREE:
                raise SystemExit(f"the sides disagree on {what} by {value:.1e}: nothing is timed")
        return found

    def compared(self, name: str, threads: int, ours: dict, theirs: dict, repeats: int) -> Row:
        sides = {("ours", how): work for how, work in ours.items()}
        sides |= {("PyTorch", how): work for how, work in theirs.items()}
        return Row.of(name, threads, in_turn(sides, repeats))

    def a(self, threads: int) -> list[Row]:
        single, many = Whole(self.network, self.episode, 1, 1), variants(self.network, self.episode, threads)
        rows = []
        for count, wholes in ((1, {"": single}), (COUNT, many)):
            ours = {how: partial(whole.forward, count) for how, whole in wholes.items()}
            theirs = {n: self.reference.forward(t, self.images[:count]) for n, t in self.references().items()}
            rows.append(self.compared(f"a: batch {count}", threads, ours, theirs, self.repeats))
        return rows

    def b(self, threads: int) -> list[Row]:
        wholes = variants(self.network, self.episode, threads)
        ours = {how: whole.forward_backward for how, whole in wholes.items()}
        gradient = next(iter(wholes.values())).trainer.grad
        theirs = {
            n: self.reference.forward_backward(t, self.images, gradient) for n, t in self.references().items()
        }
        return [self.compared("b", threads, ours, theirs, max(3, self.repeats // 2))]

    def c(self, threads: int, wanted: list[str]) -> list[Row]:
        """Whole adaptations by the default policy, whose plan is what PyTorch trains, too."""
        program = self._adapt(threads).program
        ours = ("ours", plan_text(program))
        sides = {ours: lambda: with_sum(self._adapt(threads).ran.seconds)}
        if self.reference:
            task = self.training.Task(self.network, self.episode, self.images, program)
            works = {"c1": task.plainly, "c2": lambda name: with_sum(task.cached(name))}
            sides |= {(case, name): partial(works[case], name) for case in wanted for name in self.formats}
        times, rows = in_turn(sides, max(3, self.repeats // 5)), []
        self.parts[threads] = times[ours]
        for name, (case, part) in ADAPTATIONS.items():
            if case in wanted:
                theirs = {("PyTorch", f): times[case, f] for f in self.formats}
                rows.append(Row.of(name, threads, {ours: times[ours]} | theirs, part))
        return rows

    def run(self, cases: list[str], threads: int) -> list[Row]:
        if self.reference:
            self.reference.set_threads(threads)
        rows = [row for case in ("a", "b") if case in cases for row in getattr(self, case)(threads)]
        adaptations = [case for case in ("c1", "c2") if case in cases]
        return rows + (self.c(threads, adaptations) if adaptations else [])

    def _adapt(self, threads: int):
        return adapt(self.network, self.episode, device=Device(threads=threads))


def plan_text(program) -> str:
    r, cut = program.resources, cut_layer(program.network, program.recipe.updates)
    return (
        f"{program.nbytes:,} bytes, cut at layer {cut}, {r.sets} cached sets, "
        f"{r.micro} per call, {program.recipe.optimizer}"
    )


def with_sum(seconds: dict[str, float]) -> dict[str, float]:
    return {**seconds, BOTH: seconds["features"] + seconds["training"]}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="python -m tinytrain.meta.pytorch.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default=DEFAULT_BACKBONE, help=".safetensors or published .pkl file")
    parser.add_argument("--only", default=",".join(CASES), help="comparisons to run (default: %(default)s)")
    parser.add_argument(
        "--threads", type=numbers, default="1,2", help="numbers of threads (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=at_least(1), default=15, help="samples per side (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    options = parser.parse(arguments)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(CASES):
        raise UsageError("unknown-name", f"{', '.join(sorted(unknown))} given; known are {', '.join(CASES)}")
    return options


def measure(options, show: Callable[[str], None]) -> dict:
    """All that was asked for, shown line by line; returns what --json writes."""
    bench = Benchmark(load_backbone(options.backbone), options.repeats)
    if not bench.reference:
        show(NO_TORCH)
    differences = bench.check()
    show("; ".join(f"{what} agree to {value:.0e}" for what, value in differences.items()))
    show(f"{'':<25}{'ours ms (median)':>23}{'PyTorch ms (median)':>23}    ratio      CPU")
    rows = []
    for threads in options.threads:
        for row in bench.run(options.only, threads):
            rows.append(row)
            show(row.line())
    for threads, parts in bench.parts.items():
        text = ", ".join(f"{part} {t.minimum:.3f}" for part, t in parts.items())
        show(f"our adaptation on {threads} threads, seconds: {text}")
    return {
        "backbone": bench.network.name,
        "cores": os.cpu_count(),
        "differences": differences,
        "rows": [row.json() for row in rows],
        "parts": {str(t): {p: asdict(v) for p, v in parts.items()} for t, parts in bench.parts.items()},
    }


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    options = parse(arguments)
    figures = measure(options, lambda line: print(line, flush=True))
    if options.json:
        write_bytes(options.json, json.dumps(figures, indent=1).encode())


if __name__ == "__main__":
    sys.exit(main())
