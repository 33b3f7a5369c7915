"""Kernel calls of a block of one image that is computed a few output rows at a time.

Only the rows of the expanded tensor that the depthwise filter still needs are alive: it is the largest
value of a network, and the peak of a forward pass without this.
"""

from collections.abc import Sequence

from tinytrain.network.layer import Layer
from tinytrain.program.autodiff.lite_residual import add_module
from tinytrain.program.autodiff.ops import op_of
from tinytrain.program.calls import View

PRODUCERS = ("conv", "pointwise")  # kinds of the layer before the depthwise one
# Kinds of the layers that are fused; other blocks are computed layer by layer.
FUSED = {("depthwise", "pointwise"), *((kind, "depthwise", "pointwise") for kind in PRODUCERS)}
# A block whose inner values take no more than this in float32 is computed in one row tile.
WHOLE_BYTES = 140_000


def is_fused(layers: Sequence[Layer], first: int, last: int) -> bool:
    """Whether layers [first, last) can be computed by `fused_block`."""
    some = layers[first:last]
    return (
        tuple(layer.kind for layer in some) in FUSED
        and not any(layer.max_pool or layer.shortcut for layer in some)
        and (some[0].kind != "conv" or first == 0)  # it reads the rows of an image
    )


def fused_block(emitter, x: View, first: int, last: int) -> View:
    """Output of layers [first, last), which are one of `FUSED`, from x (1, height, width, channels).

    The producer's rows that two row tiles share are computed once: they move to the front of the buffer.
    `emitter` is the `Emitter` of the pass.
    """
    segment, layers, filtering = emitter.segment, emitter.layers, last - 2
    dw, out = layers[filtering], layers[last - 1]
    y = segment.activations(out.name, 1, *out.out_hw, out.cout)
    tiles = _row_tiles(emitter, first, filtering)
    held = max(high - low for _, _, low, high in tiles)
    width, channels = dw.in_hw[1], dw.cin
    mid = segment.activations(f"{dw.name} input rows", held, width, channels) if filtering > first else None
    most = max(b - a for a, b, _, _ in tiles)
    filtered = segment.activations(f"{dw.name} rows", most, dw.out_hw[1], dw.cout)
    image = x.reshape(*layers[first].in_hw, layers[first].cin)
    before = (0, 0)
    for a, b, low, high in tiles:
        if mid is None:
            source = image.rows(low, high)
        else:
            _produce(emitter, mid, image, first, before, low, high)
            source = mid.rows(0, high - low)
            before = (low, high)
        part = filtered.rows(0, b - a)
        top = low - (a * dw.stride - dw.pad)
        op_of(emitter, filtering).forward_padded(
            emitter,
            filtering,
            part.reshape(1, *part.shape),
            source.reshape(1, *source.shape),
            top,
            dw.follows,
        )
        skip = image.rows(a, b) if out.residual else None
        rows = y.reshape(*y.shape[1:]).rows(a, b)
        op_of(emitter, last - 1).forward(emitter, last - 1, rows, part, skip, out.follows)
    if last - 1 in emitter.modules:
        add_module(emitter, y, x, emitter.modules[last - 1], None)
    return y


def _row_tiles(emitter, first: int, filtering: int) -> list[tuple[int, int, int, int]]:
    """(first, last) output rows and the (first, last) input rows of depthwise layer `filtering` they need."""
    dw, itemsize = emitter.layers[filtering], emitter.segment.backend.itemsize
    count, height = dw.out_hw[0], dw.in_hw[0]
    in_row = itemsize * dw.in_hw[1] * dw.cin if filtering > first else 0
    out_row = itemsize * dw.out_hw[1] * dw.cout
    rows, whole = count, WHOLE_BYTES * itemsize // 4 if emitter.whole_tiles else 0
    while rows > 1:
        held = min(height, (rows - 1) * dw.stride + dw.kernel)
        limit = max(whole, emitter.row_tile) if rows == count else emitter.row_tile
        if held * in_row + rows * out_row <= limit:
            break
        rows = (rows + 1) // 2
    tiles = []
    for a in range(0, count, rows):
        b = min(a + rows, count)
        low = max(0, a * dw.stride - dw.pad)
        high = min(height, (b - 1) * dw.stride - dw.pad + dw.kernel)
        tiles.append((a, b, low, high))
    return tiles


def _produce(emitter, mid: View, x: View, i: int, before: tuple[int, int], low: int, high: int) -> None:
    """Rows [low, high) of layer i's output into the front of `mid`, which holds rows `before`."""
    kept = max(0, before[1] - low)
    moved = low - before[0]
    if kept and moved:
        emitter.copy(mid.rows(0, kept).flat, mid.rows(moved, moved + kept).flat)
    op_of(emitter, i).forward_rows(emitter, i, mid.rows(kept, high - low), x, low + kept)
