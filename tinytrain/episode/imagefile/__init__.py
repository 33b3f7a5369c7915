"""What kind of image a file is, by its first bytes, and the headers of JPEG and PNG.

What those two cost to decode is known from their headers. All other kinds are decoded in a process of its
own, see `tinytrain.episode.pixels`.
"""

from typing import BinaryIO

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile import jpeg, others, png
from tinytrain.episode.imagefile.stored import Stored, broken, refuse_more

READERS = {"JPEG": jpeg, "PNG": png}
MAGIC = {
    b"\xff\xd8\xff": "JPEG", png.MAGIC: "PNG", b"BM": "BMP", b"GIF8": "GIF",
    **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "TIFF"),
    **dict.fromkeys((b"P%d" % number for number in range(1, 7)), "PPM"),
}  # fmt: skip
BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "HEIF"),
}
NAMES = "JPEG, PNG, WebP, AVIF, HEIC, GIF, TIFF, BMP or PPM"
START = 512  # bytes that say what a file is


def read(kind: str, file: BinaryIO) -> Stored | None:
    """The header of a JPEG or PNG; None for other kinds. Time and memory are bounded for every file.

    Raises InputError ``image-unreadable`` or ``image-too-large``; the message does not name the image.
    """
    if kind not in READERS:
        return None
    stored = READERS[kind].read(file)
    refuse_more(stored.width, stored.height, READERS[kind].MAX_PIXELS)
    return stored


def kind_of(start: bytes) -> str:
    """The kind of a file that starts like this, as Pillow calls it. Raises InputError
    ``image-unreadable``.
    """
    for magic, kind in MAGIC.items():
        if start.startswith(magic):
            return kind
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "WEBP"
    if start[4:8] == b"ftyp":
        brands = start[8 : max(12, min(len(start), int.from_bytes(start[:4])))]
        names = [brands[:4], *(brands[i : i + 4] for i in range(8, len(brands), 4))]
        for brand, kind in BRANDS.items():
            if brand in names:
                return kind
    if start.startswith(b"RIFF") and start[8:12] == b"AVI ":
        raise InputError("image-unreadable", others.FILM)
    if what := others.described(start):
        raise InputError("image-unreadable", what)
    raise broken(f"is not a {NAMES} image")
