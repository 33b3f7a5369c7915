"""This engine against PyTorch: same weights, same pictures, same number of threads, in one run.

    python -m tinytrain.meta.speed --backbone NET [--json FILE] [--only a,b,c1,c2] [--threads 1,2]

(a) forward; (b) forward and backward of every weight and bias; (c1) a whole adaptation against PyTorch
as people write it; (c2) the same algorithm in PyTorch. Both sides must agree on features and
gradients before anything is timed. Without PyTorch this engine is timed alone, and that is said.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from tinytrain.errors import TinytrainError, UsageError
from tinytrain.meta import macs
from tinytrain.meta.ours import Adapter, Full, support_pictures
from tinytrain.meta.timing import KernelRow, Timing, alternately, fastest, matmul_ceiling
from tinytrain.modelfile import load_backbone
from tinytrain.network import Network
from tinytrain.units import format_count

CASES = ("a", "b", "c1", "c2")
MICRO = (1, 5, 25)
COUNT = 25
AGREE = 1e-3  # largest relative difference of features and gradients between the sides
TARGETS = {"a1": (2, 2), "a25": (1.2, 1.2), "b": (1.5, 1.5), "c1": (4, 3), "c2": (1.3, 1.3)}
NO_TORCH = "PyTorch is not installed: this engine is timed alone, all comparisons are skipped"


@dataclass(frozen=True)
class Row:
    """One comparison. `macs` are those that each side executes; `notes` say how each side was run."""

    name: str
    threads: int
    times: dict[str, Timing]
    macs: dict[str, int]
    notes: tuple[str, ...] = ()
    target: float | None = None

    @property
    def ratio(self) -> float | None:
        """PyTorch / ours, of the minima."""
        return self._ratio("minimum")

    @property
    def median_ratio(self) -> float | None:
        return self._ratio("median")

    def _ratio(self, field: str) -> float | None:
        if "PyTorch" not in self.times:
            return None
        return getattr(self.times["PyTorch"], field) / getattr(self.times["ours"], field)

    def json(self) -> dict:
        return {**asdict(self), "ratio": self.ratio, "median_ratio": self.median_ratio}


def target(name: str, threads: int) -> float:
    return TARGETS[name][min(threads, 2) - 1]


def load_torch():
    """The module of the PyTorch side, or None where PyTorch is missing."""
    try:
        from tinytrain.meta import torch_side
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None
    return torch_side


def compare(
    name: str,
    threads: int,
    repeats: int,
    ours: dict[str, Callable],
    theirs: dict[str, Callable],
    counts: dict[str, int],
    limit: float | None,
) -> Row:
    """Each side in its fastest variant, then both in turn."""
    notes, sides = [], {}
    for side, variants in (("ours", ours), ("PyTorch", theirs)):
        if variants:
            chosen = fastest(variants) if len(variants) > 1 else next(iter(variants))
            sides[side] = variants[chosen]
            notes.append(f"{side}: {chosen}")
    return Row(name, threads, alternately(sides, repeats), counts, tuple(notes), limit)


class Benchmark:
    """All comparisons for one network and the support of one generated episode."""

    def __init__(self, network: Network, repeats: int, seed: int = 0):
        self.network, self.repeats = network, repeats
        self.episode = support_pictures(network, seed)
        self.torch = load_torch()
        self.theirs = self.torch.Twins(network, self.episode) if self.torch else None

    def check(self) -> dict[str, float]:
        """Largest relative differences between both sides; refuses to go on where they disagree."""
        if not self.theirs:
            return {}
        full = Full(self.network, self.episode, micro=5, lanes=1)
        differences = self.theirs.differences(full)
        for what, value in differences.items():
            if not value <= AGREE:
                raise SystemExit(f"both sides disagree on {what} by {value:.1e}: nothing is timed")
        return differences

    def _limit(self, threads: int) -> None:
        if self.torch:
            self.torch.set_threads(threads)

    def forward(self, threads: int) -> list[Row]:
        self._limit(threads)
        single = Full(self.network, self.episode, 1, 1)
        rows = [self._forward("a1", threads, 1, {"one picture per call": single})]
        many = {f"{m} per call, {threads} lanes": Full(self.network, self.episode, m, threads) for m in MICRO}
        rows.append(self._forward("a25", threads, COUNT, many))
        for full in (single, *many.values()):
            full.close()
        return rows

    def _forward(self, name: str, threads: int, count: int, fulls: dict[str, Full]) -> Row:
        ours = {how: lambda full=full: full.forward(count) for how, full in fulls.items()}
        theirs = self.theirs.forward(count) if self.theirs else {}
        counts = {"ours": macs.forward(single(fulls).program, count)}
        counts["PyTorch"] = count * self.network.macs
        return compare(name, threads, self.repeats, ours, theirs, counts, target(name, threads))

    def forward_backward(self, threads: int) -> list[Row]:
        self._limit(threads)
        fulls = {f"{m} per call, {threads} lanes": Full(self.network, self.episode, m, threads) for m in MICRO}
        ours = {how: full.forward_backward for how, full in fulls.items()}
        theirs = self.theirs.forward_backward() if self.theirs else {}
        counts = {
            "ours": macs.backward(single(fulls).program, COUNT),
            "PyTorch": COUNT * macs.full_step(self.network),
        }
        row = compare("b", threads, self.repeats, ours, theirs, counts, target("b", threads))
        for full in fulls.values():
            full.close()
        return [row]

    def adaptation(self, threads: int, wanted: list[str]) -> list[Row]:
        """c1 and c2: the default policy's whole adaptation; its plan is what PyTorch trains, too."""
        self._limit(threads)
        adapter, repeats = Adapter(self.network, self.episode, threads), max(2, self.repeats // 4)
        adapter.run()
        rows = []
        for name in wanted:
            theirs = getattr(self.theirs, name)(adapter.last) if self.theirs else {}
            rows.append(self._adaptation(name, threads, repeats, adapter, theirs))
        return rows

    def _adaptation(self, name, threads, repeats, adapter: Adapter, theirs) -> Row:
        adapter.forget()
        row = compare(
            name, threads, repeats, {"": adapter.run}, theirs, adapter.macs(name), target(name, threads)
        )
        if name == "c1":
            return row
        # The same call of ours as in c1, of which c2 counts the stages that PyTorch repeats.
        return adapter.narrowed(row, ("features", "training"))
