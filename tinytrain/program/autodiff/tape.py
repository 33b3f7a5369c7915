"""What a forward pass leaves behind, and where a backward pass accumulates: the data of the emitter."""

from dataclasses import dataclass, field

from tinytrain.program.calls import View


@dataclass(frozen=True)
class Trained:
    """Where the gradient of one layer accumulates: weight (rows, k) and bias (cout,) views, or None.

    `channels` is the number k of trained output channels, `inputs` that of the input channels whose
    weights are trained (pointwise layers only: rows = inputs); None stands for all of them.
    """

    weight: View | None
    bias: View | None
    channels: int | None
    inputs: int | None = None


@dataclass
class Tape:
    """What a forward pass leaves for the backward pass that follows it, by layer index.

    Layers from `cut` on leave what the gradient of their activation needs (`kept`), in int8 also which sums
    are not saturated (`kept_sum`), the places of maxima
    (`taps`), and, if they excite, the channels that they scale with the factors (`scaled`). The `trained`
    ones leave their inputs, and those in `hooked` the output of their convolution (after the bias, before any
    addition; what passed through ReLU or ReLU6 stands for it, as the gradient is 0 where they differ).
    """

    cut: int
    trained: dict[int, Trained] = field(default_factory=dict)
    hooked: frozenset[int] = frozenset()
    kept: dict[int, View] = field(default_factory=dict)
    kept_sum: dict[int, View] = field(default_factory=dict)
    taps: dict[int, View] = field(default_factory=dict)
    scaled: dict[int, tuple[View, View]] = field(default_factory=dict)
    saved_input: dict[int, View] = field(default_factory=dict)
    output: dict[int, View] = field(default_factory=dict)
