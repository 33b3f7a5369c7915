"""What adaptations run on: this computer. A simulated board overrides the methods."""

import time
from collections.abc import Callable
from numbers import Integral

from tinytrain import kernels as kernel_table
from tinytrain.base.arena import Arena
from tinytrain.base.errors import UsageError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network
from tinytrain.program.program import Program
from tinytrain.runtime.adaptation import Run
from tinytrain.runtime.thread_pool import cores


class Clock:
    """Seconds by stage, as `now` tells the time."""

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.seconds: dict[str, float] = {}
        self.now, self._last = now, now()

    def lap(self, name: str) -> None:
        """The stage `name` ends now; a stage may have several laps."""
        now = self.now()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


class Device:
    """Kernels of one `backend`, memory for programs, clocks, threads, and a callback for progress.

    `threads` is the most images worked on at once (default: one for each core that this process may use); it
    never changes a result. `progress(stage, done, total, loss)` is called after every step. Raises UsageError
    for a number of threads below 1. `now` is the clock, in seconds: a budget with a time is kept by it.
    """

    def __init__(
        self,
        backend: str = "auto",
        threads: int | None = None,
        progress: OnProgress = silent,
        now: Callable[[], float] = time.perf_counter,
    ):
        self.backend, self.progress, self.now = backend, progress, now
        self.threads = cores() if threads is None else whole("threads", threads, 1)

    def open(self, network: Network, episode: Episode, seed: int = 0) -> Run:
        """An adaptation of `network` to `episode`, to be used in a with statement.

        Raises UsageError for a `seed` below 0, InputError for a network with NaN or infinity.
        """
        whole("seed", seed, 0)
        network.check_finite()
        return Run(self, network, episode, seed)

    def kernels(self):
        """The table of kernels. Raises UsageError for an unknown backend."""
        return kernel_table.load(self.backend)

    def memory(self, program: Program) -> tuple[Program, Arena]:
        """The program to bind and the arena to bind it to."""
        return program, Arena(program.nbytes)

    def clock(self) -> Clock:
        return Clock(self.now)


def whole(name: str, value: int, least: int) -> int:
    """`value`. Raises UsageError unless it is a whole number of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise UsageError("usage", f"{name}={value!r} is no whole number of at least {least}")
    return value
