"""A recording of motion, from the bytes of a CSV or ``.npy`` file, as rows of numbers at even times."""

import ast
import re
from datetime import datetime
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import InputError, one_line

NPY = b"\x93NUMPY"  # how an array begins
LEAST_ROWS, MOST_ROWS, MOST_AXES = 16, 2**18, 16
MOST_TEXT = 2**23  # bytes: cells of it take up to twenty times as much memory
MOST_LINE = 4096
MOST_HEADERS = 16  # lines without a number at the start
MOST_MISSING = 0.2  # of the values of an axis, and of the time
LARGEST = 1e12
COMMENTS = ("#", "%", "//")
MISSING = ("", "nan", "na", "n/a", "null", "none", "-", "?")
TIME = re.compile(r"(date|time|timestamp|t|sec|second|seconds|elapsed|ms|millis|micros|us|ns)(?![a-z])", re.I)
COUNT = re.compile(r"(index|idx|id|sample|row|no|nr|n|#)?\W*$", re.I)
UNIT = re.compile(r"(?<![a-zµμ])(?:(ns|nano)|(us|µs|μs|micro)|(ms|milli)|(s|secs?|seconds?)(?![a-z]))", re.I)
SECONDS = (1e-9, 1e-6, 1e-3, 1.0)  # that such a unit takes
PICTURE = re.compile(rb"\.(jpe?g|png|webp|gif|bmp|tiff?)\b", re.I)


class Recording(NamedTuple):
    """`values` (n, axes) float64 at even times, `rate` of them a second; None if the file has no times.

    `names` are those of the axes in the header, without one "".
    """

    values: np.ndarray
    rate: float | None
    names: tuple[str, ...]


def recording(content: bytes, rate: float = 0) -> Recording:
    """The recording in a file; if it has times, with `rate` values a second, 0 for as many as it has.

    Raises InputError without a subject.
    """
    times, values, names = _npy(content) if content.startswith(NPY) else _text(content)
    if not LEAST_ROWS <= len(values) <= MOST_ROWS:
        raise _unreadable(f"has {len(values)} rows; a recording has {LEAST_ROWS} to {MOST_ROWS}")
    if not 1 <= values.shape[1] <= MOST_AXES:
        raise _unreadable(f"has {values.shape[1]} columns of motion; a recording has 1 to {MOST_AXES}, "
                          "and a row for each moment")  # fmt: skip
    values = values.astype(np.float64)  # not before it is known to be small
    if times is None and not names[0]:
        times, even = _monotone(values)
        if times is not None:
            values, names = values[:, 1:], names[1:]
        times = None if even else times
    values = _filled(values)
    return Recording(values, None, names) if times is None else _even(times, Recording(values, rate, names))


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so may be a recording: an array, or text with mostly numbers in its rows.

    Lists of images with numbers beside them, as lie in folders of images, are none.
    """
    if head.startswith(NPY) or not head:
        return True
    try:
        rows, _ = _rows(head)
    except InputError:
        return False
    cells = [cell for _, row in rows[:LEAST_ROWS] for cell in row]
    return 2 * sum(_number(c) is not None for c in cells) >= len(cells) > 0 and not PICTURE.search(head)


def _npy(content: bytes) -> tuple[None, np.ndarray, tuple[str, ...]]:
    """The array of a ``.npy`` file, nothing of which is executed or believed to be larger than it is."""
    try:
        wide = content[6] > 1
        start = 12 if wide else 10
        end = start + int.from_bytes(content[8:start], "little")
        head = ast.literal_eval(content[start : min(end, start + 4096)].decode("latin-1").strip())
        dtype, shape = np.dtype(head["descr"]), tuple(head["shape"])
        counts = all(type(n) is int and 0 <= n <= len(content) for n in shape)
        if dtype.kind not in "fiu" or dtype.itemsize > 8 or not counts or len(shape) not in (1, 2):
            raise ValueError
        if len(content) - end != dtype.itemsize * int(np.prod(shape, dtype=object)):
            raise ValueError
        order = "F" if head["fortran_order"] else "C"
        array = np.frombuffer(content, dtype, offset=end).reshape(shape, order=order)
    except (ValueError, KeyError, TypeError, IndexError, SyntaxError, MemoryError, RecursionError):
        raise _unreadable("is no whole array of numbers with a row for each moment; save it again") from None
    array = array.reshape(len(array), -1) if array.size else np.zeros((0, 1))
    return None, array, ("",) * array.shape[1]


def _text(content: bytes) -> tuple[np.ndarray | None, np.ndarray, tuple[str, ...]]:
    """The times, if a header names them, and the other columns with their names."""
    if len(content) > MOST_TEXT:
        raise InputError("image-too-large", f"has more than {MOST_TEXT:,} bytes of text; make it shorter")
    rows, heads = _rows(content)
    if not rows:
        raise _unreadable("has no rows of numbers")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise _unreadable(f"has {len(cells)} values in line {line}, and {width} before it")
    heads = [[name.strip("# ") for name in line] for line in heads if len(line) == width] or [[""] * width]
    headers = [" ".join(column) for column in zip(*heads, strict=True)]
    stamped = [k for k, name in enumerate(headers) if TIME.match(name)]
    dated = _number(rows[0][1][0]) is None and rows[0][1][0].lower() not in MISSING
    stamped = stamped or ([0] if dated else [])
    columns = [[cells[k] for _, cells in rows] for k in range(width)]
    lines = [line for line, _ in rows]
    counted = [k for k, name in enumerate(headers) if name and COUNT.match(name)]
    kept = [k for k in range(width) if k not in stamped + counted and any(map(_present, columns[k]))]
    values = np.array([_numbers(columns[k], lines) for k in kept]).reshape(len(kept), -1).T
    names = tuple(heads[0][k] for k in kept)
    if not stamped:
        return None, values, names
    return _times(columns[stamped[0]], lines, headers[stamped[0]]), values, names


def _rows(content: bytes) -> tuple[list[tuple[int, list[str]]], list[list[str]]]:
    """Cells of all rows with their line numbers, and those of the lines without a number before them."""
    text = decoded(content).replace('"', "").replace("\r\n", "\n").replace("\r", "\n")
    if (count := text.count("\n")) > 2 * MOST_ROWS:
        raise _unreadable(f"has {count} lines; a recording has at most {MOST_ROWS} rows")
    lines = [(n, line.strip(" ")) for n, line in enumerate(text.split("\n"), 1)]
    if longest := next((n for n, line in lines if len(line) > MOST_LINE), 0):
        raise _unreadable(f"has more than {MOST_LINE} letters in line {longest}")
    lines = [(n, line) for n, line in lines if line.strip() and not line.startswith(COMMENTS)]
    names: list[list[str]] = []
    for start, (n, line) in enumerate(lines):
        split = Splitter(line)
        cells = split(line)
        numbers = sum(_number(cell) is not None for cell in cells)
        follows = lines[min(start + 1, len(lines) - 1)][1]
        if 2 * numbers >= len(cells) and numbers and len(split(follows)) == len(cells):
            return [(n, split(row)) for n, row in lines[start:]], names
        names.append(cells)
        if len(names) > MOST_HEADERS:
            raise _unreadable(
                f"has text, not numbers, in its first {MOST_HEADERS} lines; line {n} is the last"
            )
    return [], names


def decoded(content: bytes) -> str:
    """The text of a file or of a line in one of the usual codes."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:  # an older program, or bytes in the middle of a letter
        return content.decode("latin-1")


class Splitter:
    """Splits a line at the sign that it has between its cells. Where that is no comma, commas are decimal."""

    def __init__(self, line: str):
        self.sign = next((sign for sign in "\t;," if sign in line), None)
        if self.sign == "," and re.search(r"\d,\d+\s+-?\d+,\d", line):
            self.sign = None  # decimal commas between spaces

    def __call__(self, line: str) -> list[str]:
        cells = line.split(self.sign)
        return [cell.strip() if self.sign == "," else cell.strip().replace(",", ".") for cell in cells]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _present(cell: str) -> bool:
    return cell.lower() not in MISSING


def is_number(cell: str) -> bool | None:
    """Whether a cell of a row is a number; None if its value is missing."""
    return _number(cell) is not None if _present(cell) else None


def _numbers(cells: list[str], lines: list[int]) -> list[float]:
    found = [_number(cell) if _present(cell) else np.nan for cell in cells]
    for line, cell, value in zip(lines, cells, found, strict=True):
        if value is None:
            raise _unreadable(f"has {one_line(cell, 40)!r} in line {line}, which is no number")
    return found


def _times(cells: list[str], lines: list[int], name: str) -> np.ndarray:
    """Seconds, of numbers in the unit that the header says or their steps suggest, or of dates."""
    dated = _number(cells[0]) is None
    if dated:
        try:
            dates = [datetime.fromisoformat(cell.replace("Z", "+00:00")) for cell in cells]
            times = np.array([(date - dates[0]).total_seconds() for date in dates])
        except (ValueError, TypeError):  # one of them with a time zone, another without
            raise _unreadable(f"has times such as {one_line(cells[0], 40)!r}; give seconds") from None
    else:
        times = np.array(_numbers(cells, lines))
    steps = np.diff(times)
    bad = np.flatnonzero(~(steps >= 0))
    if len(bad) or not np.isfinite(times).all():
        line = lines[int(bad[0]) + 1] if len(bad) else lines[0]
        raise _unreadable(f"has a time in line {line} that is missing or before the last one")
    unit = UNIT.search(name)
    second = 1.0 if dated else SECONDS[unit.lastindex - 1] if unit else _unit(steps)
    return (times - times[0]) * second


def _unit(steps: np.ndarray) -> float:
    """The seconds of the unit that such steps of a clock are probably in: 1 Hz to 1 kHz, or more."""
    step = float(np.median(steps[steps > 0])) if steps.any() else 1.0
    return 1.0 if step < 1 else 1e-3 if step < 1e3 else 1e-6 if step < 1e6 else 1e-9


def _monotone(values: np.ndarray) -> tuple[np.ndarray | None, bool]:
    """The first column if it can only be a time or a number of the row, and whether it is the latter."""
    first = values[:, 0]
    if values.shape[1] < 2 or not (np.isfinite(first).all() and (np.diff(first) > 0).all()):
        return None, False
    steps = np.diff(first)
    return (first - first[0]) * _unit(steps), bool((steps == 1).all())


def _filled(values: np.ndarray) -> np.ndarray:
    """`values` with those that are missing from their neighbours."""
    here = np.isfinite(values)
    if (most := 1 - here.mean(axis=0).min()) > MOST_MISSING:
        raise _unreadable(
            f"lacks {most:.0%} of the values of a column; at most {MOST_MISSING:.0%} may be missing"
        )
    if (largest := np.abs(values[here]).max()) > LARGEST:
        raise _unreadable(f"has the value {largest:.3g}; at most {LARGEST:.0e} makes sense")
    places, filled = np.arange(len(values)), values.copy()
    for column, known in zip(filled.T, here.T, strict=True):
        column[~known] = np.interp(places[~known], places[known], column[known])
    return filled


def _even(times: np.ndarray, given: Recording) -> Recording:
    """`given` at even times; its values are those of `times`."""
    values, rate, names = given
    steps = np.diff(times)
    if not steps.any():
        return Recording(values, None, names)
    first = np.flatnonzero(np.append(True, steps > 0))  # of rows with the same time
    counts = np.diff(np.append(first, len(times)))
    if counts.max() > 1:  # a coarse clock: rows lie evenly between its ticks
        ends = np.append(times[first], times[-1] + float(np.median(steps[steps > 0])))
        places = np.arange(len(times)) - np.repeat(first, counts)
        times = times + np.repeat(np.diff(ends) / counts, counts) * places
        steps = np.diff(times)
    usual = float(np.median(steps))
    gaps = steps[steps > 10 * usual].sum() / (times[-1] - times[0])
    if gaps > MOST_MISSING:
        raise _unreadable(f"has gaps of {gaps:.0%} of its time; at most {MOST_MISSING:.0%} may be missing")
    rate = rate or 1 / usual
    count = int((times[-1] - times[0]) * rate + 1e-6) + 1
    if not LEAST_ROWS <= count <= MOST_ROWS:
        raise _unreadable(
            f"has {count} rows at {rate:.4g} a second; a recording has {LEAST_ROWS} to {MOST_ROWS}"
        )
    at = times[0] + np.arange(count) / rate
    return Recording(np.stack([np.interp(at, times, axis) for axis in values.T], axis=1), rate, names)


def _unreadable(text: str) -> InputError:
    return InputError("image-unreadable", text)
