"""What every exported model computes, step by step; a writer makes operations of its format of the steps.

A value between operations is known by a name or a number, as the format has it. A writer has the methods

* ``image(shape)``: the input, uint8 or float32 images (n, height, width, channels), as float32;
* ``pixels(x, spec)``: the image as numbers of the first layer;
* ``convolution(network, index, x)``: layer `index` of `Network.all_layers` with its bias, and with its
  activation if `is_inside` says so;
* ``max_pool(x, node)``: the largest of the windows of `node`; ``join(xs)``: channels side by side;
* ``mean(x)``: the mean over rows and columns, which stay as axes of 1; ``scale(x, factors)``: their product;
* ``add(x, y)``; ``average(x, window)``: means over windows that do not overlap; rows and columns that fill no
  window are ignored; ``interpolate(x, like, hw)``: bilinearly to the size `hw` of the value `like`;
* ``embedding(x)``: the mean over rows and columns, (n, d); ``unit(embedding)``: the same at length 1;
* ``side_by_side(embeddings)``: one after another, (n, sum of d);
* ``classify(unit, head)``: the output, a probability for each class;

and the attributes `suffix`, `inside`, the activations that its convolutions can contain, and `activations`, a
table of functions of x and the node: what follows a convolution that does not contain it.
"""

import json

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.heads.linear import LinearHead
from tinytrain.network.committee import Committee, members_of
from tinytrain.network.input_spec import IMAGE
from tinytrain.network.network import Network
from tinytrain.network.node import Node


def write_steps(network: Network | Committee, delta: Delta, writer) -> None:
    """All steps of `network`, which is an adapted one or a committee of these, and of the head of `delta`.

    Raises InputError ``unsupported`` for a head that is no linear map of the unit embedding, and for an
    operation or activation that the writer does not know.
    """
    if not isinstance(delta.head, LinearHead):
        raise InputError(
            "unsupported", f"head {delta.head.kind!r} is no linear map, which alone can be exported"
        )
    image = writer.image(network.input.shape)
    parts = [_embedding(member, writer, image) for member in members_of(network)]
    embedding = parts[0] if len(parts) == 1 else writer.side_by_side([writer.unit(part) for part in parts])
    writer.classify(writer.unit(embedding), delta.head)


def _embedding(network: Network, writer, image):
    """All steps of `network` from the image to its embedding. Raises InputError ``unsupported``."""
    made = {-1: writer.pixels(image, network.input)}
    for i, node in enumerate(network.graph):
        if node.op not in STEPS:
            raise _cannot(writer, node, node.op)
        inputs = [made[k] for k in network.sources[i]]
        made[i] = STEPS[node.op](writer, network, i, inputs)
    return writer.embedding(made[len(network.graph) - 1])


def _convolution(writer, network: Network, i: int, inputs: list):
    node, (x, *added) = network.graph[i], inputs
    y = writer.convolution(network, network.numbers[i], x)
    for other in added:
        y = writer.add(y, other)
    if node.activation is None or is_inside(writer, node):
        return y
    if node.activation not in writer.activations:
        raise _cannot(writer, node, node.activation)
    return writer.activations[node.activation](y, node)


def _cannot(writer, node: Node, what: str) -> InputError:
    refused = f"layer {node.name}: {what} cannot be written to {writer.suffix} files"
    return InputError("unsupported", f"{refused}; export to a .safetensors file")


def pool_padding(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns that windows of max pooling `node` read before and behind its input."""
    sides = zip(node.out_hw, node.stride, node.kernel, node.in_hw, node.pad, strict=True)
    after = (max(0, (out - 1) * step + size - side - pad) for out, step, size, side, pad in sides)
    return node.pad, tuple(after)


def _squeeze(writer, network: Network, i: int, inputs: list):
    return _convolution(writer, network, i, [writer.mean(*inputs)])


def _excite(writer, network: Network, i: int, inputs: list):
    factors, squeezed = inputs
    return writer.scale(squeezed, _convolution(writer, network, i, [factors]))


def _halve(writer, network: Network, i: int, inputs: list):
    read = network.graph[network.sources[i][0]]
    return writer.average(*inputs, tuple(min(2, side) for side in read.out_hw))


def _widen(writer, network: Network, i: int, inputs: list):
    block, branch = inputs
    return writer.add(block, writer.interpolate(branch, block, network.graph[i].out_hw))


STEPS = {
    **dict.fromkeys(("conv", "pointwise", "depthwise", "grouped"), _convolution),
    "squeeze": _squeeze,
    "excite": _excite,
    "max-pool": lambda writer, network, i, inputs: writer.max_pool(*inputs, network.graph[i]),
    "concat": lambda writer, network, i, inputs: writer.join(inputs),
    "halve": _halve,
    "widen": _widen,
}


def is_inside(writer, layer: Node) -> bool:
    """Whether `convolution` of a writer does the activation, too: not if something is added before it."""
    return layer.activation in writer.inside and not layer.adds


def described(network: Network | Committee, delta: Delta, float_input: bool) -> dict[str, str]:
    """What a file says about itself: texts by key, all but names as JSON."""
    height, width, channels = network.input.shape
    image = {
        "layout": "NHWC",
        "dtype": "float32" if float_input else "uint8",
        "range": [0, 255],
        "height": height,
        "width": width,
        "channels": "RGB" if channels == 3 else channels,
        "resize": network.input.resize,
    }
    if network.input.kind != IMAGE:
        image |= {"kind": network.input.kind, "channels": channels, **dict(network.input.parameters)}
        image = {key: value for key, value in image.items() if key not in ("range", "resize")}
    return {
        "tinytrain.classes": json.dumps(delta.class_names),
        "tinytrain.image": json.dumps(image),
        "tinytrain.backbone": delta.backbone_name,
        "tinytrain.backbone_digest": delta.backbone,
    }
