"""Progress on stderr: one rewritten line on a terminal, lines now and then elsewhere, none with --quiet."""

import io

import pytest

from tinytrain.base import progress as module
from tinytrain.base.notices import NOTICES
from tinytrain.base.progress import CompilingLine, ProgressLine
from tinytrain.kernels.compile_cache.watch import Watch


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when it is told to."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def quiet():
    NOTICES.begin(quiet=True)
    yield
    NOTICES.begin()


def screen(text: str) -> str:
    """What a terminal shows after `text`."""
    line = ""
    for part in text.split("\r"):
        line = part + line[len(part) :]
    return line.rstrip()


def test_progress_is_one_line_that_disappears(monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0)
    terminal = Terminal()
    with ProgressLine(terminal) as progress:
        for k in range(1, 5):
            progress("training", k, 4, 1.5 / k)
    shown = [line for line in terminal.getvalue().split("\r") if line]
    assert shown[1].startswith("training 2/4  loss 0.750  ") and shown[1].rstrip().endswith("s left")
    assert screen(terminal.getvalue()) == ""
    assert "\n" not in terminal.getvalue() and "\x1b" not in terminal.getvalue()


def test_without_a_terminal_progress_is_a_line_every_ten_seconds(clock):
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        for k in range(1, 61):
            clock[0] += 0.5
            progress("training", k, 60, None)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "tinytrain: training 20/60  20 s left",
        "tinytrain: training 40/60  10 s left",
        "tinytrain: training 60/60",
    ]


def test_ten_hours_without_a_terminal_are_some_tens_of_lines(clock):
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        for k in range(36_000):
            clock[0] += 1
            progress("training", k, 36_000, None)
    assert 20 < stream.getvalue().count("\n") < 100


def test_what_is_done_in_a_moment_says_nothing_without_a_terminal():
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        progress("training", 1, 4, 1.0)
        progress("training", 4, 4, 1.0)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_quiet_means_no_progress_and_no_compiling(kind, quiet, clock):
    stream, watch = kind(), Watch()
    with ProgressLine(stream) as progress, CompilingLine(stream) as line, watch.told(line):
        clock[0] += 100
        progress("training", 1, 4, 1.0)
        watch.begin("a kernel")
        watch.end()
    assert stream.getvalue() == ""


def test_without_a_terminal_compiling_is_said_at_once_then_now_and_then_and_at_the_end(clock):
    stream, watch = io.StringIO(), Watch()
    with CompilingLine(stream) as line, watch.told(line):
        watch.expect(map(str, range(8)))
        for k in range(6):
            watch.begin(str(k))
            clock[0] += 4
            watch.end()
        clock[0] += 100  # of other work
    assert stream.getvalue().splitlines() == [
        "tinytrain: compiling kernels 1 of at most 8 (each only once on a machine)",
        "tinytrain: compiling kernels 4 of at most 8 (each only once on a machine)",
        "tinytrain: compiled 6 kernels in 24 s",
    ]


def test_on_a_terminal_compiling_covers_another_line_and_leaves_nothing_behind(clock):
    terminal, watch = Terminal(), Watch()
    with ProgressLine(terminal) as progress, CompilingLine(terminal) as line, watch.told(line):
        clock[0] += 1
        progress("a very long stage, " * 4, 1, 9, None)
        watch.begin("dense.enter")
        assert screen(terminal.getvalue()).startswith("compiling kernels 1 of at most 1 (each")
        assert "very long" not in screen(terminal.getvalue())
        watch.end()
        assert screen(terminal.getvalue()) == ""
    assert screen(terminal.getvalue()) == "" and "\n" not in terminal.getvalue()


def test_nothing_is_said_if_nothing_is_compiled():
    stream, watch = io.StringIO(), Watch()
    with CompilingLine(stream) as line, watch.told(line):
        watch.expect(["dense.enter"])
    assert stream.getvalue() == ""


def test_a_kernel_of_two_dtypes_counts_as_often_as_it_is_compiled():
    heard, watch = [], Watch()
    with watch.told(lambda kernel: kernel and heard.append(kernel)):
        for _ in range(2):  # every table of kernels says what it expects
            watch.expect(["enter", "pool", "enter"])
            watch.begin("enter", "float32")
        for kernel in (("enter", "uint8"), ("pool", "float32"), ("pool", "float64")):
            watch.begin(*kernel)
    assert heard == [(1, 3), (1, 3), (2, 3), (3, 3), (4, 4)]


def test_a_kernel_that_was_on_disk_and_cannot_be_used_is_counted_too():
    heard, watch = [], Watch()
    with watch.told(heard.append):
        watch.begin("damaged")
        watch.begin("damaged")
        watch.end()
    watch.begin("after the block")
    assert heard == [(1, 1), (1, 1), None]
