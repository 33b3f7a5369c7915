"""What an adaptation may cost, and the sizes of its task."""

import math
from dataclasses import dataclass
from numbers import Integral, Real

from tinytrain.base.errors import UsageError
from tinytrain.base.units import LARGEST
from tinytrain.episode.episode import Episode

MACS_MODES = ("mean", "sample")
AUTO = "auto"  # the precision that leaves the choice to the planner
MACS = 0.15  # of the full backward pass
MACS_IN_TIME = 0.3  # at most, if there is a time to be spent


@dataclass(frozen=True)
class Budget:
    """Hard limits of one adaptation.

    `memory`: bytes of the arena, at its peak. `macs`: backward multiply-accumulates per pseudo-query
    as a share of the full backward pass (2 x forward MACs). `macs_mode`: "mean" limits the mean over
    a step's pseudo-queries, "sample" the dearest single image. `precision`: the backend in which everything
    is computed, such as float32 or int8; "auto" leaves it to the planner, which refuses unknown ones.
    `seconds`: the time that an adaptation may take on this machine, from decoded images to the verdict; None
    for as long as the rest takes. With a time, MACs are at most `macs` and often fewer. `macs` is by default
    0.15, and 0.3 with a time. Raises UsageError for what is no number of bytes, no share or no time.
    """

    memory: int = 1_000_000
    macs: float | None = None
    macs_mode: str = "mean"
    precision: str = AUTO
    seconds: float | None = None

    def __post_init__(self):
        if self.macs is None:
            object.__setattr__(self, "macs", MACS if self.seconds is None else MACS_IN_TIME)
        if not isinstance(self.memory, Integral) or self.memory < 0:
            raise UsageError("usage", f"{self.memory!r} is no number of bytes; give a whole number from 0 on")
        if self.memory > LARGEST:
            raise UsageError("usage", "the bytes are more than any memory has; give for example 1000000")
        if not isinstance(self.macs, Real) or not 0 <= self.macs < math.inf:
            raise UsageError("usage", f"{self.macs!r} is no share of the MACs; give a number from 0 on")
        if self.macs_mode not in MACS_MODES:
            raise UsageError(
                "usage", f"{self.macs_mode!r} is no mode of the MACs; give {' or '.join(MACS_MODES)}"
            )
        if not isinstance(self.precision, str):
            raise UsageError("usage", f"{self.precision!r} is no precision; give its name, such as {AUTO!r}")
        if self.seconds is not None and not (isinstance(self.seconds, Real) and 0 < self.seconds < math.inf):
            raise UsageError("usage", f"{self.seconds!r} is no time; give seconds above 0")


@dataclass(frozen=True)
class TaskShape:
    """The sizes of an episode that memory depends on.

    `n_remembered` of the support images, the last ones, are features of a replay memory; `replay` is of how
    many images of each class the features are kept.
    """

    n_support: int
    n_way: int
    n_query: int = 0
    n_remembered: int = 0
    replay: int = 0

    @classmethod
    def of(cls, episode: Episode) -> "TaskShape":
        remembered = len(episode.remembered) if episode.remembered else 0
        return cls(len(episode.support), episode.n_way, len(episode.query), remembered, episode.replay)

    @property
    def n_images(self) -> int:
        """Support images that can be read."""
        return self.n_support - self.n_remembered

    @property
    def n_kept(self) -> int:
        """Images whose features are kept, at most."""
        return min(self.replay * self.n_way, self.n_support)
