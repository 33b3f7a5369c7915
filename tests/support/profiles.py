"""ICC profiles (ICC.1:2022) of known colour spaces, and the same conversions as formulas in float64."""

import struct

import numpy as np

P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
ADOBE = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
ADOBE_CURVE = (563 / 256,)
WHITE = (0.9642, 1.0, 0.8249)


def fixed(*values):
    return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))


def curve(values):
    return b"para" + struct.pack(">IHH", 0, 3 if len(values) > 1 else 0, 0) + fixed(*values)


def xyz(values):
    return b"XYZ " + bytes(4) + fixed(*values)


def text(words):
    data = words.encode("utf-16-be")
    return b"mluc" + struct.pack(">IIIHHII", 0, 1, 12, 25966, 21843, len(data), 28) + data


def profile(tags, space=b"RGB ", kind=b"mntr", name="Test"):
    """A profile of version 4 with these tags (name -> data)."""
    tags = {b"desc": text(name), b"wtpt": xyz(WHITE), **tags}
    at, table, data = 132 + 12 * len(tags), b"", b""
    for tag, content in tags.items():
        content = content.ljust(-(-len(content) // 4) * 4, b"\0")
        table += tag + struct.pack(">II", at + len(data), len(content))
        data += content
    head = struct.pack(">I4sI4s4s4s", at + len(data), bytes(4), 0x04300000, kind, space, b"XYZ ")
    head += bytes(12) + b"acsp" + bytes(28) + fixed(*WHITE)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + data


def of_display(primaries, values, more=None, **options):
    colours = (more or {}) | dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(xyz, primaries), strict=True))
    return profile(colours | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve(values)), **options)


def table(points, channels=3):
    """A tag of a lookup table with so many points along each channel: the identity to Lab."""
    entries = np.full((points**channels, 3), 32768, ">u2")
    head = b"mft2" + bytes(4) + bytes([channels, 3, points, 0]) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    ends = struct.pack(">HH", 0, 65535)
    return head + struct.pack(">HH", 2, 2) + ends * channels + entries.tobytes() + ends * 3


def program():
    """A tag with operations, of which there may be any number: here a matrix."""
    matrix = b"matf" + struct.pack(">IHH12f", 0, 3, 3, 0.3, 0, 0, 0, 0.3, 0, 0, 0, 0.3, 0, 0, 0)
    return b"mpet" + struct.pack(">IHHIII", 0, 3, 3, 1, 24, len(matrix)) + matrix


def as_srgb(pixels, primaries, values):
    """uint8 (..., 3) of a display as sRGB in float64, 0 to 255."""
    linear = _linear(pixels / 255, values) @ np.array(primaries) @ np.linalg.inv(np.array(SRGB))
    linear = np.clip(linear, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _linear(x, values):
    if len(values) == 1:
        return x ** values[0]
    power, scale, shift, slope, limit = values
    return np.where(x >= limit, (scale * x + shift) ** power, slope * x)
