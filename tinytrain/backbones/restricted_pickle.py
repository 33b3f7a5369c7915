"""Pickles of arrays as plain containers and numpy arrays: nothing is imported and nothing of theirs is run.

A pickle is a program. Before Python's own machine runs it, every instruction is looked up in a list, every
length is compared with the bytes that are there, and the steps are counted. Every name that it may ask for
stands for a function of this file.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tinytrain.backbones.pickled_arrays import axes_by_stride, checked_shape, numbers, typed
from tinytrain.base.errors import InputError, one_line

INSTRUCTIONS = b"\x80\x95.N\x88\x89KMJ\x8aGX\x8cBC}])(t\x85\x86\x87useaqr\x94hjc\x93RbQ"
TEXTS, NAMED, FILLS, STORES, RECALLS = b"X\x8c", b"c\x93", b"useab\x94", b"qr", b"hj"
MAX_STEPS = 200_000
DTYPES = ("i1", "u1", "i4", "i8", "f4", "f8")
STORAGES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "CharStorage": "i1",
    "ByteStorage": "u1", "IntStorage": "<i4", "LongStorage": "<i8",
}  # fmt: skip
Storages = Callable[[Mapping[str, int], int], Mapping[str, bytes]]
BROKEN = (pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, EOFError, OverflowError)


def _effect(row: pickletools.OpcodeInfo) -> tuple:
    """What reads its argument, how many values it takes, if also all above a mark, whether it pushes."""
    kinds = list(row.stack_before)
    to_mark = pickletools.markobject in kinds
    taken = kinds.index(pickletools.markobject) if to_mark else len(kinds)
    read = _two_lines if row.code == "c" else row.arg and row.arg.reader
    return read, taken, to_mark, bool(row.stack_after)


def _two_lines(stream: io.BytesIO) -> None:
    """As Python's machine reads a name: that of pickletools also looks for escapes, which are none there."""
    if not (stream.readline().endswith(b"\n") and stream.readline().endswith(b"\n")):
        raise ValueError("a name that ends early")


EFFECTS = {
    row.code.encode("latin1"): _effect(row)
    for row in pickletools.opcodes
    if row.code.encode("latin1") in INSTRUCTIONS
}


class _RefusedError(Exception):
    """A code and a fact; becomes an InputError that names the file."""


def read_pickle(data: bytes, source: str = "pickle", storages: Storages | None = None):
    """Object of the pickle `data`: dicts, lists, tuples, numbers, text and `ArrayBox`es.

    ``storages(sizes, length)`` gives the torch storages that lie beside the pickle by their keys, from their
    bytes by key and the length of the pickle. It is called only if there are any. Raises InputError
    ``pickle-forbidden`` (a name or instruction outside the list), ``pickle-dtype``, ``pickle-corrupt`` or
    ``pickle-too-large``.
    """
    return read_first_pickle(data, source, storages)[0]


def read_first_pickle(data: bytes, source: str = "pickle", storages: Storages | None = None) -> tuple:
    """The object of the pickle that `data` begins with, and how many bytes that is. See `read_pickle`."""
    try:
        length = _check(data)
        machine = _Unpickler(data)
        value = machine.load()
        machine.content.fill(storages, length)
        return value, length
    except _RefusedError as error:
        code, fact = error.args
        raise InputError(code, f"{source}: {fact}") from error
    except BROKEN as error:
        fact = f"{source}: a broken pickle ({one_line(error, 120)}); download the file again"
        raise InputError("pickle-corrupt", fact) from error


def _check(data: bytes) -> int:
    """Follow the program, noting what made each value on its stack, to its end, which is returned.

    Raises _RefusedError or BROKEN.
    """
    stream, stack, outer, memo = io.BytesIO(data), [], [], {}
    for _ in range(MAX_STEPS):
        code = stream.read(1)
        if not code:
            raise EOFError("the pickle ends early")
        if code not in EFFECTS:
            raise _RefusedError("pickle-forbidden", f"instruction {code!r} is not allowed")
        read, taken, to_mark, pushes = EFFECTS[code]
        argument = read(stream) if read else None  # raises ValueError if bytes are missing
        values = []
        if to_mark:
            values, stack = stack, outer.pop()
        if taken:
            values = [stack.pop() for _ in range(taken)][::-1] + values
            _check_use(code, values)
        if code == b".":
            return stream.tell()
        if code == b"(":
            outer.append(stack)
            stack = []
        elif pushes:
            stack.append(values[0] if code in FILLS else memo[argument] if code in RECALLS else code)
        elif code in STORES:
            if argument > len(data):  # the machine makes room for every number below it
                raise ValueError(f"memo {argument}")
            memo[argument] = stack[-1]
        if code == b"\x94":
            memo[len(memo)] = stack[-1]
    raise _RefusedError("pickle-too-large", f"more than {MAX_STEPS} instructions")


def _check_use(code: bytes, values: list[bytes]) -> None:
    """Whether `code` may take what was made by these instructions."""
    if code == b"R" and values[0] not in NAMED:
        raise _RefusedError("pickle-forbidden", "calls something that is not allowed")
    if code == b"b" and values[0] != b"R":
        raise _RefusedError("pickle-forbidden", "sets the state of something that is no array")
    # Text only: the hash of a tuple that repeats itself inside takes exponential time.
    if code in (b"u", b"s") and not all(made in TEXTS for made in values[1::2]):
        raise ValueError("dictionary keys that are no text")


class _Unpickler(pickle.Unpickler):
    """Python's machine, with our names only."""

    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self.content = _Content(len(data))

    def find_class(self, module: str, name: str):
        if (module, name) == ("_codecs", "encode"):
            return self.content.encode
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.content.tensor
        if module == "torch" and name in STORAGES:
            return _Name(name)
        if (module, name) not in NAMES:
            asked = ascii(f"{module[:60]}.{name[:60]}")
            raise _RefusedError(
                "pickle-forbidden", f"asks for {asked}, which is not allowed; nothing was run"
            )
        return NAMES[module, name]

    def persistent_load(self, pid) -> "_Storage":
        return self.content.storage(pid)


class _Content:
    """What the functions of one pickle share. It does not know the machine, which would then be a cycle."""

    def __init__(self, size: int):
        self.room = size
        self.storages: dict[str, _Storage] = {}
        self.tensors: list[tuple[ArrayBox, _Storage, int, tuple, list]] = []

    def encode(self, *arguments) -> bytes:
        text, encoding = typed(arguments, str, str)
        # A text can be named many times: its copies together must stay as small as the file.
        self.room -= len(text)
        if self.room < 0:
            raise _RefusedError("pickle-too-large", "unpacks to more bytes than it has")
        if encoding != "latin1":
            raise ValueError("an encoding other than latin1")
        return text.encode("latin1")

    def storage(self, pid) -> "_Storage":
        if type(pid) is tuple and pid[5:] == (None,):  # it is no part of another storage
            pid = pid[:5]
        tag, kind, key, _, count = typed(pid, str, _Name, str, str, int)
        if tag != "storage" or kind not in STORAGES or count < 0:
            raise ValueError("an unknown kind of storage")
        if self.storages.setdefault(key, found := _Storage(key, STORAGES[kind], count)) != found:
            raise ValueError("a storage that is of two kinds")
        return found

    def tensor(self, *arguments) -> "ArrayBox":
        storage, offset, size, strides, _, _ = typed(arguments, _Storage, int, tuple, tuple, bool, Dictionary)
        shape, need = checked_shape(size), math.prod(size)
        axes = axes_by_stride(shape, typed(strides, *[int] * len(shape)))
        if not 0 <= offset <= storage.count - need:
            raise ValueError("a tensor that is no part of its storage")
        self.tensors.append((ArrayBox(), storage, offset, shape, axes))
        return self.tensors[-1][0]

    def fill(self, load: Storages | None, length: int) -> None:
        """Give all tensors their numbers."""
        if self.storages and load is None:
            raise ValueError("an unknown kind of storage")
        sizes = {key: s.count * np.dtype(s.dtype).itemsize for key, s in self.storages.items()}
        loaded = load(sizes, length) if sizes else {}
        arrays = {key: numbers(loaded[key], s.dtype, (s.count,)) for key, s in self.storages.items()}
        for box, storage, offset, shape, axes in self.tensors:
            part = arrays[storage.key][offset : offset + math.prod(shape)]
            box.array = part.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))


class _Storage(NamedTuple):
    """Numbers beside the pickle."""

    key: str
    dtype: str
    count: int


class _Name(str):
    """A name that is only passed on."""

    def __call__(self, *arguments):
        raise _RefusedError("pickle-forbidden", f"calls {self}, which is not allowed")


class _Dtype:
    """A number type of the pickle: one of DTYPES, so never objects."""

    def __init__(self, *arguments):
        self.name, *_ = typed(arguments, str, bool, bool)
        if self.name not in DTYPES:
            known = ", ".join(DTYPES)
            raise _RefusedError("pickle-dtype", f"arrays of {self.name[:20]!r}; supported are {known}")

    def __setstate__(self, state) -> None:
        nothing = type(None)
        _, order, *_ = typed(state, int, str, nothing, nothing, nothing, int, int, int)
        if order not in ("|", "<"):
            raise _RefusedError("pickle-dtype", "only little-endian arrays are supported")


class ArrayBox:
    """An array of the checkpoint, in `array`; None until the pickle has filled it."""

    array: np.ndarray | None = None

    def __setstate__(self, state) -> None:
        _, shape, dtype, fortran, raw = typed(state, int, tuple, _Dtype, bool, bytes)
        self.array = numbers(raw, dtype.name, checked_shape(shape), "F" if fortran else "C")


def _array(*arguments) -> ArrayBox:
    kind, _, _ = typed(arguments, _Name, tuple, bytes)
    if kind != "ndarray":
        raise ValueError("an array of an unknown class")
    return ArrayBox()


def _scalar(*arguments) -> int | float:
    dtype, raw = typed(arguments, _Dtype, bytes)
    return numbers(raw, dtype.name, ()).item()


class Dictionary(dict):
    """Stands for an OrderedDict, whose further state, such as the versions of modules, is of no use."""

    def __setstate__(self, state) -> None:
        typed((state,), dict)


def _dictionary(*arguments) -> Dictionary:
    typed(arguments)
    return Dictionary()


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _Name("ndarray"),
    ("numpy", "dtype"): _Dtype,
    ("collections", "OrderedDict"): _dictionary,
}
