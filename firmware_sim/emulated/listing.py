"""A program as objdump lists it: functions, the lines of C of instructions, and what is called."""

import re
from dataclasses import dataclass
from functools import cached_property

FUNCTION = re.compile(r"([0-9a-f]+) <(.+)>:")
PLACE = re.compile(r"(\S+):(\d+)(?: \(discriminator \d+\))?")
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\t(.*)")
TARGET = re.compile(r"<([^<>+]+)>")


@dataclass(frozen=True)
class Function:
    """Addresses [low, high) of a function, and the file of its source; "" without one."""

    name: str
    low: int
    high: int
    file: str


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from, and the function that it calls or jumps to; "" if none."""

    file: str
    line: int
    target: str


@dataclass(frozen=True, eq=False)
class Listing:
    """All functions, of which static ones may share a name, and `places` by the addresses of instructions."""

    functions: tuple[Function, ...]
    places: dict[int, Place]

    @cached_property
    def by_name(self) -> dict[str, Function]:
        return {f.name: f for f in self.functions}

    def file_of(self, target: str) -> str:
        return self.by_name[target].file if target in self.by_name else ""


def parse(text: str) -> Listing:
    """What ``objdump -dl --no-show-raw-insn`` printed."""
    starts, files, places = [], {}, {}
    file, line = "", 0
    for row in text.splitlines():
        if found := FUNCTION.fullmatch(row):
            starts.append((int(found[1], 16), found[2]))
            file, line = "", 0
        elif found := INSTRUCTION.fullmatch(row):
            target = TARGET.search(found[2])
            places[int(found[1], 16)] = Place(file, line, target[1] if target else "")
        elif found := PLACE.fullmatch(row):
            file, line = found[1].rsplit("/", 1)[-1], int(found[2])
            files.setdefault(starts[-1], file)
    starts.sort()
    ends = [*(low for low, _ in starts[1:]), max(places, default=0) + 4]
    found = zip(starts, ends, strict=True)
    return Listing(tuple(Function(s[1], s[0], end, files.get(s, "")) for s, end in found), places)
