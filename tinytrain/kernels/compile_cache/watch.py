"""Tells a listener which kernels are being compiled: in a first run that takes minutes on a small board."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

# (number of the compilation, how many there may have to be at most); None when its compilation has ended.
Listener = Callable[[tuple[int, int] | None], None]


class Watch:
    """Counts what this process compiles: a kernel, by a name such as ``"dense.enter"``, for some `kinds` of
    arguments.
    """

    def __init__(self):
        self._missing: Counter[str] = Counter()  # not on disk when this process looked, or not usable
        self._begun: set[tuple[str, Hashable]] = set()
        self._listener: Listener | None = None

    def expect(self, kernels: Iterable[str]) -> None:
        """These kernels, each once for every kind of arguments, are not on disk: they will be compiled."""
        self._missing |= Counter(kernels)

    def begin(self, kernel: str, kinds: Hashable = None) -> None:
        """`kernel` is compiled now."""
        self._begun.add((kernel, kinds))
        self._missing |= Counter(name for name, _ in self._begun)
        if self._listener:
            self._listener((len(self._begun), self._missing.total()))

    def end(self) -> None:
        """The compilation of the last kernel has ended."""
        if self._listener:
            self._listener(None)

    @contextmanager
    def told(self, listener: Listener) -> Iterator[None]:
        """`listener` is called before and after each kernel that is compiled inside the block."""
        before, self._listener = self._listener, listener
        try:
            yield
        finally:
            self._listener = before


WATCH = Watch()
