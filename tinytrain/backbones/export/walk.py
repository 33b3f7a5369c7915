"""What every exported model computes, step by step; a writer makes operations of its format of the steps.

A value between operations is known by a name or a number, as the format has it. A writer has the methods

* ``image(shape)``: the input, uint8 or float32 images (n, height, width, channels), as float32;
* ``pixels(x, spec)``: the image as numbers of the first layer;
* ``convolution(network, index, x)``: layer `index` of `Network.all_layers` with its bias; if it adds nothing,
  with its ReLU6 or ReLU; ``activate(x, activation)``: an activation that the convolution does not contain;
* ``max_pool(x)``: the largest of windows of 3 x 3 with stride 2 and padding 1; x is not below 0;
* ``mean(x)``: the mean over rows and columns, which stay as axes of 1; ``scale(x, factors)``: their product;
* ``add(x, y)``; ``average(x, window)``: means over windows that do not overlap; rows and columns that fill no
  window are ignored; ``interpolate(x, like, hw)``: bilinearly to the size `hw` of the value `like`;
* ``embedding(x)``: the mean over rows and columns, (n, d); ``unit(embedding)``: the same at length 1;
* ``side_by_side(embeddings)``: one after another, (n, sum of d);
* ``classify(unit, head)``: the output, a probability for each class.
"""

import json

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.heads.linear import LinearHead
from tinytrain.network.committee import Committee, members_of
from tinytrain.network.input_spec import IMAGE
from tinytrain.network.layer import Layer
from tinytrain.network.network import Network


def write_steps(network: Network | Committee, delta: Delta, writer) -> None:
    """All steps of `network`, which is an adapted one or a committee of these, and of the head of `delta`.

    Raises InputError ``unsupported`` for a head that is no linear map of the unit embedding.
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
    """All steps of `network` from the image to its embedding."""
    x = block = squeezed = writer.pixels(image, network.input)
    modules = {module.last: module for module in network.modules}
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            block = x
        if layer.squeezes:
            squeezed = x
        source, added = (block, x) if layer.shortcut else (x, block)
        x = writer.convolution(network, i, writer.mean(source) if layer.squeezes else source)
        if i in modules:
            first, second = modules[i].indices
            window = tuple(min(2, side) for side in network.layers[modules[i].first].in_hw)
            branch = writer.convolution(network, first, writer.average(block, window))
            branch = writer.convolution(network, second, branch)
            x = writer.add(x, writer.interpolate(branch, x, layer.out_hw))
        if layer.adds:
            x = writer.add(x, added)
        if not contains_activation(layer):
            x = writer.activate(x, layer.follows)
        if layer.excites:
            x = writer.scale(squeezed, x)
        if layer.max_pool:
            x = writer.max_pool(x)
    return writer.embedding(x)


def contains_activation(layer: Layer) -> bool:
    """Whether `convolution` of a writer already does what follows the convolution, which may be nothing."""
    return layer.follows in (None, "relu6", "relu") and not (layer.follows and layer.adds)


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
