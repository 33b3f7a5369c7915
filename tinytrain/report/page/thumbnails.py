"""Small images for a page, as text that stands in it."""

import base64
import io
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.kinds import kind_of
from tinytrain.network.input_spec import InputSpec

SIDE = 96  # pixels of the longer side
QUALITY = 72  # of JPEG: about 2 kB an image


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """The images of `episode`, small. `spec` is what it holds them for."""

    episode: Episode
    spec: InputSpec

    def support(self, i: int) -> str:
        """Support image i as a data URI; a grey square if it cannot be read any more."""
        return self._uri(self.episode.support, i)

    def query(self, i: int) -> str:
        """Query image i as a data URI; likewise."""
        return self._uri(self.episode.query, i)

    def _uri(self, images: Images, i: int) -> str:
        try:
            return data_uri(kind_of(images.kind).picture(images.image(i, self.spec)))
        except InputError:  # images of a program may be read from files, which may be gone by now
            return data_uri(np.full((SIDE, SIDE, 1), 128, np.uint8))


def data_uri(image: np.ndarray) -> str:
    """A uint8 image (height, width, channels) as a small JPEG; what is not RGB is shown grey."""
    from PIL import Image

    pixels = image if image.shape[2] == 3 else image[..., 0]
    small = Image.fromarray(np.ascontiguousarray(pixels))
    small.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
