"""Reads the header of an image file and passes to Pillow only the parts that the pixels need."""

import io
from typing import BinaryIO

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile import avif, bmp, gif, heic, jpeg, others, png, pnm, tiff, webp
from tinytrain.episode.imagefile.stored import Stored, broken

READERS = (
    (b"\xff\xd8\xff", jpeg.read),
    (png.MAGIC, png.read),
    (b"BM", bmp.read),
    *((b"P%d" % kind, pnm.read) for kind in range(1, 7)),
    (gif.MAGIC, gif.read),
    *((magic, tiff.read) for magic in (*tiff.ORDERS, *tiff.LARGE)),
)
BRANDS = ((avif.BRANDS, avif.read), (heic.BRANDS, heic.read))
NAMES = "JPEG, PNG, WebP, AVIF, HEIC, GIF, TIFF, BMP or PPM"
START = 512  # bytes that say what a file is


def read(file: BinaryIO) -> Stored:
    """The image in `file`, with its header read and nothing decoded.

    Time and memory are bounded for every file. Raises InputError ``picture-broken``, ``picture-too-large`` or
    ``picture-decoder``; the message does not name the image.
    """
    file.seek(0, io.SEEK_END)
    length = file.tell()
    file.seek(0)
    reader = reader_of(file.read(START))
    file.seek(0)
    return reader(file, length)


def reader_of(start: bytes):
    """The function that reads files that start like this. Raises InputError ``picture-broken``."""
    for magic, reader in READERS:
        if start.startswith(magic):
            return reader
    if start.startswith(webp.MAGIC) and start[8:12] == webp.KIND:
        return webp.read
    if start[4:8] == b"ftyp":
        brands = start[8 : max(12, min(len(start), int.from_bytes(start[:4])))]
        names = [brands[:4], *(brands[i : i + 4] for i in range(8, len(brands), 4))]
        for known, reader in BRANDS:
            if any(name in known for name in names):
                return reader
    if start.startswith(webp.MAGIC) and start[8:12] == b"AVI ":
        raise InputError("picture-broken", others.FILM)
    if what := others.described(start):
        raise InputError("picture-broken", what)
    raise broken(f"is not a {NAMES} image")
