"""Kernel calls that all convolutions share: what a pass notes of them, and the order of their gradients.

`emitter` is the `Emitter` of the pass.
"""

from collections.abc import Callable

from tinytrain.program.autodiff.matrix_products import some_channels
from tinytrain.program.autodiff.tape import Tape, Trained
from tinytrain.program.calls import Columns, View


def apply(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    x, added = inputs[0], inputs[1] if len(inputs) > 1 else None
    if tape is not None:
        return emitter.noted(i, x, added, tape)
    y = emitter.output(i)
    emitter.op(i).forward(emitter, i, y, x, added, emitter.nodes[i].activation)
    return y


def gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    added = [k for k in emitter.sources[i][1:] if k in emitter.reached(tape)]
    found = [(k, g) for k in added]
    g = emitter.before_activation(i, g, tape, bool(added))
    return found + of_result(emitter, i, g, tape, hook)


def of_result(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    """`gradients` of the first input, from the gradient g of what the convolution itself gives."""
    number, source = emitter.numbers[i], emitter.sources[i][0]
    if hook is not None:
        hook(number, g, 0)
    if number in tape.trained:
        trained, x = tape.trained[number], tape.saved_input.get(i)
        if x is None and trained.weight is not None:
            x = emitter.again(tape, source)
        of_parameters(emitter, i, g, trained, x)
    if source not in emitter.reached(tape):
        return []
    if (found := emitter.through_block(i, g, tape, hook)) is not None:
        return found
    return [(source, emitter.op(i).grad_input(emitter, i, g))]


def of_parameters(emitter, i: int, g: View, trained: Trained, x: View | None) -> None:
    """Add to the gradients of layer i, from its input x and its convolution's output gradient g."""
    op, segment = emitter.op(i), emitter.segment
    if trained.bias is not None:
        segment.call("add_column_sums", trained.bias, g.matrix)
    if trained.weight is None:
        return
    x = op.trained_input(emitter, i, x, trained)
    if trained.channels is not None:
        name = f"{emitter.nodes[i].name} selected gradient"
        g = some_channels(emitter, g, name, Columns(emitter.numbers[i], trained.channels))
    op.grad_weight(emitter, i, trained.weight, x, g)
