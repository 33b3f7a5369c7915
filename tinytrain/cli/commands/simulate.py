"""``tinytrain simulate``: run an adaptation on a simulated board and show its cost there."""

import sys

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import add_backbone, add_json, check_outputs, print_result, say

DESCRIPTION = (
    "Run an adaptation on a simulated board. Shows whether it fits, the counted operations, and its cost in "
    "time, energy and flash. The exit code is 7 if the board is too small, and 4 if only the budget is too "
    "small. With --calibrate, write the board to a file, as fast as it was measured to be."
)
EXAMPLES = """\
  tinytrain simulate --boards
  tinytrain simulate --board stm32h743 --shots 5
  tinytrain simulate photos/ --board raspberry-pi-zero-2w --backbone mcunet-5fps --plot arena.svg
  tinytrain simulate --board esp32-s3 --backbone mcunet-5fps --budget 300kB --json
  tinytrain simulate --board stm32h743 --calibrate - --out mine.yaml < said-by-the-board.txt
  tinytrain simulate --board mine.yaml
"""
DOES_NOT_FIT = 7
LIST = "list"
MOST_TEXT = 1_000_000  # bytes that are read of what a board said


def add_arguments(parser) -> None:
    parser.add_argument(
        "--board", metavar="NAME", help="board to simulate; --boards lists them; or FILE.yaml of your own"
    )
    parser.add_argument("--boards", action="store_true", help="list the boards; with --json all figures")
    parser.add_argument(
        "--battery", type=_watt_hours, default="10", metavar="WH",
        help="battery capacity in watt-hours; default: 10, a cell of size 18650",
    )  # fmt: skip
    parser.add_argument(
        "--calibrate", metavar="LINE",
        help="'cycles: ...', as the example of 'tinytrain emit' said on the board; - reads all that it said",
    )  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FILE", help="board file to write with --calibrate (.yaml)")
    parser.add_argument("--plot", metavar="FILE", help="also draw the memory arena over time (.svg)")
    episodes.add_arguments(parser)
    add_backbone(parser)
    add_json(parser)


def _watt_hours(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError("usage", f"{text!r} is not a number of watt-hours above 0")
    return value


def run(arguments) -> int | None:
    if arguments.boards or arguments.board == LIST:
        return _list(arguments)
    if arguments.board is None:
        raise UsageError("usage", "give --board NAME; tinytrain simulate --boards lists them")
    if arguments.calibrate is not None or arguments.out is not None:
        return _calibrate(arguments)
    _check_plot(arguments.plot)
    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.kinds import kind_of
    from tinytrain.firmware_sim.boards.board import find_board
    from tinytrain.firmware_sim.boards.simulate import battery, simulate
    from tinytrain.firmware_sim.boards.text import render_simulation

    board, policy = find_board(arguments.board), episodes.policy_of(arguments)
    drawn = episodes.draw(arguments, policy)
    with episodes.naming_tiers(arguments), ProgressLine() as progress:
        network = episodes.network_of(arguments, drawn, progress, "a simulated board")
        # The board is checked before the budget: if it is too small, another budget does not help.
        given = arguments, network, policy, progress, drawn
        episode, warnings = episodes.open_episode(*given, within_budget=False)
        how = episodes.budget_of(arguments), policy, arguments.seed, progress
        simulation = simulate(board, network, episode, *how)
    facts = {**simulation.facts, "warnings": warnings + simulation.facts.get("warnings", [])}
    if "battery" in facts:
        facts["battery"] = battery(facts["joules"], arguments.battery)
    if arguments.plot:
        _plot(arguments.plot, board, simulation)
    say(*facts["warnings"])
    print_result(facts, kind_of(network.input.kind).words(render_simulation(facts)), arguments.json)
    return 0 if simulation.fits else DOES_NOT_FIT


def _calibrate(arguments) -> None:
    from tinytrain.base.files import write_bytes
    from tinytrain.base.shell import quoted
    from tinytrain.firmware_sim.boards.board import SUFFIXES
    from tinytrain.firmware_sim.boards.calibrate import calibrated, measured

    out, text = arguments.out, arguments.calibrate
    if text is None or out is None:
        raise UsageError("usage", "--calibrate LINE and --out FILE belong together; give both")
    if not out.endswith(SUFFIXES):
        raise UsageError("usage", f"{out!r} must end in .yaml")
    check_outputs(out)
    if text == "-":  # a serial line brings bytes of any kind
        text = sys.stdin.buffer.read(MOST_TEXT).decode(errors="replace") if sys.stdin else ""
    precision, rate, source = measured(text)
    write_bytes(out, calibrated(arguments.board, precision, rate, source).encode())
    facts = {"out": out, "precision": precision, "macs_per_cycle": rate}
    said = f"{out}: {rate:.3g} MACs per cycle in {precision}; next: tinytrain simulate --board {quoted(out)}"
    print_result(facts, said, arguments.json)


def _check_plot(path: str | None) -> None:
    if path is not None and not path.lower().endswith(".svg"):
        raise UsageError("usage", f"{path!r} must end in .svg")
    check_outputs(path)


def _plot(path: str, board, simulation) -> None:
    from tinytrain.base.files import write_bytes
    from tinytrain.firmware_sim.boards.plot import plot
    from tinytrain.firmware_sim.boards.timeline import timeline

    if simulation.device is None:
        say(f"{path} was not written: nothing ran")
        return
    title = f"{simulation.facts['backbone']} on {board.processor.title}"
    write_bytes(path, plot(timeline(simulation.device.programs), title, board.memory.arena_bytes).encode())


def _list(arguments) -> None:
    from tinytrain.firmware_sim.boards.board import load_boards
    from tinytrain.firmware_sim.boards.simulate import describe
    from tinytrain.firmware_sim.boards.text import render_boards

    rows = [
        {"name": name, **describe(b), "arena": b.memory.arena_bytes, "storage": b.flash.storage_bytes}
        for name, b in load_boards().items()
    ]
    print_result({"boards": rows}, render_boards(rows), arguments.json)
