"""PBM, PGM and PPM, raw and plain. All become raw 8-bit files, because Pillow decodes others in Python."""

import io
import re
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, eight_bits, joined, refuse_more

MAX_PIXELS = PIXEL_BYTES // 4
MAX_CONVERTED = PIXEL_BYTES // 7  # per pixel three bytes converted and four decoded
MAX_PLAIN = 16_000_000  # bytes of a text of numbers
MAX_COMMENTS = 1000  # in such a text
CUT_OFF = "is cut off"
MAX_HEADER = 2**16
STRIP = 2**18  # numbers converted at once
BANDS = {1: 1, 2: 1, 3: 3, 4: 1, 5: 1, 6: 3}
SPACE, NUMBER = rb"(?:[ \t\n\v\f\r]|#[^\r\n]*[\r\n])+", rb"([0-9]{1,10})"
END = rb"(?:#[^\r\n]*)?[ \t\n\v\f\r]"
HEADER = re.compile(
    rb"P(?:([14])" + (SPACE + NUMBER) * 2 + rb"|([2356])" + (SPACE + NUMBER) * 3 + rb")" + END
)


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    match = HEADER.match(file.read(MAX_HEADER))
    if match is None:
        raise broken(f"cannot be decoded (no header of a PBM, PGM or PPM in the first {MAX_HEADER:,} bytes)")
    kind, width, height, largest = (int(number) for number in (*filter(None, match.groups()), 1)[:4])
    bands, start = BANDS[kind], match.end()
    if kind == 4 or (kind in (5, 6) and largest == 255):
        head = b"P%d %d %d%s\n" % (kind, width, height, b"" if kind == 4 else b" 255")
        return Stored("PPM", joined(head, file, start, length), width, height, MAX_PIXELS)
    if not 0 < largest < 2**16:
        raise broken(f"cannot be decoded (largest value {largest})")
    refuse_more(width, height, MAX_CONVERTED)
    count = width * height * bands
    file.seek(start)
    strips = [_plain(file, kind, count, largest)] if kind < 4 else _raw(file, count, largest)
    table = _table(largest, bands, inverted=kind == 1)
    data = b"".join(table[strip].tobytes() for strip in strips)
    head = b"P%d %d %d 255\n" % (5 if bands == 1 else 6, width, height)
    stream = joined(head, io.BytesIO(data), 0, len(data))
    return Stored("PPM", stream, width, height, MAX_CONVERTED, held=len(data))


def _table(largest: int, bands: int, inverted: bool) -> np.ndarray:
    """(65536,) uint8: the grey level of each number if `largest` is white, or black if `inverted`."""
    top = 65535 if bands == 1 and largest > 255 else 255
    scaled = np.minimum(np.rint(np.arange(2**16) / largest * top), top).astype(np.uint32)
    values = (eight_bits(scaled) if top > 255 else scaled).astype(np.uint8)
    return 255 - values if inverted else values


def _raw(file: BinaryIO, count: int, largest: int) -> Iterable[np.ndarray]:
    """`count` numbers of one byte, or of two if `largest` needs them, in pieces of STRIP."""
    dtype = np.dtype("u1" if largest < 256 else ">u2")
    for done in range(0, count, STRIP):
        size = min(STRIP, count - done) * dtype.itemsize
        if len(data := file.read(size)) < size:
            raise broken(CUT_OFF)
        yield np.frombuffer(data, dtype)


def _plain(file: BinaryIO, kind: int, count: int, largest: int) -> np.ndarray:
    """`count` numbers, uint16, from text."""
    text = file.read(MAX_PLAIN + 1)
    if len(text) > MAX_PLAIN or text.count(b"#") > MAX_COMMENTS:
        most = f"{MAX_PLAIN // 10**6} MB of text and {MAX_COMMENTS:,} comments"
        raise InputError("picture-too-large", f"has more than {most}; save it as PNG")
    text = re.sub(rb"#[^\r\n]*", b"", text)
    text = text[: re.match(rb"[0-9\s]*", text).end()]
    if kind == 1:  # digits with or without space between them
        numbers = np.frombuffer(text.translate(None, b" \t\n\v\f\r"), np.uint8)[:count] - 48
    else:
        numbers = np.fromstring(text, np.float32, sep=" ")[:count]
    if len(numbers) < count:
        raise broken(CUT_OFF)
    if numbers.max() > largest:
        raise broken(f"cannot be decoded (number {numbers.max():g} is above the declared maximum {largest})")
    return numbers.astype(np.uint16)
