"""Who hears the events of a session beside whoever prints them: MQTT, a command, a file of counts.

None of them stops the stream, whatever becomes of a network, a program or a disk, and none that may take long
makes it wait.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue

from tinytrain.base.events import Event, Note, Tell
from tinytrain.stream.session import About

MOST = 256  # events that wait for a slow reader


class Reader:
    """Hears every event, and may have something to say itself. A context manager."""

    listens = False  # to somebody who may have `words` for images
    has_words = False

    def __call__(self, event: Event) -> None:
        """Hear an event."""

    def between(self) -> Iterator[Event]:
        """What it has to say of itself; called between images."""
        yield from ()

    def words(self) -> Iterable[About]:
        """What somebody has said of images since the last call."""
        return ()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        """The session is over, perhaps by an exception."""


class Apart(Reader, ABC):
    """A reader that hears events on a thread of its own: `hear` may take long.

    Of more than MOST events that wait, the oldest are dropped. At the end those that wait are heard, for
    `patience` seconds; none if the session ended by an exception. What is lost is said.
    """

    name, patience = "reader", 5.0

    def __init__(self):
        # Queues written in C: an interrupt that meets others while they let go of a lock leaves it locked.
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._said: set[str] = set()
        self._over, self._unheard = False, 0
        self._thread = threading.Thread(target=self._hear_all, name=self.name, daemon=True)

    @abstractmethod
    def hear(self, event: Event) -> None:
        """Do what the reader does with an event, on its thread."""

    def note(self, text: str, again: bool = False) -> None:
        """Say `text`, the same `again` only if that is true; from any thread."""
        if again or text not in self._said:
            self._said.add(text)
            self._notes.put(f"{self.name}: {text}")

    def __call__(self, event: Event) -> None:
        if self._events.qsize() >= MOST:
            with suppress(Empty):
                self._events.get_nowait()
                self.note(f"slower than the stream: of more than {MOST} events that wait the oldest are lost")
        self._events.put(event)

    def between(self) -> Iterator[Event]:
        with suppress(Empty):
            while True:
                yield Note(self._notes.get_nowait())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *exception) -> None:
        if kind is not None:
            self._over = True
        self._events.put(None)
        self._thread.join(self.patience)
        self._over = True
        if lost := self._unheard + max(0, self._events.qsize() - 1):
            self.note(f"{lost} events were not heard before the end")

    def _hear_all(self) -> None:
        while (event := self._events.get()) is not None:
            if self._over:
                self._unheard += 1
            else:
                self.hear(event)


class Readers:
    """`tell`, and `others` that hear every event as well. A context manager."""

    def __init__(self, tell: Tell, others: Iterable[Reader] = ()):
        self._tell, self._others, self._stack = tell, [*others], ExitStack()
        self.listen = any(reader.listens for reader in self._others)

    def __call__(self, event: Event) -> None:
        self._tell(event)
        for reader in self._others:
            reader(event)

    def words(self) -> list[About]:
        """What was said of images since the last call; what readers say of themselves is told."""
        for reader in self._others:
            for event in reader.between():
                self._tell(event)
        return [word for reader in self._others for word in reader.words()]

    @property
    def has_words(self) -> bool:
        return any(reader.has_words for reader in self._others)

    def __enter__(self) -> "Readers":
        for reader in self._others:
            self._stack.enter_context(reader)
        return self

    def __exit__(self, *exception) -> None:
        self._stack.__exit__(*exception)
        self.words()
