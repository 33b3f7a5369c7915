"""Kernel calls of a block of one image that is computed a few output rows at a time.

Only the rows of the expanded tensor that the depthwise filter still needs are alive: it is the largest
value of a network, and the peak of a forward pass without this.
"""

from tinytrain.program.autodiff.lite_residual import add_module
from tinytrain.program.calls import View

# Kinds of layers that are streamed together; other blocks are computed whole.
STREAMED = {("depthwise", "pointwise"), *((k, "depthwise", "pointwise") for k in ("conv", "pointwise"))}
# A block whose inner values take no more than this is computed in one band.
WHOLE_BYTES = 140_000


def streamed(emitter, x: View, first: int, last: int) -> View:
    """Output of layers [first, last), [producer,] depthwise, pointwise, from x (1, height, width, channels).

    The rows of the producer that two bands share move to the front of the buffer, the rest is computed
    once. `emitter` is the `Emitter` of the pass.
    """
    segment, layers = emitter.segment, emitter.layers
    depthwise = next(k for k in range(first, last) if layers[k].kind == "depthwise")
    dw, out = layers[depthwise], layers[last - 1]
    y = segment.new(out.name, 1, *out.out_hw, out.cout)
    bands = _bands(emitter, first, depthwise)
    held = max(high - low for _, _, low, high in bands)
    width, channels = dw.in_hw[1], dw.cin
    mid = segment.new(f"{dw.name} input rows", held, width, channels) if depthwise > first else None
    rows = max(b - a for a, b, _, _ in bands)
    filtered = segment.new(f"{dw.name} rows", rows, dw.out_hw[1], dw.cout)
    image_rows = x.reshape(*layers[first].in_hw, layers[first].cin)
    before = (0, 0)
    for a, b, low, high in bands:
        if mid is None:
            source = image_rows.rows(low, high)
        else:
            _produce(emitter, mid, image_rows, first, before, low, high)
            source = mid.rows(0, high - low)
            before = (low, high)
        part = filtered.rows(0, b - a)
        top = low - (a * dw.stride - dw.pad)
        emitter.depthwise(part.reshape(1, *part.shape), source.reshape(1, *source.shape), depthwise, top)
        skip = image_rows.rows(a, b) if out.residual else None
        emitter.pointwise(y.reshape(*y.shape[1:]).rows(a, b), part, last - 1, skip)
    if last - 1 in emitter.modules:
        add_module(emitter, y, x, emitter.modules[last - 1], None)
    return y


def _bands(emitter, first: int, depthwise: int) -> list[tuple[int, int, int, int]]:
    """(first, last) output rows and the (first, last) input rows of the depthwise layer they need."""
    dw = emitter.layers[depthwise]
    count, height = dw.out_hw[0], dw.in_hw[0]
    in_row = 4 * dw.in_hw[1] * dw.cin if depthwise > first else 0
    out_row = 4 * dw.out_hw[1] * dw.cout
    rows = count
    while rows > 1:
        held = min(height, (rows - 1) * dw.stride + dw.kernel)
        limit = max(WHOLE_BYTES, emitter.band) if rows == count else emitter.band
        if held * in_row + rows * out_row <= limit:
            break
        rows = (rows + 1) // 2
    bands = []
    for a in range(0, count, rows):
        b = min(a + rows, count)
        low = max(0, a * dw.stride - dw.pad)
        high = min(height, (b - 1) * dw.stride - dw.pad + dw.kernel)
        bands.append((a, b, low, high))
    return bands


def _produce(emitter, mid: View, x: View, i: int, before: tuple[int, int], low: int, high: int) -> None:
    """Rows [low, high) of layer i's output into the front of `mid`, which holds rows `before`."""
    kept = max(0, before[1] - low)
    moved = low - before[0]
    if kept and moved:
        emitter.segment.call("copy", mid.rows(0, kept).flat, mid.rows(moved, moved + kept).flat)
    new = mid.rows(kept, high - low)
    if emitter.layers[i].kind == "conv":
        emitter.dense_conv(new, x, i, low + kept)
    else:
        emitter.pointwise(new, x.rows(low + kept, high), i, None)
