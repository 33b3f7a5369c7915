"""Small images as files, and headers of images that claim any size."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

MAGIC = b"\x89PNG\r\n\x1a\n"


def encoded(image, kind="PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int, depth: int, colour_type: int, interlaced: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, interlaced))


def scene(width=60, height=40):
    """A smooth image with four different quarters, so that every rotation gives another image."""
    y, x = np.mgrid[0:height, 0:width]
    red, green = x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1)
    return np.stack([red, green, (red + green) // 3], axis=-1).astype(np.uint8)


def png_header(width, height, depth=8, colour_type=2) -> bytes:
    """A PNG without pixels."""
    head = header(width, height, depth, colour_type)
    return MAGIC + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def bmp_header(width, height):
    return (
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, *[0] * 6)
    )


def jpeg_header(width, height):
    data = bytearray(encoded(Image.new("RGB", (16, 16)), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)
