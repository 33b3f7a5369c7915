"""What every drift detector does: one number in, "stable", "warning" or "drift" out, in bounded memory."""

import copy
import math
from abc import ABC, abstractmethod
from typing import ClassVar

from tinytrain.base.errors import InputError

STABLE, WARNING, DRIFT = "stable", "warning", "drift"
LARGEST = 1e100  # of a value: squares of larger ones are infinite


class Detector(ABC):
    """A test for a change in a stream of numbers.

    `CHECKS` has a check of `base.schema` for every attribute. After DRIFT the detector has begun afresh, and
    `since` is the number of values, the last one included, that it takes to be from after the change.
    """

    name: str
    CHECKS: ClassVar[dict]
    since = 0

    @abstractmethod
    def update(self, value: float) -> str:
        """STABLE, WARNING or DRIFT after one more value. Raises InputError ``drift-value``."""

    @abstractmethod
    def reset(self) -> None:
        """Forget every value; the settings stay."""

    def state(self) -> dict:
        """Settings and memory as JSON values; `registry.restore` makes the same detector of them."""
        return {"detector": self.name, **copy.deepcopy(vars(self))}


def checked(value: float, low: float = -LARGEST, high: float = LARGEST) -> float:
    """`value` as a float. Raises InputError ``drift-value`` if it is NaN, infinite or out of range."""
    number = float(value)
    if not low <= number <= high or not math.isfinite(number):
        raise InputError(
            "drift-value", f"a drift detector was given {number:g}; it takes numbers from {low:g} to {high:g}"
        )
    return number
