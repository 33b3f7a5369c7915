"""Boards: every figure has a source, and what is wrong in a row is named."""

import copy

import pytest
import yaml
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.firmware_sim.boards.board import FILE, Figure, find_board, load_boards, parse_board

ROWS = yaml.safe_load(FILE.read_text())
WANTED = (
    "raspberry-pi-zero-2w", "raspberry-pi-4", "raspberry-pi-5", "jetson-nano", "stm32f746", "stm32h743",
    "rp2040", "esp32-s3", "coral-dev-board-micro", "nrf5340", "rp2350", "stm32u585", "stm32n657", "esp32-p4",
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


# ---- a board of one's own -------------------------------------------------------------------------


def own(tmp_path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_is_a_board_that_takes_from_another_what_it_does_not_say(tmp_path):
    path = own(tmp_path, "mine: {like: rp2350, clock_mhz: {value: 200, source: my clock}}")
    mine, like = find_board(path), find_board("rp2350")
    assert mine.processor.clock_mhz == Figure(200.0, "my clock")
    assert mine.figures() == {**like.figures(), "clock_mhz": mine.processor.clock_mhz}


def test_a_whole_row_is_a_board(tmp_path):
    path = own(tmp_path, yaml.safe_dump({"mine": ROWS["rp2040"]}))
    assert find_board(path) == find_board("rp2040")


@each(
    ("text", "said"),
    [
        ("mine: {like: rp2530}", "mine: like is 'rp2530'; allowed: one of"),
        ("mine: {like: [rp2350]}", "like is ['rp2350']"),
        ("mine: {title: x}", "missing"),
        ("mine: {like: rp2350, clock_mhz: 200}", "a table with value, source"),
        ("a: {like: rp2350}\nb: {like: rp2350}", "holds 2 boards; keep one"),
        (
            "mine: {like: rp2350, measured: {float32: {value: 0, source: line}}}",
            "measured.float32.value is 0",
        ),
        ("mine: {like: rp2350, measured: 1}", "measured is 1"),
        ("mine: {like: rp2350, measured: {int4: {value: 1, source: x}}}", "one of float32, int8"),
    ],
)
def test_a_file_that_is_no_board_is_refused_in_one_line(tmp_path, text, said):
    with pytest.raises(InputError) as refused:
        find_board(own(tmp_path, text))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_an_unknown_board_gets_the_closest_name():
    with pytest.raises(UsageError, match="did you mean stm32h743"):
        find_board("stm32h734")
