"""The object in a checkpoint of PyTorch, without torch: containers, numbers, text and arrays.

A pickle is a program. It runs in the process of `tinytrain.base.confined`, which keeps its memory and time
within limits, and it can name nothing but the functions of this file. What it makes comes back as nodes: JSON
for each container and array, and the numbers of all arrays.
"""

import io
import math
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import BinaryIO

from tinytrain.base import confined
from tinytrain.base.errors import InputError, one_line

FORMATS = {"i1": "b", "u1": "B", "i4": "<i", "i8": "<q", "f4": "<f", "f8": "<d"}  # of `struct`, by dtype
STORAGES = {
    "FloatStorage": "f4", "DoubleStorage": "f8", "CharStorage": "i1",
    "ByteStorage": "u1", "IntStorage": "i4", "LongStorage": "i8",
}  # fmt: skip
# What PyTorch wrote before it wrote zip files begins with three pickles: this number, this version, and facts
# of the machine. Then come the object and the keys of its storages. The numbers of each follow their count.
MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
COUNT = 8  # bytes of that count
NOT_READ = {
    "large": ("file-damaged", "{} to read; download it again"),
    "broken": ("file-damaged", "cannot be read ({}); download it again"),
    "alone": (
        "system",
        "is read in a process of its own, and none starts here ({}); convert it on another machine",
    ),
}


def read_checkpoint(data: bytes, source: str = "file"):
    """The object in the file content `data`; its arrays are read-only views of numpy.

    Raises InputError: ``unsupported`` (a name outside the list), ``file-kind``, ``file-damaged``, ``system``.
    """
    try:
        answer, content = confined.ask(__name__, data, NOT_READ)
    except InputError as error:
        raise InputError(error.code, f"{source}: {error.message}") from None
    return _built(answer["nodes"], answer["root"], content)


def _built(nodes: list, root, content: bytearray):
    import numpy as np

    made: list = []

    def value(given):
        return made[given[0]] if isinstance(given, list) else given

    for kind, *node in nodes:
        if kind == "array":
            dtype, shape, strides, start = node
            nbytes = struct.calcsize(FORMATS[dtype]) * math.prod(shape)
            part = memoryview(content)[start : start + nbytes].toreadonly()
            made.append(np.ndarray(shape, "<" + dtype, part, strides=strides))
        elif kind == "dict":
            made.append({key: value(given) for key, given in node[0].items()})
        else:
            made.append((list if kind == "list" else tuple)(value(given) for given in node[0]))
    return value(root)


def answer(file: BinaryIO) -> tuple[dict, bytearray]:
    """See `tinytrain.base.confined.ask`."""
    data = file.read()
    try:
        content = _in_zip(data) if data.startswith(b"PK") else _in_first_form(data)
        nodes = _Nodes()
        root = nodes.add(content)
        return {"nodes": nodes.nodes, "root": root}, nodes.numbers
    except (InputError, MemoryError, RecursionError):
        raise
    except Exception as error:
        why = f"a broken pickle ({one_line(error, 120) or type(error).__name__}); download it again"
        raise InputError("file-damaged", why) from None


def _in_zip(data: bytes):
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = archive.namelist()
    except Exception:
        raise InputError("file-damaged", "no readable zip file; download it again") from None
    roots = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise InputError("file-kind", "no PyTorch checkpoint (needs one data.pkl)")

    def read(name: str) -> bytes:
        if roots[0] + name not in names:
            raise InputError("file-damaged", f"entry {name[:80]!r} is missing; download it again")
        try:
            return archive.read(roots[0] + name)
        except MemoryError:
            raise
        except Exception:
            raise InputError("file-damaged", f"entry {name[:80]!r} is broken; download it again") from None

    if roots[0] + "byteorder" in names and read("byteorder") != b"little":
        raise InputError("unsupported", "only little-endian checkpoints are supported")
    machine = _Unpickler(read("data.pkl"))
    content = machine.load()
    for storage in machine.storages.values():
        storage.raw = read(f"data/{storage.key}")
    return content


def _in_first_form(data: bytes):
    machine = _Unpickler(data)
    fits = (
        ("magic number", lambda value: value == MAGIC),
        ("version", lambda value: value == VERSION),
        ("byte order", lambda value: isinstance(value, dict) and value.get("little_endian") is True),
    )
    for what, right in fits:
        if not right(machine.load()):
            raise _wrong(f"its {what} is not that of PyTorch's first form")
    content, keys = machine.load(), machine.load()
    if not isinstance(keys, list) or sorted(keys) != sorted(machine.storages):
        raise _wrong("it does not list the arrays that it uses")
    at = machine.file.tell()
    for key in keys:
        storage = machine.storages[key]
        end = at + COUNT + storage.count * struct.calcsize(FORMATS[storage.dtype])
        storage.raw, at = memoryview(data)[at + COUNT : end], end
    # Counts are those of the object: if the file has others, it ends elsewhere.
    if at != len(data):
        raise _wrong(f"{len(data)} bytes, but its arrays end at {at}")
    return content


def _wrong(what: str) -> InputError:
    return InputError("file-damaged", f"{what}; download the file again")


class _Unpickler(pickle.Unpickler):
    """Python's machine, with our names only."""

    def __init__(self, data: bytes):
        self.file, self.storages = io.BytesIO(data), {}
        super().__init__(self.file)

    def find_class(self, module: str, name: str):
        make = NAMES.get((module.replace("numpy._core", "numpy.core"), name))
        if module == "torch" and name in STORAGES:
            return _Name(name)
        if make is None:
            asked = ascii(f"{module[:60]}.{name[:60]}")
            raise InputError("unsupported", f"asks for {asked}, which is not allowed; nothing was run")
        return _Name(name, make)

    def persistent_load(self, pid):
        tag, kind, key, _, count, *_ = pid
        if tag != "storage" or type(key) is not str or type(count) is not int:
            raise ValueError("an unknown kind of storage")
        storage = self.storages.setdefault(key, _Storage(key, STORAGES[kind.name], count))
        if (storage.dtype, storage.count) != (STORAGES[kind.name], count):
            raise ValueError("a storage that is of two kinds")
        return storage


class _Name:
    """What a pickle gets for a name: it can be called and passed on, and not be changed."""

    def __init__(self, name: str, make: Callable | None = None):
        self.name, self.make = name, make

    def __call__(self, *arguments):
        return self.make(*arguments)

    def __setstate__(self, state):
        raise ValueError(f"changes {self.name}")


class _Storage:
    """Numbers beside the pickle."""

    def __init__(self, key: str, dtype: str, count: int):
        self.key, self.dtype, self.count, self.raw = key, dtype, count, b""


class _Dtype:
    def __init__(self, name: str, *_):
        self.name = name
        if name not in FORMATS:
            known = ", ".join(FORMATS)
            raise InputError("unsupported", f"arrays of {name!r:.20}; supported are {known}")

    def __setstate__(self, state):
        if state[1] not in ("|", "<"):
            raise InputError("unsupported", "only little-endian arrays are supported")


class _Array:
    """An array of numpy, which gets its state later, or a tensor: a part of a storage."""

    def __init__(self, *tensor):
        self.tensor, self.dtype, self.shape, self.strides, self.raw = tensor, "", (), (), b""

    def __setstate__(self, state):
        _, self.shape, dtype, fortran, self.raw = state
        self.dtype, self.strides, step = dtype.name, [0] * len(self.shape), 1
        for axis in range(len(self.shape)) if fortran else reversed(range(len(self.shape))):
            self.strides[axis] = step
            step *= self.shape[axis]

    def checked(self) -> tuple[list, bytes]:
        """The node without its place, and the bytes. Raises ValueError or TypeError."""
        if self.tensor:
            storage, offset, self.shape, self.strides, *_ = self.tensor
            self.dtype = storage.dtype
        itemsize, count = struct.calcsize(FORMATS[self.dtype]), math.prod(self.shape)
        span = 1 + sum((side - 1) * step for side, step in zip(self.shape, self.strides, strict=True))
        numbers = (*self.shape, *(step + 1 for step in self.strides))
        if span != count or not all(type(number) is int and number > 0 for number in numbers):
            raise ValueError("an array that is empty or not a contiguous part of its storage")
        raw = self.raw
        if self.tensor:
            raw = storage.raw[offset * itemsize : (offset + count) * itemsize]
            if not 0 <= offset <= storage.count - count:
                raise ValueError("a tensor that is no part of its storage")
        if type(raw) not in (bytes, memoryview) or len(raw) != count * itemsize:
            raise ValueError(f"an array that needs {count * itemsize} bytes")
        return ["array", self.dtype, self.shape, [step * itemsize for step in self.strides]], raw


class _Nodes:
    """What was unpickled, each container and array once, its parts before it."""

    def __init__(self):
        self.nodes, self.numbers, self.places = [], bytearray(), {}

    def add(self, value):
        """A plain value as it is, and the place of any other in a list."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) not in self.places:
            self.nodes.append(self._node(value))
            self.places[id(value)] = len(self.nodes) - 1
        return [self.places[id(value)]]

    def _node(self, value) -> list:
        if type(value) in (list, tuple):
            return [type(value).__name__, [self.add(part) for part in value]]
        if isinstance(value, dict):
            if not all(type(key) is str for key in value):
                raise ValueError("dictionary keys that are no text")
            return ["dict", {key: self.add(part) for key, part in value.items()}]
        if not isinstance(value, _Array):
            raise ValueError("a value of an unknown kind")
        node, raw = value.checked()
        self.numbers += raw
        return [*node, len(self.numbers) - len(raw)]


class _Dictionary(dict):
    """Stands for an OrderedDict, whose further state, such as the versions of modules, is of no use."""

    def __setstate__(self, state):
        pass


def _encoded(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError("an encoding other than latin1")
    return text.encode("latin1")


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): lambda kind, shape, code: _Array(),
    ("numpy.core.multiarray", "scalar"): lambda dtype, raw: struct.unpack(FORMATS[dtype.name], raw)[0],
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("collections", "OrderedDict"): _Dictionary,
    ("torch._utils", "_rebuild_tensor_v2"): _Array,
    ("_codecs", "encode"): _encoded,
}
