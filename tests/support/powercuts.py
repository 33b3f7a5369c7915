"""A change of a store with power cut at every operation, and what must be found afterwards."""

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from cutimages import Images

from tinytrain.firmware_sim.flash.file_systems import Layout
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.store.record import RECORDS, Record
from tinytrain.store.slots import Slots

Change = Callable[[Slots, Callable[[int], bytes]], object]
Seen = tuple[Record, bytes | None]


class LostError(AssertionError):
    """A state that is neither the old nor the new one."""


@functools.cache
def payload(layout: Layout, number: int) -> bytes:
    """Bytes of a delta: two sectors and a bit."""
    return random.Random(number).randbytes(2 * layout.sector + 100)


def run(layout: Layout, flash: Flash, change: Change) -> None:
    change(Slots(flash), functools.partial(payload, layout))


def steps(*words: str) -> Change:
    """A series of operations such as ``"commit 1"`` or ``"confirm"``."""

    def change(slots: Slots, delta: Callable[[int], bytes]) -> None:
        for word in words:
            name, _, number = word.partition(" ")
            getattr(slots, name)(*([delta(int(number))] if number else []))

    return change


# What the store went through before, and the change that power is cut in.
SCENARIOS = {
    "the first commit": ((), ("commit 1",)),
    "a commit over a confirmed delta": (("commit 1", "confirm"), ("commit 2",)),
    "a commit over two confirmed deltas": (("commit 1", "confirm", "commit 2", "confirm"), ("commit 3",)),
    "a commit over a trial": (("commit 1", "confirm", "commit 2", "start"), ("commit 3",)),
    "a confirmation": (("commit 1", "confirm", "commit 2", "start"), ("confirm",)),
    "a roll-back": (("commit 1", "confirm", "commit 2", "confirm"), ("roll_back",)),
    "a roll-back to the bare network": (("commit 1",), ("roll_back",)),
    "a trial start": (("commit 1", "confirm", "commit 2"), ("start",)),
    "a start after the trial": (("commit 1", "confirm", "commit 2", "start", "start"), ("start",)),
}


def prepared(layout: Layout, name: str) -> tuple[dict[str, bytes], Change]:
    """The files of a store before the change of scenario `name`, and that change."""
    before, words = SCENARIOS[name]
    flash = Flash(layout)
    run(layout, flash, steps(*before))
    flash.sync()
    return flash.moments[-1].medium.files(), steps(*words)


def seen(layout: Layout, files: dict[str, bytes]) -> Seen:
    """What a start finds in `files`: all of the record but its count of writes, and the delta in use."""
    slots = Slots(Flash(layout, files))
    state = slots.look()
    previous = state.record.previous
    if state.warnings or (previous and slots.files.content(previous, strict=True) is None):
        raise LostError(f"damage after a power cut: {state.warnings or 'the previous delta'}")
    return replace(state.record, sequence=0), state.data


def cut_everywhere(
    layout: Layout, flash: Flash, change: Change, tally: Counter
) -> Iterator[dict[str, bytes]]:
    """Run `change` on `flash` and yield every set of files that a power cut during or after it can leave.

    Raises LostError where one is neither the old state nor the new one, or where the change wrote something,
    was over, and it is not the new one.
    """
    # On a medium that was just switched on that is one state; after a kill there may be two.
    old = [seen(layout, files) for files in Images(layout, flash.moments[-1])]
    run(layout, flash, change)
    *during, end = flash.moments
    known: dict[tuple, Seen] = {}
    new = seen(layout, end.medium.after(end.pending, layout.fill).files())
    for moment in (*during, end):
        images = Images(layout, moment)
        tally["cuts"] += 1
        tally["subsets"] += images.subsets
        tally["images"] += len(images)
        tally["sampled"] += images.sampled
        must_be_new = during and moment is end
        for files in images:
            key = tuple(sorted(files.items()))
            if key not in known:
                known[key] = seen(layout, files)
            found = known[key]
            if found != new and (must_be_new or found not in old):
                raise LostError(f"{layout.name}: cut before {moment.operation!r} left neither old nor new")
            yield files


def different(images) -> list[dict[str, bytes]]:
    """`images` without those that occurred before."""
    return list({tuple(sorted(files.items())): files for files in images}.values())


def strays(names: list[str], record: Record) -> set[str]:
    """Files of the store that nothing refers to."""
    return set(names) - record.files() - set(RECORDS)
