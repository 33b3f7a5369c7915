"""``tinytrain kit``: a folder that installs on a board without a network."""

from pathlib import Path

from tinytrain.base.errors import UsageError
from tinytrain.base.units import format_bytes
from tinytrain.cli.commands.common import add_json, print_result, say

DESCRIPTION = (
    "Make a folder on a PC that installs on a board without a network and compiles nothing there: wheels for "
    "the board, compiled kernels, networks, units of systemd, and install.sh, which says what it does before "
    "it does it. It is for boards with the version of Python that runs this command: 3.11, 3.12 or 3.13. "
    "pip downloads the wheels."
)
EXAMPLES = """\
  tinytrain kit --board raspberry-pi-zero-2w -o kit/
  tinytrain kit --board raspberry-pi-5 --backbone mcunet-5fps -o kit/
"""


def add_arguments(parser) -> None:
    parser.add_argument(
        "--board",
        metavar="NAME",
        required=True,
        help="board to install on; 'tinytrain simulate --boards' lists them",
    )
    parser.add_argument("-o", "--out", metavar="DIR", required=True, help="new folder for the kit")
    parser.add_argument(
        "--backbone", metavar="NET", action="append", default=[],
        help="also bring this network, a name or a file; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--wheel",
        metavar="FILE",
        help="wheel of this project; default: built from where it was installed from",
    )
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.firmware_sim.boards.board import find_board
    from tinytrain.kernels.dispatch.target import PROCESSORS
    from tinytrain.kit.folder import Device, make_kit, names

    board = find_board(arguments.board)
    device = Device(board.processor.title, board.processor.core.lower(), board.memory.ram_bytes.value)
    if device.processor not in PROCESSORS:
        boards = ", ".join(name for name in PROCESSORS if name.startswith("cortex"))
        raise UsageError("unsupported", f"no kit for a {board.processor.core}; there are kits for {boards}")
    say("fetching wheels and compiling kernels, which takes a minute or two")
    wheel = Path(arguments.wheel) if arguments.wheel else None
    facts = make_kit(Path(arguments.out), device, arguments.backbone, wheel)
    rows = [row for row in facts["files"] if not row["file"].startswith("kernels/")]
    lines = [f"{row['sha256'][:16]}  {format_bytes(row['bytes']):>8}  {row['file']}" for row in rows]
    nbytes = sum(row["bytes"] for row in facts["files"])
    kernels = len(names(facts["files"], "kernels"))
    size, unpacked = format_bytes(nbytes), format_bytes(facts["unpacked"])
    lines += [
        f"{kernels} files of kernels for {device.processor}; {size} in all, unpacked {unpacked}",
        f"copy {arguments.out} to a board with Python {facts['python']}, and type there: sudo sh install.sh",
    ]
    print_result(facts, "\n".join(lines), arguments.json)
