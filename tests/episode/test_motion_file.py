"""Files of recordings: every usual form gives the same numbers, and what is none is refused in one line."""

import contextlib
import io
import struct
import tracemalloc

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.episode.kinds import kind_of_file
from tinytrain.episode.motion_file import MOST_AXES, MOST_ROWS, MOST_TEXT, looks_like, recording

ROWS = np.round(np.random.default_rng(3).normal(0, 1, (40, 3)), 4)
TIMES = np.arange(40) * 0.02


def text(rows=ROWS, sep=",", head="", decimal=".", end="\n", times=None):
    table = rows if times is None else np.column_stack([times, rows])
    lines = [sep.join(f"{x:.9g}".replace(".", decimal) for x in row) for row in table]
    return (head + end.join(lines) + end).encode()


def npy(array, **how):
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def forged(header: str, body=b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


@each(
    "content",
    [
        text(),
        text(head="x_g,y_g,z_g\n"),
        text(head="\ufeffx;y;z\n", sep=";"),
        text(head="# made by a logger\n\nx\ty\tz\nm/s²\tm/s²\tm/s²\n", sep="\t"),
        text(sep=";", decimal=","),
        text(sep=" ", decimal=","),
        text(sep=" "),
        text(sep=", ", end="\r\n"),
        text(head='"x","y","z"\n'),
        b"\xff\xfe" + text().decode().encode("utf-16-le"),
        text(end=",\n"),
        text(end="\r"),
        text(head="Device,A 7\nRate: 50 Hz\nRows,40\nx,y,z\n"),
        text(head="x;y;z\n0;0;0\n", sep=";", decimal=",").replace(b"0;0;0\n", b""),
        text(head="sample,x,y,z\n", times=np.arange(40) * 3),
        text(times=np.arange(1, 41)),
        npy(ROWS),
        npy(np.asfortranarray(ROWS)),
        npy(ROWS.astype(">f8")),
    ],
)
def test_every_usual_form_of_a_file_gives_the_same_numbers(content):
    found = recording(content)
    np.testing.assert_allclose(found.values, ROWS, atol=1e-12)
    assert found.rate is None


@each(
    "content",
    [
        text(head="time,x,y,z\n", times=TIMES),
        text(head="Time (s);x;y;z\n", times=TIMES, sep=";"),
        text(head="timestamp_ms,x,y,z\n", times=TIMES * 1e3 + 5e9),
        text(head="seconds_elapsed,x,y,z\n", times=TIMES),
        text(head="t,x,y,z\nus,g,g,g\n", times=TIMES * 1e6),
        text(head="t [µs],x,y,z\n", times=TIMES * 1e6),
        text(head="t [µs],x,y,z\n", times=TIMES * 1e6).decode().encode("latin-1"),
        text(head=",x,y,z\n", times=TIMES),
        text(times=TIMES),
        text(times=TIMES * 1e3),
        b"".join(b"2026-01-02T03:04:05.%03dZ,%s" % (20 * k, text(ROWS[k : k + 1])) for k in range(40)),
        npy(np.column_stack([TIMES, ROWS])),
    ],
)
def test_a_column_of_times_is_found_by_its_name_or_because_it_only_grows(content):
    found = recording(content)
    np.testing.assert_allclose(found.values, ROWS, atol=1e-5)
    assert found.rate == pytest.approx(50, rel=1e-6)


@each("name", ["t [s]", "sec", "second", "seconds", "time in seconds", "t_secs", "seconds_elapsed"])
def test_a_unit_that_is_named_counts_however_long_its_steps_are(name):
    found = recording(text(head=f"{name},x,y,z\n", times=range(40)))
    assert found.rate == pytest.approx(1)


def test_uneven_times_and_holes_become_even_values_of_the_rate_that_is_asked_for():
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 4, 400))
    wave = lambda t: np.stack([np.sin(3 * t), np.cos(2 * t)], axis=1)  # noqa: E731
    values = wave(times)
    values[50:53, 0] = np.nan
    found = recording(text(values, head="time,x,y\n", times=times), rate=25)
    even = wave(times[0] + np.arange(len(found.values)) / 25)
    assert found.rate == 25 and abs(len(found.values) - 100) < 3
    assert np.abs(found.values - even).max() < 0.02


def test_rows_between_the_ticks_of_a_coarse_clock_are_evenly_spaced():
    ticks = np.repeat(np.arange(10) * 40.0, 4)
    found = recording(text(head="ms,x,y,z\n", times=ticks), rate=100)
    np.testing.assert_allclose(found.values, ROWS, atol=1e-9)


def with_cell(row, cell):
    lines = text(head="x,y,z\n").decode().splitlines()
    lines[row] = f"{cell},1,2"
    return "\n".join(lines).encode()


HOLES = np.where(np.arange(40)[:, None] % 3, ROWS, np.nan)


@each(
    ("content", "said"),
    [
        (text(ROWS[:15]), "has 15 rows; a recording has 16 to"),
        (b"x,y,z\n", "has no rows of numbers"),
        (b"\0" * 300, "has no rows of numbers"),
        (b"\n" * 30, "has no rows of numbers"),
        (with_cell(7, "walk"), "has 'walk' in line 8, which is no number"),
        (with_cell(7, "1,1"), "has 4 values in line 8, and 3 before it"),
        (with_cell(7, "1e300"), "has the value 1e+300"),
        (text(HOLES), "lacks 35% of the values of a column"),
        (text(head="time,x,y,z\n", times=TIMES[::-1]), "has a time in line 3 that is missing or before"),
        (text(head="time,x,y,z\n", times=np.r_[TIMES[:20], TIMES[20:] + 9]), "has gaps of"),
        (text(np.zeros((20, MOST_AXES + 1))), f"has {MOST_AXES + 1} columns of motion"),
        (b"words\n" * 50, "has text, not numbers, in its first 16 lines"),
        (b"1,2\n" * (MOST_TEXT // 4 + 1), "image-too-large: has more than"),
        (b"\n" * (2 * MOST_ROWS + 1), f"lines; a recording has at most {MOST_ROWS} rows"),
        (b"1,2\n" + b"," * 5000, "has more than 4096 letters in line 2"),
        (npy(np.zeros((MOST_ROWS + 1, 1), np.int8)), "rows; a recording has"),
        (npy(ROWS)[:-1], "is no whole array of numbers"),
        (npy(np.array([{}] * 20), allow_pickle=True), "is no whole array of numbers"),
        (npy(ROWS[None]), "is no whole array of numbers"),
        (forged("{'descr':'<f8','fortran_order':False,'shape':(10**12,3)}"), "is no whole array"),
        (forged("{'descr':'<f8','fortran_order':False,'shape':(1000000000000,3)}"), "is no whole array"),
        (forged("[" * 3000), "is no whole array"),
        (b"\x93NUMPY", "is no whole array"),
    ],
)
def test_what_is_no_recording_is_refused_for_what_is_wrong_with_it(content, said):
    with pytest.raises(InputError) as caught:
        recording(content)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_mutants_of_files_are_read_or_refused_in_one_line_and_never_give_nan():
    rng = np.random.default_rng(11)
    seeds = [text(head="time,x,y,z\n", times=TIMES), text(sep=";", decimal=","), npy(ROWS), text()]
    refused = 0
    for number in range(600):
        content = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.integers(1, 3)):
            at, kind = int(rng.integers(len(content))), rng.integers(4)
            if kind == 0:
                content[at] = rng.integers(256)
            elif kind == 1:
                del content[at : at + int(rng.integers(4))]
            elif kind == 2:
                content[at:at] = content[: int(rng.integers(6))]
            else:
                content[at:at] = [b"nan", b"1e999", b"-,", b"\t", b"9" * 30, b"inf", b"\xff"][rng.integers(7)]
            content = content or bytearray(b"1")
        try:
            found = recording(bytes(content), rate=[0, 30][number % 2])
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert np.isfinite(found.values).all() and found.values.ndim == 2
    assert 100 < refused < 550


def test_lists_of_images_are_no_recordings_and_broken_recordings_are_named_as_such(tmp_path):
    assert looks_like(with_cell(3, "walk")) and looks_like(text()) and looks_like(npy(ROWS))
    for content in (b"file,label\na.jpg,cat\nb.jpg,dog\n", b"a.jpg,1,2,3,4\n", b"name\nanna\n"):
        (tmp_path / "labels.csv").write_bytes(content)
        assert not looks_like(content) and kind_of_file(tmp_path / "labels.csv") is None


@pytest.mark.slow
def test_no_file_takes_more_than_twenty_times_the_largest_text():
    widest = b"1234567,".join([b""] * MOST_AXES) + b"1\n"
    for content in (widest * (MOST_TEXT // len(widest)), npy(np.zeros((2**20, 60), np.int8)), b"," * 2**22):
        tracemalloc.start()
        with contextlib.suppress(InputError):
            recording(content)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * MOST_TEXT, (len(content), peak)


def test_a_column_that_only_grows_is_no_time_if_the_header_calls_it_otherwise():
    found = recording(text(head="litres,x,y,z\n", times=TIMES))
    assert found.rate is None and found.names == ("litres", "x", "y", "z")


def test_whole_numbers_in_the_first_row_leave_commas_decimal():
    content = b"x;y\n1;2\n" + text(ROWS[:, :2], sep=";", decimal=",")
    np.testing.assert_allclose(recording(content).values[1:], ROWS[:, :2])
