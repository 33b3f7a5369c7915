"""Kernel calls of layers in int8: codes forward, float32 gradients of the values that they stand for.

A saturated code has no gradient, as if it were clamped: that is the activation, too. `emitter` is the
`Int8Emitter` of the pass.
"""

import numpy as np

from tinytrain.network.network import Network
from tinytrain.network.node import Node
from tinytrain.network.quantisation import addition_factors
from tinytrain.program.autodiff import convolution
from tinytrain.program.autodiff.depthwise import trained_input as trained_filters
from tinytrain.program.autodiff.grouped_conv import trained_input as every_input
from tinytrain.program.autodiff.ops import IMAGE, Op, row
from tinytrain.program.autodiff.pointwise import trained_input as trained_inputs
from tinytrain.program.calls import Role, View, Weight


def add(emitter, i: int, y: View, x: View, skip: View) -> None:
    """y = codes of the sum of x, what the convolution of layer i gives, and the input `skip` of its block."""
    own, other, total = emitter.codes_of(i), emitter.codes_read(i, 1), emitter.codes.sums[emitter.numbers[i]]
    factors = addition_factors(own.scale / total.scale, other.scale / total.scale)
    emitter.segment.call("add_codes", y.flat, x.flat, skip.flat, *factors, own.zero, other.zero, total.zero)


# ---- dense layers ---------------------------------------------------------------------------------


def product(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    """Of any rows of any images; codes of images are int16."""
    kernel = "product_codes" if x.dtype == "int8" else "product_wide"
    arrays = (emitter.weight(i), *emitter.rescaling(i))
    emitter.segment.call(kernel, y.matrix, x.matrix, *arrays, emitter.codes_of(i).zero)
    if skip is not None:
        add(emitter, i, y, y, skip)


def pointwise_rows(emitter, i: int, y: View, image: View, first: int) -> None:
    product(emitter, i, y, image.rows(first, first + y.shape[0]), None, None)


def first_layer(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    for k in range(emitter.n):
        image_rows(emitter, i, y.rows(k, k + 1).reshape(*y.shape[1:]), x.rows(k, k + 1), 0)


def image_rows(emitter, i: int, y: View, image: View, first: int) -> None:
    """y = output rows of the first layer from row `first` on, for one image, in row tiles.

    Of an image that is nowhere (`Role.SHOWN`) some rows are made at a time, for one or more tiles.
    """
    layer, spec = emitter.nodes[i], emitter.network.input
    row = 2 * layer.filter_hw[1] * layer.fan_in
    tile = max(1, min(y.shape[0], emitter.patch_bytes // row))
    if image.buffer.role is not Role.SHOWN:
        _first_rows(emitter, i, y, image.reshape(*spec.shape), first, tile)
        return
    pixels = spec.shape[1] * spec.shape[2]
    step = tile * max(1, emitter.row_tile // 4 // (layer.stride[0] * tile * pixels))
    parts = [(a, min(a + step, y.shape[0])) for a in range(0, y.shape[0], step)]
    spans = [_image_span(layer, first + a, first + b) for a, b in parts]
    most = max(high - low for low, high in spans)
    strip = emitter.segment.new("image rows", most, *spec.shape[1:], dtype=spec.dtype)
    for (a, b), (low, high) in zip(parts, spans, strict=True):
        rows = strip.rows(0, high - low)
        emitter.segment.call("show_rows", rows, spec.shape[0] - high if spec.rotated else low)
        _first_rows(emitter, i, y.rows(a, b), rows, first + a - low // layer.stride[0], tile)


def _image_span(layer: Node, first: int, last: int) -> tuple[int, int]:
    """Rows of the image that output rows [first, last) of the first layer read, from a multiple of its stride
    on, so that patches of these rows alone are those of the whole image."""
    above = -(-layer.pad[0] // layer.stride[0])
    return max(0, first - above) * layer.stride[0], layer.rows_read(first, last)[1]


def _first_rows(emitter, i: int, y: View, image: View, first: int, tile: int) -> None:
    """As `image_rows`, of an `image` (height, width, channels) or of some of its rows, `tile` at a time."""
    layer, segment = emitter.nodes[i], emitter.segment
    room = segment.new(f"{layer.name} patches", tile, layer.filter_hw[1], layer.fan_in, dtype="int16")
    for a in range(0, y.shape[0], tile):
        b = min(a + tile, y.shape[0])
        part = room.rows(0, b - a)
        how = (layer.kernel[0], layer.stride[0], first + a, emitter.network.input.rotated)
        segment.call("unfold_codes", part, image, emitter.pixels, *how)
        product(emitter, i, y.rows(a, b), part, None, None)


def product_grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.nodes[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    scale = emitter.array(i, "scale")
    segment.call("grad_input_codes", gx.matrix, g.matrix, emitter.weight(i), scale, part="grad_input")
    return gx


def product_grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    codes = emitter.codes_read(i)
    segment, scale = emitter.segment, np.float32(codes.scale)
    segment.call("grad_weight_codes", gw, x.matrix, g.matrix, scale, codes.zero, part="grad_weight")


# ---- depthwise layers -----------------------------------------------------------------------------


def depthwise(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    depthwise_padded(emitter, i, y, x, emitter.nodes[i].pad[0], activation)


def depthwise_padded(emitter, i: int, y: View, x: View, top: int, activation: str | None) -> None:
    layer = emitter.nodes[i]
    how = (layer.kernel[0], layer.stride[0], top, emitter.codes_read(i).zero, emitter.codes_of(i).zero)
    emitter.segment.call("depthwise_codes", y, x, emitter.weight(i), *emitter.rescaling(i), *how)


def depthwise_grad_input(emitter, i: int, g: View) -> View:
    layer, segment, scale = emitter.nodes[i], emitter.segment, emitter.array(i, "scale")
    if not emitter.fast_path and layer.stride == (1, 1):
        room = layer.fan_in + layer.in_hw[0] * layer.in_hw[1]
        work = segment.new(f"{layer.name} weights and gradients of some channels", room, 16)
        arrays = g, work, emitter.weight(i), scale
        segment.call("depthwise_grad_in_place", *arrays, layer.kernel[0], part="grad_input")
        return g
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    how = layer.kernel[0], layer.stride[0]
    if not emitter.fast_path:
        work = segment.new(f"{layer.name} weights of some channels", layer.fan_in, 16)
        arrays = (gx, work, g, emitter.weight(i), scale)
        segment.call("depthwise_grad_input_codes", *arrays, *how, part="grad_input")
        return gx
    zeros = segment.new(f"{layer.name} zeros", layer.cout)
    weight = segment.new(f"{layer.name} weights", layer.fan_in, layer.cout)
    segment.call("widen_codes", weight, emitter.weight(i), scale, 0)
    segment.call("depthwise_grad_input", gx, zeros, g, weight, *how, part="grad_input")
    return gx


def depthwise_grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    layer, codes = emitter.nodes[i], emitter.codes_read(i)
    how = np.float32(codes.scale), codes.zero, layer.kernel[0], layer.stride[0]
    emitter.segment.call("depthwise_grad_weight_codes", gw, x, g, *how, part="grad_weight")


def int8_weight(network: Network, i: int) -> Weight:
    """Weights of layer i in the working copy: (cout, fan_in), or (taps, channels) if it is depthwise."""
    layer = network.layers[i]
    shape = (layer.cout, layer.fan_in) if is_turned(network, i) else (layer.fan_in, layer.cout)
    return Weight(i, shape, dtype="int8")


def is_turned(network: Network, i: int) -> bool:
    """Whether the weights of layer i lie in the working copy with a row for every output channel."""
    return network.layers[i].op != "depthwise"


def image_grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    """Of codes of pixels, image by image; nothing is unfolded."""
    layer, spec = emitter.nodes[i], emitter.network.input
    how = (emitter.pixels, emitter.pixel_step, layer.kernel[0], layer.stride[0], spec.rotated)
    for k in range(emitter.n):
        image, gk = x.rows(k, k + 1).reshape(*spec.shape), g.rows(k, k + 1).reshape(*g.shape[1:])
        emitter.segment.call("grad_weight_image", gw, image, gk, *how, part="grad_weight")


INT8_OPS: dict[str, Op] = {
    IMAGE: row(
        convolution, forward=first_layer, grad_weight=image_grad_weight, trained_input=every_input,
        forward_rows=image_rows,
    ),
    "depthwise": row(
        convolution, forward=depthwise, grad_input=depthwise_grad_input, grad_weight=depthwise_grad_weight,
        trained_input=trained_filters, forward_padded=depthwise_padded,
    ),
    "pointwise": row(
        convolution, forward=product, grad_input=product_grad_input, grad_weight=product_grad_weight,
        trained_input=trained_inputs, forward_rows=pointwise_rows,
    ),
}  # fmt: skip
