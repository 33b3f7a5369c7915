"""Runs the stages of a program: every node becomes a function once, and from then on only these are called.

Units may run on threads. Which images are a micro-batch is fixed by the program, and micro-batches add to
what they share in their order. So the number of threads changes the time and never a bit of the result.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinytrain.episode.kind import Change
from tinytrain.kernels.dispatch.direct import direct
from tinytrain.network.replay import Replay
from tinytrain.program.calls import Call, Table, View
from tinytrain.program.signatures import HOST
from tinytrain.program.stages import (
    Augment,
    Items,
    Listed,
    Load,
    Of,
    Once,
    Read,
    Repeat,
    Rows,
    Run,
    Store,
    Take,
    Unit,
    Value,
    nodes,
)
from tinytrain.runtime.bind import Binder, run
from tinytrain.runtime.bound_unit import BoundUnit
from tinytrain.runtime.host_calls import HostCalls
from tinytrain.runtime.schedule import Item
from tinytrain.runtime.thread_pool import Hand, Workers


@dataclass(frozen=True)
class Source:
    """Where images come from.

    `read(i)` returns support image i (height, width, channels), and behind the last of them the
    query images; `augmentation(view, i)` the `Change` of a view, None for view 0; `labels` is
    (n_support,) int32. The last support images are not read: their features are `remembered`.
    """

    read: Callable[[int], np.ndarray]
    augmentation: Callable[[int, int], Change | None]
    labels: np.ndarray
    remembered: Replay | None = None


@dataclass(slots=True)
class Work:
    """Some items of a list, from place `first` on, and the unit that does them."""

    items: Sequence[Item]
    first: int = 0
    unit: BoundUnit | None = None


Action = Callable[[Work | None], None]
AT_ONCE = 64  # so many changes at the most are drawn before any image is looked at


class Runner:
    """A program bound to an arena. `lists` has the items of every list that a stage goes over."""

    def __init__(self, bind: Binder, source: Source, threads: int = 1):
        self.program, self.bind, self.kernels, self.source = bind.program, bind, bind.kernels, source
        self.lists: dict[Items, Sequence[Item]] = {}
        self.places: dict[Items, Sequence[int]] = {}  # of the items of a list in another one
        self.number = 0  # of the step
        self.cached = 1  # views that need no change: the clean one, and others whose features are cached
        self.drawn: dict[Item, Change | None] = {}
        self.n_images = len(source.labels) - (len(source.remembered) if source.remembered else 0)
        self.progress: Callable[[int, int], None] | None = None
        self.host = HostCalls(self)
        self.others = Workers(threads - 1)
        self.hands = [Hand() for _ in range(threads)] if threads > 1 else [None]
        self.units = self._bound_units()
        self._bound = {
            Call: self._call, Repeat: self._repeat, Once: self._once, Run: self._run, Load: self._load,
            Store: self._store, Take: self._take, Read: self._read, Augment: self._augment,
        }  # fmt: skip
        self.stages = {stage.name: self.actions(stage.body) for stage in self.program.stages}

    def close(self) -> None:
        """End the threads and let go of all that is bound: circles of objects would stay for long."""
        self.others.close()
        self.source = self.host = self._bound = self.stages = self.units = None
        self.bind.bound.clear()

    def run(self, name: str) -> None:
        """Run the stage `name` once, if the program has it."""
        act(self.stages.get(name, ()))

    def actions(self, body: Sequence) -> list[Action]:
        """A function for each node that the runner itself runs; others, such as heads, have none.

        There is one for lists that are gone over one right after the other in the same units.
        """
        found = []
        for units, group in itertools.groupby(body, _units_of):
            run = [node for node in group if type(node) in self._bound]
            found += [self._repeats(units, run)] if units else [self._bound[type(n)](n) for n in run]
        return found

    def _bound_units(self) -> dict[Unit, BoundUnit]:
        """Units for all threads, each with what it runs, for as many images as it is given at once."""
        kinds: dict[tuple[Unit, Hand | None], set[str]] = {}
        most: dict[Unit, int] = {}
        for stage in self.program.stages:
            for repeat in (node for node in nodes(stage.body) if isinstance(node, Repeat)):
                ran = {node.kind for node in nodes(repeat.body) if isinstance(node, Run)}
                hands = self.hands if len(repeat.units) > 1 else [None]
                for unit, hand in zip(repeat.units, hands, strict=False):
                    kinds.setdefault((unit, hand), set()).update(ran)
                    most[unit] = max(repeat.micro, most.get(unit, 0))
        return {u: BoundUnit(self.bind, u, kinds[u, hand], most[u], hand) for u, hand in kinds}

    # ---- nodes that divide work ---------------------------------------------------------------

    def _repeat(self, node: Repeat) -> Action:
        body = self.actions(node.body)
        if node.items is Items.VIEWS:
            return partial(self._views, node.count, body)

        def repeat(work: Work | None) -> None:
            items = self.lists[node.items]
            for first in range(0, len(items), node.micro):
                batch = items[first : first + node.micro]
                self.lists[Items.BATCH] = batch
                act(body, Work(batch, first))

        return repeat

    def _repeats(self, units: tuple[Unit, ...], repeated: Sequence[Repeat]) -> Action:
        """What `units` do for several lists."""
        bodies, bound = [self.actions(node.body) for node in repeated], self.bound_of(units)
        counted = repeated[0].items in (Items.IMAGES, Items.SHOWN)

        def repeat(work: Work | None) -> None:
            lists = [
                (body, self.lists[node.items], node.micro)
                for body, node in zip(bodies, repeated, strict=True)
            ]
            self.spread(lists, bound, self.progress if counted else None)

        return repeat

    def _once(self, node: Once) -> Action:
        body = self.actions(node.body)

        def once(work: Work) -> None:
            if not work.first:
                act(body)

        return _in_turn(once)

    def _views(self, count: int, body: Sequence[Action], work: Work) -> None:
        """Do `body` for `count` views of the image that a unit has been shown."""
        for view in range(count):
            act(body, Work([(view, work.items[0][1])], view, work.unit))

    def spread(self, lists: Sequence[tuple], units: Sequence[BoundUnit], on_progress=None) -> None:
        """For each of `lists` (body, items, micro) do body for all micro-batches of the items.

        The next one is done in whichever of the units is free.
        """
        counts = [-(-len(items) // micro) for _, items, micro in lists]
        total, done, by_hand = sum(counts), itertools.count(1), {unit.hand: unit for unit in units}

        def do(hand: Hand | None, k: int) -> None:
            at = 0
            while k >= counts[at]:
                k, at = k - counts[at], at + 1
            body, items, micro = lists[at]
            work = Work(items[k * micro : (k + 1) * micro], k * micro, by_hand[hand])
            if hand:  # other segments have other turns
                hand.last = k == 0 or len(work.items) < micro
            act(body, work)
            if on_progress:
                on_progress(next(done), total)

        if len(units) > 1:
            # Python's lock would keep workers from each other while each of them draws.
            first = itertools.islice((item for _, items, _ in lists for item in items), AT_ONCE)
            self.drawn = {i: self.source.augmentation(*i) for i in first if not 0 <= i[0] < self.cached}
            self.others.in_turns([*by_hand], total, do)
            self.drawn.clear()
        else:
            for k in range(total):
                do(units[0].hand, k)

    # ---- nodes of one micro-batch ---------------------------------------------------------------

    def _run(self, node: Run) -> Action:
        rows = self.bind.value(node.to.view) if isinstance(node.to, Rows) else None
        return self.segment(node.kind, rows, node.to is Of.OUTPUT)

    def segment(self, kind: str, rows: np.ndarray | None = None, kept: bool = False) -> Action:
        """Run a segment for a micro-batch; its output goes to `rows`, or is `kept` as that of the unit."""

        def run_segment(work: Work) -> None:
            calls, outputs = work.unit.segments[kind, len(work.items)]
            run(calls)
            if rows is not None:
                np.copyto(rows[work.first : work.first + len(work.items)], outputs[0])
            elif kept:
                work.unit.arrays[Of.OUTPUT] = outputs[0]

        return run_segment

    def _load(self, node: Load) -> Action:
        codes, *ranges = map(self.bind.whole, node.cache) if node.cache else (None,)
        old, *old_ranges = map(self.bind.whole, node.remembered) if node.remembered else (None,)

        def fetch(target: np.ndarray, stored: np.ndarray, values: np.ndarray | None) -> None:
            if values is None:
                np.copyto(target, stored.reshape(-1))
            else:
                self.kernels.dequantize(target, stored.reshape(-1), values)

        compute, images, n = self.actions(node.computed), self.n_images, len(self.source.labels)

        def load(work: Work) -> None:
            for row, (view, i) in enumerate(work.items):
                target = work.unit.features[row].reshape(-1)
                if images <= i < n:
                    at = i - images  # there is one view of it, the clean one
                    fetch(target, old[at], old_ranges[0][at] if old_ranges else None)
                elif codes is not None and 0 <= view < len(codes) and i < images:
                    fetch(target, codes[view, i], ranges[0][view, i] if ranges else None)
                else:
                    act(compute, Work([(view, i)], 0, work.unit))
                    np.copyto(target, work.unit.frozen.reshape(-1))

        return load

    def _store(self, node: Store) -> Action:
        codes, *ranges = map(self.bind.whole, node.cache)

        def store(work: Work) -> None:
            ((view, i),), features = work.items, work.unit.frozen.reshape(-1)
            if ranges:
                self.kernels.quantize(codes[view, i].reshape(-1), ranges[0][view, i], features)
            else:
                np.copyto(codes[view, i].reshape(-1), features)

        return store

    def _take(self, node: Take) -> Action:
        return self.take(self.bind.value(node.rows.view), lambda: self.places.get(node.rows.within))

    def take(self, rows: np.ndarray, places: Callable[[], Sequence[int] | None]) -> Action:
        """Copy rows to the unit's gradient: those of the items, or those at `places()` of the list."""

        def take(work: Work) -> None:
            chosen = places()
            for row in range(len(work.items)):
                place = work.first + row
                np.copyto(work.unit.gradient[row], rows[place if chosen is None else chosen[place]])

        return take

    def _read(self, node: Read) -> Action:
        def read(work: Work) -> None:
            work.unit.show(None)  # two decoded images are never held at once
            work.unit.show(self.source.read(work.items[0][1]))

        return read

    def _augment(self, node: Augment) -> Action:
        def augment(work: Work) -> None:
            ((view, i),) = work.items
            work.unit.augment(self.drawn.get((view, i)) or self.source.augmentation(view, i))

        return augment

    # ---- calls ----------------------------------------------------------------------------------

    def _call(self, node: Call) -> Action:
        """A call; in a unit, what it writes to arrays that are not the unit's own comes in turn."""
        call = self._called(node)
        pairs = zip(node.signature.arrays.values(), node.arrays, strict=True)
        shared = any(mode.is_written and isinstance(array, View | Table) for mode, array in pairs)
        return _in_turn(call) if shared else call

    def _called(self, node: Call) -> Action:
        arguments = [self._argument(a) for a in node.args]
        if node.kernel in HOST:
            host = getattr(self.host, node.kernel)
            return lambda work: host(work, *_found(arguments, work))
        kernel = getattr(self.kernels, node.kernel)
        if any(isinstance(a, Rows) for a in node.args):
            return self._by_rows(kernel, arguments)
        if any(map(callable, arguments)):
            return lambda work: kernel(*_found(arguments, work))
        function, arguments = direct(kernel, tuple(arguments))
        return lambda work: function(*arguments)

    def bound_of(self, units: Iterable[Unit]) -> list[BoundUnit]:
        """Those of the units that there are threads for."""
        return [self.units[unit] for unit in units if unit in self.units]

    def _by_rows(self, kernel, arguments: Sequence) -> Action:
        """A call for rows of a micro-batch, bound once for every place that they can have."""
        bound = {}

        def call(work: Work) -> None:
            place = work.first, len(work.items)
            if place not in bound:
                bound[place] = direct(kernel, tuple(_found(arguments, work)))
            run((bound[place],))

        return call

    def _argument(self, arg):
        """The array or value of an argument, or a function that finds it when the call is made."""
        if isinstance(arg, Listed):
            whole, items = self.bind.value(arg.view), arg.items
            return lambda work: whole[: len(self.lists[items])]
        if isinstance(arg, Rows):
            rows = self.bind.value(arg.view)
            return lambda work: rows[work.first : work.first + len(work.items)]
        if isinstance(arg, Of):
            return lambda work: work.unit.arrays[arg]
        if arg is Value.STEP:
            return lambda work: self.number
        return self.bind.value(arg)


def act(body: Sequence[Action], work: Work | None = None) -> None:
    """Run a body that `Runner.actions` made."""
    for action in body:
        action(work)


def _units_of(node) -> tuple[Unit, ...]:
    """The units between which a node divides its work."""
    return node.units if isinstance(node, Repeat) and node.items is not Items.VIEWS else ()


def _in_turn(action: Action) -> Action:
    """`action`, in a unit when its turn has come."""

    def in_turn(work: Work | None) -> None:
        hand = work and work.unit and work.unit.hand
        if hand:
            hand.begin_turn()
        action(work)
        if hand:
            hand.end_turn()

    return in_turn


def _found(arguments: Sequence, work: Work | None) -> Iterator:
    return (a(work) if callable(a) else a for a in arguments)
