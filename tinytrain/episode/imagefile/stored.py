"""An image whose header has been read, and the parts of its file for the decoder."""

import io
from dataclasses import dataclass
from typing import BinaryIO

from tinytrain.base.confined import MEMORY
from tinytrain.base.errors import InputError

# Reading an image to a square of at most 256 pixels a side takes at most this MEMORY, in whichever process,
# about what a board with 512 MB can spare. PIXEL_BYTES of it are for the pixels in all forms that exist at
# once; the rest is for rows, headers and the square.
PIXEL_BYTES = MEMORY - 12 * 10**6
CODE = 25 * 10**6  # of these, what the other process itself takes: not for images that are plain
# Keeps a row, and a table with one address per row, below 1 MB. It is also the limit of JPEG.
MAX_SIDE = 2**16 - 1
MAX_PROFILE = 2**20  # bytes of a colour profile; a longer one is left out


@dataclass(frozen=True)
class Stored:
    """An image of `width` x `height` pixels, to be decoded from `stream`.

    `held`: bytes that decoding takes beside the decoded pixels. `orientation`: the EXIF number, 1 to 8.
    `profile`: the ICC profile of its colours. `plain`: the header says all that decoding can cost.
    """

    stream: BinaryIO
    width: int
    height: int
    held: int = 0
    orientation: int = 1
    profile: bytes = b""
    plain: bool = True


def broken(why: str) -> InputError:
    return InputError("image-unreadable", f"{why}; replace or remove it")


def refuse_more(width: int, height: int, most: float) -> None:
    """Raises InputError ``image-too-large`` above `most` pixels or for a side above MAX_SIDE, and
    ``image-unreadable`` for an image without pixels."""
    if not (width and height):
        raise broken(f"is {width} x {height} pixels")
    if max(width, height) > MAX_SIDE:
        why = f"is {width} x {height} pixels, the limit is {MAX_SIDE:,} a side; cut or scale it"
        raise InputError("image-too-large", why)
    if width * height > most:
        limit = f"{most / 10**6:.0f}" if most >= 10**7 else f"{most / 10**6:.1f}"
        why = f"claims {width} x {height} pixels, the limit is {limit} million for its kind; scale it down"
        raise InputError("image-too-large", why)


class Joined(io.RawIOBase):
    """`head` followed by the bytes of `file` from `start` on, as one readable file."""

    def __init__(self, head: bytes, file: BinaryIO, start: int):
        self.head, self.file, self.start, self.position = head, file, start, 0

    def readinto(self, buffer) -> int:
        if self.position < len(self.head):
            data = self.head[self.position : self.position + len(buffer)]
        else:
            self.file.seek(self.start + self.position - len(self.head))
            data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += len(self.head) + self.file.seek(0, io.SEEK_END) - self.start
        self.position = offset + self.position * (whence == io.SEEK_CUR)
        return self.position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def joined(head: bytes, file: BinaryIO, start: int) -> BinaryIO:
    return io.BufferedReader(Joined(head, file, start), 2**16)
