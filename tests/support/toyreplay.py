"""What tests of going on share: images of known and of new classes, and what a delta holds."""

from dataclasses import replace

import numpy as np

from tinytrain.base.safetensors import decode
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.toy import toy_episode, toy_images

SHOTS = 4  # images of each class


def episode(way: int = 4, replay: int = SHOTS) -> Episode:
    """The images of class k are the same whatever the number of classes."""
    whole = toy_episode(way=4, shots=SHOTS, queries=0)
    support = whole.support.take(range(way * SHOTS))
    return replace(whole, support=support, class_names=whole.class_names[:way], replay=replay)


def new_images(label: int, count: int = 4) -> Images:
    """Toy images of class `label`, as those of the first class."""
    images = toy_images(np.full(count, label, np.int32), seed=9)
    return replace(images, labels=np.zeros(count, np.int32))


def stored(delta) -> dict[str, bytes]:
    """The bytes of all tensors of a delta, by name."""
    return {name: array.tobytes() for name, array in decode(encode_delta(delta))[0].items()}
