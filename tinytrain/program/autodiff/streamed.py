"""Kernel calls of the first blocks of one image, some rows of every layer at a time.

The values between the first layers are the largest of a network. Here a buffer holds only those rows of them
that are still needed, as in patch-based inference (Lin et al., "MCUNetV2", NeurIPS 2021), but no row is
computed twice: rows that the next ones need as well move to the front of their buffer. Behind some block, all
rows are there. The bytes decide which block that is.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tinytrain.network.node import Node, sources_of
from tinytrain.program.autodiff.fused_block import end_of_fused
from tinytrain.program.calls import View

STEM_ROWS = 4  # of the first layer at a time: the rows of the image that two steps share are made twice


@dataclass(frozen=True)
class Step:
    """Rows [first, last) of the output of a layer are computed.

    The `kept` rows before them stay; they lie `moved` rows from the front of their buffer, and go there.
    `source`: rows of its input that it reads, and `at`, where these begin in the buffer that has them.
    `skip`: where the rows of the block's input that are added begin in their buffer.
    """

    layer: int
    first: int
    last: int
    kept: int
    moved: int
    source: tuple[int, int]
    at: int
    skip: int


class Schedule:
    """The `steps` of nodes [0, last), and for how many rows of its output each has `room`."""

    def __init__(self, nodes: tuple[Node, ...], last: int):
        self.nodes = nodes[:last]
        self.sources = sources_of(self.nodes)
        self.adding = [[k for k in range(i, last) if i in self.sources[k][1:]] for i in range(last)]
        self.steps: list[Step] = []
        self.base, self.top, self.room = [0] * last, [0] * last, [0] * last
        self._need(last - 1, 0, nodes[last - 1].out_hw[0])

    def size(self, end: int) -> int:
        """Values in all buffers of a schedule of nodes [0, end), where a block ends.

        Those before its last one have the same room there: their rows are made in the same order.
        """
        rooms = *self.room[: end - 1], self.nodes[end - 1].out_hw[0]
        return sum(rows * node.out_hw[1] * node.cout for rows, node in zip(rooms, self.nodes, strict=False))

    def _need(self, i: int, low: int, high: int) -> None:
        """Rows [low, high) of the output of node i are there; those below `low` are not needed any more."""
        count = 1 if i else STEM_ROWS
        while (first := self.top[i]) < high:
            self._compute(i, low, first, min(first + count, self.nodes[i].out_hw[0]))

    def _compute(self, i: int, low: int, first: int, last: int) -> None:
        source = self.nodes[i].rows_read(first, last)
        if i:
            # What is added by a later node is needed until then.
            self._need(i - 1, min(source[0], self._added(i - 1)), source[1])
        base = max(self.base[i], min(low, first))
        moved, self.base[i], self.top[i] = base - self.base[i], base, last
        self.room[i] = max(self.room[i], last - base)
        at = source[0] - self.base[i - 1] if i else 0
        skip = first - self.base[self.sources[i][1]] if self.nodes[i].adds else 0
        self.steps.append(Step(i, first, last, first - base, moved, source, at, skip))

    def _added(self, i: int) -> int:
        """The first row of node i that has not been added yet; the last one if none is added."""
        return min((self.top[k] for k in self.adding[i]), default=self.nodes[i].out_hw[0])


@lru_cache(256)
def schedule_of(nodes: tuple[Node, ...], last: int) -> Schedule:
    """The schedule of nodes [0, last), made once: a planner asks for it with every candidate."""
    return Schedule(nodes, last)


def streamed_nodes(emitter, last: int, row_tile: int) -> int:
    """How many of nodes [0, last) are best computed by `streamed`; 0 if the others take more bytes.

    `row_tile` is the number of values in a row tile of the others.
    """
    nodes = emitter.nodes
    ends = [k for k in range(2, last + 1) if k == last or nodes[k].block != nodes[k - 1].block]
    usable = next((k for k in range(last) if not is_streamed(emitter, k)), last)
    whole = {start: _values(emitter, start, end, row_tile) for start, end in pairwise([0, *ends])}

    def peak(first: int, streamed: int) -> int:
        return max(streamed, *(values for start, values in whole.items() if start >= first), 0)

    found = {0: peak(0, 0)}
    if streamed_ends := [end for end in ends if end <= usable]:
        longest = schedule_of(nodes, streamed_ends[-1])
        patches = _patches(nodes[0], row_tile)
        found |= {end: peak(end, longest.size(end) + patches) for end in streamed_ends}
    return min(found, key=lambda end: (found[end], end > 0, -end))


def is_streamed(emitter, i: int) -> bool:
    """Whether `streamed` can compute node i: only the first one may read several rows of all channels."""
    op, read = emitter.op(i), emitter.sources[i]
    # What is added to rows that are made of others would have to be there for these.
    by_rows = op.forward_rows is not None or (op.forward_padded is not None and len(read) == 1)
    return by_rows and read[0] == i - 1 and -1 not in read[1:]


def _patches(stem: Node, row_tile: int) -> int:
    """Values that filters of the first layer read at once, each for itself: in float32 they share some."""
    row = stem.out_hw[1] * stem.fan_in
    return row * max(1, min(STEM_ROWS, row_tile // 4 // row))


def _values(emitter, start: int, end: int, row_tile: int) -> int:
    """About how many values there are at once in nodes [start, end), in row tiles if they can be fused."""
    nodes = emitter.nodes
    inside = sum(node.out_size for node in nodes[start : end - 1])
    if end_of_fused(emitter, start, end) > start:
        inside = min(row_tile, inside)
    read = nodes[start].in_size if start else 0  # an image lies elsewhere
    return read + nodes[end - 1].out_size + inside


def streamed(emitter, x: View, last: int) -> View:
    """Output of nodes [0, last) from an image x (1, height, width, channels).

    `emitter` is the `Emitter` of the pass.
    """
    layers, segment = emitter.nodes, emitter.segment
    schedule = schedule_of(layers, last)
    shapes = [
        (n, layer.out_hw[1], layer.cout) for n, layer in zip(schedule.room, schedule.nodes, strict=True)
    ]
    rows = [
        segment.activations(f"{layer.name} rows" if n < layer.out_hw[0] else layer.name, *shape)
        for n, layer, shape in zip(schedule.room, schedule.nodes, shapes, strict=True)
    ]
    image = x.reshape(*layers[0].in_hw, layers[0].cin)
    for step in schedule.steps:
        buffer, count = rows[step.layer], step.last - step.first
        if step.kept and step.moved:
            moved = buffer.rows(step.moved, step.moved + step.kept)
            emitter.copy(buffer.rows(0, step.kept).flat, moved.flat)
        y, op = buffer.rows(step.kept, step.kept + count), emitter.op(step.layer)
        if not step.layer:
            op.forward_rows(emitter, 0, y, image, step.first)
            continue
        layer, (low, high) = layers[step.layer], step.source
        part = rows[step.layer - 1].rows(step.at, step.at + high - low)
        if op.forward_padded is not None:
            top = low - (step.first * layer.stride[0] - layer.pad[0])
            batches = (view.reshape(1, *view.shape) for view in (y, part))
            op.forward_padded(emitter, step.layer, *batches, top, layer.activation)
        else:
            added = rows[emitter.sources[step.layer][1]] if layer.adds else None
            skip = added and added.rows(step.skip, step.skip + count)
            op.forward(emitter, step.layer, y, part, skip, layer.activation)
    return rows[-1].reshape(1, *rows[-1].shape)
