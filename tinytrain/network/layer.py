"""One convolution of a network as data."""

from dataclasses import dataclass

from tinytrain.network.late_fields import late

KINDS = ("conv", "pointwise", "depthwise")  # of layers; modules also have "grouped" ones


@dataclass(frozen=True)
class Layer:
    """One convolution with its bias; ReLU6 and the residual addition that follow belong to it.

    `block` counts the blocks of the network (the stem is block 0); `residual` says that
    the input of the layer's block is added to its output. Padding is (kernel - 1) // 2. `rate` is a factor of
    the learning rates that policies give the layer, which meta-training may have found.
    """

    name: str
    kind: str
    cin: int
    cout: int
    kernel: int
    stride: int
    in_hw: tuple[int, int]
    out_hw: tuple[int, int]
    relu6: bool
    block: int
    residual: bool = False
    rate: float = late(1.0)

    @property
    def pad(self) -> int:
        return (self.kernel - 1) // 2

    @property
    def groups(self) -> int:
        """Parts into which the input channels fall, each read by as large a part of the output channels."""
        even = self.cin % 2 == self.cout % 2 == 0
        return {"depthwise": self.cin, "grouped": 2 if even else 1}.get(self.kind, 1)

    @property
    def fan_in(self) -> int:
        """Rows of the weight matrix: weights per output channel."""
        return self.kernel**2 * self.cin // self.groups

    @property
    def n_weights(self) -> int:
        return self.fan_in * self.cout

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass for one image."""
        return self.out_hw[0] * self.out_hw[1] * self.n_weights

    @property
    def in_size(self) -> int:
        """Numbers in the input of one image."""
        return self.in_hw[0] * self.in_hw[1] * self.cin

    @property
    def out_size(self) -> int:
        """Numbers in the output of one image."""
        return self.out_hw[0] * self.out_hw[1] * self.cout
