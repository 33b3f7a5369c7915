"""Reads the header of an image file and passes to Pillow only the parts that the pixels need."""

import io
from typing import BinaryIO

from tinytrain.episode.imagefile import bmp, gif, jpeg, png, pnm, tiff, webp
from tinytrain.episode.imagefile.stored import Stored, broken

READERS = ((b"\xff\xd8\xff", jpeg.read), (png.MAGIC, png.read), (b"BM", bmp.read), (b"P", pnm.read),
           (gif.MAGIC, gif.read), (webp.MAGIC, webp.read),
           *((magic, tiff.read) for magic in (*tiff.ORDERS, *tiff.LARGE)))
NAMES = "JPEG, PNG, PPM, BMP, GIF, WebP or TIFF"


def read(file: BinaryIO) -> Stored:
    """The image in `file`, with its header read and nothing decoded.

    Time and memory are bounded for every file. Raises InputError ``picture-broken`` or ``picture-too-large``;
    the message does not name the image.
    """
    file.seek(0, io.SEEK_END)
    length = file.tell()
    file.seek(0)
    start = file.read(len(png.MAGIC))
    for magic, reader in READERS:
        if start.startswith(magic):
            file.seek(0)
            return reader(file, length)
    raise broken(f"is not a {NAMES} image")
