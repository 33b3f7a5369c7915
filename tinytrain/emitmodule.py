"""Kernel calls of a lite residual module, forward and backward, emitted among those of its block."""

from tinytrain.emitgradient import grad_input, parameter_gradients
from tinytrain.lite import Module
from tinytrain.program import Bias, View, Weight
from tinytrain.tape import Tape


def add_module(emitter, y: View, x: View, module: Module, tape: Tape | None) -> None:
    """Add to the output y of a block what its module makes of the input x of the block.

    `emitter` is the `Emitter` of the pass; with a `tape` it notes what the backward pass needs.
    """
    segment, n = emitter.segment, emitter.n
    filtered, projected = module.layers
    pooled = segment.new(f"{filtered.name} input", n, *filtered.in_hw, filtered.cin)
    hidden = segment.new(filtered.name, n, *filtered.out_hw, filtered.cout)
    low = segment.new(projected.name, n, *projected.out_hw, projected.cout)
    segment.call("pool2", pooled, x)
    segment.call(
        "grouped_forward", hidden, pooled, Weight(module.index), filtered.kernel, filtered.stride,
        filtered.groups, macs=n * filtered.macs,
    )  # fmt: skip
    segment.call("add_bias_relu6", hidden.matrix, Bias(module.index))
    emitter.pointwise(low, hidden, module.index + 1, None)
    segment.call("upsample_add", y, low)
    if tape is not None and module.last >= tape.cut:
        emitter.save(tape, module.index, pooled, hidden)
        emitter.save(tape, module.index + 1, hidden, low)


def backward_module(emitter, g: View, module: Module, tape: Tape) -> View | None:
    """Gradient of the module's pooled input from that of the block's output.

    None where nothing before the block is trained. Accumulates the gradients of the module, if it is trained.
    """
    index, segment = module.index, emitter.segment
    wanted, projected = module.first > tape.cut, module.layers[1]
    if not wanted and index not in tape.trained:
        return None
    low = segment.new(f"{projected.name} output gradient", emitter.n, *projected.out_hw, projected.cout)
    segment.call("upsample_grad", low, g)
    if index in tape.trained:
        parameter_gradients(emitter, index + 1, low, tape.trained[index + 1], tape.saved_input[index + 1])
    hidden = grad_input(emitter, index + 1, low)
    segment.call("apply_mask", hidden.flat, tape.mask[index])
    if index in tape.trained:
        parameter_gradients(emitter, index, hidden, tape.trained[index], tape.saved_input[index])
    return grad_input(emitter, index, hidden) if wanted else None
