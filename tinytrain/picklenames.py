"""The names a pickle of arrays may use, and the functions of ours that they stand for.

Each function gets the machine of `picklereader` that runs the pickle (it checks values and makes
errors) and the arguments as the file gives them, still unchecked. Objects never come out of an array:
the only number types are those of DTYPES.
"""

import numpy as np

from tinytrain.errors import InputError

DTYPES = ("i1", "u1", "i4", "i8", "f4", "f8")
STORAGES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "CharStorage": "i1",
    "ByteStorage": "u1", "IntStorage": "<i4", "LongStorage": "<i8",
}  # fmt: skip


class ArrayBox:
    """An array of the checkpoint, in `array`; None until the pickle has filled it."""

    array: np.ndarray | None = None


class Name:
    """An allowed name; `call(machine, arguments)` is what it does, None if it is only passed on."""

    def __init__(self, name: str, call=None):
        self.name, self.call = name, call


class Dtype:
    """A number type of the pickle: one of DTYPES, so never objects."""

    def __init__(self, name: str):
        self.name = name


class Storage:
    """A torch storage: a flat array."""

    def __init__(self, array: np.ndarray):
        self.array = array


def _encode(machine, arguments) -> bytes:
    text, encoding = machine.arguments(arguments, str, str)
    # A text can be named many times: its copies together must stay as small as the file.
    machine.encoded += len(text)
    if machine.encoded > len(machine.data):
        raise InputError("pickle-too-large", f"{machine.source}: unpacks to more bytes than it has")
    try:
        if encoding != "latin1":
            raise machine.corrupt("an encoding other than latin1")
        return text.encode("latin1")
    except UnicodeEncodeError as error:
        raise machine.corrupt("bytes above 255") from error


def _dtype(machine, arguments) -> Dtype:
    name, _, _ = machine.arguments(arguments, str, bool, bool)
    if name not in DTYPES:
        raise InputError(
            "pickle-dtype", f"{machine.source}: arrays of {name[:20]!r}; supported are {', '.join(DTYPES)}"
        )
    return Dtype(name)


def _set_dtype(machine, target: Dtype, state) -> None:
    kinds = (int, str, type(None), type(None), type(None), int, int, int)
    _, order, *_ = machine.arguments(state, *kinds)
    if order not in ("|", "<"):
        raise InputError("pickle-dtype", f"{machine.source}: only little-endian arrays are supported")


def _array(machine, arguments) -> ArrayBox:
    kind, _, _ = machine.arguments(arguments, Name, tuple, bytes)
    if kind.name != "ndarray":
        raise machine.corrupt("an array of an unknown class")
    return ArrayBox()


def _set_array(machine, target: ArrayBox, state) -> None:
    _, shape, dtype, fortran, raw = machine.arguments(state, int, tuple, Dtype, bool, bytes)
    target.array = machine.numbers(raw, dtype.name, machine.shape(shape), "F" if fortran else "C")


def _scalar(machine, arguments) -> int | float:
    dtype, raw = machine.arguments(arguments, Dtype, bytes)
    return machine.numbers(raw, dtype.name, ()).item()


def _ordered_dict(machine, arguments) -> dict:
    machine.arguments(arguments)
    return {}


def _tensor(machine, arguments) -> ArrayBox:
    kinds = (Storage, int, tuple, tuple, bool, dict)
    storage, offset, size, stride, _, _ = machine.arguments(arguments, *kinds)
    shape, stride = machine.shape(size), machine.shape(stride)
    need, packed = 1, []
    for length in reversed(shape):
        packed.insert(0, need)
        need *= length
    wrong = [a != b for a, b, length in zip(stride, packed, shape, strict=False) if length > 1]
    if len(stride) != len(shape) or any(wrong) or not 0 <= offset <= storage.array.size - need:
        raise machine.corrupt("a tensor that is not a contiguous part of its storage")
    box = ArrayBox()
    box.array = storage.array[offset : offset + need].reshape(shape)
    return box


NUMPY_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
NAMES = {
    **{(module, "_reconstruct"): _array for module in NUMPY_ARRAYS},
    **{(module, "scalar"): _scalar for module in NUMPY_ARRAYS},
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    **{("torch", name): None for name in STORAGES},
}
STATES = {ArrayBox: _set_array, Dtype: _set_dtype}
