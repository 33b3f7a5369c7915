"""One image, from a file or from bytes, to uint8 RGB of a given size: the rule of `InputSpec`.

It is resized until it just covers the size (bilinear, antialiased when it shrinks) and the centre
is cropped; both happen in one call, so nothing outside the crop is computed. Then colours of an ICC
profile become those of sRGB. Transparent images are laid on white. Whatever is wrong with an image ends
as one InputError that names it.
"""

import errno
import io
import os
import stat
import warnings
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.files import open_without_waiting
from tinytrain.episode import imagefile
from tinytrain.episode.image_size import Size, sides
from tinytrain.episode.imagefile import png
from tinytrain.episode.imagefile.orientation import ORIENTATION
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, eight_bits, refuse_more
from tinytrain.episode.profile import in_srgb

SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".jfif",
    ".png",
    ".webp",
    ".avif",
    ".heic",
    ".heif",
    ".gif",
    ".tif",
    ".tiff",
    ".ppm",
    ".pgm",
    ".pbm",
    ".bmp",
)
# Bytes per decoded pixel until it is part of the square, by Pillow's mode. COST is that of other modes (RGB).
COSTS = {"1": 2, "L": 1, "P": 5, "RGBA": 8, "LA": 12, "PA": 12, "I": 13, "I;16": 8}
COST, TRANSPARENCY_COST = 4, 8
STRIP = 2**20  # pixels of 16-bit grey that are converted to 8 bits at once
# Errors of opening a name without a file: nothing there, a folder, a link to itself, a socket.
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)

# EXIF orientation -> name of the inverse in PIL.Image.Transpose.
UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
SIDEWAYS = (5, 6, 7, 8)  # those that make rows of columns


def load_image(
    source: str | os.PathLike | bytes,
    size: Size,
    name: str | None = None,
    box: tuple[int, int, int, int] | None = None,
) -> np.ndarray:
    """The image in a file, or in the bytes of one, as uint8 (size, size, 3), or (*size, 3) for a pair.

    `name` names the image in messages; the default is the path. `box` (left, top, right, bottom), in stored
    pixels, selects a part of the image; parts of the box outside the image are ignored. Raises InputError
    ``picture-missing``, ``picture-broken``, ``picture-too-large`` or ``picture-decoder``.

    Whatever the file holds, this takes at most 256 MB of memory, not counting bytes that were given as
    `source` and, of a result of more than 256 pixels a side, what the larger one takes.
    """
    with _named_errors(source, name), _opened(source) as (image, stored, _):
        # Turning comes last: the centre of a turned image is the turned centre.
        height, width = sides(size)
        wide = (height, width) if stored.orientation in SIDEWAYS else (width, height)
        if box is None:
            # A JPEG is decoded at 1/2, 1/4 or 1/8 of its size where that still covers the result.
            image.draft(None, wide)
        _decode(image, stored, copies=1 + (box is not None))
        centre = _centre(_bilinear_mode(_cut(image, box)), *wide)
        return np.array(_turned_upright(_on_white(in_srgb(centre, stored.profile)), stored.orientation))


def fit(image: np.ndarray, size: Size) -> np.ndarray:
    """A raw uint8 (h, w), (h, w, 1) or (h, w, 3) image as `load_image` returns it, by the same rule."""
    from PIL import Image

    flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    height, width = sides(size)
    return np.array(_centre(Image.fromarray(flat), width, height).convert("RGB"))


def convert(image, size: Size, name: str) -> np.ndarray:
    """A PIL image as `load_image` returns that of a file, by the same rule; `name` is that in messages.

    Raises InputError ``picture-broken``.
    """
    with _named_errors(b"", name):
        height, width = sides(size)
        orientation = image.getexif().get(ORIENTATION, 1)
        wide = (height, width) if orientation in SIDEWAYS else (width, height)
        centre = in_srgb(_centre(_bilinear_mode(image), *wide), image.info.get("icc_profile") or b"")
        return np.array(_turned_upright(_on_white(centre), orientation))


def grey(image: np.ndarray) -> np.ndarray:
    """An RGB image uint8 (h, w, 3) as uint8 (h, w, 1): its luma by ITU-R 601."""
    from PIL import Image

    return np.array(Image.fromarray(image).convert("L"))[..., None]


def check_image(path: str | os.PathLike) -> None:
    """Check cheaply whether a file can be decoded, mostly without decoding it.

    Raises InputError like `load_image`. A damaged file that looks intact passes here and fails in
    `load_image`.
    """
    with _named_errors(path, None), _opened(path) as (image, stored, file):
        image.draft(None, (1, 1))
        if image.format == "PNG":
            _refuse_costly(image, stored, copies=1)
            png.check(file)
        elif stored.complete or (image.format == "JPEG" and _ends_as_jpeg(file)):
            _refuse_costly(image, stored, copies=1)
        else:
            _decode(image, stored, copies=1)


@contextmanager
def _named_errors(source, name):
    """Turn every error of a decoder into an InputError that names the image."""
    name = name or (f"image of {len(source)} bytes" if isinstance(source, bytes) else os.fspath(source))
    try:
        with warnings.catch_warnings():
            # Decoders warn about oddities that do not matter here; the warnings would clutter the output.
            warnings.simplefilter("ignore")
            yield
    except MemoryError:
        raise  # not a problem of the image
    except InputError as error:
        raise InputError(error.code, f"{name!r} {str(error).removeprefix(error.code + ': ')}") from None
    except Exception as error:
        # No list of classes: for hostile bytes Pillow raises anything from SyntaxError to IndexError.
        raise InputError("picture-broken", f"{name!r} {_reason(error)}; replace or remove it") from error


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its text contains a memory address
        return "cannot be decoded (its header is damaged)"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read ({error.strerror})"
    return f"cannot be decoded ({one_line(error) or type(error).__name__})"


@contextmanager
def _opened(source):
    """(image, stored header, file): the header is read and checked, nothing is decoded yet."""
    from PIL import Image

    with io.BytesIO(source) if isinstance(source, bytes) else _regular_file(source) as file:
        stored = imagefile.read(file)
        refuse_more(stored.width, stored.height, stored.most)
        opener = stored.opener or partial(Image.open, formats=(stored.format,))
        with opener(stored.stream) as image:
            yield image, stored, file


def _regular_file(path) -> BinaryIO:
    """The open file at `path`; never waits for a pipe. Raises InputError ``picture-missing``."""
    missing = InputError("picture-missing", "is not a file; check the path")
    try:
        file = open(path, "rb", opener=open_without_waiting)  # noqa: SIM115 - closed by the caller
    except ValueError:  # not a path
        raise missing from None
    except OSError as error:
        if error.errno in NO_FILE:
            raise missing from None
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise missing
    return file


def _decode(image, stored, copies: int) -> None:
    """Decode an image of which `copies` will be in memory, if that is cheap enough."""
    _refuse_costly(image, stored, copies)
    # Otherwise Pillow would read, unpack and keep the chunks after the pixels of a PNG.
    image.load_end = lambda: None
    image.load()


def _refuse_costly(image, stored, copies: int) -> None:
    """Raises InputError ``picture-too-large`` if the pixels would take more than PIXEL_BYTES."""
    cost = COSTS.get(image.mode[:4], COST) + TRANSPARENCY_COST * ("transparency" in image.info)
    pixels = stored.width * stored.height
    nbytes = stored.held + (cost + COST * (copies - 1)) * image.width * image.height
    if nbytes > PIXEL_BYTES:
        refuse_more(stored.width, stored.height, PIXEL_BYTES / (nbytes / pixels))


def _ends_as_jpeg(file: BinaryIO) -> bool:
    """Whether the file ends with a JPEG's end marker; a truncated file does not."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - 64))
    return file.read().rstrip(b"\0\r\n ").endswith(b"\xff\xd9")


def _bilinear_mode(image):
    """The image in a mode with 8 bits per channel whose values can be averaged."""
    from PIL import Image

    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, 0..65535
        deep = np.asarray(image)
        grey = np.empty(deep.shape, np.uint8)
        rows = max(1, STRIP // deep.shape[1])
        for top in range(0, len(deep), rows):
            grey[top : top + rows] = eight_bits(np.clip(deep[top : top + rows], 0, 65535).astype(np.uint32))
        return Image.fromarray(grey)
    if "transparency" in image.info or image.mode in ("LA", "PA"):
        return image.convert("RGBA")
    if image.mode == "1":
        return image.convert("L")
    return image if image.mode in ("L", "RGB", "RGBA", "CMYK") else image.convert("RGB")


def _cut(image, box):
    """The part of the image inside `box`; all of it without a box."""
    if box is None:
        return image
    left, top = max(box[0], 0), max(box[1], 0)
    right, bottom = min(box[2], image.width), min(box[3], image.height)
    if left >= right or top >= bottom:
        raise InputError("picture-broken", f"has no pixel inside the box {box}; replace or remove it")
    return image.crop((left, top, right, bottom))


def _centre(image, width: int, height: int):
    """The largest centre of that form, resized, in one resampling. Colours of RGBA are weighted by alpha."""
    from PIL import Image

    across = min(image.width, image.height * width / height)
    down = min(image.height, image.width * height / width)
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, left + across, top + down)
    return image.resize((width, height), Image.Resampling.BILINEAR, box=box)


def _on_white(image):
    """The image as RGB; transparent parts become white."""
    from PIL import Image

    if image.mode != "RGBA":
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def _turned_upright(image, orientation: int):
    """The image turned as the EXIF number `orientation` asks."""
    from PIL import Image

    return image.transpose(Image.Transpose[UPRIGHT[orientation]]) if orientation in UPRIGHT else image
