"""The network for recordings of motion: built by its name, of features and one layer that can be trained."""

import os
from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from tinytrain.backbones.catalogue import MOTION, USUAL_MOTION
from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes
from tinytrain.episode.kind import MOST_BYTES
from tinytrain.episode.motion import motion_spec
from tinytrain.episode.motion_features import Reservoir
from tinytrain.episode.motion_file import MOST_AXES, recording
from tinytrain.network.network import Network
from tinytrain.network.node import Node

# With this scale recurrent weights have a spectral radius of 0.9. It is a number here, as processors differ
# in the last bits of eigenvalues.
RESERVOIR = Reservoir(neurons=100, seed=0, scale=0.46244175670853116, leak=0.3, washout=20)
LOOKED_AT = 5  # files of a folder, by which its network is chosen


def motion_network(name: str) -> Network:
    """The network called `name`, as `MOTION` describes it.

    Its layer gives features as they come, until it is trained. Raises InputError ``backbone-not-here``.
    """
    axes, rate, esn = MOTION.fullmatch(name).groups()
    if not 1 <= int(axes) <= MOST_AXES:
        raise InputError("backbone-not-here", f"{name} would be for {axes} axes; name 1 to {MOST_AXES}")
    spec = motion_spec(int(axes), float(rate or 0), RESERVOIR if esn else None)
    size = spec.shape[-1]
    layer = Node("features", "conv", size, size, 1, 1, (1, 1), (1, 1), None, 0)
    return Network(
        name, (layer,), (np.eye(size, dtype=np.float32),), (None,), (np.zeros(size, np.float32),), spec
    )


def motion_name(paths: Iterable[str | os.PathLike]) -> str:
    """The name of the network that suits recordings, by the first of `paths`.

    It has their axes, and their rate if they have times. Files that cannot be read do not count; of none
    that can it is the usual one.
    """
    found = []
    for path in paths:
        with suppress(InputError):
            found.append(recording(read_bytes(path, MOST_BYTES)))
        if len(found) == LOOKED_AT:
            break
    plain = f"motion-{found[0].values.shape[1]}" if found else USUAL_MOTION
    if not found or not all(each.rate for each in found):
        return plain
    name = f"{plain}-{float(f'{np.median([each.rate for each in found]):.3g}'):g}hz"
    return name if MOTION.fullmatch(name) else plain
