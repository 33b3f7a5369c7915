"""The simulated flash: what each layout may leave of one un-synced write and one un-synced rename."""

from cases import each
from cutimages import Images, some_subsets, subset_count, subsets

from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash

everywhere = each("layout", LAYOUTS.values(), ids=list(LAYOUTS))


def found(flash):
    return [dict(files) for files in Images(flash.layout, flash.moments[-1])]


def written(layout, data, *, synced):
    """A flash with `data` in the file "new"; the name is on the medium."""
    flash = Flash(layout, {"old": b"old"})
    with flash.create("new") as file:
        flash.sync()
        file.write(data)
        if synced:
            file.sync()
    return flash


WRITES = {  # of 8 sectors written, the first 2: sectors that are there (1), filled (0), half there (h)
    "ordered-journal": {"", "1", "11"},
    "unordered-metadata": {"", "00", "01", "10", "11", "1"},
    "fat": {"", "00", "01", "10", "11", "1"},
    "zero-filled": {"", "00", "01", "10", "11", "1"},
    "torn-sectors": {"", "1", "11", "01", "h", "h1", "0h", "1h", "hh"},
}


def described(content, layout):
    """`content` in the letters of WRITES."""
    letters = ""
    for start in range(0, len(content), layout.sector):
        piece = content[start : start + layout.sector]
        whole = piece == b"x" * layout.sector
        letters += "1" if whole else "0" if piece.strip(layout.fill) == b"" else "h"
    return letters


@everywhere
def test_a_write_that_is_not_synced(layout):
    flash = written(layout, b"x" * (2 * layout.sector), synced=False)
    seen = {described(files["new"], layout) for files in found(flash)}
    assert WRITES[layout.name] <= seen
    assert layout.tears or seen <= WRITES[layout.name] | {"01"}


@everywhere
def test_what_is_synced_stays(layout):
    flash = written(layout, b"x" * (2 * layout.sector), synced=True)
    assert found(flash) == [{"old": b"old", "new": b"x" * (2 * layout.sector)}]


@everywhere
def test_a_rename_that_is_not_synced(layout):
    flash = written(layout, b"new", synced=True)
    flash.rename("new", "old")
    states = found(flash)
    before, after = {"old": b"old", "new": b"new"}, {"old": b"new"}
    assert before in states and after in states
    assert ({} in states) == ({"new": b"new"} in states) == layout.split_rename
    flash.sync()
    assert found(flash) == [after]


@everywhere
def test_names_come_in_order_only_in_a_journal(layout):
    flash = Flash(layout)
    flash.create("a")
    flash.create("b")
    assert ({"b": b""} in found(flash)) == (not layout.ordered)


@everywhere
def test_a_killed_process_loses_nothing_and_a_cut_then_does(layout):
    flash = Flash(layout)
    flash.create("a").write(b"x")
    after = flash.killed(flash.moments[-1])
    assert after.names() == ["a"] and after.read("a", 10) == b"x"
    assert {} in found(after)


@everywhere
def test_many_changes_are_sampled_and_few_are_not(layout):
    flash = written(layout, b"x" * (20 * layout.sector), synced=False)
    pending = flash.moments[-1].pending
    images = Images(layout, flash.moments[-1], limit=256)
    assert images.subsets <= 256 and images.sampled == (subset_count(layout, pending) > 256)
    few = written(layout, b"x" * (2 * layout.sector), synced=False).moments[-1].pending
    assert len(list(subsets(layout, few))) == subset_count(layout, few)
    sample = [tuple(kept) for kept, _ in zip(some_subsets(layout, few), range(500), strict=False)]
    assert {tuple(kept) for kept in subsets(layout, few)} == set(sample)
