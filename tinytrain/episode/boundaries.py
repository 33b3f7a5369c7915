"""Where an image begins and ends among bytes that arrive piece by piece: of a camera, or of a growing file.

"Not an image" and "not yet whole" are two answers. A parser is a generator over bytes that grow behind it.
While more of them are needed, it yields the place up to which they are surely its image. It returns the place
behind its image, and raises `NoImageError` where there is none.
"""

import re
import zlib
from collections.abc import Generator
from itertools import islice

from tinytrain.base.errors import InputError
from tinytrain.episode import imagefile
from tinytrain.episode.decode import check_image
from tinytrain.episode.imagefile import jpeg, png
from tinytrain.episode.kind import MOST_BYTES, UnknownEndError

MOST_INSIDE = 64  # images in the header of one, such as thumbnails, that are looked at
NOTHING, CUT_OFF, DAMAGED = "no image begins there", "an image is cut off", "an image is damaged"
START = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|P[456][ \t\n\v\f\r#]|RIFF.{4}WEBP|BM.{4}\0\0\0\0", re.DOTALL
)
START_BYTES = 12  # of the longest of them
JPEG_START = re.compile(rb"\xff\xd8\xff")
FIRST_BYTES = b"\xff\x89PRBGIM\0"  # of all kinds that are read
MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # what ends the coded pixels of a scan
PNM_MOST, PNM_BANDS = 2**16, {4: 1, 5: 1, 6: 3}  # bytes of a header, channels
SPACE, NUMBER = rb"(?:[ \t\n\v\f\r]|#[^\r\n]*[\r\n])+", rb"([0-9]{1,10})"
PNM_HEADER = re.compile(
    rb"P(?:(4)" + (SPACE + NUMBER) * 2 + rb"|([56])" + (SPACE + NUMBER) * 3 + rb")(?:#[^\r\n]*)?[ \t\n\v\f\r]"
)
PNM_BEGUN = re.compile(rb"P[456](?:[ \t\n\v\f\r0-9]|#[^\r\n]*)*")
BMP_HEADER = re.compile(rb"BM.{4}\0{4}.{4}[\x0c(48@l|]\0\0\0", re.DOTALL)
WEBP_HEADER = re.compile(rb"RIFF.{4}WEBP", re.DOTALL)
Parser = Generator[int, None, int]


class NoImageError(UnknownEndError):
    """There is no whole image, because of `why`. The bytes before `sure` may be a part of one."""

    def __init__(self, why: str, sure: int = 1):
        super().__init__(why)
        self.why, self.sure = why, sure


def too_long(sure: int) -> NoImageError:
    return NoImageError(f"an image takes more than {MOST_BYTES:,} bytes", sure)


def whole_end(data: bytes) -> int | None:
    """The place behind the image that the bytes of a file begin with; None if that is not whole yet.

    It is the end of the bytes where nothing is known of it. Raises NoImageError if more would not help.
    """
    try:
        if (walk := parser_of(data)) is not None:
            next(walk)
            return None
        check_image(data)
    except StopIteration as whole:
        return whole.value
    except (NoImageError, InputError) as error:
        # Some programs write a file of zeros first, and its content later.
        if (len(data) < START_BYTES and data[:1] in FIRST_BYTES) or not data[-16:].strip(b"\0"):
            return None
        if isinstance(error, NoImageError) or not is_known(data):
            raise NoImageError(str(error)) from None
        return None if error.code == "image-unreadable" else len(data)
    return len(data)


def parser_of(data: bytes | bytearray) -> Parser | None:
    """The parser of the image that `data` begin with; None if that does not say where it ends, or is none."""
    return PARSERS[bytes(data[:2])](data) if START.match(data) else None


def is_known(data: bytes) -> bool:
    """Whether a file that starts like this is an image of a kind that does not say where it ends."""
    try:
        imagefile.kind_of(bytes(data[: imagefile.START]))
    except InputError:
        return False
    return not START.match(data)


def _until(data: bytearray, length: int, sure: int) -> Generator[int, None, None]:
    while len(data) < length:
        if length > MOST_BYTES:
            raise too_long(sure)
        yield sure


def _jpeg(data: bytearray) -> Parser:
    """As ITU-T T.81, B.1 has it. Thumbnails inside of segments have ends of their own, which do not count."""
    end = yield from _jpeg_from(data, 0)
    # Segments that are cut off may go on with those of the next image, of which then all is there.
    inside = starts(data, 2, end, JPEG_START)
    if any(jpeg_end(data, start) == end for start in inside):
        raise NoImageError(CUT_OFF, inside[0])
    return end


def starts(data: bytearray, first: int, last: int, of: re.Pattern = START) -> list[int]:
    return [match.start() for match in islice(of.finditer(data, first, last), MOST_INSIDE)]


def jpeg_end(data: bytearray, start: int) -> int | None:
    """The place behind the image that begins at `start`; None if there is no whole one."""
    try:
        next(_jpeg_from(data, start))
    except StopIteration as whole:
        return whole.value
    except NoImageError:
        pass
    return None


def _jpeg_from(data: bytearray, start: int) -> Parser:
    place = sure = start + 2
    frame = pixels = False
    while True:
        yield from _until(data, place + 2, sure)
        marker = data[place + 1]
        if data[place] != 0xFF:
            raise NoImageError(DAMAGED, sure)
        if marker == 0xFF:
            place += 1
            continue
        if marker in jpeg.ALONE and marker != 0xD8:
            place += 2
            continue
        if marker == jpeg.END and pixels:
            return place + 2
        if marker == 0xD8:
            raise NoImageError(CUT_OFF, place)
        if marker < 0xC0 or marker == jpeg.END:
            raise NoImageError(DAMAGED, sure)
        yield from _until(data, place + 4, place + 2)
        length = int.from_bytes(data[place + 2 : place + 4])
        frame = frame or marker in jpeg.FRAMES
        if length < 2 or (marker == jpeg.START_OF_SCAN and not frame):
            raise NoImageError(DAMAGED, sure)
        sure, place = place + 2, place + 2 + length
        if marker == jpeg.START_OF_SCAN:
            yield from _until(data, place, sure)
            pixels = True
            while (found := MARKER.search(data, place)) is None:
                place = max(place, len(data) - 1)
                yield place
            place = sure = found.start()


def is_thumbnail(data: bytearray, end: int) -> bool:
    """Whether segments go on behind a JPEG image: those of a larger one, whose start is not there."""
    if data[:2] != b"\xff\xd8":
        return False
    try:
        return next(_jpeg_from(data, end - 2)) > end + 2
    except StopIteration:
        return True
    except NoImageError:
        return False


def _png(data: bytearray) -> Parser:
    place = sure = len(png.MAGIC)
    while True:
        yield from _until(data, place + 8, sure)
        size, kind = int.from_bytes(data[place : place + 4]), bytes(data[place + 4 : place + 8])
        if not kind.isalpha() or (place == len(png.MAGIC)) != (kind == b"IHDR"):
            raise NoImageError(DAMAGED, sure)
        sure, place = place + 8, place + 12 + size
        yield from _until(data, place, sure)
        found = zlib.crc32(memoryview(data)[sure - 4 : place - 4])
        if kind[:1].isupper() and found != int.from_bytes(data[place - 4 : place]):
            raise NoImageError(DAMAGED, sure)
        if kind == b"IEND":
            return place


def _pnm(data: bytearray) -> Parser:
    while (match := PNM_HEADER.match(data)) is None:
        if PNM_BEGUN.match(data).end() < len(data) or len(data) > PNM_MOST:
            raise NoImageError(NOTHING)
        yield 1
    kind, width, height, largest = (int(number) for number in (*filter(None, match.groups()), 1)[:4])
    row = -(-width // 8) if kind == 4 else width * PNM_BANDS[kind] * (1 + (largest > 255))
    return (yield from _of_size(data, match.end() + row * height, PNM_HEADER))


def _bmp(data: bytearray) -> Parser:
    yield from _until(data, 18, 1)
    if not BMP_HEADER.match(data):
        raise NoImageError(NOTHING)
    return (yield from _of_size(data, int.from_bytes(data[2:6], "little"), BMP_HEADER))


def _webp(data: bytearray) -> Parser:
    return (yield from _of_size(data, 8 + int.from_bytes(data[4:8], "little"), WEBP_HEADER))


def _of_size(data: bytearray, end: int, header: re.Pattern) -> Parser:
    """An image whose header says its size: another such header inside of it is that of the next one."""
    yield from _until(data, end, 1)
    again = header.search(data, 1, end + START_BYTES + 8)
    if again and again.start() < end:
        raise NoImageError(CUT_OFF, again.start())
    return end


PARSERS = {b"\xff\xd8": _jpeg, b"\x89P": _png, b"RI": _webp, b"BM": _bmp}
PARSERS |= dict.fromkeys((b"P4", b"P5", b"P6"), _pnm)
