"""Counts of instructions per call: exact, complete, of the code as it is, with the MACs of the Program."""

import json
import re
import subprocess

import emitted
import int8nets
import pytest
import toynets
from emitted import need, plan_of

from tinytrain.base.console import guarded
from tinytrain.firmware_sim.emulated import count, instructions, kinds
from tinytrain.firmware_sim.emulated.listing import Function, Place, parse
from tinytrain.plan.plan import save_plan

RUNS = [("m7", "float32"), ("m4", "int8"), ("m55", "int8"), ("rv32", "float32"), ("rv32", "int8")]
LISTED = """
00000040 <first>:
first():
/tmp/emitted/qemu/../src/adapt.c:7
      40:\tpush\t{r4, lr}
      42:\tldr\tr5, [pc, #132]\t@ (c8 <first+0x88>)
/tmp/emitted/qemu/../src/adapt.c:9 (discriminator 3)
      44:\tbl\t50 <twice>
00000050 <twice>:
twice():
/tmp/emitted/qemu/../src/kernels_sums.c:3
      50:\tb.n\t50 <twice>
00000052 <twice>:
twice():
/tmp/emitted/qemu/../src/head.c:3
      52:\tbx\tlr
00000054 <memset>:
      54:\tbx\tlr
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Emitted folders and their devices by precision, each made when it is first asked for."""
    known = {}

    def make(precision):
        if precision not in known:
            network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("headed")
            plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, precision=precision, steps=3)
            folder = tmp_path_factory.mktemp(precision)
            device = emitted.emit(folder, network, plan)
            emitted.add_examples(folder, device)
            save_plan(folder / "plan.json", plan)
            known[precision] = folder, device
        return known[precision]

    return make


def rows(program, counts) -> dict[str, instructions.Row]:
    return {row.kind: row for row in instructions.rows_of(program, counts)}


@pytest.mark.parametrize(("board", "precision"), RUNS)
def test_macs_are_those_of_the_program_and_every_kind_has_its_instructions(board, precision, made):
    need(board)
    folder, device = made(precision)
    listing, parts = count.counted(folder, board)
    calls = kinds.calls_by_line(device, (folder / "src" / "adapt.c").read_text())
    program = kinds.Program(device.network, calls, listing)
    train, probe = device.training, device.probe
    once = sum(train.segments[kind, 1].all_macs for kind in ("prefix", "embed"))
    assert len(parts["prediction"]) == 2 + 1  # of the queries, and the one whose cycles are said
    for prediction in parts["prediction"]:
        assert rows(program, prediction)["whole"].macs == once
    (adaptation,) = parts["adaptation"]
    found = rows(program, adaptation)
    backward = train.segments["back", 1].backward_macs
    images = train.stage("gradients")
    sent = sum(node.count for node in images.body if hasattr(node, "units") and node.units) * images.times
    gradients = sent * backward + device.support * probe.segments["fisher", 1].macs("grad_input")
    assert sum(row.macs for kind, row in found.items() if "gradient" in kind) == gradients
    for kind in (*kinds.FORWARD.values(), *kinds.INPUT.values(), "weight gradient"):
        assert 4 < found[kind].instructions / found[kind].macs < 40, kind
    assert found["update"].instructions > 0 == found["update"].macs
    assert found["whole"].instructions == sum(r.instructions for r in found.values()) / 2


def test_no_instruction_is_lost_or_counted_twice(made, tmp_path):
    """All calls together have what a counter that knows no calls finds."""
    need("m7")
    folder, _ = made("float32")
    plugin, total = tmp_path / "count.so", tmp_path / "total"
    subprocess.run([*count.PLUGIN, str(count.HERE / "count.c"), "-o", str(plugin)], check=True)
    emitted.make(folder, "m7", "run", EMULATOR_OPTIONS=f"-plugin {plugin},out={total}").check_returncode()
    _, parts = count.counted(folder, "m7")
    every = (c.instructions for sections in parts.values() for counts in sections for c in counts.values())
    assert sum(every) == int(total.read_text())


def test_line_numbers_change_no_instruction(made, tmp_path):
    need("m7")
    folder, _ = made("int8")
    code = []
    for defines in ("", "-g"):
        emitted.make(folder, "m7", "", DEFINES=defines).check_returncode()
        program, section = folder / "qemu" / "demo-m7.elf", tmp_path / "text"
        command = ["arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", str(program), str(section)]
        subprocess.run(command, check=True)
        code.append(section.read_bytes())
    assert code[0] == code[1] and len(code[0]) > 10_000


def test_a_listing_tells_static_functions_of_one_name_apart():
    listing = parse(LISTED)
    assert listing.functions == (
        Function("first", 0x40, 0x50, "adapt.c"),
        Function("twice", 0x50, 0x52, "kernels_sums.c"),
        Function("twice", 0x52, 0x54, "head.c"),
        Function("memset", 0x54, 0x58, ""),
    )
    assert listing.places[0x42] == Place("adapt.c", 7, "")
    assert listing.places[0x44] == Place("adapt.c", 9, "twice")


def test_the_table_says_that_cycles_are_not_calibrated():
    row = instructions.Row("pointwise", 1_000_000, 8_000_000).facts
    assert row["instructions_per_mac"] == 8.0
    assert row["cycles_uncalibrated"] == [8_000_000, 16_000_000]
    whole = instructions.Row("whole", 0, 5).facts
    facts = {"board": "m7", "precision": "int8", "network": "toy", "task": "2-way 3-shot", "steps": 3}
    text = instructions.text_of({**facts, "adaptation": [row, whole], "prediction": [whole]})
    assert "million cycles, UNCALIBRATED" in text
    assert "| adaptation: pointwise | 1,000,000 | 8,000,000 | 8.0 | 8.0 to 16.0 |" in text


def test_what_cannot_be_counted_ends_in_one_line(tmp_path, capsys, monkeypatch):
    assert guarded(instructions.main, [str(tmp_path), "--boards", "m5"]) == 2
    assert "no board m5" in capsys.readouterr().err
    monkeypatch.setattr(instructions, "missing", lambda board: [])
    assert guarded(instructions.main, [str(tmp_path)]) == 3
    monkeypatch.setattr(instructions, "missing", lambda board: ["make"])
    assert guarded(instructions.main, [str(tmp_path)]) == instructions.SKIPPED
    assert "SKIPPED: not installed: make" in capsys.readouterr().err


def test_the_command_prints_a_line_for_each_board(made, capsys, monkeypatch):
    need("m4")
    folder, device = made("float32")
    monkeypatch.setattr(instructions, "find_backbone", lambda digest, name: device.network)
    assert guarded(instructions.main, [str(folder), "--boards", "m4", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["board"], facts["precision"], facts["task"]) == ("m4", "float32", "2-way 3-shot")
    assert [row["kind"] for row in facts["prediction"]][-1] == "whole"
    assert re.fullmatch(r"[\d.]+", str(facts["adaptation"][-1]["instructions_per_mac"]))
