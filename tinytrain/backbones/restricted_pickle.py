"""Pickles of arrays as plain containers and numpy arrays: nothing is imported and nothing of theirs is run.

A pickle is a program. Before Python's own machine runs it, every instruction is looked up in a list, every
length is compared with the bytes that are there, and the steps are counted. Every name that it may ask for
stands for a function of this file.
"""

import io
import math
import pickle
import pickletools

import numpy as np

from tinytrain.base.errors import InputError, one_line

INSTRUCTIONS = b"\x80\x95.N\x88\x89KMJ\x8aGX\x8cBC}])(t\x85\x86\x87useaqr\x94hjc\x93RbQ"
TEXTS, NAMED, FILLS, STORES, RECALLS = b"X\x8c", b"c\x93", b"useab\x94", b"qr", b"hj"
MAX_STEPS = 200_000
MAX_SIZE = 2**24
DTYPES = ("i1", "u1", "i4", "i8", "f4", "f8")
STORAGES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "CharStorage": "i1",
    "ByteStorage": "u1", "IntStorage": "<i4", "LongStorage": "<i8",
}  # fmt: skip
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


def read_pickle(data: bytes, source: str = "pickle", storage=None):
    """Object of the pickle `data`: dicts, lists, tuples, numbers, text and `ArrayBox`es.

    `storage(key)` gives the bytes of a torch storage kept beside the pickle. Raises InputError
    ``pickle-forbidden`` (a name or instruction outside the list), ``pickle-dtype``, ``pickle-corrupt``
    or ``pickle-too-large``.
    """
    try:
        _check(data)
        return _Unpickler(data, storage).load()
    except _RefusedError as error:
        code, fact = error.args
        raise InputError(code, f"{source}: {fact}") from error
    except BROKEN as error:
        fact = f"{source}: a broken pickle ({one_line(error, 120)}); download the file again"
        raise InputError("pickle-corrupt", fact) from error


def _check(data: bytes) -> None:
    """Follow the program: which instruction made each value on the stack. Raises _RefusedError or BROKEN."""
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
            return
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

    def __init__(self, data: bytes, load_storage):
        super().__init__(io.BytesIO(data))
        self.load_storage, self.storages, self.room = load_storage, {}, len(data)

    def find_class(self, module: str, name: str):
        if (module, name) == ("_codecs", "encode"):
            return self.encode
        if module == "torch" and name in STORAGES:
            return _Name(name)
        if (module, name) not in NAMES:
            asked = ascii(f"{module[:60]}.{name[:60]}")
            raise _RefusedError(
                "pickle-forbidden", f"asks for {asked}, which is not allowed; nothing was run"
            )
        return NAMES[module, name]

    def encode(self, *arguments) -> bytes:
        text, encoding = _typed(arguments, str, str)
        # A text can be named many times: its copies together must stay as small as the file.
        self.room -= len(text)
        if self.room < 0:
            raise _RefusedError("pickle-too-large", "unpacks to more bytes than it has")
        if encoding != "latin1":
            raise ValueError("an encoding other than latin1")
        return text.encode("latin1")

    def persistent_load(self, pid) -> np.ndarray:
        tag, kind, key, _, count = _typed(pid, str, _Name, str, str, int)
        if tag != "storage" or kind not in STORAGES or self.load_storage is None:
            raise ValueError("an unknown kind of storage")
        if key not in self.storages:
            self.storages[key] = self.load_storage(key)
        return _numbers(self.storages[key], STORAGES[kind], (count,))


class _Name(str):
    """A name that is only passed on."""

    def __call__(self, *arguments):
        raise _RefusedError("pickle-forbidden", f"calls {self}, which is not allowed")


class _Dtype:
    """A number type of the pickle: one of DTYPES, so never objects."""

    def __init__(self, *arguments):
        self.name, *_ = _typed(arguments, str, bool, bool)
        if self.name not in DTYPES:
            known = ", ".join(DTYPES)
            raise _RefusedError("pickle-dtype", f"arrays of {self.name[:20]!r}; supported are {known}")

    def __setstate__(self, state) -> None:
        nothing = type(None)
        _, order, *_ = _typed(state, int, str, nothing, nothing, nothing, int, int, int)
        if order not in ("|", "<"):
            raise _RefusedError("pickle-dtype", "only little-endian arrays are supported")


class ArrayBox:
    """An array of the checkpoint, in `array`; None until the pickle has filled it."""

    array: np.ndarray | None = None

    def __setstate__(self, state) -> None:
        _, shape, dtype, fortran, raw = _typed(state, int, tuple, _Dtype, bool, bytes)
        self.array = _numbers(raw, dtype.name, _shape(shape), "F" if fortran else "C")


def _array(*arguments) -> ArrayBox:
    kind, _, _ = _typed(arguments, _Name, tuple, bytes)
    if kind != "ndarray":
        raise ValueError("an array of an unknown class")
    return ArrayBox()


def _scalar(*arguments) -> int | float:
    dtype, raw = _typed(arguments, _Dtype, bytes)
    return _numbers(raw, dtype.name, ()).item()


def _dictionary(*arguments) -> dict:
    _typed(arguments)
    return {}


def _tensor(*arguments) -> ArrayBox:
    storage, offset, size, stride, _, _ = _typed(arguments, np.ndarray, int, tuple, tuple, bool, dict)
    shape, stride, need = _shape(size), _shape(stride), math.prod(size)
    packed = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    wrong = [a != b for a, b, length in zip(stride, packed, shape, strict=True) if length > 1]
    if any(wrong) or not 0 <= offset <= storage.size - need:
        raise ValueError("a tensor that is not a contiguous part of its storage")
    box = ArrayBox()
    box.array = storage[offset : offset + need].reshape(shape)
    return box


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _Name("ndarray"),
    ("numpy", "dtype"): _Dtype,
    ("collections", "OrderedDict"): _dictionary,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
}


def _typed(values, *kinds: type) -> tuple:
    if type(values) is not tuple or [type(value) for value in values] != list(kinds):
        raise TypeError(f"arguments other than {', '.join(kind.__name__ for kind in kinds)}")
    return values


def _shape(sizes: tuple) -> tuple[int, ...]:
    if len(sizes) > 8 or not all(type(size) is int and 1 <= size <= MAX_SIZE for size in sizes):
        raise ValueError(f"a shape other than at most 8 numbers of 1 to {MAX_SIZE}")
    return sizes


def _numbers(raw: bytes, dtype: str, shape: tuple, order: str = "C") -> np.ndarray:
    """Read-only view of exactly all bytes of `raw`."""
    need = np.dtype(dtype).itemsize * math.prod(shape)
    if need != len(raw):
        raise ValueError(f"an array that needs {need} bytes and has {len(raw)}")
    return np.ndarray(shape, dtype, buffer=raw, order=order)
