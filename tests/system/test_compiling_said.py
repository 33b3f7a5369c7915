"""The first run of a machine says that it compiles, on a terminal or not; later runs say nothing of it."""

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from tinytrain.kernels.compile_cache.facts import library_version

SAID = re.compile(r"compiling kernels (\d+) of at most (\d+) \(each only once on a machine\)")
ADAPT = ("adapt", "--way", "2", "--shots", "1", "--queries", "0", "--policy", "last_layer")

pytestmark = pytest.mark.skipif(library_version("numba") == "none", reason="numba is not installed")


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """An environment whose cache is empty at first."""
    return dict(os.environ, TINYTRAIN_CACHE=str(tmp_path_factory.mktemp("cache")))


@pytest.mark.slow
def test_the_first_run_says_so_within_seconds_and_the_second_says_nothing(cold):
    command = [sys.executable, "-m", "tinytrain", *ADAPT]
    start = time.monotonic()
    with subprocess.Popen(
        command, env=cold, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        first, seconds = run.stderr.readline(), time.monotonic() - start
        rest = run.stderr.read().splitlines()
        assert "accuracy" in run.stdout.read() and run.wait() == 0
    assert SAID.search(first)[1] == "1" and seconds < 10
    count = int(re.fullmatch(r"tinytrain: compiled (\d+) kernels in \d+ s", rest[-1])[1])
    assert 5 < count <= int(SAID.search(first)[2])
    warm = subprocess.run(command, env=cold, capture_output=True, text=True)
    assert warm.returncode == 0 and warm.stderr == ""


@pytest.mark.slow
def test_on_a_terminal_the_count_goes_up_to_all_kernels_and_the_line_disappears(cold):
    """`warmup` compiles what the test before left, and nothing stays on the screen."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "tinytrain", "warmup"]
    with subprocess.Popen(command, env=cold, stdout=subprocess.PIPE, stderr=child) as run:
        os.close(child)
        shown = b""
        while True:
            try:
                data = os.read(parent, 4096)
            except OSError:  # the other end is closed
                break
            shown += data
        assert b"kernels ready" in run.stdout.read() and run.wait() == 0
    os.close(parent)
    counts = [(int(a), int(b)) for a, b in SAID.findall(shown.decode())]
    assert counts == [(k, len(counts)) for k in range(1, len(counts) + 1)] and len(counts) > 5
    assert not shown.decode().rstrip("\r").split("\r")[-1].strip()
    quiet = subprocess.run(command, env=cold, capture_output=True, text=True)
    assert quiet.stderr == ""
