"""Items of a list that a unit works on, and the functions that do a part of it each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinytrain.runtime.bound_unit import BoundUnit
from tinytrain.runtime.schedule import Item


@dataclass(slots=True)
class Work:
    """Some items of a list, from place `first` on, and the unit that does them."""

    items: Sequence[Item]
    first: int = 0
    unit: BoundUnit | None = None


Action = Callable[[Work | None], None]


def act(body: Sequence[Action], work: Work | None = None) -> None:
    """Run a body that `Runner.actions` made."""
    for action in body:
        action(work)
