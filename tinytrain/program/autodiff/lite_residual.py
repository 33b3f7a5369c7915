"""Kernel calls at both ends of a lite residual module: its input in half the size, its output added in full.

`emitter` is the `Emitter` of the pass.
"""

from collections.abc import Callable
from types import SimpleNamespace

from tinytrain.program.autodiff import grouped_conv
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import View


def _halve(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    """The planes that the grouped convolution behind it reads, one for each of its groups."""
    segment, (x,), name = emitter.segment, inputs, emitter.nodes[i].name
    planes = segment.activations(name, *grouped_conv.planes_shape(emitter, i + 1))
    for group in range(planes.shape[0]):
        segment.call("pool2", grouped_conv.plane(planes, group), x, group * planes.shape[-1])
    return planes


def _halve_gradients(emitter, i: int, planes: View, tape: Tape, hook: Callable | None) -> list:
    def add(gx: View) -> None:
        for group in range(planes.shape[0]):
            plane = grouped_conv.plane(planes, group)
            emitter.segment.call("pool2_grad", gx, plane, group * planes.shape[-1])

    return [(emitter.sources[i][0], add)]


def _widen(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    """Adds the second input, interpolated to the size of the first, to that: nothing else reads it."""
    y, low = inputs
    if tape is not None and emitter.numbers[emitter.sources[i][0]] in tape.hooked:
        total = emitter.output(i)
        emitter.segment.call("copy", total.flat, y.flat)
        y = total
    emitter.segment.call("upsample_add", y, low)
    return y


def _widen_gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    block, branch = emitter.sources[i]
    found = [(block, g)] if block in emitter.reached(tape) else []
    if branch in emitter.reached(tape):
        layer = emitter.nodes[branch]
        low = emitter.segment.new(f"{layer.name} output gradient", emitter.n, *layer.out_hw, layer.cout)
        emitter.segment.call("upsample_grad", low, g)
        found.append((branch, low))
    return found


HALVE = SimpleNamespace(apply=_halve, gradients=_halve_gradients)
WIDEN = SimpleNamespace(apply=_widen, gradients=_widen_gradients)
