"""The nine target sets of the paper, read from the folders that their downloads unpack to."""

from tinytrain.datasets.meta_dataset.opening import open_target
from tinytrain.datasets.meta_dataset.registry import TARGETS

__all__ = ["TARGETS", "open_target"]
