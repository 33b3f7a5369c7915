"""Fisher information of every output channel of the inspected layers, for one task.

One backward pass per support image, one image alive at a time in each worker, no weight gradient formed:
``Delta_o = 1/(2N) sum_n (sum_d a_nd g_nd)^2`` (TinyTrain; Fisher pruning, Theis et al. 2018) with a
the convolution output and g the gradient of the loss in it.
"""

import math
from contextlib import closing
from functools import partial

import numpy as np

from tinytrain.base.arena import Arena
from tinytrain.plan.scores import Scores
from tinytrain.program.calls import Role
from tinytrain.program.mac_counts import stage_macs
from tinytrain.program.program import Program
from tinytrain.program.stages import Items
from tinytrain.runtime.bind import Binder, WorkingCopy
from tinytrain.runtime.stage_runner import Runner, Source
from tinytrain.runtime.time_budget import NoTimeError, TimeBudget


def measure_fisher(
    program: Program,
    arena: Arena,
    working: WorkingCopy,
    kernels,
    source: Source,
    time: TimeBudget | None = None,
    threads: int = 1,
) -> Scores:
    """Scores of the layers that `program` inspects, for the images of `source`, computed in `arena`.

    Prototypes are the class means of the clean images, held constant; each image, augmented,
    is its own pseudo-query at temperature 10. If too little `time` is left, there are no `fisher` scores.
    """
    with closing(_Scoring(Binder(program, arena, working, kernels), source, threads)) as runner:
        run = partial(time.run, runner) if time else lambda stage, *later: runner.run(stage)
        macs, similarity = 0, math.nan
        try:
            run("prototypes", "fisher")
            macs, similarity = stage_macs(program, program.stage("prototypes")), runner.similarity()
            run("fisher")
        except NoTimeError:
            return Scores({}, math.nan, macs, program.nbytes, similarity)
        count = len(source.labels)
        fisher = {i: runner.bind.array(f"fisher {i}") / np.float32(count) for i in program.inspected}
        macs = sum(stage_macs(program, stage) for stage in program.stages)
        loss = float(runner.bind.tables[Role.LOSS][0])
        return Scores(fisher, loss / count, macs, program.nbytes, similarity)


class _Scoring(Runner):
    def __init__(self, bind: Binder, source: Source, threads: int):
        super().__init__(bind, source, min(threads, len(bind.program.units["fisher"])))
        images = range(len(source.labels))
        self.lists[Items.IMAGES] = [(0, i) for i in images]
        self.lists[Items.SHOWN] = [(1, i) for i in images]

    def similarity(self) -> float:
        """Sum of the products of embeddings over all pairs of different classes, by that of their lengths."""
        sums, lengths = self.bind.array("class sums"), self.bind.tables[Role.CLASS_LENGTHS]
        total, products = np.zeros(sums.shape[1]), 0.0
        for row in sums:
            total += row
            products -= np.square(row, dtype=float).sum()
        products += np.square(total).sum()
        return float(products / (lengths.sum() ** 2 - np.square(lengths).sum()))
