"""Tells a listener which kernels are being compiled: in a first run that takes minutes on a small board."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

# (number of the kernel, how many may have to be compiled at most); None when its compilation has ended.
Listener = Callable[[tuple[int, int] | None], None]


class Watch:
    """Counts the kernels that this process compiles; `kernel` is a name such as ``"dense.unfold"``."""

    def __init__(self):
        self._missing: set[str] = set()  # not on disk when this process looked, or not usable
        self._begun: set[str] = set()
        self._listener: Listener | None = None

    def expect(self, kernels: Iterable[str]) -> None:
        """These kernels are not on disk, so they are compiled when they are needed."""
        self._missing.update(kernels)

    def begin(self, kernel: str) -> None:
        """`kernel` is compiled now."""
        self._missing.add(kernel)
        self._begun.add(kernel)
        if self._listener:
            self._listener((len(self._begun), len(self._missing)))

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
