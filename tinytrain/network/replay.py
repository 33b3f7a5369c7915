"""Features of earlier images: what lets a later adaptation see old classes again without their images."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.network import Network
from tinytrain.network.quantisation import Codes


@dataclass(frozen=True, eq=False)
class Replay:
    """Features at the input of layer `layer`, which opens a block, in 8 bits a value.

    `codes` (n, height, width, channels) uint8; `ranges` (n, 2) float32, the value of code 0 and the step of a
    code; `labels` (n,) int32. Those of int8 programs are their codes plus 128, so that nothing is rounded.
    Layers below `layer` are those of the backbone: no adaptation that goes on from here may change them.
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
        """Raise InputError ``file-damaged`` unless these can be features of `network`.

        `first` is the first layer that training changed.
        """
        below = self.layer <= min(first, len(network.layers) - 1)
        if below and network.block_start(self.layer) == self.layer:
            layer = network.layers[self.layer]
            if self.codes.shape[1:] == (*layer.in_hw, layer.cin):
                return
        shape = " x ".join(map(str, self.codes.shape[1:]))
        raise InputError(
            "file-damaged",
            f"the replay memory holds {shape} features of layer {self.layer}, which {network.name} does not "
            "have there; make the delta again",
        )

    def extended(self, codes: np.ndarray, ranges: np.ndarray, labels: np.ndarray) -> "Replay":
        """With the features of more images, class by class."""
        pairs = ((self.codes, codes), (self.ranges, ranges), (self.labels, labels))
        order = np.argsort(np.concatenate(pairs[-1]), kind="stable")
        return Replay(self.layer, *(np.concatenate(pair)[order] for pair in pairs))

    def without(self, label: int) -> "Replay":
        """Without the class `label`; the labels behind it move up."""
        kept = np.flatnonzero(self.labels != label)
        labels = self.labels[kept]
        return replace(
            self, codes=self.codes[kept], ranges=self.ranges[kept], labels=labels - (labels > label)
        )


MOVED = 128  # what a code of a memory is above the int8 code of the same value


def range_of(codes: Codes) -> tuple[np.float32, np.float32]:
    """The range of a memory whose features are `codes`."""
    return np.float32(codes.scale * (-MOVED - codes.zero)), np.float32(codes.scale)


def remembered_codes(y: np.ndarray, x: np.ndarray) -> None:
    """y uint8, as a memory holds them, from int8 codes x."""
    np.bitwise_xor(x.view(np.uint8), np.uint8(MOVED), out=y)


def int8_codes(y: np.ndarray, x: np.ndarray, values: np.ndarray, codes: Codes) -> None:
    """y (height, ...) int8: the `codes` nearest to features x (height, ...) of a memory, of range `values`.

    They are those that a memory of the same codes was made of.
    """
    meant = values[0].astype(float) + values[1].astype(float) * np.arange(256)
    table = np.clip(np.rint(meant / codes.scale) + codes.zero, -128, 127).astype(np.int8)
    for out, row in zip(y, x, strict=True):  # row by row: numpy makes indices of eight bytes
        np.take(table, row, out=out, mode="clip")
