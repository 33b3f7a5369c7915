"""What an adaptation runs on: this computer. A simulated board overrides the methods."""

import time

from tinytrain import kernels as kernel_table
from tinytrain.program.program import Program
from tinytrain.runtime.arena import Arena


class Clock:
    """Seconds by stage."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """The stage `name` ends now; a stage may have several laps."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


class Machine:
    """Kernels of one `backend`, memory for programs, a clock."""

    def __init__(self, backend: str = "auto"):
        self.backend = backend

    def kernels(self):
        return kernel_table.load(self.backend)

    def memory(self, program: Program) -> tuple[Program, Arena]:
        """The program to bind and the arena to bind it to."""
        return program, Arena(program.nbytes)

    def clock(self) -> Clock:
        return Clock()
