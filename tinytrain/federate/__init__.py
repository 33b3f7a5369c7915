"""Rounds in which several devices learn together: what a client does, and a server by Flower's strategies."""

from tinytrain.base.errors import InputError
from tinytrain.base.extras import install

HEADS = ("lda", "mild-lda", "slda", "ridge")  # those of sums
STRATEGIES = ("average", "median", "trimmed", "krum")


def with_flower():
    """The modules `grid`, `rounds` and `server`. Raises InputError ``package-missing`` without Flower."""
    try:
        from tinytrain.federate import grid, rounds, server
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        text = f"a server needs Flower, which is not installed; run: {install('federated')}"
        raise InputError("package-missing", text) from error
    return grid, rounds, server
