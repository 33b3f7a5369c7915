"""Rows of numbers in a stream: windows against files of the same rows, a growing file, a pipe, a terminal."""

import os
import termios
from itertools import islice, takewhile

import numpy as np
import pytest

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.events import Note
from tinytrain.episode.motion import Motion, motion_spec
from tinytrain.episode.motion_file import recording
from tinytrain.stream import arriving
from tinytrain.stream.arriving import blocks
from tinytrain.stream.rows import arriving as opened
from tinytrain.stream.rows import frames
from tinytrain.stream.sources import Frame

SPEC = motion_spec(3, 50.0)
VALUES = np.round(np.random.default_rng(0).normal(size=(600, 3)), 4)


def lines_of(values=VALUES, first=(), header=(), sign=","):
    rows = [[*(f"{at}" for at in first[k : k + 1]), *map(str, row)] for k, row in enumerate(values.tolist())]
    return [*header, *(sign.join(row) for row in rows)]


TIMES = [f"{k * 0.02:.2f}" for k in range(len(VALUES))]
TIMED = lines_of(first=TIMES, header=["time_s,x,y,z"])


def cut(lines, spec=SPEC, **how):
    """The windows of a stream, and what is said of it."""
    stream = (
        lines if isinstance(lines, list) and lines and isinstance(lines[0], bytes | Note | None) else None
    )
    found = [*frames(stream or [("\n".join(lines) + "\n").encode()], spec, **how)]
    said = [one.words() for one in found if isinstance(one, Note)]
    return [one for one in found if isinstance(one, Frame)], said


def values_in(frame, rate=0):
    return recording(frame.content, rate).values


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_windows_hold_the_rows_of_their_time_however_a_pipe_cuts_their_bytes(size):
    content = "\r\n".join(TIMED).encode()
    found, said = cut([b"", *(content[at : at + size] for at in range(0, len(content), size))])
    assert [frame.name for frame in found] == [f"{end}.00 s" for end in (4, 6, 8, 10, 12)] and not said
    for frame, start in zip(found, range(0, 600, 100), strict=False):
        assert np.allclose(values_in(frame), VALUES[start : start + 200], atol=1e-9)
        assert Motion().decode(frame.content, SPEC).shape == SPEC.shape


FORMS = {
    "without a header": lines_of(first=TIMES),
    "without times": lines_of(header=["x;y;z"], sign=";"),
    "numbers alone": lines_of(sign=" "),
    "rows that are counted": lines_of(first=range(7, 700)),
    "milliseconds": lines_of(first=range(0, 99_999, 20), sign="\t"),
    "decimal commas": [line.replace(",", ";").replace(".", ",") for line in TIMED],
    "dates": lines_of(first=[f"2026-01-02T03:04:{float(t):09.6f}" for t in TIMES]),
    "quotes and a last comma": [f'"{line}",'.replace(",", '","') for line in TIMED],
    "a last comma alone": [f"{line}," for line in lines_of()],
    "a cut beginning, comments and blanks": ["5,0.25", "# made by", "", "1.5,2.5,3", *TIMED],
}


@pytest.mark.parametrize("lines", FORMS.values(), ids=FORMS)
def test_rows_of_every_form_are_the_same_windows(lines):
    found, said = cut(lines)
    assert [frame.name for frame in found] == [f"{end}.00 s" for end in (4, 6, 8, 10, 12)] and not said
    for frame, start in zip(found, range(0, 600, 100), strict=False):
        assert np.allclose(values_in(frame), VALUES[start : start + 200], atol=1e-5)


BROKEN = ["1,2", "1,2,3,4,5", "0.5,oops,1,2", "0.5,,1,2", "0.5,1,nan,2", "9" * 5000, "0.5,\x00\xff,1,2"]


@pytest.mark.parametrize("first", [TIMES, range(600)], ids=["times", "counted"])
def test_broken_rows_are_skipped_and_said_once_for_each_reason(first):
    clean = lines_of(first=first)
    dirty = [*clean[:90], *BROKEN, *clean[90:300], *BROKEN, *clean[300:301], *clean[303:]]
    found, said = cut(dirty)
    reasons = "not have 4 values", "text among", "lacks a value", "more than 4096 letters"
    assert [sum(reason in one for one in said) for reason in reasons] == [1, 1, 1, 1] and len(said) == 4
    assert len(found) == 4 and np.allclose(values_in(found[0]), VALUES[:200])
    assert all(len(values_in(frame, 50.0)) >= 200 for frame in found)


@pytest.mark.parametrize("again", [TIMED, TIMED[1:]], ids=["header", "times"])
def test_no_window_holds_rows_from_before_and_after_a_new_beginning(again):
    found, said = cut([*TIMED[:551], *again[:330], *again])
    assert len(said) == (again is not TIMED)
    assert not said or "a window is skipped, as it has a time in line" in said[0]
    assert len(found) == (11 if again is TIMED else 9)
    for frame in found:
        values = values_in(frame)
        (start,) = np.flatnonzero((np.abs(VALUES - values[0]) < 1e-9).all(axis=1))
        assert np.allclose(values, VALUES[start : start + 200])


def test_a_window_has_its_seconds_at_the_rate_of_the_rows_or_else_of_the_network():
    fast = lines_of(first=[f"{k / 100:.2f}" for k in range(600)], header=["t,x,y,z"])
    slow = lines_of(first=[f"{k}" for k in range(600)], header=["seconds,x,y,z"])
    plain = lines_of()
    for lines, rate, how, rows, count in (
        (fast, 50.0, {}, 400, 2),
        (fast, 50.0, {"seconds": 2.0, "every": 0.5}, 200, 9),
        (slow, 0.0, {}, 64, 17),
        (slow, 1.0, {"seconds": 100.0, "every": 500.0}, 100, 2),
        (plain, 0.0, {}, 256, 3),
        (plain, 100.0, {"every": 6.0}, 400, 1),
        (plain, 50.0, {"seconds": 1.0}, 50, 22),
    ):
        found, said = cut(lines, motion_spec(3, rate), **how)
        text = [frame.content.decode().strip().split("\n") for frame in found]
        assert {len(lines) - (lines[0][-1] in "xz") for lines in text} == {rows} and not said
        assert len(found) == count, (rate, how)


def test_rows_that_are_none_for_the_network_or_the_seconds_end_the_stream_with_the_number():
    for lines in (lines_of(VALUES[:, :2]), lines_of(VALUES[:, :2], first=TIMES)):
        with pytest.raises(InputError, match=r"the rows have 2 columns of motion; the network is for 3"):
            cut(lines)
    for seconds, what in ((0.2, "10 rows at 50"), (1e6, "5e.07 rows at 50")):
        with pytest.raises(UsageError, match=rf"--seconds .* are {what} a second; a window has 16 to 262144"):
            cut(TIMED, seconds=seconds)


def test_a_stream_without_a_window_says_so_and_noise_is_taken_for_the_speed_of_a_device():
    assert cut(TIMED[:150]) == (
        [],
        ["the rows have ended before a window of them; --seconds says how long one is"],
    )
    noise = np.random.default_rng(1).integers(0, 256, 20_000, np.uint8)
    assert isinstance(next(frames(iter([b"1" * 5000, b"1"]), SPEC)), Note), "before a line has ended"
    for stream in ([noise.tobytes()], [noise[noise != 10].tobytes()]):
        _, said = cut(stream)
        assert "which stty sets" in said[0] or "more than 4096 letters" in said[0]
        found, _ = cut([*stream, b"\n", *(line.encode() + b"\n" for line in TIMED)])
        assert len(found) == 5, "rows that come after it are found"


def test_rows_of_another_form_that_go_on_are_the_rows():
    found, said = cut([*(f"{k},{k}" for k in range(20)), *lines_of(first=TIMES)])
    assert len(said) == 1 and "does not have 2 values" in said[0]
    assert len(found) == 4 and np.allclose(values_in(found[0])[0], VALUES[17])
    found, _ = cut([*lines_of(VALUES[:100]), *lines_of(first=TIMES)])  # two seconds of other rows
    assert [frame.name for frame in found] == ["6.00 s", "8.00 s", "10.00 s", "12.00 s"]


def test_a_pipe_is_read_until_it_ends():
    reading, writing = os.pipe()
    os.write(writing, "\n".join(TIMED[:300]).encode())
    os.close(writing)
    found, _ = cut([*blocks(reading)])
    os.close(reading)
    assert [frame.name for frame in found] == ["4.00 s"]


def test_a_file_is_followed_as_it_grows_and_as_another_one_takes_its_name(tmp_path):
    log, path = "\n".join(TIMED).encode(), tmp_path / "log.csv"
    path.write_bytes(log[:5000])
    grown, waits = len(log) // 2, []

    def wait(seconds):
        """What happens while nothing is new."""
        waits.append(seconds)
        if len(waits) == 1:
            with path.open("ab") as file:
                file.write(log[5000:grown])
        elif len(waits) == 2:
            path.write_bytes(log[:3000])  # shorter than what was read
        elif len(waits) == 4:
            (tmp_path / "other.csv").write_bytes(log[:4000])
            path.rename(tmp_path / "old.csv")
            (tmp_path / "other.csv").rename(path)
        elif len(waits) == 6:
            path.unlink()
        elif len(waits) == 8:
            path.write_bytes(b"new")

    found, said = b"", []
    for one in opened(str(path), wait=wait):
        said += [one.words()] if isinstance(one, Note) else []
        found += one if isinstance(one, bytes) else b""
        if found.endswith(b"new"):
            break
    assert found == log[:grown] + log[:3000] + log[:4000] + b"new"
    again = [f"{path} gives no rows (another file has its name); it is tried again", f"{path} is back"]
    assert said == [
        *again,
        *again,
        f"{path} gives no rows (No such file or directory); it is tried again",
        f"{path} is back",
    ]
    assert b"".join(opened(str(tmp_path / "old.csv"), once=True)) == log[:3000]


def test_a_serial_device_that_is_unplugged_comes_back_with_its_speed(tmp_path, monkeypatch):
    device, ends = tmp_path / "tty", []

    def plug(*_):
        """Another terminal at the name of the device, with the speed that a new one has."""
        device.unlink(missing_ok=True)
        ends[:] = os.openpty()
        device.symlink_to(os.ttyname(ends[1]))

    def speed():
        return termios.tcgetattr(ends[1])[4]

    plug()
    usual, settings = speed(), termios.tcgetattr(ends[1])
    settings[4] = settings[5] = termios.B115200
    settings[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(ends[1], termios.TCSANOW, settings)
    assert usual != termios.B115200
    stream, seen = opened(str(device), wait=plug), []
    os.write(ends[0], b"first\n")
    seen += islice(stream, 1)
    os.close(ends[1])
    os.close(ends[0])
    seen += takewhile(lambda one: one is not None, stream)
    next(stream)  # which plugs it in
    assert speed() == termios.B115200
    os.write(ends[0], b"second\n")
    seen += [one for one in islice(stream, 4) if one is not None][:2]
    stream.close()
    for end in ends:
        os.close(end)
    said = [one.words() if isinstance(one, Note) else one for one in seen]
    assert said[0] == b"first\n" and said[2:] == [f"{device} is back", b"second\n"]
    assert said[1].startswith(f"{device} gives no rows (") and said[1].endswith("; it is tried again")


def test_a_serial_device_that_stalls_is_opened_again_and_what_came_before_is_no_part_of_a_window(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(arriving, "STALLED", 0.3)
    kept = tmp_path / "tty"
    os.mkfifo(kept)
    end = os.open(kept, os.O_RDWR)
    rows = lines_of()
    halves = [("\n".join(rows[:250]) + "\n0.1,0.2").encode(), ("\n".join(rows) + "\n").encode()]

    def wait(seconds):
        os.write(end, halves.pop(0))

    os.write(end, halves.pop(0))
    stream, found = frames(opened(str(kept), wait=wait), SPEC), []
    while len(found) < 8:
        one = next(stream)
        found += [] if one is None else [one.words() if isinstance(one, Note) else one.name]
    os.close(end)
    notes = [f"{kept} gives no rows (no rows for 0 seconds); it is tried again", f"{kept} is back"]
    assert found == ["4.00 s", *notes, *(f"{5 + end}.00 s" for end in (4, 6, 8, 10, 12))]
