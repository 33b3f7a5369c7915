"""Kernel calls of max pooling. `emitter` is the `Emitter` of the pass."""

from collections.abc import Callable

from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import View


def apply(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    segment, node, (x,) = emitter.segment, emitter.nodes[i], inputs
    y = emitter.output(i)
    window = *node.kernel, *node.stride, *node.pad
    segment.call("max_pool", y, x, *window)
    if tape is not None and i in emitter.reached(tape):
        tape.kept[i] = segment.new(f"{node.name} taps", *y.shape, dtype="uint8")
        segment.call("max_taps", tape.kept[i], x, y, *window)
    return y


def forward_padded(emitter, i: int, y: View, x: View, top: int, activation: str | None) -> None:
    node = emitter.nodes[i]
    emitter.segment.call("max_pool", y, x, *node.kernel, *node.stride, top, node.pad[1])


def gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    node, (source,) = emitter.nodes[i], emitter.sources[i]
    gx = emitter.segment.new(f"{node.name} gradient", emitter.n, *node.in_hw, node.cin)
    window = *node.kernel, *node.stride, *node.pad
    emitter.segment.call("max_pool_grad", gx, g, tape.kept[i], *window)
    return [(source, gx)]
