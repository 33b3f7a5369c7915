"""Random programs: no two live buffers share a byte, and little is wasted."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytrain.program.memory_planner import ALIGNMENT, Interval, aligned, lower_bound, place

PROGRAMS = 10_000


def random_program(rng) -> list[Interval]:
    """Up to 23 buffers on up to 19 ticks; some empty, some with equal lifetimes."""
    ticks, rows = int(rng.integers(1, 20)), []
    for k in range(int(rng.integers(0, 24))):
        if rows and rng.random() < 0.15:
            first, last = rows[-1].first, rows[-1].last
        else:
            first, last = sorted(rng.integers(0, ticks, 2).tolist())
            if rng.random() < 0.7:
                last = min(last, first + 2)
        sizes = (0, 1, ALIGNMENT, ALIGNMENT + 1, int(rng.integers(5_000)), int(rng.integers(100_000)))
        rows.append(Interval(str(k), sizes[rng.integers(len(sizes))], first, last))
    return rows


def assert_no_overlap(layout):
    """At every tick, in order of their offsets, each live buffer ends before the next one starts."""
    rows = [
        (offset, offset + i.nbytes, i.first, i.last)
        for i, offset in zip(layout.intervals, layout.offsets, strict=True)
        if i.nbytes
    ]
    for tick in {r[2] for r in rows}:
        live = sorted(r[:2] for r in rows if r[2] <= tick <= r[3])
        assert all(end <= start for (_, end), (start, _) in pairwise(live))
        assert live[0][0] >= 0 and live[-1][1] <= layout.nbytes


def test_live_buffers_of_ten_thousand_random_programs_never_overlap_and_waste_little():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(PROGRAMS):
        layout = place(random_program(rng))
        assert_no_overlap(layout)
        bound = lower_bound(layout.intervals)
        assert layout.nbytes >= bound
        ratios.append(layout.nbytes / bound if bound else 1)
    assert np.median(ratios) <= 1.05 and max(ratios) <= 1.25


buffers = st.tuples(st.integers(0, 300), st.integers(0, 6), st.integers(0, 6))


@settings(max_examples=300, deadline=None)
@given(st.lists(buffers, max_size=12))
def test_any_program_is_placed_without_overlap(rows):
    intervals = [Interval(str(k), n, min(a, b), max(a, b)) for k, (n, a, b) in enumerate(rows)]
    layout = place(intervals)
    assert_no_overlap(layout)
    most = max((sum(i.nbytes for i in intervals if i.first <= t <= i.last) for t in range(7)), default=0)
    assert most <= lower_bound(intervals) <= layout.nbytes <= sum(aligned(i.nbytes) for i in intervals)
