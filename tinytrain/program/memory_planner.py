"""One allocation for everything: buffers with lifetimes go in, byte offsets come out.

A lifetime is a closed interval [first, last] of ticks. Two buffers may share bytes only if
their lifetimes do not meet; `check` proves that independently of how `place` chose.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Interval:
    """`nbytes` bytes that hold a value from tick `first` to tick `last`, both included."""

    name: str
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offset of each interval, in the order given, and the bytes of the whole."""

    intervals: tuple[Interval, ...]
    offsets: tuple[int, ...]
    nbytes: int


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lower_bound(intervals: Sequence[Interval]) -> int:
    """Most bytes alive at one tick: no placement can be smaller."""
    alive = ([i for i in intervals if i.first <= t <= i.last] for t in {i.first for i in intervals})
    return max((sum(aligned(i.nbytes) for i in some) for some in alive), default=0)


ORDERS = (
    lambda i: (-i.nbytes, i.first),
    lambda i: (-(i.last - i.first), -i.nbytes),
    lambda i: (-i.nbytes * (i.last - i.first + 1), i.first),
    lambda i: (i.first, -i.nbytes),
)

RETRIES = 12


def place(intervals: Sequence[Interval], limit: float = math.inf) -> Layout | None:
    """Offsets for `intervals`: first fit in several orders, the smallest result wins.

    Where that stays above the lower bound, whatever reaches the top is placed first in the next try.
    None where it takes more than `limit` bytes.
    """
    bound, best = lower_bound(intervals), None
    if bound > limit:
        return None
    order, offsets, met = [], [], _met(intervals)
    for number in range(len(ORDERS) + RETRIES):
        if number < len(ORDERS):
            order = sorted(range(len(intervals)), key=lambda k, rule=ORDERS[number]: rule(intervals[k]))
        else:
            top = max(order, key=lambda k: offsets[k] + aligned(intervals[k].nbytes))
            order = [top, *(k for k in order if k != top)]
        total, offsets = _first_fit(intervals, met, order)
        if best is None or total < best[0]:
            best = total, offsets
        if best[0] <= bound:
            break
    if best[0] > limit:
        return None
    layout = Layout(tuple(intervals), tuple(best[1]), best[0])
    check(layout)
    return layout


def _met(intervals):
    """For every interval the numbers of those that live at the same time."""
    found, alive = [[] for _ in intervals], []
    for k in sorted(range(len(intervals)), key=lambda k: intervals[k].first):
        alive = [other for other in alive if intervals[other].last >= intervals[k].first]
        for other in alive:
            found[k].append(other)
            found[other].append(k)
        alive.append(k)
    return found


def _first_fit(intervals, met, order):
    """Each interval in `order` as low as those that it has `met` and that are placed already let it."""
    offsets, ends = [0] * len(intervals), [None] * len(intervals)
    for k in order:
        start, size = 0, aligned(intervals[k].nbytes)
        for low, high in sorted((offsets[n], ends[n]) for n in met[k] if ends[n] is not None):
            if start + size <= low:
                break
            start = max(start, high)
        offsets[k], ends[k] = start, start + size
    return max(ends, default=0), offsets


def check(layout: Layout) -> None:
    """Raise AssertionError if two live intervals share a byte or one leaves the arena."""
    rows = list(zip(layout.intervals, layout.offsets, strict=True))
    for k, (a, start) in enumerate(rows):
        if start < 0 or start % ALIGNMENT or start + a.nbytes > layout.nbytes:
            raise AssertionError(f"{a.name} lies outside the arena")
        for b, other in rows[:k]:
            together = a.first <= b.last and b.first <= a.last
            if together and start < other + b.nbytes and other < start + a.nbytes:
                raise AssertionError(f"{a.name} and {b.name} overlap")
