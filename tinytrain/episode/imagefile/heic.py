"""HEIC: the images of iPhones and of other phones, if the extra `heic` is installed."""

from importlib.util import find_spec
from typing import BinaryIO

from tinytrain.base.errors import InputError
from tinytrain.base.extras import install
from tinytrain.episode.imagefile.stored import Stored

BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx")
EXTRA, MODULE = "heic", "pillow_heif"
PHONE = "or let the phone save JPEG (iPhone: Settings > Camera > Formats > Most Compatible)"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    if find_spec(MODULE) is None:
        raise InputError("picture-decoder", f"is a HEIC image; to read it, {install(EXTRA)}; {PHONE}")
    raise InputError("picture-decoder", "todo")
