"""Kernel calls of the gradients of one layer's trained parameters, of any kind of layer."""

from tinytrain.program.autodiff.ops import op_of
from tinytrain.program.autodiff.selected_channels import some_channels
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View


def parameter_gradients(emitter, i: int, g: View, trained: Trained, x: View | None) -> None:
    """Add to the gradients of layer i, from its input x and its convolution's output gradient g."""
    op, segment = op_of(emitter, i), emitter.segment
    if trained.bias is not None:
        segment.call("add_column_sums", trained.bias, g.matrix)
    if trained.weight is None:
        return
    x = op.trained_input(emitter, i, x, trained)
    if trained.channels is not None:
        name = f"{emitter.layers[i].name} selected gradient"
        g = some_channels(emitter, g, name, Columns(i, trained.channels))
    op.grad_weight(emitter, i, trained.weight, x, g)
