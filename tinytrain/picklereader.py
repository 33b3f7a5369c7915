"""Pickles of arrays as plain containers and numpy arrays: nothing is imported, called by name or run.

A pickle is a program for a small stack machine. This one knows only the instructions and the names
that checkpoints of arrays need, and every name stands for a function of `picklenames`; a hostile file
can make it refuse and no more. Time and memory are bounded: the number of steps is limited, and every
size is checked against the bytes that are there.
"""

import struct

import numpy as np

from tinytrain.errors import InputError
from tinytrain.picklenames import NAMES, STATES, STORAGES, Name, Storage

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
