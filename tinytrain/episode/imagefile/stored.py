"""An image whose header has been read, and the parts of its file for the decoder."""

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

import numpy as np

from tinytrain.base.errors import InputError

# Reading an image to a square of at most 256 pixels a side takes at most 256 MB of memory, about what a board
# with 512 MB can spare. This is the part for the pixels in all forms that exist at once; the rest is for
# rows, headers and the square.
PIXEL_BYTES = 244 * 10**6
# Keeps a row, and a table with one address per row, below 1 MB. It is also the limit of JPEG.
MAX_SIDE = 2**16 - 1
MAX_PROFILE = 2**20  # bytes of a colour profile; a longer one is left out


@dataclass(frozen=True)
class Stored:
    """An image of `width` x `height` pixels in Pillow's `format`, to be decoded from `stream`. `opener` makes
    Pillow's image of a stream if Pillow has no reader of its own.

    `held`: bytes that decoding takes beside the decoded pixels. `most`: pixels that can be decoded in about a
    second. `orientation`: the EXIF number, 1 to 8. `complete`: all bytes that the pixels take are there.
    `profile`: the ICC profile of its colours.
    """

    format: str
    stream: BinaryIO
    width: int
    height: int
    most: int
    held: int = 0
    orientation: int = 1
    complete: bool = False
    opener: Callable | None = None
    profile: bytes = b""


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
        self.ends = list(accumulate(length for *_, length in parts))
        self.position = self.watched = 0

    def readinto(self, buffer) -> int:
        number = bisect_right(self.ends, self.position)
        if number == len(self.parts):
            return 0
        file, start, length = self.parts[number]
        left = self.ends[number] - self.position
        file.seek(start + length - left)
        data = file.read(min(len(buffer), left))
        buffer[: len(data)] = data
        self._show(data)
        self.position += len(data)
        return len(data)

    def _show(self, data: bytes) -> None:
        new = self.position + len(data) - self.watched
        if self.watch is not None and new > 0:
            self.watch(data[-new:])
            self.watched += new

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self.position, self.ends[-1])[whence]
        self.position = base + offset
        return self.position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def joined(head: bytes, file: BinaryIO, start: int, stop: int, watch=None) -> BinaryIO:
    """`head` followed by the bytes `start` to `stop` of `file`, as one readable file."""
    return pieced(head, file, [(start, stop - start)], watch)


def pieced(head: bytes, file: BinaryIO, pieces: Iterable[tuple[int, int]], watch=None) -> BinaryIO:
    """`head` followed by the pieces (first byte, bytes) of `file`, as one readable file."""
    parts = [(io.BytesIO(head), 0, len(head)), *((file, at, max(0, size)) for at, size in pieces)]
    return io.BufferedReader(Parts(parts, watch), 2**16)


def whole(pieces: Iterable[bytes]) -> BinaryIO:
    """A readable file of these pieces, which are held in memory."""
    stream = io.BytesIO()
    for piece in pieces:
        stream.write(piece)
    stream.seek(0)
    return stream


def decodes(feature: str) -> bool:
    """Whether the installed Pillow has this part, such as "webp"; an old one may not know it at all."""
    from PIL import features

    return feature in features.modules and bool(features.check(feature))


def require(feature: str, kind: str, since: str) -> None:
    """Raises InputError ``picture-decoder`` if the installed Pillow cannot decode this kind of image."""
    import PIL

    if not decodes(feature):
        why = f"is a {kind} image, and Pillow {PIL.__version__} here cannot read {kind}"
        remedy = f"install a newer one (pip install -U 'pillow>={since}'), or save it as PNG or JPEG"
        raise InputError("picture-decoder", f"{why}; {remedy}")
