"""The replay memory in the file of a delta: ``replay.<codes|ranges|labels|layer>``, all of them or none."""

import numpy as np

from tinytrain.delta.delta import damaged
from tinytrain.network.replay import Replay

PREFIX = "replay."
TYPES = {"codes": "u1", "ranges": "f4", "labels": "i4", "layer": "i4"}

REPLAY_NAMES = {PREFIX + name for name in TYPES}


def replay_tensors(replay: Replay | None) -> dict[str, np.ndarray]:
    """Tensors of a file by name."""
    if replay is None:
        return {}
    values = {name: getattr(replay, name) for name in TYPES} | {"layer": np.array([replay.layer], np.int32)}
    return {PREFIX + name: array for name, array in values.items()}


def read_replay(tensors: dict[str, np.ndarray], way: int, source: str) -> Replay | None:
    """The replay memory of a file with `way` classes; None if it has none.

    Raises InputError ``file-damaged`` for what cannot be one.
    """
    found = {name: tensors[PREFIX + name] for name in TYPES if PREFIX + name in tensors}
    if not found:
        return None
    for name, dtype in TYPES.items():
        if name not in found:
            raise damaged(f"{source}: tensor {PREFIX}{name} is missing")
        if found[name].dtype != np.dtype(dtype):
            raise damaged(f"{source}: {PREFIX}{name} is {found[name].dtype}, must be {dtype}")
    codes, ranges, labels, layer = found.values()
    n = len(labels) if labels.ndim == 1 else 0
    shapes = {"codes": (n, *codes.shape[1:]), "ranges": (n, 2), "labels": (n,), "layer": (1,)}
    for name, shape in shapes.items():
        if not n or found[name].shape != shape or (name == "codes" and (codes.ndim != 4 or not codes.size)):
            raise damaged(
                f"{source}: {PREFIX}{name} is {found[name].shape}; codes must be (images, height, width,"
                " channels), and ranges, labels and layer must fit them"
            )
    if labels.min() < 0 or labels.max() >= way or layer[0] < 1 or (ranges[..., 1] < 0).any():
        raise damaged(
            f"{source}: labels of the replay memory must be 0 to {way - 1}, its layer at least 1, and its"
            " steps not below 0"
        )
    return Replay(int(layer[0]), codes, ranges, labels)
