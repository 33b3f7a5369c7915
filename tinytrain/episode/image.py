"""Images as a kind of input: files that Pillow decodes, PIL images and uint8 arrays."""

import os
import sys

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode import Size, boundaries, imagefile
from tinytrain.episode.augment import USUAL, Augmentation, Ranges, draw
from tinytrain.episode.decode import SUFFIXES, check_image, convert, fit, grey, load_image
from tinytrain.episode.imagefile import others
from tinytrain.episode.kind import Kind
from tinytrain.network.input_spec import IMAGE, InputSpec

USUAL_SUFFIXES = {"JPEG": ".jpg", "TIFF": ".tif", "HEIF": ".heic"}  # others: their kind


class ImageKind(Kind):
    """Images, which are asked for by their size alone."""

    name, suffixes = IMAGE, SUFFIXES
    given = "a path, the bytes of an image file, a PIL image or a uint8 array (rows, columns, 3) in RGB order"

    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        return load_image(content, spec.size)

    def begins(self, head: bytes) -> bool:
        try:
            return bool(imagefile.kind_of(head))
        except InputError:
            return False

    def suffix(self, content: bytes) -> str:
        kind = imagefile.kind_of(content[: imagefile.START])
        return USUAL_SUFFIXES.get(kind, f".{kind.lower()}")

    def why_not(self, path: str | os.PathLike) -> str:
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        return others.SUFFIXES.get(suffix) or super().why_not(path)

    def read(self, source: str | os.PathLike | bytes, asked: Size, name: str | None = None) -> np.ndarray:
        return load_image(source, asked, name)

    def check(self, source: str | os.PathLike | bytes) -> None:
        check_image(source)

    def item(self, value, asked: Size, name: str) -> np.ndarray:
        if isinstance(value, np.ndarray):
            return fit(value, asked)
        if _is_pil(value):
            return convert(value, asked, name)
        return super().item(value, asked, name)

    def is_single(self, value: np.ndarray) -> bool:
        """An array of 2 axes is a grey image; one of 3 axes is an image if the last has 1 or 3 channels."""
        if value.ndim == 3 and value.shape[2] not in (1, 3):
            raise InputError(
                "bad-value",
                f"an array of {' x '.join(map(str, value.shape))} is neither an image (rows, columns, 3) nor"
                " a list of images; for grey images give (n, rows, columns, 1)",
            )
        return value.ndim in (2, 3)

    def takes(self, value) -> bool:
        if not isinstance(value, np.ndarray):
            return isinstance(value, bytes | bytearray) or _is_pil(value)
        flat = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3))
        return bool(flat and value.dtype == np.uint8 and value.size)

    def asked(self, spec: InputSpec) -> Size:
        return spec.size

    def checked(self, item: np.ndarray, spec: InputSpec, name: str) -> np.ndarray:
        """An image of three channels is made grey if one is wanted."""
        item, (height, width, channels) = np.asarray(item), spec.shape
        if item.dtype == np.uint8 and channels == 1 and item.shape == (height, width, 3):
            item = grey(item)
        return super().checked(item, spec, name)

    def augment(
        self, rng: "np.random.Generator", spec: InputSpec, may_flip: bool, ranges: Ranges = USUAL
    ) -> Augmentation:
        return draw(rng, spec.size, may_flip, ranges)

    def picture(self, item: np.ndarray) -> np.ndarray:
        return item

    def thumbnail(self, source: str | os.PathLike | bytes, side: int, name: str | None = None) -> np.ndarray:
        """The middle of the image."""
        return load_image(source, side, name)

    def whole_end(self, data: bytes) -> int | None:
        return boundaries.whole_end(data)

    def words(self, text: str) -> str:
        return text


def _is_pil(value) -> bool:
    """Whether `value` is a PIL image. PIL is not imported for it: without its class there are none.

    While another thread imports PIL, the module is there and its class is not.
    """
    found = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return found is not None and isinstance(value, found)
