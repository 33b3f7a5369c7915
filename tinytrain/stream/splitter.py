"""Cuts what a camera writes into its images, whatever lies between them."""

from tinytrain.base.errors import InputError
from tinytrain.episode import imagefile
from tinytrain.episode.boundaries import (
    CUT_OFF,
    DAMAGED,
    MOST_BYTES,
    NOTHING,
    START,
    START_BYTES,
    NoImageError,
    Parser,
    is_known,
    is_thumbnail,
    jpeg_end,
    parser_of,
    starts,
    too_long,
)
from tinytrain.episode.decode import check_image

HELD_BYTES = 2**22  # of the beginning of a stream without an image, so that a decoder can say what it is


class Splitter:
    """Cuts a stream into its images, and passes over what lies between them and what is cut off.

    Images of kinds that do not say where they end (TIFF, GIF, AVIF, HEIC) are the whole stream. `skipped`: a
    pair (bytes, why) for each gap, to be taken out. `lost`: bytes since the last image, and `why`.
    `beginning`: those of a stream without an image. Memory: MOST_BYTES and HELD_BYTES.
    """

    def __init__(self):
        self.skipped: list[tuple[int, str]] = []
        self.beginning, self.lost = b"", 0
        self._data, self.why = bytearray(), NOTHING
        self._walk: Parser | None = None
        self._whole = _to_the_end()
        self._begun = self._given = False

    def feed(self, more: bytes) -> list[bytes]:
        """The images that are whole with these bytes."""
        self._data += more
        if not self._given:
            self.beginning += more[: HELD_BYTES - len(self.beginning)]
        if self._begun or len(self._data) >= imagefile.START or START.match(self._data):
            return self._images()
        return []

    def finish(self) -> list[bytes]:
        """The images that are left, as nothing comes any more."""
        found = self._images()
        while self._walk is not None:
            sure = next(self._walk)
            if self._walk is self._whole and _is_whole(self._data):
                found.append(self._taken(len(self._data)))
            else:
                self._give_up(sure, CUT_OFF)
                found += self._images()
        self._skip(len(self._data), NOTHING)
        self._note_gap()
        return found

    def _images(self) -> list[bytes]:
        if not self._begun:
            self._begun = True
            self._walk = self._whole if is_known(self._data) else None
        found = []
        while self._walk is not None or self._seek():
            try:
                sure = next(self._walk)
                if len(self._data) <= MOST_BYTES:
                    break
                raise too_long(sure)
            except StopIteration as whole:
                if is_thumbnail(self._data, whole.value):
                    self._skip(whole.value, CUT_OFF)
                else:
                    found.append(self._taken(whole.value))
            except NoImageError as error:
                self._give_up(error.sure, error.why)
        return found

    def _seek(self) -> bool:
        """Pass over what no image begins with; whether one begins behind it."""
        match = START.search(self._data)
        self._skip(match.start() if match else len(self._data) - START_BYTES + 1, NOTHING)
        self._walk = parser_of(self._data)
        return match is not None

    def _give_up(self, sure: int, why: str) -> None:
        """Pass over an image that is none, up to the next one, which may begin inside of what it claimed."""
        for start in starts(self._data, 1, sure):
            if (jpeg_end(self._data, start) or sure + 1) > sure:  # otherwise a thumbnail
                sure = start
                break
        by_chance = why == DAMAGED and sure < START_BYTES  # the first bytes of an image, and nothing more
        self._skip(sure, NOTHING if by_chance else why)

    def _taken(self, end: int) -> bytes:
        self._note_gap()
        self._walk, self._given, self.beginning = None, True, b""
        image = bytes(self._data[:end])
        del self._data[:end]
        return image

    def _skip(self, count: int, why: str) -> None:
        if count > 0:
            self._walk, self.lost = None, self.lost + min(count, len(self._data))
            self.why = why if self.why == NOTHING else self.why
            del self._data[:count]

    def _note_gap(self) -> None:
        if self.lost:
            self.skipped.append((self.lost, self.why))
        self.lost, self.why = 0, NOTHING


def _to_the_end() -> Parser:
    while True:
        yield 1


def _is_whole(data: bytearray) -> bool:
    try:
        check_image(bytes(data))
    except InputError as error:
        return error.code != "image-unreadable"
    return True
