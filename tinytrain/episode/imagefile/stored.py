"""An image whose header has been read, and the parts of its file for the decoder."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from tinytrain.base.errors import InputError

# Reading an image to a square of at most 256 pixels a side takes at most 256 MB of memory, about what a board
# with 512 MB can spare. This is the part for the pixels in all forms that exist at once; the rest is for
# rows, headers and the square.
PIXEL_BYTES = 244 * 10**6
# Keeps a row, and a table with one address per row, below 1 MB. It is also the limit of JPEG.
MAX_SIDE = 2**16 - 1


@dataclass(frozen=True)
class Stored:
    """An image of `width` x `height` pixels in Pillow's `format`, to be decoded from `stream`.

    `held`: bytes that decoding takes beside the decoded pixels. `most`: pixels that can be decoded in about a
    second. `orientation`: the EXIF number, 1 to 8.
    """

    format: str
    stream: BinaryIO
    width: int
    height: int
    most: int
    held: int = 0
    orientation: int = 1


def broken(why: str) -> InputError:
    return InputError("picture-broken", f"{why}; replace or remove it")


def refuse_more(width: int, height: int, most: float) -> None:
    """Raises InputError ``picture-too-large`` above `most` pixels or for a side above MAX_SIDE, and
    ``picture-broken`` for an image without pixels."""
    if not (width and height):
        raise broken(f"is {width} x {height} pixels")
    if max(width, height) > MAX_SIDE:
        why = f"is {width} x {height} pixels, the limit is {MAX_SIDE:,} a side; cut or scale it"
        raise InputError("picture-too-large", why)
    if width * height > most:
        limit = f"{most / 10**6:.0f}" if most >= 10**7 else f"{most / 10**6:.1f}"
        why = f"claims {width} x {height} pixels, the limit is {limit} million for its kind; scale it down"
        raise InputError("picture-too-large", why)


def eight_bits(deep: np.ndarray) -> np.ndarray:
    """Grey levels 0..65535 (uint32) as 0..255, rounded."""
    return (deep + np.uint32(128)) // np.uint32(257)


class Parts(io.RawIOBase):
    """Parts (file, start, length) of binary files, concatenated to one readable file.

    `watch(bytes)` gets all bytes in order when they are read for the first time.
    """

    def __init__(self, parts: list[tuple[BinaryIO, int, int]], watch: Callable[[bytes], None] | None = None):
        self.parts, self.watch = parts, watch
        self.position = self.watched = 0

    def readinto(self, buffer) -> int:
        at = self.position
        for file, start, length in self.parts:
            if at < length:
                file.seek(start + at)
                data = file.read(min(len(buffer), length - at))
                buffer[: len(data)] = data
                self._show(data)
                self.position += len(data)
                return len(data)
            at -= length
        return 0

    def _show(self, data: bytes) -> None:
        new = self.position + len(data) - self.watched
        if self.watch is not None and new > 0:
            self.watch(data[-new:])
            self.watched += new

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self.position, sum(length for *_, length in self.parts))[whence]
        self.position = base + offset
        return self.position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def joined(head: bytes, file: BinaryIO, start: int, stop: int, watch=None) -> BinaryIO:
    """`head` followed by the bytes `start` to `stop` of `file`, as one readable file."""
    parts = [(io.BytesIO(head), 0, len(head)), (file, start, max(0, stop - start))]
    return io.BufferedReader(Parts(parts, watch), 2**16)
