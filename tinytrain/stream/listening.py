"""Words in a stream of sound, where the head is sure of one over a few looks, and how often by mistake.

The window of a network goes on by a hop. The logits of the last LOOKS windows are averaged, and a window is
given when their score, see `Limit.score`, gets above a threshold; then none for the length of a window, in
which the same word would be seen again. The threshold is the limit of the head, or what a background without
any word is above as often as is asked for.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.sound import Window
from tinytrain.network.input_spec import InputSpec

HOP = 0.24  # seconds
LOOKS = 3
Logits = Callable[[np.ndarray], np.ndarray]  # an item to logits (way,)
Score = Callable[[np.ndarray], float]  # these to what is compared with a threshold


class Rate(NamedTuple):
    """`count` mistakes in so many `hours`, with the 95 % interval of their rate an hour (Byar's)."""

    count: int
    hours: float

    @property
    def interval(self) -> tuple[float, float]:
        n, more = self.count, self.count + 1
        low = n * max(0.0, 1 - 1 / (9 * n) - 1.96 / (3 * n**0.5)) ** 3 if n else 0.0
        high = more * (1 - 1 / (9 * more) + 1.96 / (3 * more**0.5)) ** 3
        return low / self.hours, high / self.hours

    def words(self) -> str:
        """For people: about how many there are an hour."""
        low, high = self.interval
        about = f"about {self.count / self.hours:.3g} an hour" if self.count else "none"
        return f"{about} (95 % interval {low:.2g} to {high:.2g} an hour), from {60 * self.hours:.3g} minutes"


class Trigger:
    """Says at which hops a word is given: where a score gets above `threshold`, `rest` samples apart."""

    def __init__(self, threshold: float, rest: int):
        self.threshold, self.rest, self._next, self._below = threshold, rest, 0, True

    def fires(self, end: int, score: float) -> bool:
        """Whether a word is given at the hop that ends after so many samples, and has this `score`."""
        fires = score > self.threshold and self._below and end >= self._next
        if fires:
            self._next = end + self.rest
        self._below = score <= self.threshold
        return fires


class Ear:
    """Scores of the hops of a stream of samples for `spec`: what they `score` of the `logits` of its windows.

    `rest` is how many samples a window has.
    """

    def __init__(self, spec: InputSpec, logits: Logits, score: Score, hop: float = HOP):
        self.window, self.logits, self.score = Window(spec), logits, score
        settings = self.window.settings
        self.rate, self.rest = settings.sampling_rate, settings.samples(spec.shape[0])
        self.hop = settings.sequence_stride * max(1, round(hop * self.rate / settings.sequence_stride))
        self._pending, self._looks = np.empty(0, np.int16), deque(maxlen=LOOKS)

    def hear(self, samples: np.ndarray) -> Iterator[tuple[int, float]]:
        """End and score of each hop that is whole with `samples` (n,) int16; `window` is there then."""
        self._pending = np.concatenate([self._pending, samples])
        while len(self._pending) >= self.hop:
            self.window.add(self._pending[: self.hop])
            self._pending = self._pending[self.hop :]
            if (item := self.window.item()) is not None:
                self._looks.append(self.logits(item))
                yield self.window.end, self.score(np.mean(self._looks, axis=0))


def threshold_for(ear: Ear, background: Iterable, least: float, per_hour: float) -> tuple[float, Rate]:
    """The lowest threshold from `least` on that gives so many windows of an hour of `background`; their rate.

    The background comes in blocks of samples (n,) int16. Raises InputError ``too-few-images`` if it is too
    short for a window.
    """
    hops = [hop for block in background for hop in ear.hear(block)]
    if not hops:
        raise InputError("too-few-images", "the background ends before a look at it; record a minute or more")
    hours = ear.window.end / ear.rate / 3600

    def count(threshold: float) -> int:
        trigger = Trigger(threshold, ear.rest)
        return sum(trigger.fires(*hop) for hop in hops)

    for lower in sorted({least, *(score for _, score in hops if score > least)}, reverse=True):
        if count(lower) > per_hour * hours:
            break
        threshold = lower
    return threshold, Rate(count(threshold), hours)
