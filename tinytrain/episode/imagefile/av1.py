"""The header of AV1 pixels: how large one frame can be, and how many samples it has."""

from tinytrain.episode.imagefile.coded_header import Bits, Sequence
from tinytrain.episode.imagefile.stored import broken

SEQUENCE, DELIMITER, FRAME_HEADER, TILES, METADATA, FRAME, PADDING = 1, 2, 3, 4, 5, 6, 15
MAX_UNITS = 10_000
DAMAGED = "cannot be decoded (its AV1 header is damaged)"
SRGB = (1, 13, 0)  # with these colours there is no subsampling, and no bits say so


def sequence(data: bytes) -> Sequence:
    """What the only frame in `data` can be. Raises InputError ``picture-broken``."""
    found, frames = None, 0
    for kind, content in _units(data):
        if kind == SEQUENCE:
            if found not in (None, content):
                raise broken("cannot be decoded (it has two AV1 headers)")
            found = content
        elif kind in (FRAME, FRAME_HEADER):
            frames += 1
        elif kind not in (DELIMITER, TILES, METADATA, PADDING):
            raise broken(DAMAGED)
    if found is None or frames != 1:
        raise broken(f"cannot be decoded ({frames} AV1 frames in one image)")
    return _parsed(Bits(found, DAMAGED))


def _units(data: bytes):
    """(kind, content) of the units of a stream."""
    at = 0
    for _ in range(MAX_UNITS):
        if at >= len(data):
            return
        head = data[at]
        at += 2 if head & 4 else 1
        if not head & 2:  # without a size, up to the end
            yield head >> 3 & 15, data[at:]
            return
        size = shift = 0
        for _ in range(8):
            if at >= len(data):
                raise broken("is cut off")
            byte = data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if at + size > len(data):
            raise broken("is cut off")
        yield head >> 3 & 15, data[at : at + size] if size < 2**16 else b""
        at += size
    raise broken(DAMAGED)


def _parsed(bits: Bits) -> Sequence:
    profile, _, reduced = bits.take(3), bits.take(1), bits.take(1)
    if reduced:
        bits.take(5)
    else:
        _skip_levels(bits)
    across, down = bits.take(4) + 1, bits.take(4) + 1
    width, height = bits.take(across) + 1, bits.take(down) + 1
    if not reduced:
        # A frame may then have a size of its own, in as many bits.
        width, height = 1 << across, 1 << down
        if bits.take(1):  # numbers of frames
            bits.take(7)
    bits.take(3)
    if not reduced:
        _skip_tools(bits)
    bits.take(3)
    return Sequence(width, height, _sample_bytes(bits, profile))


def _skip_levels(bits: Bits) -> None:
    if bits.take(1):
        raise broken("is a film; take a still of it and save that as PNG or JPEG")
    delays = bits.take(1)
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:
            bits.take(1)
        if delays and bits.take(1):
            bits.take(4)


def _skip_tools(bits: Bits) -> None:
    bits.take(4)
    ordered = bits.take(1)
    if ordered:
        bits.take(2)
    screen = 2 if bits.take(1) else bits.take(1)
    if screen and not bits.take(1):
        bits.take(1)
    if ordered:
        bits.take(3)


def _sample_bytes(bits: Bits, profile: int) -> float:
    """Bytes of all samples of a pixel, as far as the frame has them."""
    deep = bits.take(1)
    twelve = bits.take(1) if profile == 2 and deep else 0
    grey = 0 if profile == 1 else bits.take(1)
    width = 2 if deep else 1
    if grey:
        return width
    colours = tuple(bits.take(8) for _ in range(3)) if bits.take(1) else ()
    if colours == SRGB or profile == 1:
        return 3 * width
    if profile == 0:
        bits.take(1)
        return 1.5 * width
    bits.take(1)
    return width * (3 if twelve and not bits.take(1) else 2)
