"""Kernel calls of a lite residual module, forward and backward, emitted among those of its block."""

from tinytrain.network.lite_residual import Module
from tinytrain.program.autodiff import grouped_conv, pointwise
from tinytrain.program.autodiff.activations import activation_grad
from tinytrain.program.autodiff.ops import parameter_gradients
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import View


def add_module(emitter, y: View, x: View, module: Module, tape: Tape | None) -> None:
    """Add to the output y of a block what its module makes of the input x of the block.

    `emitter` is the `Emitter` of the pass; with a `tape` it notes what the backward pass needs.
    """
    segment, n = emitter.segment, emitter.n
    filtered, projected = module.layers
    planes = segment.activations(f"{filtered.name} input", *grouped_conv.planes_shape(emitter, module.index))
    hidden = segment.activations(filtered.name, n, *filtered.out_hw, filtered.cout)
    low = segment.activations(projected.name, n, *projected.out_hw, projected.cout)
    for group in range(filtered.groups):
        segment.call("pool2", grouped_conv.plane(planes, group), x, group * planes.shape[-1])
    grouped_conv.forward(emitter, module.index, hidden, planes, None, filtered.follows)
    pointwise.forward(emitter, module.index + 1, low, hidden, None, projected.follows)
    segment.call("upsample_add", y, low)
    if tape is not None and module.last >= tape.cut:
        emitter.save(tape, module.index, planes, hidden)
        emitter.save(tape, module.index + 1, hidden, low)


def backward_module(emitter, g: View, module: Module, tape: Tape) -> View | None:
    """Gradient of the planes that the module reads from that of the block's output.

    None if nothing before the block is trained. Accumulates the gradients of the module, if it is trained.
    """
    index, segment = module.index, emitter.segment
    wanted, projected = module.first > tape.cut, module.layers[1]
    if not wanted and index not in tape.trained:
        return None
    low = segment.new(f"{projected.name} output gradient", emitter.n, *projected.out_hw, projected.cout)
    segment.call("upsample_grad", low, g)
    if index in tape.trained:
        parameter_gradients(emitter, index + 1, low, tape.trained[index + 1], tape.saved_input[index + 1])
    hidden = pointwise.grad_input(emitter, index + 1, low)
    activation_grad(segment, module.layers[0].follows, hidden, tape.kept[index])
    if index in tape.trained:
        parameter_gradients(emitter, index, hidden, tape.trained[index], tape.saved_input[index])
    return grouped_conv.grad_input(emitter, index, hidden) if wanted else None


def add_gradient(emitter, gx: View, planes: View) -> None:
    """Add to the gradient of a block's input what comes through the planes of its module."""
    for group in range(planes.shape[0]):
        emitter.segment.call("pool2_grad", gx, grouped_conv.plane(planes, group), group * planes.shape[-1])
