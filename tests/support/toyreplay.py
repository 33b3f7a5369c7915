"""What tests of going on share: images of a class that is new, and what a delta holds."""

from dataclasses import replace

import numpy as np

from tinytrain.base.safetensors import decode
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Images
from tinytrain.pipeline.toy import toy_images


def new_images(label: int, count: int = 4) -> Images:
    """Toy images of class `label`, as those of the first class."""
    images = toy_images(np.full(count, label, np.int32), seed=9)
    return replace(images, labels=np.zeros(count, np.int32))


def stored(delta) -> dict[str, bytes]:
    """The bytes of all tensors of a delta, by name."""
    return {name: array.tobytes() for name, array in decode(encode_delta(delta))[0].items()}
