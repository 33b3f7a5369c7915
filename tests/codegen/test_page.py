"""The commands of docs/microcontroller.md, one after another in an empty folder, by the tools that are here.

Short form: the emulated program is linked but not run; ``TINYTRAIN_FIRMWARE=1`` runs it, which takes minutes.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks

from tinytrain.firmware_sim.emulated import count

LONG = bool(os.environ.get("TINYTRAIN_FIRMWARE"))
PAGE = ROOT / "docs" / "microcontroller.md"
SHELL = [block for block in blocks(PAGE) if block.language == "sh"]


def commands() -> list[str]:
    """What is run: all lines of the page, what a reader brings first."""
    lines = [line for block in SHELL for line in (block.brings, *block.text.splitlines()) if line]
    return lines if LONG else [line.replace("qemu run", "qemu") for line in lines]


def missing(line: str) -> list[str]:
    """The tools that a line needs and that are not here."""
    if line.startswith("make"):
        return count.missing("rv32" if "M=rv32" in line else "m7")
    return ["cmake"] if line.startswith(("cmake", "build/demo")) and not shutil.which("cmake") else []


def run(line: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("TINYTRAIN_DATA", None)  # a reader has no packs
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_every_command_works_as_written(tmp_path):
    absent = {tool for line in commands() for tool in missing(line)}
    said = {line: run(line, tmp_path) for line in commands() if not missing(line)}
    assert "build/demo" in said or "cmake" in absent
    for line, text in said.items():
        if size := re.search(r"RAM_KB=(\d+)", line):
            used = re.search(r"RAM: +(\d+) B", text)
            assert used and int(used[1]) <= 1024 * int(size[1])
        elif budget := re.search(r"emit .*--budget (\d+)kB", line):
            (ram,) = re.findall(r"RAM: +([\d,]+) bytes", text)
            assert int(ram.replace(",", "")) <= 1000 * int(budget[1])
    if absent:
        pytest.skip(f"the other commands work; not installed: {', '.join(sorted(absent))}")
