"""What an adaptation changed: replacement values of trained slices, and the head. Nothing else."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.errors import InputError
from tinytrain.head import Head
from tinytrain.network import Network


@dataclass(frozen=True, eq=False)
class Slice:
    """New values of some output channels of one layer: `values` is (fan_in, k) for "weight", (k,) for "bias"."""

    layer: int
    part: str
    channels: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Delta:
    """Slices and head, bound to the backbone with digest `backbone`."""

    backbone: str
    backbone_name: str
    slices: tuple[Slice, ...]
    head: Head
    class_names: tuple[str, ...]
    report: dict

    def check_backbone(self, network: Network) -> None:
        """Raise InputError unless `network` is the backbone this delta was made for."""
        if network.digest != self.backbone:
            raise InputError(
                "wrong-backbone",
                f"the delta belongs to {self.backbone_name} ({self.backbone[:12]}), "
                f"not to {network.name} ({network.digest[:12]}); give the backbone it was made from",
            )


def apply(network: Network, delta: Delta) -> Network:
    """A network with the delta's values written over the backbone's; changed layers become float32."""
    delta.check_backbone(network)
    weights, scales, biases = list(network.weights), list(network.scales), list(network.biases)
    for s in delta.slices:
        if s.part == "weight":
            weight = network.float_weight(s.layer) if scales[s.layer] is not None else weights[s.layer].copy()
            weight[:, s.channels] = s.values
            weights[s.layer], scales[s.layer] = weight, None
        else:
            bias = biases[s.layer].copy()
            bias[s.channels] = s.values
            biases[s.layer] = bias
    return replace(network, weights=tuple(weights), scales=tuple(scales), biases=tuple(biases))


def trained_slices(slots, trained: np.ndarray) -> tuple[Slice, ...]:
    """Copies of the trained numbers (m,) as slices."""
    return tuple(
        Slice(
            s.layer,
            s.part,
            np.array(s.channels, np.int32),
            trained[s.start : s.start + s.size].reshape(s.shape).copy(),
        )
        for s in slots
    )
