"""Kernel calls of a block of one image that is computed a few output rows at a time.

Only the rows of the expanded tensor that the depthwise filter still needs are alive: it is the largest
value of a network, and the peak of a forward pass without this.
"""

from tinytrain.program.calls import View

# A block whose inner values take no more than this in float32 is computed in one row tile.
WHOLE_BYTES = 140_000


def end_of_fused(emitter, first: int, last: int) -> int:
    """End of those of nodes [first, last) that `fused_block` computes; `first` if it can compute none.

    These are a depthwise layer and a pointwise one, which may add the input of the block, and before them
    possibly a layer that is made row by row.
    """
    end = first + (2 if emitter.nodes[first].row.same_channels else 3)
    if end > last:
        return first
    rows = all(emitter.op(i).forward_rows is not None for i in (*range(first, end - 2), end - 1))
    filtering = emitter.nodes[end - 2].row.same_channels and emitter.op(end - 2).forward_padded is not None
    chained = all(emitter.sources[i] == (i - 1,) for i in range(first, end - 1))
    chained &= emitter.sources[end - 1] in ((end - 2,), (end - 2, first - 1))
    alone = end == last or emitter.nodes[end].row.is_inner  # a module reads what the block reads
    return end if rows and filtering and chained and alone else first


def fused_block(emitter, x: View, first: int, last: int) -> View:
    """Output of nodes [first, last), as `end_of_fused` found them, from x (1, height, width, channels).

    The producer's rows that two row tiles share are computed once: they move to the front of the buffer.
    `emitter` is the `Emitter` of the pass.
    """
    segment, layers, filtering = emitter.segment, emitter.nodes, last - 2
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
        top = low - (a * dw.stride[0] - dw.pad[0])
        batches = (view.reshape(1, *view.shape) for view in (part, source))
        emitter.op(filtering).forward_padded(emitter, filtering, *batches, top, dw.activation)
        skip = image.rows(a, b) if out.adds else None
        rows = y.reshape(*y.shape[1:]).rows(a, b)
        emitter.op(last - 1).forward(emitter, last - 1, rows, part, skip, out.activation)
    return y


def _row_tiles(emitter, first: int, filtering: int) -> list[tuple[int, int, int, int]]:
    """(first, last) output rows and the (first, last) input rows of depthwise layer `filtering` they need."""
    dw, itemsize = emitter.nodes[filtering], emitter.segment.backend.itemsize
    count, height = dw.out_hw[0], dw.in_hw[0]
    in_row = itemsize * dw.in_hw[1] * dw.cin if filtering > first else 0
    out_row = itemsize * dw.out_hw[1] * dw.cout
    rows, whole = count, WHOLE_BYTES * itemsize // 4 if emitter.whole_tiles else 0
    while rows > 1:
        held = min(height, (rows - 1) * dw.stride[0] + dw.kernel[0])
        limit = max(whole, emitter.row_tile) if rows == count else emitter.row_tile
        if held * in_row + rows * out_row <= limit:
            break
        rows = (rows + 1) // 2
    tiles = []
    for a in range(0, count, rows):
        b = min(a + rows, count)
        tiles.append((a, b, *dw.rows_read(a, b)))
    return tiles


def _produce(emitter, mid: View, x: View, i: int, before: tuple[int, int], low: int, high: int) -> None:
    """Rows [low, high) of layer i's output into the front of `mid`, which holds rows `before`."""
    kept = max(0, before[1] - low)
    moved = low - before[0]
    if kept and moved:
        emitter.copy(mid.rows(0, kept).flat, mid.rows(moved, moved + kept).flat)
    emitter.op(i).forward_rows(emitter, i, mid.rows(kept, high - low), x, low + kept)
