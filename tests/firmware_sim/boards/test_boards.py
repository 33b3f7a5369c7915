"""Boards: every figure has a source, and what is wrong in a row is named."""

import copy

import pytest
import yaml
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.firmware_sim.boards.board import FILE, find_board, load_boards, parse_board

ROWS = yaml.safe_load(FILE.read_text())
WANTED = (
    "raspberry-pi-zero-2w", "raspberry-pi-4", "raspberry-pi-5", "jetson-nano", "stm32f746", "stm32h743",
    "rp2040", "esp32-s3", "coral-dev-board-micro",
)  # fmt: skip


def test_the_promised_boards_are_there():
    assert set(WANTED) <= set(load_boards())


@each("name", WANTED)
def test_sizes_and_clocks_come_from_documents(name):
    figures = load_boards()[name].figures()
    assert all(len(f.source) > 12 for f in figures.values())
    assert not any(figures[key].is_assumed for key in ("cores", "clock_mhz", "ram_bytes"))


def test_memory_that_the_program_takes_is_no_arena():
    board = find_board("stm32f746")
    assert board.memory.arena_bytes == 320 * 1024 - 16 * 1024
    assert board.flash.storage_bytes == 1024 * 1024 - 128 * 1024


def _without(row, key):
    del row[key]


CHANGES = {
    "missing key": (lambda row: _without(row, "watts"), "watts is 'missing'"),
    "missing source": (lambda row: _without(row["watts"], "source"), "watts.source is 'missing'"),
    "empty source": (lambda row: row["watts"].update(source=""), "watts.source is ''"),
    "misspelt key": (lambda row: row.update(wats=1), "did you mean watts?"),
    "bare number": (lambda row: row.update(cores=1), "cores is 1; allowed: a table with value, source"),
    "no number": (lambda row: row["cores"].update(value="two"), "cores.value is 'two'"),
    "negative": (lambda row: row["ram_bytes"].update(value=-1), "ram_bytes.value is -1"),
    "half a byte": (lambda row: row["ram_bytes"].update(value=0.5), "ram_bytes.value is 0.5"),
    "not a number": (lambda row: row["watts"].update(value=float("nan")), "watts.value is nan"),
    "other kind": (lambda row: row.update(kind="toaster"), "kind is 'toaster'"),
    "no flash left": (
        lambda row: row["flash_reserved_bytes"].update(value=1048576),
        "less than the 1048576 of flash_bytes",
    ),
    "no RAM left": (lambda row: row["ram_reserved_bytes"].update(value=327680), "less than the 327680"),
}


@each("change", CHANGES)
def test_what_is_wrong_in_a_row_is_named(change):
    row = copy.deepcopy(ROWS["stm32f746"])
    apply, said = CHANGES[change]
    apply(row)
    with pytest.raises(InputError) as refused:
        parse_board(row, "mine: stm32f746")
    assert said in str(refused.value) and "mine: stm32f746" in str(refused.value)


@each(
    ("content", "said"),
    [
        ("a: [", "is not YAML"),
        ("[]", "holds 0 boards"),
        ("a: 1", "a: the board is 1"),
        ("\xff", "is not YAML"),
    ],
)
def test_a_file_that_is_no_table_of_boards_is_refused(tmp_path, content, said):
    path = tmp_path / "boards.yaml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=said):
        load_boards(path)


def test_a_board_named_twice_is_refused(tmp_path):
    path = tmp_path / "boards.yaml"
    path.write_text(FILE.read_text() + "\nrp2040: {}\n")
    with pytest.raises(InputError, match="rp2040 occurs twice"):
        load_boards(path)


def test_an_unknown_board_gets_the_closest_name():
    with pytest.raises(UsageError, match="did you mean stm32h743"):
        find_board("stm32h734")
