"""Placement by lifetime, the check that watches over it, and the memory itself."""

import mmap
import re
from pathlib import Path

import numpy as np
import pytest
from cases import each

from tinytrain.base.arena import Arena
from tinytrain.program import memory_planner as arena
from tinytrain.program.memory_planner import ALIGNMENT, Interval, Layout, aligned, check, lower_bound, place


def interval(nbytes, first, last, name="a"):
    return Interval(name, nbytes, first, last)


def test_lifetimes_that_meet_share_no_byte_and_others_share_all():
    layout = place([interval(100, 0, 1), interval(100, 1, 2), interval(100, 2, 3)])
    assert layout.offsets[0] == layout.offsets[2] != layout.offsets[1]
    assert layout.nbytes == 2 * aligned(100) == lower_bound(layout.intervals)


def test_identical_lifetimes_are_kept_apart():
    layout = place([interval(64, 2, 5), interval(64, 2, 5)])
    assert sorted(layout.offsets) == [0, 64]


def test_nothing_needs_nothing():
    assert place([]).nbytes == 0 == lower_bound([])
    assert place([interval(0, 0, 3), interval(0, 0, 3)]).nbytes == 0


def test_every_offset_is_aligned():
    layout = place([interval(n, 0, 9) for n in (1, 63, 64, 65, 200)])
    assert all(offset % ALIGNMENT == 0 for offset in layout.offsets)


def test_what_first_fit_leaves_above_the_bound_is_tried_again(monkeypatch):
    rows = [(3, 4, 5), (4, 2, 3), (4, 5, 5), (2, 1, 4)]
    intervals = [interval(n * ALIGNMENT, first, last) for n, first, last in rows]
    assert place(intervals).nbytes == lower_bound(intervals) == 7 * ALIGNMENT
    monkeypatch.setattr(arena, "RETRIES", 0)
    assert place(intervals).nbytes == 9 * ALIGNMENT


@each(
    "offsets, total, text",
    [
        ((0, 0), 128, "overlap"),
        ((0, 63), 256, "outside"),
        ((0, 64), 127, "outside"),
        ((-64, 64), 128, "outside"),
    ],
)
def test_the_check_refuses_a_bad_layout(offsets, total, text):
    intervals = (interval(64, 0, 1), interval(64, 1, 2, "b"))
    with pytest.raises(AssertionError, match=text):
        check(Layout(intervals, offsets, total))


def test_the_check_accepts_shared_bytes_of_lifetimes_that_do_not_meet():
    check(Layout((interval(64, 0, 1), interval(64, 2, 2)), (0, 0), 64))


def test_an_arena_is_zeroed_memory_of_exactly_its_size():
    made = Arena(1000)
    whole = made.view(0, (1000,), "uint8")
    assert not whole.any()
    whole[:] = 7
    assert (made.view(8, (2, 3), "float32").view(np.uint8) == 7).all()
    with pytest.raises(AssertionError, match="leaves an arena of 1000"):
        made.view(1, (1000,), "uint8")


def test_views_write_to_the_arena():
    made = Arena(256)
    made.view(64, (4,), "float32")[:] = 1
    assert made.view(64, (4,), "float32").tolist() == [1, 1, 1, 1]
    assert not made.view(0, (16,), "float32").any() and not made.view(80, (16,), "float32").any()


def test_an_arena_of_nothing_has_an_empty_view():
    assert Arena(0).view(0, (0, 4), "float32").shape == (0, 4)


def resident_pages(array):
    """Bytes of /proc/self/smaps that belong to the mapping of an array."""
    address, inside = array.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if header := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(header[1], 16) <= address < int(header[2], 16)
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such mapping")


def test_release_gives_back_whole_pages_and_keeps_every_byte_that_is_named():
    page = mmap.PAGESIZE
    made = Arena(64 * page)
    whole = made.view(0, (64 * page,), "uint8")
    whole[:] = 7
    before = resident_pages(whole)
    keep = [(40 * page + 10, 2 * page), (3 * page, 1), (5 * page - 1, 2), (63 * page, page)]
    made.release(keep)
    after = resident_pages(whole)
    for offset, length in keep:
        assert (whole[offset : offset + length] == 7).all()
    assert not whole[8 * page : 40 * page].any()
    whole[:] = 1
    assert whole.all()
    if not before:
        pytest.skip("an emulated system that tells no resident pages")
    assert before - after >= 50 * page


def test_an_arena_that_is_no_multiple_of_a_page_is_released_to_its_end():
    made = Arena(10_000)
    whole = made.view(0, (10_000,), "uint8")
    whole[:] = 7
    made.release([])
    assert not whole.any()


def test_what_is_kept_by_array_stays_and_the_other_pages_are_zero():
    made = Arena(3 * mmap.PAGESIZE)
    every = made.view(0, (3 * mmap.PAGESIZE,), "uint8")
    every[:] = 7
    made.keep([every[mmap.PAGESIZE + 5 : mmap.PAGESIZE + 9], np.ones(4)])
    assert (every == 7).reshape(3, -1).all(axis=1).tolist() == [False, True, False]
