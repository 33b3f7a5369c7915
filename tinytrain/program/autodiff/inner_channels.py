"""Kernel calls of the gradient through a block in int8, for some of its inner channels at a time.

A block is an expanding, a depthwise and a projecting layer. The gradients between them are many times as
large as those before and behind it.
"""

from collections.abc import Callable

import numpy as np

from tinytrain.program.autodiff.ops import op_of
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Columns, View

KINDS = ["pointwise", "depthwise", "pointwise"]
BYTES, LEAST = 8192, 16  # of the gradient of some channels, and how many channels that are at the least
Hook = Callable[[int, View, int], None]


def has_inner_channels(emitter, i: int, tape: Tape) -> bool:
    """Whether the gradient goes through the block that layer i ends by `through_block`.

    It does not if weights of the depthwise layer are trained.
    """
    first = i - 2
    if first < tape.cut or [layer.kind for layer in emitter.layers[max(0, first) : i + 1]] != KINDS:
        return False
    same = {layer.block for layer in emitter.layers[first : i + 1]}
    filtered = tape.trained.get(i - 1)
    plain = not emitter.layers[first].residual and not emitter.layers[i - 1].residual
    return len(same) == 1 and (filtered is None or filtered.weight is None) and plain


def through_block(emitter, i: int, g: View, tape: Tape, hook: Hook | None) -> View | None:
    """Gradient of the input of the block that layer i ends, from that of the convolution of layer i.

    None if the first layer of the block is the cut. Accumulates the gradients of its first two layers.
    """
    first, segment = i - 2, emitter.segment
    layer, filtered = emitter.layers[first], emitter.layers[i - 1]
    trained, gx, chosen, x = tape.trained.get(first), None, None, None
    if trained is not None and trained.weight is not None:
        x = op_of(emitter, first).trained_input(emitter, first, tape.saved_input[first], trained)
        if trained.channels is not None:
            shape = emitter.n, *layer.out_hw, trained.channels
            chosen = segment.new(f"{layer.name} selected gradient", *shape)
    if first > tape.cut:
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
        how = filtered.kernel, filtered.stride
        segment.call("depthwise_grad_input", *arrays, *how, part="grad_input")
        _parameters(emitter, first, inner, a, tape, hook)
        if chosen is not None:
            segment.call("gather_some", chosen.matrix, inner.matrix, Columns(first, trained.channels), a)
        elif x is not None:
            codes = emitter.codes_read(first)
            arrays, how = (trained.weight, x.matrix, inner.matrix), (np.float32(codes.scale), codes.zero, a)
            segment.call("grad_weight_columns", *arrays, *how, part="grad_weight")
        if gx is not None:
            arrays = gx.matrix, inner.matrix, emitter.weight(first), emitter.array(first, "scale")
            segment.call("grad_input_rows", *arrays, a, part="grad_input")
    if chosen is not None:
        op_of(emitter, first).grad_weight(emitter, first, trained.weight, x, chosen)
    return gx


def _spans(emitter, filtered) -> list[tuple[int, int]]:
    """[first, last) channels that are taken at a time."""
    each = 4 * max(emitter.n * filtered.in_hw[0] * filtered.in_hw[1], filtered.fan_in)
    count = max(1, BYTES // (each * LEAST)) * LEAST
    return [(a, min(a + count, filtered.cout)) for a in range(0, filtered.cout, count)]


def _parameters(emitter, i: int, g: View, first: int, tape: Tape, hook: Hook | None) -> None:
    """Mask the gradient of channels of layer i from `first` on, show it, and add to that of its biases."""
    segment, layer, trained = emitter.segment, emitter.layers[i], tape.trained.get(i)
    segment.call("mask_columns", g.matrix, tape.kept[i], first, layer.cout)
    if hook is not None:
        hook(i, g, first)
    if trained is not None and trained.bias is not None:
        segment.call("add_column_sums", trained.bias.rows(first, first + g.shape[-1]), g.matrix)
