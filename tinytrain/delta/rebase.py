"""A delta that goes on where another one ended: both together, as one for the network itself."""

from dataclasses import replace

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.delta.delta import Delta, Slice, apply
from tinytrain.network.committee import Committee, alone
from tinytrain.network.network import Network


def begun(network: Network | Committee, start: Delta) -> Network:
    """`network` with what `start` has trained, to be trained further.

    Raises InputError for a delta of another network, UsageError ``unsupported`` for several networks, or
    unless it is for float32.
    """
    alone(network, "--start")
    if any(start.backend_fields.values()):
        what = f"the delta is for {start.precision}, which nothing goes on from"
        raise UsageError("unsupported", f"{what}; give one of float32")
    return apply(network, start)


def rebased(network: Network, start: Delta, delta: Delta) -> Delta:
    """`delta`, which was made for ``begun(network, start)``, as one for `network`."""
    adapted, found = apply(begun(network, start), delta), {}
    for s in (*start.slices, *delta.slices):
        found.setdefault((s.layer, s.part), []).append(s)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[0][1] != "weight"))
    slices = tuple(same[0] if len(same) == 1 else _joined(adapted, same) for _, same in ordered)
    return replace(delta, backbone=start.backbone, backbone_name=start.backbone_name, slices=slices)


def _joined(adapted: Network, same: list[Slice]) -> Slice:
    """All channels of slices of one layer and part, with the values that the `adapted` network has there."""
    layer, part = same[0].layer, same[0].part
    channels = np.unique(np.concatenate([s.channels for s in same])).astype(np.int32)
    if layer >= len(adapted.layers):
        values = adapted.added[layer][part == "bias"]
    else:
        values = adapted.float_weight(layer) if part == "weight" else adapted.biases[layer]
    return Slice(layer, part, channels, np.ascontiguousarray(values[..., channels]))
