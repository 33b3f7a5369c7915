"""The store on the real file system: a killed process leaves its last commit or the one it had begun."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import storecommits

from tinytrain.store.folder import Folder
from tinytrain.store.record import RECORDS
from tinytrain.store.slots import Slots

RUNS = int(os.environ.get("TINYTRAIN_KILL_RUNS", "10"))


def commit_until_killed(folder: Path, first: int, seconds: float) -> int:
    """Number of the last commit that returned in a process killed `seconds` after its first."""
    command = [sys.executable, storecommits.__file__, str(folder), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline()]
            time.sleep(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert lines[0], "the process did not start"
    return int([line for line in lines if line.endswith("\n")][-1])


def test_a_killed_process_leaves_its_last_commit_or_the_next(tmp_path):
    draw = random.Random(0)
    slots, number = Slots(Folder(tmp_path / "store")), 0
    for _ in range(RUNS):
        number = commit_until_killed(tmp_path / "store", number + 1, draw.uniform(0, 0.05))
        before = slots.look()
        expected = [storecommits.payload(number), storecommits.payload(number + 1)]
        assert before.data in expected and not before.warnings
        number += expected.index(before.data)
        state = slots.start()
        assert state.data == before.data and not state.warnings
        left = set(slots.folder.names())
        assert left <= state.record.files() | set(RECORDS), "a start sweeps what a killed process left"
