"""Kernel calls of a grouped convolution: for each group a dense one, of a plane of its own.

The input is `planes` (groups, n, height, width, channels / groups), so that what a filter reads of a row lies
side by side; the output y is (n, height, width, channels), every group in its columns. Patches of some output
rows at a time are multiplied with the weights. `emitter` is the `Emitter` of the pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tinytrain.program.autodiff.matrix_products import add_bias, patches
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
    layer, segment = emitter.layers[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", *planes_shape(emitter, i))
    for part in _parts(emitter, i):
        weight = emitter.weight(i, True, part.columns)
        segment.call("matmul", part.patches.matrix, part.of(g), weight, part="grad_input")
        images, *geometry = _read(layer, part, gx)
        segment.call("add_patches", images, part.patches, *geometry)
    return gx


def grad_weight(emitter, i: int, gw: View, planes: View, g: View) -> None:
    """Through a scratch as large as gw: numpy's BLAS does not accumulate."""
    layer, segment = emitter.layers[i], emitter.segment
    scratch = segment.new("weight gradient scratch", *gw.shape, dtype=gw.dtype)
    for part in unfolded(emitter, i, planes):
        of_group, inputs = scratch.columns(*part.columns), part.patches.matrix.T
        segment.call("matmul", of_group, inputs, part.of(g), part="grad_weight")
        if part.group == layer.groups - 1:
            segment.call("accumulate", gw.flat, scratch.flat)


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """Every output channel reads all of the input, or all channels of its group."""
    return x


def planes_shape(emitter, i: int) -> tuple[int, ...]:
    """Shape of the input of grouped convolution i."""
    layer = emitter.layers[i]
    return layer.groups, emitter.n, *layer.in_hw, layer.cin // layer.groups


def plane(planes: View, group: int) -> View:
    """(n, height, width, channels) of one group."""
    return planes.rows(group, group + 1).reshape(*planes.shape[1:])


def _parts(emitter, i: int) -> Iterator[Part]:
    """All groups of one row tile, then those of the next."""
    layer = emitter.layers[i]
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
        emitter.segment.call("unfold_plane", part.patches, *_read(emitter.layers[i], part, planes))
        yield part


def _read(layer, part: Part, planes: View) -> tuple:
    """For the kernels that unfold a plane or add to it: the images that `part` reads, and how."""
    lines = layer.filter_hw[0]
    images = plane(planes, part.group).rows(part.first // lines, -(-part.last // lines))
    return images, layer.kernel, layer.stride, part.first % lines, lines
