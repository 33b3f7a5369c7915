"""Colour profiles (ICC.1:2022): an image in another colour space as sRGB, by the LittleCMS of Pillow.

Phones write Display P3, cameras may write Adobe RGB. It runs in this process, as the decoders do, for
profiles whose cost is bounded. An image with another one, or a damaged one, keeps its numbers.
"""

import io
from functools import lru_cache

from tinytrain.episode.imagefile.stored import MAX_PROFILE

SPACES = {"L": b"GRAY", "RGB": b"RGB ", "RGBA": b"RGB ", "CMYK": b"CMYK"}
CLASSES = (b"scnr", b"mntr", b"prtr", b"spac")  # of devices, not links between them or lists of named colours
HEAD, ENTRY, MOST_TAGS = 128, 12, 100
PROGRAMS = b"D2B"  # any number of operations for each colour


def in_srgb(image, profile: bytes):
    """A PIL image of 8 bits per channel, whose numbers mean what the ICC `profile` says, as RGB or RGBA."""
    if SPACES.get(image.mode) != profile[16:20] or not _is_bounded(profile):
        return image
    transform = _to_srgb(image.mode.removesuffix("A"), profile)
    if transform is None:
        return image
    converted = transform.apply(image.convert(transform.input_mode))
    if image.mode == "RGBA":
        converted.putalpha(image.getchannel("A"))
    return converted


def _is_bounded(profile: bytes) -> bool:
    if not HEAD + 4 <= int.from_bytes(profile[:4]) <= len(profile) <= MAX_PROFILE:
        return False
    count = int.from_bytes(profile[HEAD : HEAD + 4])
    if profile[36:40] != b"acsp" or profile[12:16] not in CLASSES or count > MOST_TAGS:
        return False
    return all(profile[at : at + 3] != PROGRAMS for at in range(HEAD + 4, HEAD + 4 + ENTRY * count, ENTRY))


@lru_cache(maxsize=4)
def _to_srgb(mode: str, profile: bytes):
    """The transform of images of that mode; None if they are sRGB already, or it cannot be made."""
    from PIL import ImageCms

    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if (given.profile.profile_description or "").startswith("sRGB"):
            return None
        return ImageCms.buildTransform(given, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, ImportError):
        return None
