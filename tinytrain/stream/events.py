"""What a session of watching says, one event after another: a command prints them, a page may send them.

Of each event `facts` are JSON values and `words` a line. Verdicts and labels also have the `key` of an image.
"""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinytrain.base.errors import TinytrainError, visible

if TYPE_CHECKING:  # printing and --help need no numpy
    from tinytrain.stream.learner import Observation
    from tinytrain.stream.watcher import Correction

NONE = "none of these"
UNCERTAIN, UNKNOWN = "uncertain", "unknown"  # of `heads.head`, which needs numpy
IMAGES, CUSUM = "images", "cusum"  # what a drift is looked for in: the images, or the errors that labels show
DRIFTS = {
    IMAGES: "the images have changed: verdicts may be wrong now; correct some of the next ones",
    CUSUM: "more verdicts are wrong than before: the images, or what they are called, have changed",
}
NAMED_ANYWAY = (
    "every image gets a class, whatever it shows: this delta (head {}) cannot tell images of other things; "
    "--reject 60% of predict and watch refuses unsure answers"
)


class Event:
    """Anything that is said."""

    is_needed = True  # by who asked for quiet as well


@dataclass(frozen=True)
class Verdict(Event):
    """What an image was `seen` to show, with the confidence asked for."""

    seen: "Observation"
    reject: float | None = None

    @property
    def key(self) -> str:
        return self.seen.key

    def facts(self) -> dict:
        seen, verdict = self.seen, self.seen.verdict
        return {
            "image": seen.key,
            "class": seen.name,
            "best_guess": seen.guess,
            "confidence": verdict.confidence,
            "verdict": verdict.state,
            **normal_facts(verdict),
            "drift": seen.drift,
        }

    def words(self) -> str:
        return verdict_in_words(self.facts(), self.reject)


@dataclass(frozen=True)
class Learned(Event):
    """A correction was learnt."""

    done: "Correction"

    @property
    def key(self) -> str:
        return self.done.key

    def facts(self) -> dict:
        done = self.done
        return {
            "event": "correction",
            "image": done.key,
            "class": done.name,
            "new_class": done.new,
            "before": done.before,
            "replaced": done.replaced,
            "seconds": round(done.seconds, 6),
        }

    def words(self, timed: bool = False) -> str:
        done = self.done
        took = f" in {1000 * done.seconds:.1f} ms" if timed else ""
        what = "right" if done.guess == done.name else "new class" if done.new else "corrected"
        if done.before:
            how = "in place of" if done.replaced else "but its older label is a part of the delta and stays:"
            took += f", {how} {visible(done.before)}"
        return f"{what}: {visible(done.name)}, learnt{took}"


@dataclass(frozen=True)
class TakenBack(Event):
    """A label was taken back."""

    done: "Correction"

    @property
    def key(self) -> str:
        return self.done.key or "an earlier image"

    def facts(self) -> dict:
        done = self.done
        return {"event": "undo", "image": done.key, "class": done.name, "before": done.before}

    def words(self) -> str:
        again = f", it is {visible(self.done.name)} again" if self.done.name else ""
        return f"taken back: {visible(self.done.before)}{again}"


@dataclass(frozen=True)
class Drift(Event):
    """The stream has changed, as image `key` shows; it was found in IMAGES or by CUSUM."""

    key: str
    found: str = IMAGES

    def facts(self) -> dict:
        return {"event": "drift", "image": self.key, "text": DRIFTS[self.found]}

    def words(self) -> str:
        return f"{visible(self.key)}: {DRIFTS[self.found]}"


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
class Failed(Event):
    """An image that cannot be read, a refused label, or a store that takes nothing; `about` says which."""

    error: TinytrainError
    about: dict
    more: str = ""

    def facts(self) -> dict:
        return {"event": "error", **self.about, **self.error.facts()}

    def words(self) -> str:
        return f"{self.error}{self.more}"


@dataclass(frozen=True)
class Note(Event):
    """What a source of images has to say."""

    text: str

    def facts(self) -> dict:
        return {"event": "note", "text": self.text}

    def words(self) -> str:
        return self.text


@dataclass(frozen=True)
class Hint(Note):
    """What may help who types."""

    is_needed: bool = True

    def facts(self) -> dict:
        return {"event": "hint", "text": self.text}


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


def named_anyway(head) -> str:
    """What to say of a `head` that cannot tell strangers; "" if it can."""
    return "" if head.tells_strangers else NAMED_ANYWAY.format(head.kind)


def normal_facts(verdict) -> dict:
    """What a row of JSON says besides of a `heads.head.HeadVerdict`, if there is one class alone."""
    if verdict.threshold is None:
        return {}
    return {"score": verdict.score, "threshold": verdict.threshold}


def verdict_in_words(row: dict, reject: float | None) -> str:
    """Confidence and class of a row of JSON, or why it has none: with `reject`, the confidence asked for."""
    name, sure = visible(row["best_guess"]), f"{row['confidence']:.1%}"
    score = f"score {row['score']:.2f}" if "score" in row else None  # of the only class
    if row["verdict"] == UNKNOWN:
        above = f"not {name} ({score}, above {row['threshold']:.2f})" if score else ""
        return " " * 8 + (above or f"{NONE} (closest: {name}, {sure})")
    if row["class"] is None:
        guess = f"not surely {name} ({score}, {sure}" if score else f"{NONE} (best guess {name}, {sure}"
        return f"        {guess}, below {reject:.0%})"
    more = f" ({score})" if score else ", uncertain" if row["verdict"] == UNCERTAIN else ""
    return f"{sure:>6}  {name}{more}"
