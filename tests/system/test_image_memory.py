"""What hostile image files take, as the operating system sees it, one process per format."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import quick
from image_memory import HOSTILE

MOST_BYTES = 256 * 10**6
# What is decoded where it is asked for; others take few bytes there.
IN_PROCESS, NOT_PLAIN, FEW_BYTES = ("png", "jpeg"), ("progressive", "scans"), 16 * 10**6
MOST_SECONDS = 3 + 2  # the limit of the script, and what starting the process that decodes takes
MOST_TIMES = 4  # the processor time of the largest honest image, on a machine that other work keeps busy
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
FORMATS = ("png", "jpeg", "bmp", "pnm", "gif", "webp", "tiff", "avif", "heic")

NEEDS = {"avif": "PIL._avif", "heic": "pillow_heif"}


def results(folder: Path, start: str) -> dict:
    script = Path(__file__).with_name("image_memory.py")
    command = [sys.executable, str(script), str(folder), start]
    environment = os.environ | ONE_HEAP | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_hostile_file_belongs_to_a_format():
    assert {name.split()[0] for name in HOSTILE} == set(FORMATS)


@pytest.mark.parametrize("start", quick(FORMATS))
def test_no_image_file_takes_more_than_256_mb_or_the_time_of_four_large_ones(tmp_path, start):
    if start in NEEDS:
        pytest.importorskip(NEEDS[start])
    found = results(tmp_path, start)
    *_, honest, outcome = found.pop("largest")["load"]
    assert outcome == "read"
    assert found.keys() == {name for name in HOSTILE if name.startswith(start)}
    for name, ways in found.items():
        here = start in IN_PROCESS and not any(word in name for word in NOT_PLAIN)
        for way, (grown, other, seconds, outcome) in ways.items():
            assert grown <= (MOST_BYTES if here else FEW_BYTES), (name, way, grown, outcome)
            assert (other or 0) <= (0 if here else MOST_BYTES), (name, way, other, outcome)
            most = MOST_TIMES * honest if here else max(MOST_TIMES * honest, MOST_SECONDS)
            assert seconds <= most, (name, way, seconds, honest, outcome)
            assert outcome in ("read", "image-unreadable", "image-too-large"), (name, way, outcome)
    # The figures are of images that were decoded, at a size close to the limit.
    read = max(
        max(grown, other or 0)
        for ways in found.values()
        for grown, other, _, outcome in ways.values()
        if outcome == "read"
    )
    assert read > 0.75 * MOST_BYTES
