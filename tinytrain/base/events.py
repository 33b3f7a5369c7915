"""What work that takes long or goes on says, one small value after another.

A terminal, lines of JSON and a page are readers of the same events. Of each, `facts` are JSON values and
`words` a line. What a stream of images adds is in `tinytrain.stream.events`.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tinytrain.base.errors import CancelledError, TinytrainError


class Event:
    """Anything that is said. `keys` of its facts show its fields."""

    event, keys = "", {"text": "text"}
    is_needed = True  # by who asked for quiet as well

    def facts(self) -> dict:
        return {"event": self.event, **{key: getattr(self, field) for key, field in self.keys.items()}}


Tell = Callable[[Event], object]


@dataclass(frozen=True)
class Progress(Event):
    """Of a `stage`, `done` of `total` items are done; `loss` is that of a step of training, else None."""

    event = "progress"
    is_needed = False
    stage: str
    done: int
    total: int
    loss: float | None = None

    def facts(self) -> dict:
        loss = self.loss if self.loss is not None and math.isfinite(self.loss) else None
        return {"event": self.event, **vars(self), "loss": loss}

    def words(self) -> str:
        loss = "" if self.loss is None else f"  loss {self.loss:.3f}"
        return f"{self.stage} {self.done}/{self.total}{loss}"


@dataclass(frozen=True)
class Failed(Event):
    """What was not done, and why; `about` says which image, label or store."""

    error: TinytrainError
    about: dict
    more: str = ""

    def facts(self) -> dict:
        return {"event": "error", **self.about, **self.error.facts()}

    def words(self) -> str:
        return f"{self.error}{self.more}"


@dataclass(frozen=True)
class Note(Event):
    """What there is to say beside results."""

    event = "note"
    text: str

    def words(self) -> str:
        return self.text


class Cancellable:
    """Hands events on to `tell`, until `cancelled` is set, as any thread may do.

    Then the next `Progress` raises CancelledError where the work tells it. So the work ends there: its
    threads and memory are given back, and nothing is written.
    """

    def __init__(self, tell: Tell):
        self.tell, self.cancelled = tell, threading.Event()

    def __call__(self, event: Event) -> None:
        if self.cancelled.is_set() and isinstance(event, Progress):
            raise CancelledError("interrupted", "cancelled before it was done")
        self.tell(event)
