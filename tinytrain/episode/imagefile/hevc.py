"""The header of HEVC pixels: how large a picture is, and how many samples it has."""

from tinytrain.episode.imagefile.coded_header import Bits, Sequence
from tinytrain.episode.imagefile.stored import broken

SEQUENCE, PICTURES = 33, 32  # kinds of units: the header with the size; below, slices of a picture
MAX_UNITS = 10_000
DAMAGED = "cannot be decoded (its HEVC header is damaged)"

PER_PIXEL = (1, 1.5, 2, 3)  # samples by the number of the chroma format


def sequence(record: bytes, data: bytes) -> Sequence:
    """What the only header in the configuration `record` says of the only picture in `data`.

    Raises InputError ``picture-broken``.
    """
    headers, width = _headers(record)
    if len(headers) != 1:
        raise broken(f"cannot be decoded ({len(headers)} HEVC headers in one image)")
    pictures = 0
    for unit in _units(data, width):
        kind = unit[0] >> 1 & 63
        if kind == SEQUENCE:
            raise broken("cannot be decoded (an HEVC header among its pixels)")
        if kind < PICTURES and len(unit) > 2:
            pictures += unit[2] >> 7  # the first slice of a picture
    if pictures != 1:
        raise broken(f"cannot be decoded ({pictures} HEVC pictures in one image)")
    # Bytes of 3 keep a unit apart from others.
    return _parsed(Bits(headers[0].replace(b"\0\0\3", b"\0\0"), DAMAGED))


def _headers(record: bytes) -> tuple[list[bytes], int]:
    """The units of kind SEQUENCE in a configuration record, and the bytes of the length before a unit."""
    if len(record) < 23:
        raise broken(DAMAGED)
    found, at = [], 23
    for _ in range(record[22]):
        kind, count = record[at] & 63 if at < len(record) else 0, int.from_bytes(record[at + 1 : at + 3])
        at += 3
        for _ in range(count):
            length = int.from_bytes(record[at : at + 2])
            if at + 2 + length > len(record):
                raise broken(DAMAGED)
            if kind == SEQUENCE or (length and record[at + 2] >> 1 & 63 == SEQUENCE):
                found.append(record[at + 2 : at + 2 + length])
            at += 2 + length
    return found, (record[21] & 3) + 1


def _units(data: bytes, width: int):
    at = 0
    for _ in range(MAX_UNITS):
        if at >= len(data):
            return
        length = int.from_bytes(data[at : at + width])
        if length < 2 or at + width + length > len(data):
            raise broken("is cut off")
        yield data[at + width : at + width + min(length, 16)]
        at += width + length
    raise broken(DAMAGED)


def _parsed(bits: Bits) -> Sequence:
    bits.take(16 + 4)
    layers = bits.take(3)
    bits.take(1 + 96)
    if layers:
        flags = [(bits.take(1), bits.take(1)) for _ in range(8)][:layers]
        for profile, level in flags:
            bits.take(88 * profile + 8 * level)
    bits.golomb()
    chroma = bits.golomb()
    if chroma == 3:
        bits.take(1)
    width, height = bits.golomb(), bits.golomb()
    if bits.take(1):
        for _ in range(4):
            bits.golomb()
    deep = max(bits.golomb(), bits.golomb()) > 0
    if chroma >= len(PER_PIXEL):
        raise broken(DAMAGED)
    return Sequence(width, height, PER_PIXEL[chroma] * (2 if deep else 1))
