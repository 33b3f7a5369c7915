"""A kernel's machine code as a callable of Python, and the cells from which its stub takes the arguments."""

import ctypes
from collections.abc import Sequence

import numpy as np

from tinytrain.kernels.dispatch.kinds import packer


class Code:
    """Machine code of the kernel `__name__` for arguments of the kinds of these; `stub` calls `function`."""

    def __init__(self, name: str, stub: int, function: int, arguments: Sequence):
        self.__name__, self.stub, self.function, self._pack = name, stub, function, packer(arguments)
        # Python's lock is not held meanwhile.
        self._enter = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)(stub)

    def cells(self, arguments: Sequence) -> bytes:
        """The arguments as the stub reads them: of an array its address, so whoever keeps them keeps it."""
        return self._pack(*[id(a) if isinstance(a, np.ndarray) else a for a in arguments])

    def __call__(self, *arguments) -> None:
        if self._enter(self.function, self.cells(arguments)):
            raise RuntimeError(f"kernel {self.__name__} reports an error")
