"""A simulated board as the device of an adaptation: calls counted, buffers guarded, the arena capped."""

from copy import copy

from tinytrain.base.arena import Arena
from tinytrain.base.progress import OnProgress, silent
from tinytrain.firmware_sim.boards.canaries import GuardedArena, guarded_call, with_margins
from tinytrain.firmware_sim.boards.counters import Tally
from tinytrain.kernels import NAMES
from tinytrain.program.program import Program
from tinytrain.runtime.device import Clock, Device


class _StageClock(Clock):
    def __init__(self, tally: Tally):
        super().__init__()
        self.tally = tally

    def lap(self, name: str) -> None:
        self.tally.end_stage(name)
        super().lap(name)


class SimulatedDevice(Device):
    """Runs programs in at most `arena_bytes`; one image at a time, because threads do not share `tally`.

    `programs` are those that ran, as they were placed for the board, the probe's first.
    """

    def __init__(self, arena_bytes: int, backend: str = "auto", progress: OnProgress = silent):
        super().__init__(backend, 1, progress)
        self.arena_bytes, self.tally, self.programs, self.canaries = arena_bytes, Tally(), [], 0

    def kernels(self):
        table = copy(super().kernels())
        for name in NAMES:
            setattr(table, name, self._wrap(name, getattr(table, name)))
        return table

    def _wrap(self, name: str, kernel):
        def call(*args):
            self.tally.add(name, args)
            self.canaries += guarded_call(name, kernel, args)

        return call

    def memory(self, program: Program) -> tuple[Program, Arena]:
        if program.nbytes > self.arena_bytes:
            raise AssertionError(f"a program of {program.nbytes} bytes on a board with {self.arena_bytes}")
        self.programs.append(program)
        roomy = with_margins(program)  # the margins are the simulation's, not the board's
        return roomy, GuardedArena(roomy.nbytes)

    def clock(self) -> Clock:
        return _StageClock(self.tally)
