"""Kernel calls of a grouped convolution: for each group a dense one, of a plane of its own.

A dense convolution behind the first layer is one with one group.

The input is `planes` (groups, n, height, width, channels / groups), so that what a filter reads of a row lies
side by side; the output y is (n, height, width, channels), every group in its columns. Patches of some output
rows at a time are multiplied with the weights. `emitter` is the `Emitter` of the pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from tinytrain.program.autodiff.matrix_products import add_bias, add_product, patches
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import View


@dataclass(frozen=True)
class Part:
    """Output rows [first, last) of all images in one group: `patches` has memory for what they read."""

    first: int
    last: int
    group: int
    columns: tuple[int, int]
    patches: View

    def rows_of(self, y: View) -> View:
        """These rows of an array (n, height, width, channels) as a matrix."""
        return y.reshape(-1, *y.shape[2:]).rows(self.first, self.last).matrix

    def of(self, y: View) -> View:
        """These rows and columns of an array like the output, as a matrix."""
        return self.rows_of(y).columns(*self.columns)


def forward(emitter, i: int, y: View, planes: View, skip: View | None, activation: str | None) -> None:
    for part in unfolded(emitter, i, planes):
        weight = emitter.weight(i, columns=part.columns)
        emitter.segment.call("matmul", part.of(y), part.patches.matrix, weight)
    add_bias(emitter, i, y.matrix, skip, activation)


def grad_input(emitter, i: int, g: View) -> View:
    """Gradient of the planes from that of the output."""
    layer, segment = emitter.nodes[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", *planes_shape(emitter, i))
    for part in _parts(emitter, i):
        weight = emitter.weight(i, True, part.columns)
        segment.call("matmul", part.patches.matrix, part.of(g), weight, part="grad_input")
        images, *geometry = _read(layer, part, gx)
        segment.call("add_patches", images, part.patches, *geometry)
    return gx


def grad_weight(emitter, i: int, gw: View, planes: View, g: View) -> None:
    for part in unfolded(emitter, i, planes):
        add_product(emitter, gw.columns(*part.columns), part.patches.matrix, part.of(g))


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """Every output channel reads all of the input, or all channels of its group."""
    return x


def planes_shape(emitter, i: int) -> tuple[int, ...]:
    """Shape of the input of grouped convolution i."""
    layer = emitter.nodes[i]
    return layer.groups, emitter.n, *layer.in_hw, layer.cin // layer.groups


def plane(planes: View, group: int) -> View:
    """(n, height, width, channels) of one group."""
    return planes.rows(group, group + 1).reshape(*planes.shape[1:])


def _parts(emitter, i: int) -> Iterator[Part]:
    """All groups of one row tile, then those of the next."""
    layer = emitter.nodes[i]
    count, writes = emitter.n * layer.filter_hw[0], layer.cout // layer.groups
    room = patches(emitter, i, count)
    for first in range(0, count, room.shape[0]):
        last = min(first + room.shape[0], count)
        for group in range(layer.groups):
            columns, rows = (group * writes, (group + 1) * writes), room.rows(0, last - first)
            yield Part(first, last, group, columns, rows)


def unfolded(emitter, i: int, planes: View) -> Iterator[Part]:
    """All parts, one after another, with the inputs that they read in `patches`."""
    for part in _parts(emitter, i):
        emitter.segment.call("unfold_plane", part.patches, *_read(emitter.nodes[i], part, planes))
        yield part


def _read(layer, part: Part, planes: View) -> tuple:
    """For the kernels that unfold a plane or add to it: the images that `part` reads, and how."""
    lines = layer.filter_hw[0]
    images = plane(planes, part.group).rows(part.first // lines, -(-part.last // lines))
    return images, *layer.kernel, layer.stride[0], *layer.pad, part.first % lines, lines


def _of_one_group(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    for part in unfolded(emitter, i, x.reshape(1, *x.shape)):
        rows = part.rows_of(y)
        emitter.segment.call("matmul", rows, part.patches.matrix, emitter.weight(i))
        add_bias(emitter, i, rows, skip and part.rows_of(skip), activation)


def _rows_of_one(emitter, i: int, y: View, x: View, top: int, activation: str | None) -> None:
    layer, count = emitter.nodes[i], y.shape[1]
    room = patches(emitter, i, count)
    for first in range(0, count, room.shape[0]):
        last = min(first + room.shape[0], count)
        part, rows = room.rows(0, last - first), y.reshape(*y.shape[1:]).rows(first, last).matrix
        geometry = *layer.kernel, layer.stride[0], top, layer.pad[1], first, count
        emitter.segment.call("unfold_plane", part, x, *geometry)
        emitter.segment.call("matmul", rows, part.matrix, emitter.weight(i))
        add_bias(emitter, i, rows, None, activation)


def _grad_input_of_one(emitter, i: int, g: View) -> View:
    planes = grad_input(emitter, i, g)
    return planes.reshape(*planes.shape[1:])


def _grad_weight_of_one(emitter, i: int, gw: View, x: View, g: View) -> None:
    """The input is unfolded once more, in row tiles."""
    for part in unfolded(emitter, i, x.reshape(1, *x.shape)):
        add_product(emitter, gw, part.patches.matrix, part.rows_of(g))


DENSE = SimpleNamespace(
    forward=_of_one_group,
    forward_padded=_rows_of_one,
    grad_input=_grad_input_of_one,
    grad_weight=_grad_weight_of_one,
    trained_input=trained_input,
)
