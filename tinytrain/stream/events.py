"""What a session of watching says, beside the events of `tinytrain.base.events`.

Verdicts and labels also have the `key` of an image.
"""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinytrain.base.errors import visible
from tinytrain.base.events import Event, Note
from tinytrain.stream.verdicts import normal_facts, verdict_in_words

if TYPE_CHECKING:  # printing and --help need no numpy
    from tinytrain.heads.head import HeadVerdict

IMAGES, CUSUM = "images", "cusum"  # what a drift is looked for in: the images, or the errors that labels show
DRIFTS = {
    IMAGES: "the images have changed: verdicts may be wrong now; correct some of the next ones",
    CUSUM: "more verdicts are wrong than before: the images, or what they are called, have changed",
}


@dataclass(frozen=True)
class Verdict(Event):
    """What image `key` shows, "" for an embedding; `drift` is STABLE or DRIFT. It took `seconds` to see.

    `name` is its class, None for none of them, or if the confidence is below `reject`; `guess` the likeliest.
    """

    name: str | None
    guess: str
    verdict: "HeadVerdict"
    drift: str
    reject: float | None = None
    key: str = ""
    seconds: float = 0.0

    def facts(self) -> dict:
        return {
            "image": self.key,
            "class": self.name,
            "best_guess": self.guess,
            "confidence": self.verdict.confidence,
            "verdict": self.verdict.state,
            **normal_facts(self.verdict),
            "drift": self.drift,
        }

    def words(self) -> str:
        return verdict_in_words(self.facts(), self.reject)


@dataclass(frozen=True)
class Learned(Event):
    """Image `key` is of class `name`, `new` or not; it was taken for `guess` (None: not known any more).

    `before` is the label that it had; `replaced` if nothing of that is left in the head. `seconds`: until the
    head knew and the store held it. `repeated`: it was known already.
    """

    event, keys = "correction", {"image": "key", "class": "name", "new_class": "new"}
    keys |= {key: key for key in ("before", "replaced", "seconds")}
    key: str
    name: str
    guess: str | None = None
    new: bool = False
    repeated: bool = False
    seconds: float = 0.0
    before: str | None = None
    replaced: bool = False

    def words(self, timed: bool = False) -> str:
        took = f" in {1000 * self.seconds:.1f} ms" if timed else ""
        what = "right" if self.guess == self.name else "new class" if self.new else "corrected"
        if self.before:
            how = "in place of" if self.replaced else "but its older label is a part of the delta and stays:"
            took += f", {how} {visible(self.before)}"
        return f"{what}: {visible(self.name)}, learnt{took}"


@dataclass(frozen=True)
class TakenBack(Event):
    """Image `key`, "" if that is not known any more, is not of class `before`, but of `name`, if any."""

    event, keys = "undo", {"image": "key", "class": "name", "before": "before"}
    key: str
    name: str | None
    before: str

    def words(self) -> str:
        again = f", it is {visible(self.name)} again" if self.name else ""
        return f"taken back: {visible(self.before)}{again}"


@dataclass(frozen=True)
class Drift(Event):
    """The stream has changed, as image `key` shows; it was found in IMAGES or by CUSUM."""

    event, keys = "drift", {"image": "key", "text": "text"}
    key: str
    found: str = IMAGES

    @property
    def text(self) -> str:
        return DRIFTS[self.found]

    def words(self) -> str:
        return f"{visible(self.key)}: {self.text}"


@dataclass(frozen=True)
class Readapted(Event):
    """What became of adapting again, or the words of the `command` that does it."""

    done: bool
    text: str
    command: tuple[str, ...] = ()

    def facts(self) -> dict:
        more = {"command": [*self.command]} if self.command else {"text": self.text}
        return {"event": "readapt", "done": self.done, **more}

    def words(self) -> str:
        return self.text + shlex.join(self.command)


@dataclass(frozen=True)
class Hint(Note):
    """What may help who types."""

    event = "hint"
    is_needed: bool = True


@dataclass(frozen=True)
class Ended(Event):
    """What the session came to. `waiting` corrections are not learnt; without a store none is `kept`."""

    is_needed = False
    counts: dict[str, int]  # images, failed, corrections, undone, alarms
    classes: tuple[str, ...]
    waiting: int = 0
    kept: bool = True

    def facts(self) -> dict:
        return {"event": "end", **self.counts, "classes": [*self.classes]}

    def words(self) -> str:
        count = self.counts
        more = "" if self.kept else ", not kept"
        more += f", {self.waiting} not learnt" if self.waiting else ""
        more += f", {count['undone']} taken back" if count["undone"] else ""
        return (
            f"{count['images']} images, {count['failed']} unreadable, {count['corrections']} corrections "
            f"learnt{more}, {count['alarms']} alarms, {len(self.classes)} classes"
        )
