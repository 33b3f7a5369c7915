"""Backends by name. To add one, add a row here, and a line in `__init__.py` for the help."""

from tinytrain.base.registry import find
from tinytrain.program.backend import Backend
from tinytrain.program.backends.float32 import Float32
from tinytrain.program.backends.int8 import Int8
from tinytrain.program.backends.noisy import Noisy

FLOAT32, INT8 = Float32(), Int8()
BACKENDS: dict[str, Backend] = {b.name.partition(":")[0]: b for b in (FLOAT32, INT8, Noisy())}
CHOSEN = FLOAT32, INT8  # by `auto`: the first one in which all fits, otherwise the last one that is possible


def find_backend(precision: str) -> Backend:
    """The backend NAME or NAME:OPTIONS.

    Raises UsageError with the closest known name, or for options that it does not have.
    """
    name, colon, options = precision.partition(":")
    row = find("precision", name, BACKENDS)
    return row.with_options(options) if colon else row
