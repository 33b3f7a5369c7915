"""What a start can find after a power cut: every subset of what was not synced that a layout allows."""

import itertools
import math
import random
from collections.abc import Iterator

from tinytrain.firmware_sim.flash.file_systems import Layout
from tinytrain.firmware_sim.flash.flash import Moment
from tinytrain.firmware_sim.flash.medium import Change, Content, Names

LIMIT = 4096  # subsets of one moment; up to 12 pending changes that is all of them


class Images:
    """The different sets of files that a power cut at `moment` can leave; iterating gives each as a dict.

    `subsets` is how many subsets were laid out to find them, `sampled` whether there were more than `limit`.
    """

    def __init__(self, layout: Layout, moment: Moment, limit: int = LIMIT):
        self.subsets, self.sampled = 0, subset_count(layout, moment.pending) > limit
        self._found: dict[tuple, dict[str, bytes]] = {}
        choose = some_subsets if self.sampled else subsets
        for kept in itertools.islice(choose(layout, moment.pending), limit):
            self.subsets += 1
            files = moment.medium.after(kept, layout.fill).files()
            self._found.setdefault(tuple(sorted(files.items())), files)

    def __iter__(self) -> Iterator[dict[str, bytes]]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)


def _chains(layout: Layout, pending: tuple[Change, ...]) -> list[list[int]]:
    """Positions of changes that come in order: of all names, and of the content of each file.

    Without `layout.ordered` every change is a chain of its own.
    """
    if not layout.ordered:
        return [[position] for position in range(len(pending))]
    chains: dict[object, list[int]] = {}
    for position, change in enumerate(pending):
        chains.setdefault("names" if isinstance(change, Names) else change.number, []).append(position)
    return list(chains.values())


def subset_count(layout: Layout, pending: tuple[Change, ...]) -> int:
    return math.prod(len(chain) + 1 for chain in _chains(layout, pending))


def subsets(layout: Layout, pending: tuple[Change, ...]) -> Iterator[list[Change]]:
    """Every subset of `pending` that the layout allows, in order."""
    chains = _chains(layout, pending)
    for lengths in itertools.product(*(range(len(chain) + 1) for chain in chains)):
        kept = {p for chain, length in zip(chains, lengths, strict=True) for p in chain[:length]}
        yield [change for p, change in enumerate(pending) if p in kept]


def some_subsets(layout: Layout, pending: tuple[Change, ...]) -> Iterator[list[Change]]:
    """Subsets of a large set without end: the likely and the nasty ones first, then seeded random ones.

    Everything up to a moment, content without names and the reverse, one or two alone, all but one or two.
    """
    chains = _chains(layout, pending)
    everything = frozenset(range(len(pending)))
    content = frozenset(p for p in everything if isinstance(pending[p], Content))
    few = [frozenset(c) for n in (1, 2) for c in itertools.combinations(sorted(everything), n)]
    prefixes = [frozenset(range(n)) for n in range(len(pending) + 1)]
    for kept in dict.fromkeys(
        (*prefixes, content, everything - content, *few, *(everything - f for f in few))
    ):
        if all(_is_prefix(chain, kept) for chain in chains):
            yield [pending[p] for p in sorted(kept)]
    draw = random.Random(0)
    while True:
        kept = {p for chain in chains for p in chain[: draw.randint(0, len(chain))]}
        yield [pending[p] for p in sorted(kept)]


def _is_prefix(chain: list[int], kept: frozenset[int]) -> bool:
    return all(p in kept for p in chain[: sum(p in kept for p in chain)])
