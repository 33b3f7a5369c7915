"""From an open image file to the pixels of a given size, by Pillow: what `tinytrain.episode.decode` asks for.

Baseline JPEG and PNG are decoded in the process that asks, as their headers say what that costs. `answer` is
asked in the process of `tinytrain.base.confined` for all others, and needs no numpy.
"""

from importlib import import_module
from typing import BinaryIO

from tinytrain.base.errors import InputError, one_line
from tinytrain.episode import imagefile
from tinytrain.episode.imagefile.orientation import ORIENTATION, orientation
from tinytrain.episode.imagefile.stored import CODE, MAX_PROFILE, PIXEL_BYTES, Stored, refuse_more
from tinytrain.episode.profile import in_srgb

# Bytes per decoded pixel until it is part of the square, by Pillow's mode. COST is that of other modes (RGB).
COSTS = {"1": 2, "L": 1, "P": 5, "RGBA": 8, "LA": 12, "PA": 12, "I": 13, "I;16": 8}
COST, TRANSPARENCY_COST = 4, 8
# More bytes per pixel than those of Pillow's image: two canvases and a copy; frames and RGB, and a copy.
DECODER_COSTS = {"WEBP": 12, "AVIF": 7, "HEIF": 4}
MODULES = {
    "JPEG": "Jpeg", "PNG": "Png", "BMP": "Bmp", "GIF": "Gif", "TIFF": "Tiff", "PPM": "Ppm", "WEBP": "WebP",
    "AVIF": "Avif",
}  # fmt: skip
SINCE = {"WEBP": ("webp", "WebP", "11"), "AVIF": ("avif", "AVIF", "11.3")}  # Pillow's feature and version
EXTRA = "heic"
DNG = 50706  # a tag of raw images
SAVE = "save it as PNG or JPEG"
PHONE = "or let the phone save JPEG (iPhone: Settings > Camera > Formats > Most Compatible)"
XMP = ("xmp", "XML:com.adobe.xmp")

# EXIF orientation -> name of the inverse in PIL.Image.Transpose.
UPRIGHT = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
    6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip
SIDEWAYS = (5, 6, 7, 8)  # those that make rows of columns
Sides, Box = tuple[int, int], tuple[int, int, int, int]


def answer(file: BinaryIO, size: Sides | None, kind: str, box: Box | None) -> tuple[dict, bytes]:
    """See `tinytrain.base.confined.ask`: the bytes of `square`, or none without a `size`: a check."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # there are limits for each kind
    try:
        stored = imagefile.read(kind, file)
        image = opened(kind, stored.stream if stored else file)
        stored = stored or _stored(image, kind)
        if size is None and kind == "WEBP":  # opening it has found that all parts are there
            refuse_costly(image, stored)
            return {}, b""
        image = square(image, stored, size, box)
        return {}, image.tobytes() if image else b""
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if "memory" in str(error):  # of a library
            raise MemoryError from None
        raise InputError("image-unreadable", f"{reason(error)}; {SAVE}, or remove it") from None


def reason(error: Exception) -> str:
    """What an error of a decoder says. There is no list of them: Pillow raises anything for hostile bytes."""
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its text contains a memory address
        return "cannot be decoded (its header is damaged)"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read ({error.strerror})"
    return f"cannot be decoded ({one_line(error) or type(error).__name__})"


def opened(kind: str, file: BinaryIO):
    """A PIL image whose header alone was read. Raises InputError ``package-missing``, or any other error."""
    from PIL import Image

    file.seek(0)
    if kind == "HEIF":
        try:
            import pillow_heif
        except ImportError:
            from tinytrain.base.extras import install

            why = f"is a HEIC image; to read it, run {install(EXTRA)}; {PHONE}"
            raise InputError("package-missing", why) from None
        pillow_heif.options.DECODE_THREADS = 1  # each would have its own stack and heap
        return pillow_heif.HeifImageFile(file)
    if kind in SINCE:
        import PIL
        from PIL import features

        feature, name, since = SINCE[kind]
        if feature not in features.modules or not features.check(feature):  # an old one may not know it
            why = f"is a {name} image, and Pillow {PIL.__version__} here cannot read {name}"
            remedy = f"install a newer one (pip install -U 'pillow>={since}'), or save it as PNG or JPEG"
            raise InputError("package-missing", f"{why}; {remedy}")
    plugin = import_module(f"PIL.{MODULES[kind]}ImagePlugin")
    if kind == "AVIF":
        plugin.DEFAULT_MAX_THREADS = 1
    return Image.open(file, formats=(kind,))


def square(image, stored: Stored, size: Sides | None, box: Box | None = None):
    """The centre of an image that `opened` gave, or of its `box`, of `size` (height, width), as RGB.

    Without a `size` it is decoded, and nothing more. Raises InputError ``image-unreadable`` or
    ``image-too-large``, or any error of Pillow.
    """
    # Turning comes last: the centre of a turned image is the turned centre.
    height, width = size or (1, 1)
    wide = (height, width) if stored.orientation in SIDEWAYS else (width, height)
    if box is None:
        # A JPEG is decoded at 1/2, 1/4 or 1/8 of its size where that still covers the result.
        image.draft(None, wide)
    refuse_costly(image, stored, copies=1 + (box is not None))
    # Pillow would read, unpack and keep what is behind the pixels, and turn a TIFF; it has the turned size.
    image.load_end = _nothing
    image.load()
    image._size = image.im.size
    if size is None:
        return None
    centre = resized(bilinear_mode(_cut(image, box)), *wide)
    return upright(on_white(in_srgb(centre, stored.profile)), stored.orientation)


def _nothing() -> None:
    """Replaces a method of an image. A closure would refer to the image and keep it alive."""


def _stored(image, kind: str) -> Stored:
    """What an image that Pillow has opened says about itself. Raises InputError like `square`."""
    width, height = image.size
    beside = DECODER_COSTS.get(kind, 0)
    most = (PIXEL_BYTES - CODE) / (beside + COST)
    refuse_more(width, height, most)
    if kind == "TIFF" and DNG in image.tag_v2:
        raise InputError("image-unreadable", "is a raw image of a camera; export it as JPEG")
    if image.mode == "F" or (kind == "TIFF" and image.mode == "I"):
        raise InputError("image-unreadable", f"has 32 bits per channel, which is not read; {SAVE}")
    profile = image.info.get("icc_profile") or b""
    xmp = next((image.info[key] for key in XMP if key in image.info), b"")
    turn = orientation(image.info.get("exif") or b"", xmp if isinstance(xmp, bytes) else xmp.encode())
    if kind == "TIFF":
        turn = image.tag_v2.get(ORIENTATION, 1)
    return Stored(image.fp, width, height, CODE + beside * width * height, turn, profile[: MAX_PROFILE + 1])


def refuse_costly(image, stored: Stored, copies: int = 1) -> None:
    """Raises InputError ``image-too-large`` if the pixels would take more than PIXEL_BYTES."""
    cost = COSTS.get(image.mode[:4], COST) + TRANSPARENCY_COST * ("transparency" in image.info)
    pixels = stored.width * stored.height
    nbytes = stored.held + (cost + COST * (copies - 1)) * image.width * image.height
    if nbytes > PIXEL_BYTES:
        refuse_more(stored.width, stored.height, PIXEL_BYTES * pixels / nbytes)


def bilinear_mode(image):
    """The image in a mode with 8 bits per channel whose values can be averaged."""
    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, 0..65535
        levels = [(level + 128) // 257 for level in range(2**16)]
        return (image if image.mode == "I" else image.convert("I")).point(levels, "L")
    if "transparency" in image.info or image.mode in ("LA", "PA"):
        return image.convert("RGBA")
    if image.mode == "1":
        return image.convert("L")
    return image if image.mode in ("L", "RGB", "RGBA", "CMYK") else image.convert("RGB")


def _cut(image, box: Box | None):
    """The part of the image inside `box`; all of it without a box."""
    if box is None:
        return image
    left, top = max(box[0], 0), max(box[1], 0)
    right, bottom = min(box[2], image.width), min(box[3], image.height)
    if left >= right or top >= bottom:
        raise InputError(
            "image-unreadable", f"has no pixel inside the box {tuple(box)}; replace or remove it"
        )
    return image.crop((left, top, right, bottom))


def resized(image, width: int, height: int):
    """The largest centre of that form, resized, in one resampling. Colours of RGBA are weighted by alpha."""
    from PIL import Image

    across = min(image.width, image.height * width / height)
    down = min(image.height, image.width * height / width)
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, left + across, top + down)
    return image.resize((width, height), Image.Resampling.BILINEAR, box=box)


def on_white(image):
    """The image as RGB; transparent parts become white."""
    from PIL import Image

    if image.mode != "RGBA":
        return image.convert("RGB")
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def upright(image, number: int):
    """The image turned as the EXIF number asks."""
    from PIL import Image

    return image.transpose(Image.Transpose[UPRIGHT[number]]) if number in UPRIGHT else image
