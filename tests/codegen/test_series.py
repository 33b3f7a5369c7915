"""``tinytrain forecast --emit``: C that learns a series on the device, with the bits of float32 in Python."""

import ctypes
import json
import re
import subprocess

import emitted
import numpy as np
import pytest
from cases import quick
from commandline import tt
from emitted import need
from waves import mackey_glass

from tinytrain.codegen.series import LEAST, emit_series
from tinytrain.codegen.text import number
from tinytrain.episode.motion_features import Reservoir, states
from tinytrain.firmware_sim.emulated.count import BOARDS

F = np.float32
SMALL = Reservoir(neurons=12, seed=3, scale=0.4, leak=0.3, washout=7)
AHEAD, ROWS = 3, 160
RNG = np.random.default_rng(0)
TIMES = np.arange(400)[:, None]
SERIES = 5 + 2 * np.sin(TIMES / [5, 9, 14]) + RNG.normal(0, 0.1, (400, 3))
SINGULAR, FEW, NOT_FINITE, NOT_READY = -4, -3, -2, -1

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")


class Library:
    """An emitted folder in this process."""

    def __init__(self, folder):
        self.c = emitted.shared(emitted.library_of(folder), folder / "library.so")
        self.c.tt_series_start()

    def add(self, row) -> int:
        return self.c.tt_series_add(np.asarray(row, F).ctypes.data_as(ctypes.c_void_p))

    def next(self, columns: int) -> np.ndarray | int:
        row = np.empty(columns, F)
        return self.c.tt_series_next(row.ctypes.data_as(ctypes.c_void_p)) or row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    emit_series(folder, SERIES, 1, AHEAD, 1e-4, SMALL)
    return folder


def in_order(start, terms):
    """`start` and all terms of each row added one after another."""
    return np.add.accumulate(np.concatenate([start[:, None], terms], axis=1), axis=1)[:, -1]


def in_float32(series):
    """What is foretold after each of the rows behind the first `ROWS`, which are learnt; all in float32."""
    mean, deviation = SERIES.mean(axis=0).astype(F), SERIES.std(axis=0).astype(F)
    scaled = (series.astype(F) - mean) / deviation
    x = np.concatenate([states(scaled, SMALL), scaled], axis=1)
    size, columns = x.shape[1], scaled.shape[1]
    xx, xy = np.zeros((size, size), F), np.zeros((columns, size), F)
    mean_x, mean_y = np.zeros(size, F), np.zeros(columns, F)
    for count, t in enumerate(range(SMALL.washout, ROWS - AHEAD), 1):
        away, later = x[t] - mean_x, scaled[t + AHEAD] - mean_y
        factor = F(count - 1) / F(count) * away
        xx += factor[:, None] * away
        xy += factor * later[:, None]
        mean_x += away / F(count)
        mean_y += later / F(count)
    factor = xx + F(1e-2) * np.eye(size, dtype=F)
    for i in range(size):  # Cholesky, row by row
        for j in range(i + 1):
            (rest,) = in_order(factor[i : i + 1, j], -(factor[i, :j] * factor[j, :j])[None])
            factor[i, j] = np.sqrt(rest) if i == j else rest / factor[j, j]
    for i in range(size):
        xy[:, i] = in_order(xy[:, i], -(xy[:, :i] * factor[i, :i])) / factor[i, i]
    for i in reversed(range(size)):
        xy[:, i] /= factor[i, i]
        xy[:, :i] -= xy[:, i : i + 1].astype(float) * factor[i, :i]  # fused: in float64 it is rounded once
    return [in_order(mean_y, xy * (row - mean_x)) * deviation + mean for row in x[ROWS:]]


def test_rows_are_learnt_and_foretold_with_the_bits_of_float32(folder):
    library, want = Library(folder), in_float32(SERIES)
    assert all(library.add(row) == 0 for row in SERIES[:ROWS])
    assert library.next(3) == NOT_READY and library.c.tt_series_learn() == 0
    for row, foretold in zip(SERIES[ROWS:], want, strict=True):
        assert library.add(row) == 0
        assert library.next(3).tobytes() == foretold.tobytes()
    off, still = (
        np.array(want[:-AHEAD]) - SERIES[ROWS + AHEAD :],
        SERIES[ROWS:-AHEAD] - SERIES[ROWS + AHEAD :],
    )
    assert np.square(off).mean() < 0.5 * np.square(still).mean()


def test_a_column_that_stood_still_may_change(tmp_path):
    series = SERIES.copy()
    series[:, 2] = 12.6
    assert series[:, 2].std() > 0
    emit_series(tmp_path, series, 1, AHEAD, 1e-4, SMALL)
    library = Library(tmp_path)
    for row in series:
        library.add(row)
    assert library.c.tt_series_learn() == 0
    for row in SERIES[:5]:
        library.add([*row[:2], 12.7])
    assert np.all(np.abs(library.next(3) - series.mean(axis=0)) < 3)


def test_rows_that_are_few_or_no_numbers_and_sums_without_a_factor_are_reported(folder, tmp_path):
    library = Library(folder)
    for k in range(SMALL.washout + AHEAD + LEAST):
        assert library.c.tt_series_learn() == FEW
        assert library.add([np.nan, 1, 1]) == NOT_FINITE == library.add([1, 1, -np.inf])
        assert library.add(SERIES[k]) == 0
    assert library.c.tt_series_learn() == 0 == library.c.tt_series_learn()
    library.c.tt_series_start()
    for k in range(ROWS):
        assert library.add(SERIES[k] * 3e37) == 0
    assert library.c.tt_series_learn() == SINGULAR, "sums that overflow"
    assert library.next(3) == NOT_READY and library.c.tt_series_learn() == FEW
    emit_series(tmp_path, SERIES, 0, AHEAD, 1.0, SMALL)
    plan = tmp_path / "src" / "plan.h"
    plan.write_text(plan.read_text().replace("TT_RIDGE 1.0f", "TT_RIDGE 0.0f"))
    library = Library(tmp_path)
    for _ in range(ROWS):
        library.add([5, 5, 5])
    assert library.c.tt_series_learn() == SINGULAR, "columns that stand still"
    for row in SERIES[:ROWS]:
        library.add(row)
    assert library.c.tt_series_learn() == 0 and np.isfinite(library.next(3)).all()


def said_on(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mackey(tmp_path_factory):
    """The folder that the command writes for Mackey-Glass, and what its example says on this computer."""
    root = tmp_path_factory.mktemp("mackey")
    np.savetxt(root / "mg.csv", mackey_glass(2500))
    assert tt("forecast", root / "mg.csv", "--emit", root / "c") == 0
    program = emitted.build(emitted.compilers()[-1], "-O2", *emitted.demo_of(root / "c"), out=root / "demo")
    return root, said_on([str(program)])


def test_mackey_glass_is_foretold_in_float32(mackey, capsys):
    root, said = mackey
    assert tt("forecast", root / "mg.csv", "--emit", root / "again", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    off = float(re.search(r"error ([\d.]+) of", said)[1]) ** 0.5 * found["naive"] / found["deviation"]
    assert 0 < off < 0.015 and found["ram"] <= 22_600
    files = [
        {str(p.relative_to(root / name)): p.read_bytes() for p in (root / name).rglob("*") if p.is_file()}
        for name in ("c", "again")
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("board", quick(BOARDS))
def test_a_board_foretells_the_same_bits_by_a_hundred_neurons_in_22_6_kb(board, mackey):
    need(board)
    root, said = mackey
    done = emitted.make(root / "c", board, "run", RAM_KB=27)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout and int(re.search(r"data: +(\d+)", done.stdout)[1]) <= 22_600


def test_sums_of_a_hundred_numbers_with_five_outputs_take_the_bytes_of_their_triangle(tmp_path):
    """The C asserts that they have this size."""
    series = np.tile(SERIES, 2)[:, :5]
    emit_series(tmp_path, series, 0, 1, 1.0, SMALL._replace(neurons=95))
    assert "TT_SUMS_BYTES 22624u" in (tmp_path / "src" / "plan.h").read_text()
    assert Library(tmp_path).add(series[0]) == 0


def test_the_example_of_a_long_series_has_its_end(tmp_path):
    values = np.tile(SERIES, (12, 1))
    emit_series(tmp_path, values, 0, AHEAD, 1.0, SMALL)
    text = (tmp_path / "examples" / "demo" / "examples.c").read_text()
    assert "tt_example_rows = 4000u" in text and text.count("    {") == 4000
    assert f"{{{number(F(values[-1, 0]))}, " in text.rstrip().splitlines()[-2]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path, capsys):
    np.savetxt(tmp_path / "s.csv", SERIES)
    for name in (tmp_path / "s.csv", ""):
        assert tt("forecast", tmp_path / "s.csv", "--emit", name) == 2
        assert "is no folder; name another" in capsys.readouterr().err
