"""The line by which the emitted example says how many cycles a prediction takes."""

import re
import subprocess
from types import SimpleNamespace

import emitted
import int8nets
import pytest
import toynets
from cases import each, quick
from emitted import emit, need, plan_of

from tinytrain.firmware_sim.boards.calibrate import LINE

# 12,345 cycles from one look to the next, in which 2 to the 32nd is passed.
FAKE = """#include <stdint.h>
#define TT_CYCLES fake
static uint32_t now = 4294960000u - 12345u; static uint32_t fake(void) { return now += 12345u; }
"""


@pytest.fixture(scope="module", params=quick(["float32", "int8"]))
def made(request, tmp_path_factory):
    """An emitted folder of a precision, with objects of all of the example but the file that counts."""
    folder = tmp_path_factory.mktemp(request.param)
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[request.param]("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, precision=request.param, steps=1)
    emitted.add_examples(folder, emit(folder, network, plan))
    includes, *rest = (word for word in emitted.demo_of(folder) if not word.endswith("/demo.c"))
    subprocess.run(["gcc", *emitted.STRICT, "-c", includes, *rest], cwd=folder, check=True)
    return SimpleNamespace(folder=folder, precision=request.param, macs=network.macs)


def said(folder, header="") -> str:
    """The line of an example that is compiled behind `header`."""
    (folder / "first.h").write_text(header)
    options = ("-include", "first.h", "-Wno-unused", "-Isrc", "examples/demo/demo.c", "-o", "demo")
    subprocess.run(["gcc", *emitted.STRICT, *options, *folder.glob("*.o")], cwd=folder, check=True)
    return line_of(subprocess.run([folder / "demo"], check=True, capture_output=True, text=True).stdout)


def line_of(text: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith("cycles: ")]
    return line


def test_the_cycles_of_one_prediction_are_said_with_its_macs(made):
    line = said(made.folder, FAKE)
    assert line == f"cycles: 12345 for {made.macs} MACs in {made.precision}, by TT_CYCLES"
    assert re.fullmatch(LINE, line)


@each("header", ["", "#define TT_CYCLES() 7u\n"])
def test_without_a_counter_or_with_one_that_stands_still_the_example_says_none(made, header):
    assert said(made.folder, header).startswith("cycles: none, ")


@pytest.mark.slow
@pytest.mark.parametrize("board", ["m7", "rv32"])
def test_an_emulated_board_says_that_it_is_one(made, board):
    """The DWT that QEMU 7.2 lacks counts nothing; its mcycle counts, which means nothing."""
    need(board)
    line = line_of(emitted.make(made.folder, board, "run", RAM_KB=64).stdout)
    assert line.endswith(", emulated") if board == "rv32" else line.startswith("cycles: none, ")
