"""Fisher information of channels, as a value."""

import math
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.network.network import Network


@dataclass(frozen=True, eq=False)
class Scores:
    """`fisher[layer]` is (cout,) float32; `loss` the mean loss; `macs` what the probe executed.

    `similarity`: the mean cosine of the embeddings of clean images of different classes, weighted by their
    lengths; NaN where it was not measured. Near 0 they point different ways, near 1 all look alike to the
    backbone; how well it tells the classes apart is another matter.
    """

    fisher: dict[int, np.ndarray]
    loss: float
    macs: int
    arena: int
    similarity: float = math.nan

    def potential(self, layer: int) -> float:
        """Fisher potential of a layer: the sum over its channels."""
        return float(self.fisher[layer].sum())

    def without_shallowest(self, count: int) -> "Scores":
        """These scores but those of the `count` shallowest layers."""
        return replace(self, fisher={i: self.fisher[i] for i in sorted(self.fisher)[count:]})


def last_blocks(network: Network, count: int) -> tuple[int, ...]:
    """Indices of the layers in the last `count` blocks."""
    first = network.layers[-1].block - count + 1
    return tuple(i for i, layer in enumerate(network.layers) if layer.block >= first)
