"""The arena over time and its plot: every buffer in its place, nothing on top of anything else."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from tinytrain.cli import main as cli
from tinytrain.firmware_sim.boards.plot import LETTER, plot
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.firmware_sim.boards.timeline import Timeline, timeline
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget

SVG = "{http://www.w3.org/2000/svg}"


def programs(policy="tinytrain", memory=2**22, macs=0.15):
    machine = SimulatedDevice(memory)
    adapt(toy_network(), toy_episode(), Budget(memory, macs), policy, device=machine, force=True)
    return machine.programs


# From a quarter of the MACs on, passes come in two halves.
RAN = [("tinytrain", 60_000), ("tinytrain", 2**22, 0.5), ("tinytrain", 45_000), ("none", 2**22)]


@pytest.fixture(scope="module", params=RAN)
def made(request):
    return timeline(programs(*request.param))


def meets(a, b):
    return a.start < b.end - 1e-9 and b.start < a.end - 1e-9


def test_buffers_that_meet_in_time_share_no_byte(made):
    for k, a in enumerate(made.blocks):
        for b in made.blocks[:k]:
            apart = a.offset >= b.offset + b.nbytes or b.offset >= a.offset + a.nbytes
            assert apart or not meets(a, b), (a, b)


def test_what_is_in_use_fits_the_arena_and_ends_with_nothing(made):
    points = made.live()
    assert all(0 <= size <= made.arena for _, size in points)
    assert points[-1] == (len(made.stages), 0)
    assert all(0 <= b.start < b.end <= len(made.stages) for b in made.blocks)


def test_stages_are_those_that_ran(made):
    assert made.stages[-1] == "queries" and made.stages[-7] == "features"
    assert "probe" in timeline(programs("tinytrain")).stages
    assert "probe" not in timeline(programs("none")).stages


def test_every_buffer_of_the_programs_is_there():
    ran = programs()
    names = {block.name for block in timeline(ran).blocks}
    for program in ran:
        assert {n for n in program.buffers if not n.startswith("workspace")} <= names


def test_in_use_is_the_sum_of_what_is_there():
    made = timeline(programs())
    points = made.live()
    for (start, size), (end, _) in itertools.pairwise(points):
        middle = (start + end) / 2
        assert size == sum(b.nbytes for b in made.blocks if b.start <= middle < b.end)


def rectangles_and_texts(made):
    root = ElementTree.fromstring(plot(made, "a < b & c", 10**6))
    boxes = []
    shapes = iter(list(root))
    for shape in shapes:
        if shape.tag == SVG + "rect" and shape.find(SVG + "title") is not None:
            boxes.append([float(shape.get(k)) for k in ("x", "y", "width", "height")])
        elif shape.tag == SVG + "text" and boxes and shape.get("font-size") is None:
            yield boxes[-1], float(shape.get("x")), float(shape.get("y")), shape.text


def test_a_name_stays_inside_its_own_rectangle(made):
    named = [row for row in rectangles_and_texts(made) if row[3] in {b.name for b in made.blocks}]
    assert named
    for (x, y, width, height), at, line, text in named:
        assert x <= at and at + LETTER * len(text) <= x + width
        assert y <= line - 8 and line + 2 <= y + height


def test_the_limit_of_the_board_is_drawn_where_it_is_near():
    made = timeline(programs("none"))
    assert "RAM of the board" in plot(made, "near", made.arena + 100)
    assert "RAM of the board" not in plot(made, "far", 100 * made.arena)


def test_an_empty_moment_is_zero():
    assert Timeline(("one",), (), 1).live() == []


@pytest.mark.slow
def test_the_command_draws_and_refuses_other_kinds_of_file(tmp_path, capsys):
    path = tmp_path / "arena.svg"
    arguments = ["simulate", "--board", "raspberry-pi-5", "--policy", "none", "--way", "2", "--shots", "1"]
    assert cli.main([*arguments, "--queries", "0", "--plot", str(path)]) == 0
    ElementTree.parse(path)
    assert cli.main([*arguments, "--plot", str(tmp_path / "arena.png")]) == 2
    assert "must end in .svg" in capsys.readouterr().err
    assert (
        cli.main(
            ["simulate", "--board", "rp2040", "--precision", "float32", "--plot", str(tmp_path / "none.svg")]
        )
        == 7
    )
    assert "was not written: nothing ran" in capsys.readouterr().err and not (tmp_path / "none.svg").exists()
