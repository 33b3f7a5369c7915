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
    """What a forward pass leaves for the backward pass that follows it.

    `cut`, `trained` and `hooked` name layers by their numbers in `Network.all_layers`, and so does `output`:
    those in `hooked` leave what their convolution gives (after the bias, before any addition; what passed
    through ReLU or ReLU6 stands for it, as the gradient is 0 where they differ).

    The rest is by numbers in `Network.graph`. `reached` are the nodes of whose output a gradient is needed;
    the emitter finds them. They leave what the gradient of their activation needs, or the places of maxima
    (`kept`); in int8 which sums are not saturated (`kept_sum`); if they excite, the channels that they scale
    with the factors (`scaled`); all inputs, if they are of a transformer (`read`); and if their weights are
    trained, their input (`saved_input`).
    """

    cut: int
    trained: dict[int, Trained] = field(default_factory=dict)
    hooked: frozenset[int] = frozenset()
    kept: dict[int, View] = field(default_factory=dict)
    kept_sum: dict[int, View] = field(default_factory=dict)
    scaled: dict[int, tuple[View, View]] = field(default_factory=dict)
    read: dict[int, list[View]] = field(default_factory=dict)
    saved_input: dict[int, View] = field(default_factory=dict)
    output: dict[int, View] = field(default_factory=dict)
    reached: frozenset[int] | None = None
