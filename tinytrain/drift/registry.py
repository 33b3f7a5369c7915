"""Drift detectors by name; adding one is adding a row."""

from tinytrain.base.registry import find
from tinytrain.base.schema import choice, holding, parsed
from tinytrain.drift.adwin import Adwin
from tinytrain.drift.cusum import Cusum
from tinytrain.drift.ddm import Ddm
from tinytrain.drift.detector import Detector
from tinytrain.drift.page_hinkley import PageHinkley

DETECTORS: dict[str, type[Detector]] = {kind.name: kind for kind in (PageHinkley, Cusum, Ddm, Adwin)}


def new_detector(name: str) -> Detector:
    """One with default settings. Raises UsageError ``unknown-detector`` with the closest known name."""
    return find("detector", name, DETECTORS)()


def restore(state: dict) -> Detector:
    """The detector that returned this `state`. Raises InputError ``drift-state`` if none can have."""

    def check(content, where):
        name = holding({"detector": choice(*DETECTORS)})(content, where)["detector"]
        made = DETECTORS[name]()
        vars(made).update(_as_lists(holding(made.CHECKS)(content, where)))
        return made

    return parsed(check, state, "the state of a drift detector", "drift-state")


def _as_lists(value):
    """`value` with lists in place of tuples, which the checks return."""
    if isinstance(value, dict):
        return {name: _as_lists(inner) for name, inner in value.items()}
    return [_as_lists(inner) for inner in value] if isinstance(value, tuple) else value
