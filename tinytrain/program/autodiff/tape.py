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

    Layers from `cut` on leave their masks, the `trained` ones their inputs, and those in `hooked`
    the output of their convolution (after the bias, before the residual addition).
    """

    cut: int
    trained: dict[int, Trained] = field(default_factory=dict)
    hooked: frozenset[int] = frozenset()
    mask: dict[int, View] = field(default_factory=dict)
    saved_input: dict[int, View] = field(default_factory=dict)
    output: dict[int, View] = field(default_factory=dict)
