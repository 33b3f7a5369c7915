"""Placement by lifetime, the check that watches over it, and the memory itself."""

import numpy as np
import pytest

from tinytrain import arena
from tinytrain.arena import ALIGNMENT, Arena, Interval, Layout, aligned, check, lower_bound, place


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


@pytest.mark.parametrize(
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
