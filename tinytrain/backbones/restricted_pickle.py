"""Pickles of arrays as plain containers and numpy arrays: nothing is imported, called by name or run.

A pickle is a program for a small stack machine. This one knows only the instructions and the names
that checkpoints of arrays need, and every name stands for a function of `picklenames`; a hostile file
can make it refuse and no more. Time and memory are bounded: the number of steps is limited, and every
size is checked against the bytes that are there.
"""

import struct

import numpy as np

from tinytrain.base.errors import InputError

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

MAX_STEPS = 200_000
MAX_SIZE = 2**24


def read_pickle(data: bytes, source: str = "pickle", storage=None):
    """Object of the pickle `data`: dicts, lists, tuples, numbers, text and `ArrayBox`es.

    `storage(key)` gives the bytes of a torch storage kept beside the pickle. Raises InputError
    ``pickle-forbidden`` (a name or instruction outside the list), ``pickle-dtype``, ``pickle-corrupt``
    or ``pickle-too-large``.
    """
    return _Machine(data, source, storage).run()


class _Machine:
    """The stack machine; `run` gives the object."""

    def __init__(self, data: bytes, source: str, storage=None):
        self.data, self.source, self.position = data, source, 0
        self.stack, self.marks, self.memo = [], [], {}
        self.load_storage, self.storages, self.encoded = storage, {}, 0

    def run(self):
        for _ in range(MAX_STEPS):
            code = chr(self.take(1)[0])
            if code == ".":
                return self.pop()
            if code in PUSH:
                self.stack.append(PUSH[code](self))
            elif code in ACT:
                ACT[code](self)
            else:
                raise InputError("pickle-forbidden", f"{self.source}: instruction {code!r} is not allowed")
        raise InputError("pickle-too-large", f"{self.source}: more than {MAX_STEPS} instructions")

    def corrupt(self, what: str) -> InputError:
        return InputError(
            "pickle-corrupt", f"{self.source}: {what} at byte {self.position}; download the file again"
        )

    # Bytes of the program: each is read once, so all arguments together are no larger than the file.
    def take(self, count: int) -> bytes:
        part = self.data[self.position : self.position + count]
        if len(part) != count:
            raise self.corrupt("the pickle ends early")
        self.position += count
        return part

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little", signed=True)

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise self.corrupt("text that is not UTF-8") from error

    def line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise self.corrupt("the pickle ends early")
        text = self.text(end - self.position)
        self.take(1)
        return text

    # The stack; nothing below the last mark can be taken.
    def pop(self):
        if not self.stack or (self.marks and self.marks[-1] >= len(self.stack)):
            raise self.corrupt("the stack is empty")
        return self.stack.pop()

    def pop_to_mark(self) -> list:
        if not self.marks:
            raise self.corrupt("a mark is missing")
        start = self.marks.pop()
        items, self.stack[start:] = self.stack[start:], []
        return items

    def tuple_of(self, count: int) -> None:
        self.stack.append(tuple([self.pop() for _ in range(count)][::-1]))

    def remember(self, key: int) -> None:
        self.memo[key] = self.pop()
        self.stack.append(self.memo[key])

    def recall(self, key: int):
        if key not in self.memo:
            raise self.corrupt(f"memo {key} is missing")
        return self.memo[key]

    def top(self, kind: type):
        if not self.stack or type(self.stack[-1]) is not kind:
            raise self.corrupt(f"no {kind.__name__} to fill")
        return self.stack[-1]

    def set_items(self, items: list) -> None:
        target = self.top(dict)
        # Text only: the hash of a tuple that repeats itself inside takes exponential time.
        if len(items) % 2 or not all(type(key) is str for key in items[::2]):
            raise self.corrupt("dictionary keys that are no text")
        target.update(zip(items[::2], items[1::2], strict=True))

    def find(self, module: str, name: str) -> Name:
        if (module, name) not in NAMES:
            asked = ascii(f"{module[:60]}.{name[:60]}")
            raise InputError(
                "pickle-forbidden", f"{self.source} asks for {asked}, which is not allowed; nothing was run"
            )
        return Name(name, NAMES[module, name])

    def find_on_stack(self) -> None:
        name, module = self.pop(), self.pop()
        self.stack.append(self.find(*self.arguments((module, name), str, str)))

    def reduce(self) -> None:
        arguments, name = self.pop(), self.pop()
        if type(name) is not Name or name.call is None:
            raise InputError("pickle-forbidden", f"{self.source} calls something that is not allowed")
        self.stack.append(name.call(self, arguments))

    def build(self) -> None:
        state = self.pop()
        target = self.stack[-1] if self.stack else None
        if type(target) not in STATES:
            raise InputError(
                "pickle-forbidden", f"{self.source} sets the state of something that is no array"
            )
        STATES[type(target)](self, target, state)

    def persistent(self) -> None:
        tag, kind, key, _, count = self.arguments(self.pop(), str, Name, str, str, int)
        if tag != "storage" or kind.name not in STORAGES or self.load_storage is None:
            raise self.corrupt("an unknown kind of storage")
        if key not in self.storages:
            self.storages[key] = self.load_storage(key)
        array = self.numbers(self.storages[key], STORAGES[kind.name], (count,))
        self.stack.append(Storage(array))

    # Checked values.
    def arguments(self, value, *kinds: type) -> tuple:
        if type(value) is not tuple or [type(item) for item in value] != list(kinds):
            raise self.corrupt(f"arguments other than {', '.join(kind.__name__ for kind in kinds)}")
        return value

    def shape(self, value) -> tuple[int, ...]:
        if type(value) is not tuple or len(value) > 8 or not all(type(size) is int for size in value):
            raise self.corrupt("a shape that is no tuple of at most 8 numbers")
        if any(not 1 <= size <= MAX_SIZE for size in value):
            raise self.corrupt("a size out of range")
        return value

    def numbers(self, raw: bytes, dtype: str, shape: tuple, order: str = "C") -> np.ndarray:
        """Read-only view of exactly all bytes of `raw`."""
        need = np.dtype(dtype).itemsize
        for size in shape:
            need *= size
        if need != len(raw):
            raise self.corrupt(f"an array that needs {need} bytes and has {len(raw)}")
        return np.ndarray(shape, dtype, buffer=raw, order=order)


PUSH = {  # instructions that push one value
    "N": lambda m: None,
    "\x88": lambda m: True,
    "\x89": lambda m: False,
    "K": lambda m: m.unsigned(1),
    "M": lambda m: m.unsigned(2),
    "J": lambda m: m.signed(4),
    "\x8a": lambda m: m.signed(m.unsigned(1)),
    "G": lambda m: struct.unpack(">d", m.take(8))[0],
    "X": lambda m: m.text(m.unsigned(4)),
    "\x8c": lambda m: m.text(m.unsigned(1)),
    "B": lambda m: m.take(m.unsigned(4)),
    "C": lambda m: m.take(m.unsigned(1)),
    "}": lambda m: {},
    "]": lambda m: [],
    ")": lambda m: (),
    "t": lambda m: tuple(m.pop_to_mark()),
    "c": lambda m: m.find(m.line(), m.line()),
    "h": lambda m: m.recall(m.unsigned(1)),
    "j": lambda m: m.recall(m.unsigned(4)),
}
ACT = {  # instructions that change the stack otherwise
    "\x80": lambda m: m.take(1),  # protocol
    "\x95": lambda m: m.take(8),  # frame
    "(": lambda m: m.marks.append(len(m.stack)),
    "\x85": lambda m: m.tuple_of(1),
    "\x86": lambda m: m.tuple_of(2),
    "\x87": lambda m: m.tuple_of(3),
    "u": lambda m: m.set_items(m.pop_to_mark()),
    "s": lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    "e": lambda m: (lambda items: m.top(list).extend(items))(m.pop_to_mark()),
    "a": lambda m: (lambda item: m.top(list).append(item))(m.pop()),
    "q": lambda m: m.remember(m.unsigned(1)),
    "r": lambda m: m.remember(m.unsigned(4)),
    "\x94": lambda m: m.remember(len(m.memo)),
    "\x93": lambda m: m.find_on_stack(),
    "R": lambda m: m.reduce(),
    "b": lambda m: m.build(),
    "Q": lambda m: m.persistent(),
}
