"""A kernel's machine code as a callable of Python, and the cells from which its stub takes the arguments."""

import ctypes
from collections.abc import Sequence

import numpy as np

from tinytrain.kernels.dispatch.kinds import packer


class Code:
    """Machine code of the kernel `__name__` for arguments of the kinds of these; `stub` calls `function`.

    If the kernel returns a whole number, the stub writes it to the address in the last cell.
    """

    def __init__(self, name: str, stub: int, function: int, arguments: Sequence, returns: bool = False):
        self.__name__, self.stub, self.function = name, stub, function
        self._pack, self._nowhere = packer(arguments, returns), ctypes.c_int64() if returns else None
        # Python's lock is not held meanwhile.
        self._enter = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)(stub)

    def cells(self, arguments: Sequence, result: ctypes.c_int64 | None = None) -> bytes:
        """The arguments as the stub reads them: of an array its address, so whoever keeps them keeps it."""
        values = [id(a) if isinstance(a, np.ndarray) else a for a in arguments]
        if self._nowhere is not None:
            values.append(ctypes.addressof(self._nowhere if result is None else result))
        return self._pack(*values)

    def __call__(self, *arguments) -> int | None:
        result = None if self._nowhere is None else ctypes.c_int64()
        if self._enter(self.function, self.cells(arguments, result)):
            raise RuntimeError(f"kernel {self.__name__} reports an error")
        return None if result is None else result.value
