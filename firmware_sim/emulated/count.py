"""Run an emitted folder under QEMU and count the instructions of each of its calls."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tinytrain.base.errors import InputError
from tinytrain.firmware_sim.emulated.kinds import is_kernel
from tinytrain.firmware_sim.emulated.listing import Listing, parse

HERE = Path(__file__).parent
BOARDS = ("m7", "m4", "m55", "rv32")
# Parts of a run by the function that begins each; what is before them is the "start".
PARTS = {"tt_adapt": "adaptation", "tt_save": "saving", "tt_predict": "prediction"}
PLUGIN = ("gcc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Count:
    """How often a block of instructions ran, and all that ran from there to the next block of a caller."""

    runs: int
    instructions: int


def missing(board: str) -> list[str]:
    """The tools that counting on `board` needs and that are not installed."""
    emulator = "qemu-system-riscv32" if board == "rv32" else "qemu-system-arm"
    tools = ("gcc", "make", f"{_cross(board)}gcc", emulator)
    return [tool for tool in tools if not shutil.which(tool)]


def counted(folder: Path, board: str) -> tuple[Listing, dict[str, list[dict[int, Count]]]]:
    """The machine code of the example in an emitted `folder`, and counts of every part of a run of it.

    The counts have the addresses of the last instructions of blocks as keys. Raises InputError
    ``file-kind`` if the program cannot be built or does not end well.
    """
    with TemporaryDirectory() as place:
        copy = Path(place) / "emitted"
        shutil.copytree(folder, copy)
        # Line numbers change no instruction.
        _run("make", "-s", "-B", "-C", copy / "qemu", f"M={board}", "DEFINES=-g")
        program = copy / "qemu" / f"demo-{board}.elf"
        listing = parse(_run(f"{_cross(board)}objdump", "-dl", "--no-show-raw-insn", program))
        plugin, callers, counts = (Path(place) / name for name in ("by_call.so", "callers", "counts"))
        _run(*PLUGIN, HERE / "by_call.c", "-o", plugin)
        ours = {file.name for file in copy.rglob("*.c") if not is_kernel(file.name)}
        ranges = (f"{f.low:x} {f.high:x}\n" for f in listing.functions if f.file in ours)
        callers.write_text("".join(ranges))
        marks = {listing.by_name[name].low: part for name, part in PARTS.items()}
        words = [f"callers={callers}", f"out={counts}", *(f"mark={address}" for address in marks)]
        options = f"EMULATOR_OPTIONS=-plugin {','.join([str(plugin), *words])}"
        _run("make", "-s", "-C", copy / "qemu", "run", f"M={board}", "DEFINES=-g", options)
        found: dict[str, list[dict[int, Count]]] = {part: [] for part in ("start", *marks.values())}
        for address, section in _sections(counts.read_text()):
            found[marks.get(address, "start")].append(section)
    return listing, found


def _cross(board: str) -> str:
    return "riscv64-unknown-elf-" if board == "rv32" else "arm-none-eabi-"


def _sections(text: str) -> Iterator[tuple[int, dict[int, Count]]]:
    """What was counted from each mark to the next."""
    for part in text.split("from ")[1:]:
        first, *rows = part.splitlines()
        split = (row.split() for row in rows)
        yield int(first, 16), {int(at, 16): Count(int(runs), int(n)) for at, runs, n in split}


def _run(*command) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise InputError("system", f"{command[0]} failed: {said[0] if said else done.returncode}")
    return done.stdout
