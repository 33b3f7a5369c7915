"""The line by which the emitted example says how many cycles a prediction takes."""

import re
import subprocess

import emitted
import int8nets
import pytest
import toynets
from emitted import emit, plan_of

from tinytrain.firmware_sim.boards.calibrate import LINE
from tinytrain.firmware_sim.emulated.count import missing

# 12,345 cycles from one look to the next, in which 2 to the 32nd is passed.
FAKE = "static uint32_t now = 4294960000u - 12345u; static uint32_t fake(void) { return now += 12345u; }"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return emitted_for("float32", tmp_path_factory.mktemp("float32"))


def emitted_for(precision, folder):
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, precision=precision, steps=1)
    emitted.add_examples(folder, emit(folder, network, plan))
    return folder, network


def said(folder, *options) -> str:
    program = folder / "demo"
    command = ["gcc", *emitted.STRICT, *options, *emitted.demo_of(folder), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("cycles: ")]
    return line


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_cycles_of_one_prediction_are_said_with_its_macs(precision, tmp_path):
    folder, network = emitted_for(precision, tmp_path)
    (folder / "fake.h").write_text(f"#include <stdint.h>\n{FAKE}\n")
    line = said(folder, "-include", str(folder / "fake.h"), "-DTT_CYCLES=fake", "-Wno-unused")
    assert line == f"cycles: 12345 for {network.macs} MACs in {precision}, by TT_CYCLES"
    assert re.fullmatch(LINE, line)


def test_without_a_counter_the_example_says_none(made):
    assert said(made[0]).startswith("cycles: none, ")
    (made[0] / "stuck.h").write_text("#define TT_CYCLES() 7u\n")
    assert said(made[0], "-include", str(made[0] / "stuck.h")).startswith("cycles: none, ")


@pytest.mark.parametrize("board", ["m7", "rv32"])
def test_an_emulated_board_says_that_it_is_one(made, board):
    """The DWT that QEMU 7.2 lacks counts nothing; its mcycle counts, which means nothing."""
    if absent := missing(board):
        pytest.skip(f"not installed: {', '.join(absent)}")
    done = emitted.make(made[0], board, "run", RAM_KB=64)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("cycles: ")]
    assert line.endswith(", emulated") if board == "rv32" else line.startswith("cycles: none, ")
