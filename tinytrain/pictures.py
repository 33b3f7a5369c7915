"""One picture, from a file or from bytes, to a uint8 RGB square: the rule of `Preprocessing`.

The shorter side is resized to `size` (bilinear, antialiased when it shrinks) and the centre
is cropped; both happen in one call, so nothing outside the crop is computed. Transparent
pictures are laid on white. Whatever is wrong with a picture ends as one InputError that names it.
"""

import io
import os
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tinytrain.errors import InputError

FORMATS = ("JPEG", "PNG", "PPM", "BMP")
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".pbm", ".bmp")
COST = 4  # bytes per pixel of an RGB picture while it is decoded
# At that cost 256 MB, about what a board with 512 MB can spare; pictures that cost more may have fewer.
MAX_PIXELS = 64_000_000
# By Pillow's mode; those not named are 16-bit grey.
COSTS = {"1": 2, "L": 1, "P": 5, "RGB": COST, "CMYK": COST, "YCbCr": COST, "RGBA": 8, "LA": 12, "PA": 12}
DEEP_COST, TRANSPARENCY_COST = 8, 8
ROWS = 256  # of 16-bit grey, made 8 bits at once

# EXIF orientation -> name in PIL.Image.Transpose that undoes it.
UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
ORIENTATION = 0x0112


def load_picture(
    source: str | os.PathLike | bytes,
    size: int,
    name: str | None = None,
    box: tuple[int, int, int, int] | None = None,
) -> np.ndarray:
    """The picture in a file, or in the bytes of one, as uint8 (size, size, 3).

    `name` stands for the picture in messages; a path names itself. `box` (left, top, right, bottom) in stored
    pixels is what counts as the picture; what reaches past the edges is ignored. Raises InputError with
    code ``picture-missing``, ``picture-broken`` or ``picture-too-large``.
    """
    with _named_errors(source, name), _opened(source) as image:
        if box is None:
            # A JPEG is decoded at 1/2, 1/4 or 1/8 of its size where that still covers the square.
            image.draft(None, (size, size))
        image.load()
        square = _square(_bilinear_mode(_cut(image, box)), size)
        return np.array(_turned_upright(_on_white(square), image))


def fit(image: np.ndarray, size: int) -> np.ndarray:
    """A raw uint8 (h, w), (h, w, 1) or (h, w, 3) picture as uint8 (size, size, 3), by the same rule."""
    from PIL import Image

    flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    return np.array(_square(Image.fromarray(flat), size).convert("RGB"))


def check_picture(path: str | os.PathLike) -> None:
    """Find out cheaply whether a file will decode, mostly without decoding it.

    Raises InputError as `load_picture` does. A damaged file that still looks whole passes here
    and fails in `load_picture`.
    """
    with _named_errors(path, None), _opened(path) as image:
        if image.format == "PNG":
            image.verify()  # reads every chunk and its checksum
        elif image.format not in ("JPEG", "MPO") or not _ends_as_jpeg(path):
            image.draft(None, (1, 1))
            image.load()


@contextmanager
def _named_errors(source, name):
    """Turn whatever a decoder throws at broken bytes into an InputError that names the picture."""
    name = name or (f"picture of {len(source)} bytes" if isinstance(source, bytes) else os.fspath(source))
    try:
        with warnings.catch_warnings():
            # Decoders warn about oddities that do not matter here and would break up the output.
            warnings.simplefilter("ignore")
            yield
    except InputError as error:
        raise InputError(error.code, f"{name!r} {str(error).removeprefix(error.code + ': ')}") from None
    except Exception as error:
        # Not a list of classes: on hostile bytes Pillow raises anything from SyntaxError to IndexError.
        raise InputError("picture-broken", f"{name!r} {_reason(error)}; replace or remove it") from error


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its own text holds a memory address
        return f"is no {', '.join(FORMATS[:-1])} or {FORMATS[-1]} picture"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read ({error.strerror})"
    return f"cannot be decoded ({' '.join(str(error).split()) or type(error).__name__})"


@contextmanager
def _opened(source):
    """The picture with its header read and judged and nothing decoded yet."""
    from PIL import Image

    if isinstance(source, bytes):
        source = io.BytesIO(source)
    elif not Path(source).is_file():  # a pipe would block for ever
        raise InputError("picture-missing", "is no file; check the path")
    try:
        image = Image.open(source, formats=FORMATS)
    except Image.DecompressionBombError:
        raise InputError("picture-too-large", _too_large("far more", MAX_PIXELS)) from None
    with image:
        if image.width * image.height > (limit := _most_pixels(image)):
            raise InputError("picture-too-large", _too_large(f"{image.width} x {image.height}", limit))
        yield image


def _most_pixels(image) -> int:
    """How many pixels a picture of its mode may have."""
    cost = COSTS.get(image.mode, DEEP_COST) + TRANSPARENCY_COST * ("transparency" in image.info)
    return MAX_PIXELS * COST // max(cost, COST)


def _too_large(claimed: str, limit: int) -> str:
    return f"claims {claimed} pixels, the limit is {limit // 10**6} million for its kind; scale it down"


def _ends_as_jpeg(path) -> bool:
    """Whether a JPEG's end marker stands at the end of the file, as it does unless it was cut."""
    with open(path, "rb") as file:
        file.seek(-min(64, os.path.getsize(path)), os.SEEK_END)
        return file.read().rstrip(b"\0\r\n ").endswith(b"\xff\xd9")


def _bilinear_mode(image):
    """The picture in a mode of 8 bits per channel whose values may be averaged."""
    from PIL import Image

    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, 0..65535
        deep = np.asarray(image)
        grey = np.empty(deep.shape, np.uint8)
        for top in range(0, len(deep), ROWS):
            part = np.clip(deep[top : top + ROWS], 0, 65535).astype(np.uint32)
            grey[top : top + ROWS] = (part + 128) // 257
        return Image.fromarray(grey)
    if "transparency" in image.info or image.mode in ("LA", "PA"):
        return image.convert("RGBA")
    if image.mode == "1":
        return image.convert("L")
    return image if image.mode in ("L", "RGB", "RGBA", "CMYK") else image.convert("RGB")


def _cut(image, box):
    """The part of the picture inside `box`, or all of it without one."""
    if box is None:
        return image
    left, top = max(box[0], 0), max(box[1], 0)
    right, bottom = min(box[2], image.width), min(box[3], image.height)
    if left >= right or top >= bottom:
        raise InputError("picture-broken", f"has no pixel inside the box {box}; replace or remove it")
    return image.crop((left, top, right, bottom))


def _square(image, size: int):
    """Shorter side to `size`, centre crop, in one resampling. Colours of RGBA are weighted by alpha."""
    from PIL import Image

    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def _on_white(image):
    """RGB; transparent parts become white, as paper behind a cut-out."""
    from PIL import Image

    if image.mode != "RGBA":
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def _turned_upright(square, image):
    """The square turned as the EXIF data of `image` asks; broken EXIF data asks for nothing.

    Turning comes last because the centre square of a turned picture is the turned centre square.
    """
    from PIL import Image

    try:
        orientation = image.getexif().get(ORIENTATION)
    except Exception:
        # The picture itself decoded: damaged data about it must not cost the picture.
        return square
    if orientation not in UPRIGHT:
        return square
    return square.transpose(Image.Transpose[UPRIGHT[orientation]])
