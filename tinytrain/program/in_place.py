"""Weights that take their gradients at once, so that these are never kept: for the program of one step.

A gradient passes through a scratch: a row of it in int8, some rows in float32. Its calls stand behind the one
that reads the same weights for the gradient of their input.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tinytrain.program.calls import Buffer, Call, Segment, View, Weight

ROUNDED = {"round_codes": "step_codes", "round_masters": "step_masters"}
STEPS = ("sgd_step", "sgd", *ROUNDED)
ADDED = ("grad_weight_codes", "grad_weight_columns", "accumulate")  # calls that add to a gradient


@dataclass(frozen=True, eq=False)
class Step:
    """The update of one trained array: the layer, the buffer of its gradient, and the calls that it takes."""

    layer: int
    gradient: Buffer
    calls: tuple[Call, ...]

    def call(self, *kernels: str) -> Call:
        return next(call for call in self.calls if call.kernel in kernels)


def taken_at_once(segment: Segment, updates: Iterable[Step]) -> Iterator[Step]:
    """Change the calls of a pass so that weights take their gradients at once.

    Gives every update with those of its calls that are still to be made: all of them for biases, and for
    weights whose gradient is no sum of products that is made in one go.
    """
    for update in updates:
        found = [call for call in segment.calls if _target(call, update.gradient)]
        places = {(call.args[0].start, *call.args[5:]) for call in found}
        if any(call.kernel not in ADDED for call in found) or len(places) < len(found):
            yield update
            continue
        made = {id(call): _step(segment, call, update) for call in found}
        _arrange(segment, update.layer, made)
        yield Step(update.layer, update.gradient, tuple(c for c in update.calls if c.kernel not in STEPS))


def _target(call: Call, gradient: Buffer) -> bool:
    first = call.args[0]
    return isinstance(first, View) and first.buffer is gradient


def _step(segment: Segment, call: Call, update: Step) -> Call:
    """The values take what `call` would add to the gradient."""
    if call.kernel == "accumulate":  # some rows, in float32
        rows, part = call.args
        values, *_, rate = update.call("sgd").args
        some = View(values.buffer, rows.shape, values.start + rows.start)
        return Call("sgd", (some, part, np.array([0, part.size], np.int32), rate), part="grad_weight")
    taken, rate = update.call(*ROUNDED), update.call("sgd_step").args[-1][0]
    values, kept, _, lsb, columns, *drawn = taken.args
    _, x, g, *scale_and_zero = call.args
    first = scale_and_zero[2:] or (0,)
    arrays = values, kept, segment.new("step of a row", g.extent[1]), x, g, lsb, columns, *drawn[:1]
    how = (*scale_and_zero[:2], rate, *first, *drawn[1:])
    return Call(ROUNDED[taken.kernel], (*arrays, *how), part="grad_weight")


def _arrange(segment: Segment, layer: int, made: dict[int, Call]) -> None:
    """Put the calls `made`, by those that they replace, behind the next that reads the weights of `layer`.

    In float32 the product that one takes goes with it.
    """
    calls, found, waiting = segment.calls, [], []
    reads = [k for k, call in enumerate(calls) if call.part == "grad_input" and _reads(call, layer)]
    for k, call in enumerate(calls):
        product = k + 1 < len(calls) and id(calls[k + 1]) in made and call.kernel == "matmul"
        if id(call) in made or product:
            waiting.append(made.get(id(call), call))
        else:
            found.append(call)
        if k in reads or (waiting and not any(read > k for read in reads)):
            found += waiting
            waiting = []
    segment.calls = found


def _reads(call: Call, layer: int) -> bool:
    return any(isinstance(a, Weight) and a.layer == layer for a in call.args)
