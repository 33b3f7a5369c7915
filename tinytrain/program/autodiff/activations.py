"""Kernel calls of activations and of their gradients; ReLU6 itself is a part of kernels that add biases."""

from tinytrain.program.calls import Segment, View

# (what computes it, what its gradient is multiplied with), both from the value before it. The other ones
# are known by a bit for each number that comes out.
SMOOTH = {
    "hard-swish": ("hard_swish", "hard_swish_grad"),
    "hard-sigmoid": ("hard_sigmoid", "hard_sigmoid_grad"),
}
MASKS = {"relu6": "pack_mask", "relu": "pack_positive"}


def activate(segment: Segment, activation: str | None, y: View) -> None:
    """y = its activation, in place; what has passed through ReLU6 already stays."""
    if activation == "relu":
        segment.call("relu", y.flat)
    elif activation in SMOOTH:
        smooth(segment, activation, y, y)


def smooth(segment: Segment, activation: str, y: View, x: View) -> None:
    """y = activation of x, one of `SMOOTH`."""
    segment.call(SMOOTH[activation][0], y.flat, x.flat)


def mask(segment: Segment, activation: str, y: View, name: str) -> View:
    """A new view with a bit for each number of y, which one of `MASKS` gave: whether a gradient passes."""
    bits = segment.new(name, -(-y.size // 8), dtype="uint8")
    segment.call(MASKS[activation], bits, y.flat)
    return bits


def activation_grad(segment: Segment, activation: str, g: View, kept: View) -> None:
    """g *= derivative of the activation. `kept`: its `mask`, or what it read if it is one of `SMOOTH`."""
    if activation in SMOOTH:
        segment.call(SMOOTH[activation][1], g.flat, kept.flat)
    else:
        segment.call("apply_mask", g.flat, kept)
