"""A folder on simulated flash: what is not synced is kept apart, and power can be cut at every operation.

`Flash` stands in for `tinytrain.store.folder.Folder`. It notes its state at every operation; `images` then
gives what a start can find on the medium if power goes at that moment. Nothing is written anywhere.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tinytrain.firmware_sim.flash.file_systems import Layout
from tinytrain.firmware_sim.flash.medium import Change, Content, Medium, Names, Size


@dataclass(frozen=True)
class Moment:
    """The state before `operation`: what is on the medium and what is not yet."""

    operation: str
    medium: Medium
    pending: tuple[Change, ...]


class Flash:
    """A folder on flash of a `layout` that holds `files`.

    `fail(number, operation)` may give an errno with which that operation fails; a failing write leaves half.
    `moments` are the states in between, the last one being the present.
    """

    def __init__(
        self,
        layout: Layout,
        files: dict[str, bytes] | None = None,
        fail: Callable[[int, str], int | None] | None = None,
    ):
        self.layout, self.fail = layout, fail
        files = files or {}
        names = {name: number for number, name in enumerate(sorted(files))}
        self._medium = Medium(names, {number: files[name] for name, number in names.items()})
        self._pending: tuple[Change, ...] = ()
        self._seen = self._medium
        self._moments: list[Moment] = []
        self._numbers = len(names)
        self._operations = 0

    def __str__(self) -> str:
        return "flash"

    @property
    def moments(self) -> list[Moment]:
        return [*self._moments, Moment("end", self._medium, self._pending)]

    def killed(self, moment: Moment) -> "Flash":
        """The folder as the next process finds it when this one was killed at `moment` and power stayed."""
        flash = type(self)(self.layout)
        flash._medium, flash._pending = moment.medium, moment.pending
        flash._seen = moment.medium.after(moment.pending, self.layout.fill)
        flash._numbers = self._numbers
        return flash

    def make(self) -> None:
        self._operation("make")

    @contextlib.contextmanager
    def lock(self, *, create: bool, seconds: float = 0) -> Iterator[None]:
        self._operation("lock")
        yield

    def is_held(self) -> bool:
        return False

    def names(self) -> list[str]:
        self._operation("list")
        return sorted(self._seen.names)

    def read(self, name: str, limit: int) -> bytes:
        self._operation(f"read {name}")
        return self._seen.contents.get(self._number(name), b"")[: limit + 1]

    def create(self, name: str) -> "FlashFile":
        self._operation(f"create {name}")
        number, self._numbers = self._numbers, self._numbers + 1
        self._change(Names(((name, number),)))
        return FlashFile(self, number)

    def append(self, name: str) -> "FlashFile":
        self._operation(f"append {name}")
        return FlashFile(self, self._number(name))

    def rename(self, old: str, new: str) -> None:
        self._operation(f"rename {old} {new}")
        number = self._number(old)
        steps = [((new, number),), ((old, None),)]
        if new in self._seen.names:
            steps.insert(0, ((new, None),))
        if not self.layout.split_rename:
            steps = [((new, number), (old, None))]
        self._change(*(Names(step) for step in steps))

    def remove(self, name: str) -> None:
        self._operation(f"remove {name}")
        self._number(name)
        self._change(Names(((name, None),)))

    def sync(self) -> None:
        self._operation("sync folder")
        self._settle(lambda change: isinstance(change, Names))

    def _write(self, number: int, data: bytes) -> None:
        start = len(self._seen.contents.get(number, b""))
        sizes = (Size(number, start + len(data)),) if self.layout.sizes_apart and data else ()
        self._change(*sizes, *(Content(number, start + a, data[a:b]) for a, b in self._pieces(len(data))))

    def _pieces(self, length: int) -> list[tuple[int, int]]:
        sector = self.layout.sector
        # An odd place inside the sector: a field of a record may end anywhere.
        offsets = (0, sector * 3 // 8) if self.layout.tears else (0,)
        starts = [s + o for s in range(0, length, sector) for o in offsets if s + o < length]
        return list(zip(starts, [*starts[1:], length], strict=True))

    def _sync_file(self, number: int) -> None:
        self._settle(lambda change: not isinstance(change, Names) and change.number == number)

    def _number(self, name: str) -> int:
        if name not in self._seen.names:
            raise FileNotFoundError(2, os.strerror(2))
        return self._seen.names[name]

    def _change(self, *changes: Change) -> None:
        self._pending += changes
        self._seen = self._seen.after(changes, self.layout.fill)

    def _settle(self, settles: Callable[[Change], bool]) -> None:
        """The pending changes that `settles` picks are on the medium from now on."""
        now = [change for change in self._pending if settles(change)]
        self._pending = tuple(change for change in self._pending if not settles(change))
        self._medium = self._medium.after(now, self.layout.fill)

    def _operation(self, operation: str, half: Callable[[], None] = lambda: None) -> None:
        if not operation.startswith(("read", "list", "lock", "make")):
            self._moments.append(Moment(operation, self._medium, self._pending))
        number, self._operations = self._operations, self._operations + 1
        if self.fail and (error := self.fail(number, operation)):
            half()
            raise OSError(error, os.strerror(error))


class FlashFile:
    """A file being written on a `Flash`, at its end."""

    def __init__(self, flash: Flash, number: int):
        self._flash, self._number = flash, number

    def __enter__(self) -> "FlashFile":
        return self

    def __exit__(self, *_) -> None:
        pass

    def write(self, data: bytes) -> None:
        self._flash._operation("write", lambda: self._flash._write(self._number, data[: len(data) // 2]))
        self._flash._write(self._number, data)

    def truncate(self, size: int) -> None:
        self._flash._operation("truncate")
        self._flash._change(Size(self._number, size))

    def sync(self) -> None:
        self._flash._operation("sync file")
        self._flash._sync_file(self._number)
