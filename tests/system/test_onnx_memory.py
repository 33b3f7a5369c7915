"""What hostile ONNX files take, as the operating system sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from hostilemodels import HARMLESS

MOST_BYTES = 512 * 10**6
MOST_TIMES = 4  # the processor time of the largest honest network, on a machine that other work keeps busy
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}


@pytest.mark.slow
def test_no_onnx_file_takes_more_than_half_a_gigabyte_or_the_time_of_four_large_ones(tmp_path):
    script = Path(__file__).with_name("onnx_memory.py")
    environment = os.environ | ONE_HEAP | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    honest = found["largest"][1]
    for name, (grown, seconds, code) in found.items():
        assert grown <= MOST_BYTES, (name, grown, code)
        assert seconds <= MOST_TIMES * honest, (name, seconds, honest, code)
        assert (code is None) == (name in HARMLESS), (name, code)
    assert found["one weight of 3,000 convolutions"][2] == "unsupported"
