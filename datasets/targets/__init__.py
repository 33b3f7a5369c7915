"""The nine target sets of the paper, read from the folders that their downloads unpack to."""

from tinytrain.datasets.targets.opening import open_target
from tinytrain.datasets.targets.registry import TARGETS

__all__ = ["TARGETS", "open_target"]
