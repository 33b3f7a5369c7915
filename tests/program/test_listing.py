"""The listing of a program: every buffer with its place, every stage, every call with its MACs."""

import toynets

from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Resources
from tinytrain.program.compile import compile_fisher, compile_training
from tinytrain.program.listing import listing

NETWORK = toynets.toy("blocks")


def made():
    """A program with a prefix, whose first call reads an image."""
    updates = toynets.everything(NETWORK)[6:]
    recipe = toynets.recipe(updates, head="lda", optimizer="adam")
    return compile_training(NETWORK, recipe, Resources(4, 2, 9, 9, workers=2), TaskShape(9, 3, 4))


def test_every_buffer_has_its_offset_its_bytes_and_its_ticks():
    program = made()
    text = listing(program)
    for row in program.table():
        line = next(line for line in text.splitlines() if f"  {row['name']}, " in line)
        assert f"{row['offset']:,}" in line and f"{row['bytes']:,}" in line
        assert f"{row['first']}-{row['last']}" in line


def test_every_stage_and_every_call_of_every_segment_is_listed():
    program = made()
    lines = listing(program).splitlines()
    for stage in program.stages:
        assert any(line.startswith(f"{stage.name}, tick {stage.tick}, ") for line in lines)
    assert "prefix" in {segment.kind for segment in program.segments.values()}
    for segment in program.segments.values():
        start = next(k for k, line in enumerate(lines) if line.startswith(f"SEGMENT {segment.name}: "))
        assert f"{segment.all_macs:,} MACs" in lines[start]
        listed = lines[start + 1 : start + 1 + len(segment.calls)]
        for number, (call, line) in enumerate(zip(segment.calls, listed, strict=True)):
            assert line.split()[0] == str(number) and f" {call.kernel}(" in line
            assert not call.macs or line.endswith(f"{call.macs:,} MACs")


def test_fisher_scoring_is_listed_too():
    text = listing(compile_fisher(NETWORK, (9, 12), TaskShape(9, 3)))
    assert "run fisher" in text and "add_fisher(total='fisher 12'" in text
