"""One convolution of a network as data."""

from dataclasses import dataclass

from tinytrain.network.optional_fields import optional_field

# Of layers; modules also have "grouped" ones.
KINDS = ("conv", "pointwise", "depthwise", "squeeze", "excite")
ACTIVATIONS = ("relu6", "relu", "hard-swish", "hard-sigmoid")


@dataclass(frozen=True)
class Layer:
    """One convolution with its bias and what follows it, in this order.

    1. The residual addition: `residual` says that the input of the layer's block is added. If `shortcut` is
       true, the layer itself reads the input of the block, and the output of the layer before is added.
    2. ReLU6, or the `activation` that is named instead of it.
    3. `max_pool`: the largest of each window of 3 x 3 with stride 2 and padding 1.

    `block` counts the blocks of the network (the stem is block 0). Padding is (kernel - 1) // 2. "conv" is a
    dense convolution. A "squeeze" layer averages its input over rows and columns first. The "excite" layer
    behind it gives a number for each channel, and its output is the squeezed input times these numbers.
    `rate` is a factor of the learning rates that policies give the layer, which meta-training may have found.
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
    rate: float = optional_field(1.0)
    activation: str | None = optional_field(None)
    shortcut: bool = optional_field(False)
    max_pool: bool = optional_field(False)

    @property
    def follows(self) -> str | None:
        """The activation that follows, one of `ACTIVATIONS`, or None."""
        return "relu6" if self.relu6 else self.activation

    @property
    def adds(self) -> bool:
        """Whether something is added to what the convolution gives."""
        return self.residual or self.shortcut

    @property
    def squeezes(self) -> bool:
        return self.kind == "squeeze"

    @property
    def excites(self) -> bool:
        return self.kind == "excite"

    @property
    def filter_hw(self) -> tuple[int, int]:
        """Rows and columns of what the convolution itself gives."""
        if self.squeezes or self.excites:
            return 1, 1
        height, width = ((side + 2 * self.pad - self.kernel) // self.stride + 1 for side in self.in_hw)
        return height, width

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
        return self.filter_hw[0] * self.filter_hw[1] * self.n_weights

    @property
    def in_size(self) -> int:
        """Numbers in the input of one image."""
        return self.in_hw[0] * self.in_hw[1] * self.cin

    @property
    def out_size(self) -> int:
        """Numbers in the output of one image."""
        return self.out_hw[0] * self.out_hw[1] * self.cout

    @property
    def largest_size(self) -> int:
        """Numbers in the largest array that it makes of one image: before max pooling, or its output."""
        return max(self.out_size, self.filter_hw[0] * self.filter_hw[1] * self.cout)
