"""One allocation for everything that a Program puts somewhere."""

import contextlib
import mmap
from collections.abc import Iterable

import numpy as np


class Arena:
    """`nbytes` bytes of anonymous memory of their own, zeroed; gone when the last view is gone.

    Private and without huge pages: what the process holds grows by the pages that are touched, no more.
    """

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self._map = mmap.mmap(-1, max(nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)

    def release(self, keep: Iterable[tuple[int, int]]) -> None:
        """Give pages back to the system, all but those with bytes of `keep`, (offset, length) each.

        They are zero when they are used again.
        """
        start = 0
        for offset, length in [*sorted(keep), (len(self._map), 0)]:
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            last = offset if offset == len(self._map) else offset // mmap.PAGESIZE * mmap.PAGESIZE
            if first < last:
                self._map.madvise(mmap.MADV_DONTNEED, first, last - first)
            start = max(start, offset + length)

    def keep(self, arrays: Iterable[np.ndarray]) -> None:
        """Give back all pages but those that hold `arrays`; some of these may lie elsewhere."""
        first = self._bytes.ctypes.data
        places = ((array.ctypes.data - first, array.nbytes) for array in arrays)
        self.release((offset, n) for offset, n in places if 0 <= offset < self.nbytes)

    def view(self, offset: int, shape: tuple[int, ...], dtype) -> np.ndarray:
        """A writable array over the bytes from `offset` on."""
        dtype = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if offset + count > self.nbytes:
            raise AssertionError(f"view of {count} bytes at {offset} leaves an arena of {self.nbytes}")
        return self._bytes[offset : offset + count].view(dtype).reshape(shape)
