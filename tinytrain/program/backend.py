"""Which kernels a program may call: the seam for kernels of other dtypes or from another language.

Which library runs the kernels, numba or numpy, is another choice: see `tinytrain.kernels.load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tinytrain.program.signatures import SIGNATURES, Signature


class ProgramError(AssertionError):
    """A program that would use memory or kernels wrongly: a bug, not something a user can cause."""


@dataclass(frozen=True)
class Backend:
    """The kernels that a program may call, and the arrays that they take.

    `signatures`: the kernels by name. `dtype`: of activations; gradients are float32 in any case.
    `weight_form`: dtype of weight matrices in the working copy of a network. `shows_rows`: its frozen part
    asks for some rows of an augmented image at a time.
    """

    name: str
    signatures: Mapping[str, Signature] = field(hash=False, repr=False)
    dtype: str
    weight_form: str
    shows_rows: bool = False

    def __reduce__(self) -> str:
        return self.name.upper()  # how this module calls it

    @property
    def itemsize(self) -> int:
        """Bytes of one activation."""
        return np.dtype(self.dtype).itemsize

    def signature(self, kernel: str) -> Signature:
        """Signature of `kernel`. Raises ProgramError if the backend lacks it."""
        if kernel not in self.signatures:
            raise ProgramError(f"backend {self.name} has no kernel {kernel}")
        return self.signatures[kernel]


FLOAT32 = Backend("float32", SIGNATURES, "float32", "float32")
INT8 = Backend("int8", SIGNATURES, "int8", "int8", shows_rows=True)
BACKENDS = {backend.name: backend for backend in (FLOAT32, INT8)}  # by precision
