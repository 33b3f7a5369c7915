"""The header of lossless WebP pixels: how many sets of prefix codes there are.

The decoder makes tables of some 15 kB for each set. There can be 65,536 of them in a file of 200 kB, so
they are counted first. That takes decoding the small images before the pixels: the predictors of the
blocks of the image, and the number of the set that each block uses.
"""

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile.stored import broken

SIGNATURE = 0x2F
MAX_SMALL = 250_000  # pixels of the small images together, which Python decodes
# Entries of four bytes of four tables, and of that of green with the largest colour cache; pointers.
SET_BYTES = 4 * (3 * 630 + 410 + 2704) + 700
FEW_SETS = 1000  # above it, the decoder leaves out the sets that no block uses
PREDICTOR, COLOUR, GREEN, INDEXED = range(4)
CODE_ORDER = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
ALPHABETS = (256 + 24, 256, 256, 256, 40)  # green and lengths of copies, red, blue, alpha, distances
COPY, CACHED = 256, 256 + 24  # the first symbols of green that are not a colour
DAMAGED = "cannot be decoded (its prefix codes are damaged)"


def size(bits: bytes) -> tuple[int, int]:
    """Width and height. Raises InputError ``picture-broken``."""
    if len(bits) < 5 or bits[0] != SIGNATURE:
        raise broken("cannot be decoded (its header is damaged)")
    number = int.from_bytes(bits[1:5], "little")
    return (number & 0x3FFF) + 1, (number >> 14 & 0x3FFF) + 1


def table_bytes(bits: bytes, start: int, width: int, height: int) -> int:
    """Bytes that the decoder takes for its tables; the pixels' header begins at byte `start`.

    Raises InputError ``picture-broken``, or ``picture-too-large`` above MAX_SMALL pixels to count in.
    """
    reader, left = _Bits(bits, start), MAX_SMALL
    while reader.take(1):
        kind = reader.take(2)
        if kind in (PREDICTOR, COLOUR):
            left = _blocks(reader, width, height, left)[1]
        elif kind == INDEXED:
            colours = reader.take(8) + 1
            _small(reader, colours)
            packed = next((shift for most, shift in ((2, 3), (4, 2), (16, 1)) if colours <= most), 0)
            width = -(-width >> packed)
    if reader.take(1):
        reader.take(4)
    if not reader.take(1):
        return SET_BYTES
    numbers, _ = _blocks(reader, width, height, left)
    sets = max(numbers) + 1
    return SET_BYTES * (sets if sets <= FEW_SETS else len(numbers))


def _blocks(reader: "_Bits", width: int, height: int, left: int) -> tuple[set[int], int]:
    """The numbers in an image with a pixel per block, and how many more pixels may be decoded."""
    shift = reader.take(3) + 2
    pixels = (-(-width >> shift)) * (-(-height >> shift))
    if pixels > left:
        why = f"has more than {MAX_SMALL:,} blocks of lossless pixels; save it as PNG or JPEG"
        raise InputError("picture-too-large", why)
    return _small(reader, pixels), left - pixels


def _small(reader: "_Bits", pixels: int) -> set[int]:
    """The numbers in red and green of a small image of so many pixels.

    Copies and the cache of colours bring nothing that was not there before, or 0.
    """
    cache = 1 << reader.take(4) if reader.take(1) else 0
    sizes = (ALPHABETS[0] + cache, *ALPHABETS[1:])
    green, red, blue, alpha, distance = (_code(reader, size) for size in sizes)
    numbers, done = set(), 0
    while done < pixels:
        symbol = reader.symbol(green)
        if symbol < COPY:
            numbers.add(reader.symbol(red) << 8 | symbol)
            reader.symbol(blue)
            reader.symbol(alpha)
            done += 1
        elif symbol < CACHED:
            done += _extended(reader, symbol - COPY)
            _extended(reader, reader.symbol(distance))
        else:
            numbers.add(0)
            done += 1
    return numbers


def _extended(reader: "_Bits", symbol: int) -> int:
    """The length or distance that starts with this symbol."""
    if symbol < 4:
        return symbol + 1
    extra = (symbol - 2) >> 1
    return ((2 + (symbol & 1)) << extra) + reader.take(extra) + 1


def _code(reader: "_Bits", alphabet: int) -> tuple[list[tuple[int, int]], int]:
    """A prefix code: (symbol, bits) for every string of as many bits as the longest has, and that mask."""
    if reader.take(1):
        several, wide = reader.take(1), reader.take(1)
        symbols = [reader.take(8 if wide else 1)] + ([reader.take(8)] if several else [])
        lengths = [0] * max(alphabet, 256)
        for symbol in symbols:
            lengths[symbol] = 1
        return _table(lengths)
    first = [0] * 19
    for place in CODE_ORDER[: 4 + reader.take(4)]:
        first[place] = reader.take(3)
    return _table(_lengths(reader, _table(first), alphabet))


def _lengths(reader: "_Bits", code, alphabet: int) -> list[int]:
    """The bits of every symbol of an alphabet, which are coded themselves."""
    most = 2 + reader.take(2 + 2 * reader.take(3)) if reader.take(1) else alphabet
    lengths, before = [], 8
    while len(lengths) < alphabet and most:
        most -= 1
        symbol = reader.symbol(code)
        if symbol < 16:
            lengths.append(symbol)
            before = symbol or before
        elif symbol == 16:
            lengths += [before] * (3 + reader.take(2))
        else:
            lengths += [0] * (3 + reader.take(3) if symbol == 17 else 11 + reader.take(7))
    if len(lengths) > alphabet:
        raise broken(DAMAGED)
    return lengths


def _table(lengths: list[int]) -> tuple[list[tuple[int, int]], int]:
    used = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
    if not used:
        raise broken(DAMAGED)
    if len(used) == 1:
        return [(used[0][1], 0)], 0
    longest = used[-1][0]
    if sum(1 << longest - length for length, _ in used) != 1 << longest:
        raise broken(DAMAGED)
    table: list = [None] * (1 << longest)
    code = at = 0
    for length, symbol in used:
        code <<= length - at
        at = length
        first = int(f"{code:0{length}b}"[::-1], 2)  # the highest bit of a code comes first
        table[first :: 1 << length] = [(symbol, length)] * (1 << longest - length)
        code += 1
    return table, len(table) - 1


class _Bits:
    """The bits of a file, the lowest of each byte first."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at
        self.held = self.count = 0

    def _fill(self) -> None:
        more = self.data[self.at : self.at + 8]
        self.held |= int.from_bytes(more, "little") << self.count
        self.at += 8  # behind the end there are zeros, as many as a code could take
        self.count += 64
        if self.at > len(self.data) + 16:
            raise broken("is cut off")

    def take(self, bits: int) -> int:
        if self.count < bits:
            self._fill()
        number = self.held & (1 << bits) - 1
        self.held >>= bits
        self.count -= bits
        return number

    def symbol(self, code) -> int:
        table, mask = code
        if self.count < 15:
            self._fill()
        symbol, bits = table[self.held & mask]
        self.held >>= bits
        self.count -= bits
        return symbol
