"""Kernel calls of the gradient through a block in int8, for some of its inner channels at a time.

A block is an expanding, a depthwise and a projecting layer. The gradients between them are many times as
large as those before and behind it.
"""

from collections.abc import Callable

import numpy as np

from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Columns, View

BYTES, LEAST = 8192, 16  # of the gradient of some channels, and how many channels that are at the least
Hook = Callable[[int, View, int], None]


def has_inner_channels(emitter, i: int, tape: Tape) -> bool:
    """Whether the gradient goes through the block that node i ends by `through_block`.

    It does not if weights of the depthwise layer are trained, or another node reads inside of the block.
    """
    if i < 2 or i - 2 not in emitter.reached(tape):
        return False
    nodes = emitter.nodes[i - 2 : i + 1]
    points = [node.row.by_input for node in nodes] == [True, False, True]
    filtering = points and nodes[1].row.same_channels and emitter.op(i - 1).forward_padded is not None
    chained = all(emitter.sources[k] == (k - 1,) for k in (i - 2, i - 1)) and emitter.sources[i][0] == i - 1
    chained &= sum(read.count(k) for read in emitter.sources for k in (i - 2, i - 1)) == 2
    filtered = tape.trained.get(emitter.numbers[i - 1])
    frozen = filtered is None or filtered.weight is None
    return filtering and len({node.block for node in nodes}) == 1 and chained and frozen


def through_block(emitter, i: int, g: View, tape: Tape, hook: Hook | None) -> list:
    """Gradients of the input of the block that node i ends, from that of its convolution, as `gradients`.

    Accumulates the gradients of its first two layers.
    """
    first, segment = i - 2, emitter.segment
    layer, filtered = emitter.nodes[first], emitter.nodes[i - 1]
    trained, gx, chosen, x = tape.trained.get(emitter.numbers[first]), None, None, None
    if trained is not None and trained.weight is not None:
        x = emitter.op(first).trained_input(emitter, first, tape.saved_input[first], trained)
        if trained.channels is not None:
            shape = emitter.n, *layer.out_hw, trained.channels
            chosen = segment.new(f"{layer.name} selected gradient", *shape)
    if first - 1 in emitter.reached(tape):
        gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    for a, b in _spans(emitter, filtered):
        rows = segment.new(f"{filtered.name} some output gradients", emitter.n, *filtered.out_hw, b - a)
        arrays = rows.matrix, g.matrix, emitter.weight(i), emitter.array(i, "scale")
        segment.call("grad_input_columns", *arrays, a, part="grad_input")
        _parameters(emitter, i - 1, rows, a, tape, hook)
        inner = segment.new(f"{filtered.name} some gradients", emitter.n, *filtered.in_hw, b - a)
        weights = segment.new(f"{filtered.name} some weights", filtered.fan_in, b - a)
        segment.call("widen_columns", weights, emitter.weight(i - 1), emitter.array(i - 1, "scale"), a)
        arrays = inner, segment.new("zeros", b - a), rows, weights
        how = filtered.kernel[0], filtered.stride[0]
        segment.call("depthwise_grad_input", *arrays, *how, part="grad_input")
        _parameters(emitter, first, inner, a, tape, hook)
        if chosen is not None:
            columns = Columns(emitter.numbers[first], trained.channels)
            segment.call("gather_some", chosen.matrix, inner.matrix, columns, a)
        elif x is not None:
            codes = emitter.codes_read(first)
            arrays, how = (trained.weight, x.matrix, inner.matrix), (np.float32(codes.scale), codes.zero, a)
            segment.call("grad_weight_columns", *arrays, *how, part="grad_weight")
        if gx is not None:
            arrays = gx.matrix, inner.matrix, emitter.weight(first), emitter.array(first, "scale")
            segment.call("grad_input_rows", *arrays, a, part="grad_input")
    if chosen is not None:
        emitter.op(first).grad_weight(emitter, first, trained.weight, x, chosen)
    return [] if gx is None else [(first - 1, gx)]


def _spans(emitter, filtered) -> list[tuple[int, int]]:
    """[first, last) channels that are taken at a time."""
    each = 4 * max(emitter.n * filtered.in_hw[0] * filtered.in_hw[1], filtered.fan_in)
    count = max(1, BYTES // (each * LEAST)) * LEAST
    return [(a, min(a + count, filtered.cout)) for a in range(0, filtered.cout, count)]


def _parameters(emitter, i: int, g: View, first: int, tape: Tape, hook: Hook | None) -> None:
    """Mask the gradient of channels of layer i from `first` on, show it, and add to that of its biases."""
    segment, layer, number = emitter.segment, emitter.nodes[i], emitter.numbers[i]
    trained = tape.trained.get(number)
    segment.call("mask_columns", g.matrix, tape.kept[i], first, layer.cout)
    if hook is not None:
        hook(number, g, first)
    if trained is not None and trained.bias is not None:
        segment.call("add_column_sums", trained.bias.rows(first, first + g.shape[-1]), g.matrix)
