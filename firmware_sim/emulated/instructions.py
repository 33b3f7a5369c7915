"""Instructions per multiply-accumulate of an emitted library, by kind of kernel, on emulated boards.

    tinytrain emit --data leaves --way 2 --shots 5 --backbone mcunet-5fps --budget 256kB --precision int8 \\
        -o int8/
    python -m tinytrain.firmware_sim.emulated.instructions int8/ --boards m7,m4

QEMU runs the example of the folder: a whole adaptation, and predictions. A plugin counts what is executed,
exactly; the MACs are those of the calls of the Program that was emitted. A call counts with the instructions
that bring its arguments. Cycles are an estimate that no board has confirmed: 0.5 to 1 instructions per cycle,
without what memory costs.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tinytrain.backbones.load import find_backbone
from tinytrain.base.console import Parser, guarded
from tinytrain.base.errors import InputError, UsageError
from tinytrain.codegen.device import device_of
from tinytrain.firmware_sim.emulated.count import BOARDS, Count, counted, missing
from tinytrain.firmware_sim.emulated.kinds import ROWS, Program, calls_by_line
from tinytrain.plan.plan import load_plan

PER_CYCLE = (0.5, 1.0)
SKIPPED = 77  # exit code


@dataclass(frozen=True)
class Row:
    """What one kind of work took in one part of a run."""

    kind: str
    macs: int
    instructions: int

    @property
    def facts(self) -> dict:
        slowest, fastest = PER_CYCLE
        return {
            "kind": self.kind,
            "macs": self.macs,
            "instructions": self.instructions,
            "instructions_per_mac": round(self.instructions / self.macs, 2) if self.macs else None,
            "cycles_uncalibrated": [round(self.instructions / fastest), round(self.instructions / slowest)],
        }


def rows_of(program: Program, counts: dict[int, Count]) -> list[Row]:
    """A row for every kind that ran, in the order of `ROWS`, and "whole"."""
    macs, instructions = dict.fromkeys(ROWS, 0), dict.fromkeys(ROWS, 0)
    for address, count in counts.items():
        place = program.listing.places[address]
        if row := program.row(place):
            macs[row] += count.runs * program.macs(place)
            instructions[row] += count.instructions
    rows = [Row(kind, macs[kind], instructions[kind]) for kind in ROWS if instructions[kind]]
    return [*rows, Row("whole", sum(macs.values()), sum(instructions.values()))]


def measure(folder: Path, board: str) -> dict:
    """The facts of one board, for JSON. Raises InputError."""
    plan = load_plan(folder / "plan.json")
    network = find_backbone(plan.digest, plan.network)
    device = device_of(network, plan)
    adapt = folder / "src" / "adapt.c"
    if not adapt.is_file():
        raise InputError("file-kind", f"{folder} is no folder of 'tinytrain emit': no src/adapt.c")
    listing, parts = counted(folder, board)
    program = Program(device.network, calls_by_line(device, adapt.read_text()), listing)
    (adaptation,), (prediction, *_) = parts["adaptation"], parts["prediction"]
    return {
        "board": board,
        "network": network.name,
        "precision": plan.recipe.precision,
        "task": f"{device.ways}-way {device.shots}-shot",
        "steps": plan.recipe.steps,
        "adaptation": [row.facts for row in rows_of(program, adaptation)],
        "prediction": [row.facts for row in rows_of(program, prediction)],
    }


def text_of(facts: dict) -> str:
    """The facts of one board as a table in Markdown."""
    network, task, steps = (facts[key] for key in ("network", "task", "steps"))
    lines = [
        f"{facts['board']}, {facts['precision']}: {network}, {task}, {steps} steps",
        "",
        "| | MACs | instructions | per MAC | million cycles, UNCALIBRATED |",
        "|---|---|---|---|---|",
    ]
    for part in ("adaptation", "prediction"):
        for row in facts[part]:
            kind = f"**{part}, whole**" if row["kind"] == "whole" else f"{part}: {row['kind']}"
            each = f"{row['instructions_per_mac']:.1f}" if row["macs"] else ""
            low, high = (n / 1e6 for n in row["cycles_uncalibrated"])
            cells = (kind, f"{row['macs']:,}", f"{row['instructions']:,}", each, f"{low:,.1f} to {high:,.1f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _boards(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in BOARDS]:
        raise UsageError("usage", f"no board {unknown[0]}; boards are: {', '.join(BOARDS)}")
    return names


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="python -m tinytrain.firmware_sim.emulated.instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="what 'tinytrain emit' wrote")
    parser.add_argument(
        "--boards", default="m7,m4", metavar="NAMES", help=f"of {','.join(BOARDS)}; default: m7,m4"
    )
    parser.add_argument("--json", action="store_true", help="one object for each board, a line each")
    given = parser.parse_args(arguments)
    boards = _boards(given.boards)
    if absent := sorted({tool for board in boards for tool in missing(board)}):
        print(f"SKIPPED: not installed: {', '.join(absent)}", file=sys.stderr)
        return SKIPPED
    for board in boards:
        facts = measure(given.folder, board)
        print(json.dumps(facts) if given.json else text_of(facts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
