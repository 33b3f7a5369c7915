"""Corrections and folds of a journal with power cut at every operation, and what must be found afterwards."""

import json
from collections.abc import Callable, Iterator

import numpy as np
from cutimages import Images

from tinytrain.firmware_sim.flash.file_systems import Layout
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.store.journal import Entry
from tinytrain.store.slots import Slots
from tinytrain.store.state import Place

Change = Callable[[Slots], object]


class LostError(AssertionError):
    """Something that was acknowledged is gone, or something is there twice."""


def entry(name: str, size: int = 300, both: bool = False) -> Entry:
    """A correction of more than two sectors of the smallest layout; `both`: the delta before can learn it."""
    values = np.random.default_rng([*name.encode()]).normal(size=size).astype(np.float32)
    return Entry("learn", name, values, mark=name, before=-values if both else None)


def add(slots: Slots, new: Entry) -> Place:
    """Learn the entry, whatever other processes have learnt."""
    return slots.append(Place(None), new, lambda state: None)


def delta_of(names) -> bytes:
    """What stands for a delta that has learnt `names`."""
    return json.dumps(list(names)).encode() + b" " * 700


def learnt(slots: Slots) -> tuple[str, ...]:
    """What the delta in use and its journal know, in order."""
    state = slots.look()
    if state.warnings:
        raise LostError(f"damage after a power cut: {state.warnings}")
    if state.data is None:
        return ()
    return (*json.loads(state.data), *(e.name for e in state.journal.entries))


def do(*words: str) -> Change:
    """Steps such as ``"commit"``, ``"learn x"``, ``"both x"``, ``"fold"``, ``"confirm"``."""

    def change(slots: Slots) -> None:
        for word in words:
            name, _, what = word.partition(" ")
            if name == "commit":
                slots.commit(delta_of(filter(None, [what])))
            elif name in ("learn", "both"):
                add(slots, entry(what, both=name == "both"))
            elif name == "fold":
                slots.fold(Place.of(slots.look()), delta_of(learnt(slots)))
            else:
                getattr(slots, name)()

    return change


BEGUN = ("commit base", "confirm")
# What the store went through before, the change that power is cut in, and what is known after it.
SCENARIOS = {
    "the first correction": (BEGUN, "learn a", "base a"),
    "a correction more": ((*BEGUN, "learn a"), "learn b", "base a b"),
    "a correction on trial": ((*BEGUN, "learn a", "commit other", "start"), "learn b", "other b"),
    "a fold": ((*BEGUN, "learn a", "learn b"), "fold", "base a b"),
    "a fold on trial": ((*BEGUN, "commit other", "learn a"), "fold", "other a"),
    "a correction after a fold": ((*BEGUN, "learn a", "fold"), "learn b", "base a b"),
    "a roll-back to corrections": ((*BEGUN, "learn a", "commit other", "learn b"), "roll_back", "base a"),
    "a new delta over corrections": ((*BEGUN, "learn a"), "commit other", "other"),
    "a roll-back of a trial": ((*BEGUN, "commit other", "both b", "both c"), "roll_back", "base b c"),
    "a trial that ends": ((*BEGUN, "commit other", "start", "both b", "start"), "start", "base b"),
    "a new delta over a trial": ((*BEGUN, "commit other", "both b"), "commit third", "third"),
    "a fold of a trial": ((*BEGUN, "commit other", "both b", "learn a"), "fold", "other b a"),
}


def prepared(layout: Layout, name: str) -> dict[str, bytes]:
    """The files of a store before the change of scenario `name`."""
    flash = Flash(layout)
    do(*SCENARIOS[name][0])(Slots(flash))
    flash.sync()
    return flash.moments[-1].medium.files()


def cut_everywhere(layout: Layout, flash: Flash, change: Change) -> Iterator[dict[str, bytes]]:
    """Run `change` and yield every set of files that a power cut during or after it can leave.

    Raises LostError where what is learnt is neither the old state nor the new one, or is not the new one
    although the change was over.
    """
    old = {learnt(Slots(Flash(layout, files))) for files in Images(layout, flash.moments[-1])}
    change(Slots(flash))
    *during, end = flash.moments
    new = learnt(Slots(Flash(layout, end.medium.after(end.pending, layout.fill).files())))
    known = {}
    for moment in (*during, end):
        for files in Images(layout, moment):
            key = tuple(sorted(files.items()))
            if key not in known:
                known[key] = learnt(Slots(Flash(layout, files)))
            if known[key] != new and (moment is end or known[key] not in old):
                raise LostError(f"{layout.name}: cut before {moment.operation!r} left {known[key]}")
            yield files
