"""A board whose rate was measured: from the line of the emitted example to a file for ``--board``."""

import re

import yaml

from tinytrain.base.errors import InputError
from tinytrain.firmware_sim.boards.board import find_board, parse_board, row_of

LINE = r"cycles: ([0-9]{1,10}) for ([0-9]{1,10}) MACs in (float32|int8), by ([A-Za-z0-9_]+)"


def measured(text: str) -> tuple[str, float, str]:
    """Precision, MACs per cycle, and the line that says so in the output of the example.

    Raises InputError ``bad-value``.
    """
    if "cycles: none" in text:
        why = "the example counted no cycles; give its cycles.h a counter of the board"
        raise InputError("bad-value", why)
    found = re.search(LINE + "(, emulated)?", text)
    if not found:
        wanted = "no line 'cycles: N for N MACs in PRECISION, by COUNTER'"
        raise InputError("bad-value", f"{wanted}; give what the emitted example said on the board")
    cycles, macs, precision, _, emulated = found.groups()
    if emulated:
        raise InputError("bad-value", "an emulator said this line, whose cycles mean nothing; take a board's")
    if not int(cycles) or not int(macs):
        why = f"{macs} MACs in {cycles} cycles are no rate; run the example again"
        raise InputError("bad-value", why)
    return precision, int(macs) / int(cycles), found[0]


def calibrated(name: str, precision: str, rate: float, source: str) -> str:
    """The text of a file: board `name`, a known one or a file, with a measured rate.

    Raises UsageError or InputError.
    """
    find_board(name)  # refuses what is none
    title, row = row_of(name)
    row["measured"] = {**row.get("measured", {}), precision: {"value": rate, "source": source}}
    parse_board(row, source)  # refuses a rate that no board has
    return yaml.safe_dump({title: row}, sort_keys=False, allow_unicode=True, width=200)
