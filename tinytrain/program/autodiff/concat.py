"""Kernel calls that put the channels of inputs side by side. `emitter` is the `Emitter` of the pass."""

from collections.abc import Callable, Iterator

from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import View


def apply(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    y = emitter.output(i)
    for (_, _, first), x in zip(_parts(emitter, i), inputs, strict=True):
        emitter.segment.call("put_columns", y.matrix, x.matrix, first)
    return y


def gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    found = []
    for source, channels, first in _parts(emitter, i):
        if source in emitter.reached(tape):
            name = f"{emitter.nodes[i].name} gradient of {emitter.nodes[source].name}"
            found.append((source, emitter.segment.new(name, *g.shape[:3], channels)))
            emitter.segment.call("take_columns", found[-1][1].matrix, g.matrix, first)
    return found


def _parts(emitter, i: int) -> Iterator[tuple[int, int, int]]:
    """(number of the node, its channels, the first of them in the output) of each input."""
    first = 0
    for source in emitter.sources[i]:
        channels = emitter.nodes[source].cout
        yield source, channels, first
        first += channels
