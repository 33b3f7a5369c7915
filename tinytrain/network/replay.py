"""Features of earlier images: what lets a later adaptation see old classes again without their images."""

import os
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.network import Network

VIEWS = int(os.environ.get("VIEWS", "2"))  # of each image: the clean one and an augmented one


@dataclass(frozen=True, eq=False)
class Replay:
    """Features at the input of layer `layer`, which opens a block, in 8 bits a value.

    `codes` (n, VIEWS, height, width, channels) uint8; `ranges` (n, VIEWS, 2) float32, the value of code 0 and
    the step of a code; `labels` (n,) int32. Layers below `layer` are those of the backbone: no adaptation
    that goes on from here may change them.
    """

    layer: int
    codes: np.ndarray
    ranges: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def arrays(self) -> list[np.ndarray]:
        return [self.codes, self.ranges, self.labels]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays())

    def check(self, network: Network, first: int) -> None:
        """Raise InputError ``delta-shape`` unless these can be features of `network`.

        `first` is the first layer that training changed.
        """
        below = self.layer <= min(first, len(network.layers) - 1)
        if below and network.block_start(self.layer) == self.layer:
            layer = network.layers[self.layer]
            if self.codes.shape[2:] == (*layer.in_hw, layer.cin):
                return
        shape = " x ".join(map(str, self.codes.shape[2:]))
        raise InputError(
            "delta-shape",
            f"the replay memory holds {shape} features of layer {self.layer}, which {network.name} does not "
            "have there; make the delta again",
        )

    def extended(self, codes: np.ndarray, ranges: np.ndarray, labels: np.ndarray, kept) -> "Replay":
        """With the features of more images behind these; of all of them those at `kept` (indices)."""
        pairs = ((self.codes, codes), (self.ranges, ranges), (self.labels, labels))
        return Replay(self.layer, *(np.concatenate(pair)[kept] for pair in pairs))

    def without(self, label: int) -> "Replay":
        """Without the class `label`; the labels behind it move up."""
        kept = np.flatnonzero(self.labels != label)
        labels = self.labels[kept]
        return replace(
            self, codes=self.codes[kept], ranges=self.ranges[kept], labels=labels - (labels > label)
        )


def remembered_view(view: int) -> int:
    """Which of the VIEWS of a remembered image stands for a `view` of it; 0 is the clean one."""
    return 0 if view == 0 or VIEWS == 1 else 1 + (abs(view) - 1) % (VIEWS - 1)
