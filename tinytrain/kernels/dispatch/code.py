"""A kernel's machine code as a callable of Python, and the kinds of arguments, which decide which it is."""

import ctypes
import struct
from collections.abc import Callable, Sequence

import numpy as np

C_ORDER, F_ORDER, ALIGNED, WRITEABLE = 1, 2, 0x100, 0x400  # numpy's flags of an array
DECISIVE = C_ORDER | F_ORDER | ALIGNED | WRITEABLE
# Of flags in sum: those that decide. An array in both orders, such as a vector, counts as one in C's.
FLAGS = [n & (DECISIVE & ~F_ORDER if n & C_ORDER else DECISIVE) for n in range(2 * WRITEABLE)]
LOWER = len(FLAGS) - 1
PYTHON = {int: np.dtype(np.int64), float: np.dtype(np.float64), bool: np.dtype(np.bool_)}
# How `struct` writes a number into a cell of 8 bytes, by kind and bytes of its type.
CELLS = {
    "b1": "?7x", "i1": "b7x", "i2": "h6x", "i4": "i4x", "i8": "q", "u1": "B7x", "u2": "H6x", "u4": "I4x",
    "u8": "Q", "f4": "f4x", "f8": "d",
}  # fmt: skip
# Words of a worker's state: the addresses of the words in which the one before and it itself count turns that
# are over, how many of the former must be over, and the address of C's `usleep`.
BEFORE, OWN, NEEDED, SLEEP = range(4)
Kinds = tuple[type | tuple[int, str, int, int], ...]


def kinds_of(arguments: Sequence, strided: bool = False) -> Kinds:
    """The type of each number; of each array type and order of its bytes, number of axes, and flags.

    With `strided`, code reads the strides of an array and needs no flag but that it is aligned.
    """
    some = ALIGNED if strided else LOWER
    return tuple(
        [
            (a.dtype.num, a.dtype.byteorder, a.ndim, FLAGS[a.flags.num & some])
            if isinstance(a, np.ndarray)
            else type(a)
            for a in arguments
        ]
    )


def described(arguments: Sequence, strided: bool = False) -> str:
    """Their kinds as text, the same in every process. Raises TypeError for what kernels do not take."""
    some = ALIGNED if strided else LOWER
    return " ".join(
        f"{a.dtype.str}:{a.ndim}:{FLAGS[a.flags.num & some]:x}"
        if isinstance(a, np.ndarray)
        else _number(a).str
        for a in arguments
    )


def packer(arguments: Sequence, returns: bool = False) -> Callable[..., bytes]:
    """A function that writes such arguments into cells of 8 bytes; of an array, the address of the object.

    If a kernel `returns` something, a cell with the address for it comes last.
    """
    parts = ("Q" if isinstance(a, np.ndarray) else CELLS[_code(_number(a))] for a in arguments)
    return struct.Struct(f"={''.join(parts)}{'Q' * returns}").pack


def _number(argument) -> np.dtype:
    found = argument.dtype if isinstance(argument, np.generic) else PYTHON.get(type(argument))
    if found is None or _code(found) not in CELLS:
        raise TypeError(f"kernels take arrays and numbers, no {type(argument).__name__}")
    return found


def _code(number: np.dtype) -> str:
    return f"{number.kind}{number.itemsize}"


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
