"""Boards as rows of ``boards.yaml``: their memory, how fast they are taken to be, and who says so.

A file of one's own has one row. With `like` a row takes from a known board what it does not say itself.
"""

from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.registry import find
from tinytrain.base.schema import WrongError, choice, count, flag, flat, named, number, parsed, table, text
from tinytrain.base.yaml_file import read_yaml

FILE = Path(__file__).with_name("boards.yaml")
LARGEST = 10**13


@dataclass(frozen=True)
class Figure:
    """A number of a data sheet, and where it stands; a `source` may be an assumption."""

    value: float
    source: str

    @property
    def is_assumed(self) -> bool:
        return self.source.startswith("assumption")


@dataclass(frozen=True)
class Processor:
    title: str
    core: str
    kind: str
    cores: Figure
    clock_mhz: Figure


@dataclass(frozen=True)
class Memory:
    """`ram_bytes` is contiguous."""

    ram_bytes: Figure
    ram_reserved_bytes: Figure

    @property
    def arena_bytes(self) -> int:
        """The largest arena."""
        return self.ram_bytes.value - self.ram_reserved_bytes.value


@dataclass(frozen=True)
class Flash:
    """`wear_levelled` flash has a controller that spreads erasures; else every slot wears its own blocks."""

    flash_bytes: Figure
    flash_reserved_bytes: Figure
    erase_block_bytes: Figure
    erase_cycles: Figure
    wear_levelled: bool

    @property
    def storage_bytes(self) -> int:
        """Flash for the network and the slots of its deltas."""
        return self.flash_bytes.value - self.flash_reserved_bytes.value


@dataclass(frozen=True)
class Speed:
    """Rates are those of one core in float32 kernels; `watts` at work.

    `measured`: MACs per cycle of a whole prediction on the board itself, by precision.
    """

    macs_per_cycle: Figure
    bytes_per_cycle: Figure
    call_seconds: Figure
    watts: Figure
    measured: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Board:
    """One row of the file, whose keys are the fields of all four."""

    processor: Processor
    memory: Memory
    flash: Flash
    speed: Speed

    def figures(self) -> dict[str, Figure]:
        """The figures of all parts by name."""
        parts = (self.processor, self.memory, self.flash, self.speed)
        rows = {name: value for part in parts for name, value in vars(part).items()}
        return {name: value for name, value in rows.items() if isinstance(value, Figure)}


def _figure(check):
    return table(Figure, {"value": check, "source": text})


def _measured(value, where):
    known = choice("float32", "int8")
    return {known(name, where): figure for name, figure in named(RATE)(value, where).items()}


SIZE, RATE = _figure(count(0, LARGEST)), _figure(number(1e-6, 1000))
CHECKS = {
    "title": text,
    "core": text,
    "kind": choice("linux", "microcontroller"),
    "cores": _figure(count(1, 64)),
    "clock_mhz": _figure(number(1, 10_000)),
    "ram_bytes": SIZE,
    "ram_reserved_bytes": SIZE,
    "flash_bytes": SIZE,
    "flash_reserved_bytes": SIZE,
    "erase_block_bytes": _figure(count(1, LARGEST)),
    "erase_cycles": _figure(count(1, 10**9)),
    "wear_levelled": flag,
    "macs_per_cycle": RATE,
    "bytes_per_cycle": RATE,
    "call_seconds": _figure(number(0, 1)),
    "watts": RATE,
    "measured": _measured,
}
SUFFIXES = (".yaml", ".yml")


def load_boards(path: Path = FILE) -> dict[str, Board]:
    """Boards by name. Raises InputError ``bad-value`` that names the first wrong key and what is allowed."""
    content = read_yaml(path, "bad-value")
    if not isinstance(content, dict) or not content:
        raise InputError("bad-value", f"{path} holds 0 boards; give a table of boards by name")
    return {name: parse_board(row, f"{path}: {one_line(name, 60)}") for name, row in content.items()}


def parse_board(row, source: str) -> Board:
    """A board from what YAML gave; `source` names it in messages."""
    return parsed(_board, row, source, "bad-value")


def _board(row, where: str) -> Board:
    if not isinstance(row, dict):
        raise WrongError("the board", row, f"a table with {', '.join(CHECKS)}")
    if "like" in row:
        known = read_yaml(FILE, "bad-value")
        row = {**known[choice(*known)(row["like"], "like")], **row}
        del row["like"]
    board = flat(Board, CHECKS)(row, where)
    figures = board.figures()
    for part in ("ram", "flash"):
        whole, reserved = (figures[f"{part}{kind}_bytes"].value for kind in ("", "_reserved"))
        if reserved >= whole:
            raise WrongError(f"{part}_reserved_bytes", reserved, f"less than the {whole} of {part}_bytes")
    return board


def row_of(name: str) -> tuple[str, dict]:
    """Title and row of a known board, or of the one in a file.

    Raises UsageError with the closest known one, or InputError ``bad-value``.
    """
    if not name.endswith(SUFFIXES):
        find("board", name, load_boards())
        return name, {"like": name}
    content = read_yaml(name, "bad-value")
    if not isinstance(content, dict) or len(content) != 1:
        held = len(content) if isinstance(content, dict) else 0
        raise InputError("bad-value", f"{name} holds {held} boards; keep one")
    return next(iter(content.items()))


def find_board(name: str) -> Board:
    """The board of that name, or of the file. Raises what `row_of` raises."""
    title, row = row_of(name)
    return parse_board(row, f"{name}: {one_line(title, 60)}")
