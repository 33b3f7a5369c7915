"""What a backend says of itself: the rows of `backends.registry` are subclasses of `Backend`.

Which library runs the kernels, numba or numpy, is another choice: see `tinytrain.kernels.load`.
"""

from collections.abc import Mapping

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.program.signatures import SIGNATURES, Signature


class ProgramError(AssertionError):
    """A program that would use memory or kernels wrongly: a bug, not something a user can cause."""


class Backend:
    """How a network is computed, trained and stored. Whoever needs to know asks the backend, never its name.

    What stands here is right for float32. `emitter(segment, network, row_tile)` emits passes,
    `updates.start(job, buffers)` and `updates.update(job, buffers, gradient)` the calls of the optimizer,
    `copy(network, own, base)` is the working copy: a subclass names them.
    """

    name = "any"  # that of the row and its options: what recipes, plans and deltas say
    signatures: Mapping[str, Signature] = SIGNATURES  # the kernels that its segments may call
    dtype = "float32"  # of activations; gradients are float32 in any case
    weight_form = "float32"  # dtype of weight matrices in the working copy
    shows_rows = False  # the frozen part asks for some rows of an augmented image at a time
    in_codes = False  # values between layers are codes of the network's `quantisation`
    is_tight = False  # for few bytes: steps, heads and selections are made small before it is refused
    # Per trained parameter, as policies count. Value, gradient and two moments of 16 bits take 12, but the
    # constants of policies were settled with this.
    parameter_bytes = 16
    emitter = updates = copy = None

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def itemsize(self) -> int:
        """Bytes of one activation."""
        return np.dtype(self.dtype).itemsize

    def with_options(self, text: str) -> "Backend":
        """The row for NAME:`text`. Raises UsageError unless it has such options."""
        raise UsageError("usage", f"precision {self.name} has no options, not {text!r}; give {self.name}")

    def signature(self, kernel: str) -> Signature:
        """Signature of `kernel`. Raises ProgramError if the backend lacks it."""
        if kernel not in self.signatures:
            raise ProgramError(f"backend {self.name} has no kernel {kernel}")
        return self.signatures[kernel]

    def obstacle(self, network: Network, recipe: Recipe) -> str | None:
        """Why `network` cannot be trained by `recipe`; None if it can."""
        return None

    def add_buffers(self, table, job, trained: int) -> None:
        """Put what is kept beside the `trained` parameters of a job into the `BufferTable`."""

    def written(self, update: Update) -> set[tuple[int, str]]:
        """The parts (layer, "weight" or "bias") of the working copy that training by `update` writes to."""
        parts = {"weight": update.channels, "bias": update.bias}
        return {(update.layer, part) for part, trained in parts.items() if trained}

    def copy_bytes(self, weights: int, channels: int) -> int:
        """Bytes of a working copy of so many weights and output channels."""
        return 4 * (weights + channels)

    def keep_features(self, kernels, network: Network, start: int, features, codes, ranges) -> None:
        """Write `features`, the input of layer `start`, into `codes` and `ranges` (2,) of a `Replay`."""
        kernels.quantize(codes.reshape(-1), ranges, features.reshape(-1))

    def stored(self, network: Network) -> dict:
        """Fields of `delta.Changes` by which a delta for `network` says how it is computed."""
        return {}
