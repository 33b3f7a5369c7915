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
from typing import BinaryIO

import numpy as np

from tinytrain.base import confined
from tinytrain.base.errors import InputError
from tinytrain.base.files import open_without_waiting
from tinytrain.episode import Size, imagefile, pixels, sides
from tinytrain.episode.imagefile import jpeg, png
from tinytrain.episode.imagefile.orientation import ORIENTATION
from tinytrain.episode.profile import in_srgb

SUFFIXES = (
    ".jpg", ".jpeg", ".jfif", ".png", ".webp", ".avif", ".heic", ".heif",
    ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".bmp",
)  # fmt: skip
# Errors of opening a name without a file: nothing there, a folder, a link to itself, a socket.
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)

# See `confined.ask`.
NOT_READ = {
    "large": ("image-too-large", "{} to decode; scale it down"),
    "broken": ("image-unreadable", "cannot be decoded ({}); replace or remove it"),
    "alone": (
        "system",
        "is of a kind that is decoded in a process of its own, and none starts here ({});"
        " save it as PNG, or as a JPEG that is not progressive",
    ),
}


def load_image(
    source: str | os.PathLike | bytes,
    size: Size,
    name: str | None = None,
    box: tuple[int, int, int, int] | None = None,
) -> np.ndarray:
    """The image in a file, or in the bytes of one, as uint8 (size, size, 3), or (*size, 3) for a pair.

    `name` names the image in messages; the default is the path. `box` (left, top, right, bottom), in stored
    pixels, selects a part of the image; parts of the box outside the image are ignored. Raises InputError
    ``file-missing``, ``image-unreadable``, ``image-too-large``, ``package-missing`` or ``system``.

    Whatever the file holds, this takes at most 256 MB of memory, not counting bytes that were given as
    `source` and, of a result of more than 256 pixels a side, what the larger one takes. Baseline JPEG and PNG
    are decoded in this process, all others in one that `tinytrain.base.confined` keeps within its limits.
    """
    with named_errors(source, name), _opened(source) as (file, kind):
        stored = imagefile.read(kind, file)
        if stored and stored.plain:
            image = pixels.opened(kind, stored.stream)
            return np.array(pixels.square(image, stored, sides(size), box))
        content = _confined(source, file, kind, size=sides(size), box=box)
        return np.frombuffer(content, np.uint8).reshape(*sides(size), 3)


def fit(image: np.ndarray, size: Size) -> np.ndarray:
    """A raw uint8 (h, w), (h, w, 1) or (h, w, 3) image as `load_image` returns it, by the same rule."""
    from PIL import Image

    height, width = sides(size)
    if image.shape == (height, width, 3):
        return image.copy()
    flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    return np.array(pixels.resized(Image.fromarray(flat), width, height).convert("RGB"))


def convert(image, size: Size, name: str) -> np.ndarray:
    """A PIL image as `load_image` returns that of a file, by the same rule; `name` is that in messages.

    Raises InputError ``image-unreadable``.
    """
    with named_errors(b"", name):
        height, width = sides(size)
        orientation = image.getexif().get(ORIENTATION, 1)
        wide = (height, width) if orientation in pixels.SIDEWAYS else (width, height)
        centre = pixels.resized(pixels.bilinear_mode(image), *wide)
        centre = in_srgb(centre, image.info.get("icc_profile") or b"")
        return np.array(pixels.upright(pixels.on_white(centre), orientation))


def grey(image: np.ndarray) -> np.ndarray:
    """An RGB image uint8 (h, w, 3) as uint8 (h, w, 1): its luma by ITU-R 601."""
    from PIL import Image

    return np.array(Image.fromarray(image).convert("L"))[..., None]


def check_image(path: str | os.PathLike | bytes) -> None:
    """Check cheaply whether a file can be decoded: JPEG, PNG and WebP without decoding them.

    Raises InputError like `load_image`. A damaged file that looks intact passes here and fails in
    `load_image`.
    """
    with named_errors(path, None), _opened(path) as (file, kind):
        stored = imagefile.read(kind, file)
        if stored and (kind == "PNG" or jpeg.is_whole(file)):
            image = pixels.opened(kind, stored.stream)
            image.draft(None, (1, 1))
            pixels.refuse_costly(image, stored)
            if kind == "PNG":
                png.check(file)
        elif stored and stored.plain:
            pixels.square(pixels.opened(kind, stored.stream), stored, None)
        else:
            _confined(path, file, kind, size=None, box=None)


def _confined(source, file: BinaryIO, kind: str, **request) -> bytearray:
    """What `pixels.answer` gives in the other process. Raises InputError."""
    given = source if isinstance(source, bytes) else file
    return confined.ask("tinytrain.episode.pixels", given, NOT_READ, kind=kind, **request)[1]


@contextmanager
def named_errors(source, name, noun: str = "image"):
    """Turn every error of a decoder into an InputError that names the image, or what `noun` says it is."""
    name = name or (f"{noun} of {len(source)} bytes" if isinstance(source, bytes) else os.fspath(source))
    try:
        with warnings.catch_warnings():
            # Decoders warn about oddities that do not matter here; the warnings would clutter the output.
            warnings.simplefilter("ignore")
            yield
    except MemoryError:
        raise  # not a problem of the image
    except InputError as error:
        raise InputError(error.code, f"{name!r} {error.message}") from None
    except Exception as error:
        # No list of classes: for hostile bytes Pillow raises anything from SyntaxError to IndexError.
        raise InputError(
            "image-unreadable", f"{name!r} {pixels.reason(error)}; replace or remove it"
        ) from error


@contextmanager
def _opened(source):
    """(file, its kind): nothing but the first bytes is read yet."""
    with io.BytesIO(source) if isinstance(source, bytes) else regular_file(source) as file:
        kind = imagefile.kind_of(file.read(imagefile.START))
        file.seek(0)
        yield file, kind


def regular_file(path) -> BinaryIO:
    """The open file at `path`; never waits for a pipe. Raises InputError ``file-missing``."""
    missing = InputError("file-missing", "is not a file; check the path")
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
