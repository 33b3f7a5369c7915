"""What every exported model computes, step by step; a writer makes operations of its format of the steps."""

import json
from abc import ABC, abstractmethod

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.heads.linear import LinearHead
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network


class Writer(ABC):
    """Operations of a format; a value between them is known by a name or a number, as the format has it."""

    @abstractmethod
    def pixels(self, spec: InputSpec):
        """The input, uint8 images (n, height, width, channels), as numbers of the first layer."""

    @abstractmethod
    def convolution(self, network: Network, index: int, x):
        """Layer `index` of `Network.all_layers` with its bias and ReLU6."""

    @abstractmethod
    def add(self, x, y):
        """The sum of two values of the same shape."""

    @abstractmethod
    def average(self, x, window: tuple[int, int]):
        """Means over windows that do not overlap; rows and columns that fill no window are ignored."""

    @abstractmethod
    def interpolate(self, x, like, hw: tuple[int, int]):
        """`x` bilinearly interpolated to the size `hw` (height, width) of the value `like`."""

    @abstractmethod
    def embedding(self, x):
        """The mean over rows and columns, (n, d)."""

    @abstractmethod
    def classify(self, embedding, head: LinearHead, class_names: tuple[str, ...]) -> None:
        """The outputs."""


def write_steps(network: Network, delta: Delta, writer: Writer) -> None:
    """All steps of `network`, which is an adapted one, and of the head of `delta`.

    Raises InputError ``export-head`` for a head that is no linear map of the unit embedding.
    """
    if not isinstance(delta.head, LinearHead):
        raise InputError(
            "export-head", f"head {delta.head.kind!r} is no linear map, which alone can be exported"
        )
    x = block = writer.pixels(network.input)
    modules = {module.last: module for module in network.modules}
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            block = x
        x = writer.convolution(network, i, x)
        if i in modules:
            first, second = modules[i].indices
            window = tuple(min(2, side) for side in network.layers[modules[i].first].in_hw)
            branch = writer.convolution(network, first, writer.average(block, window))
            branch = writer.convolution(network, second, branch)
            x = writer.add(x, writer.interpolate(branch, x, layer.out_hw))
        ends = i + 1 == len(network.layers) or network.layers[i + 1].block != layer.block
        if layer.residual and ends:
            x = writer.add(x, block)
    writer.classify(writer.embedding(x), delta.head, delta.class_names)


def described(network: Network, delta: Delta) -> dict[str, str]:
    """What a file says about itself: texts by key, all but names as JSON."""
    height, width, channels = network.input.shape
    image = {
        "layout": "NHWC",
        "dtype": "uint8",
        "height": height,
        "width": width,
        "channels": "RGB" if channels == 3 else channels,
        "resize": network.input.resize,
    }
    return {
        "tinytrain.classes": json.dumps(delta.class_names),
        "tinytrain.image": json.dumps(image),
        "tinytrain.backbone": delta.backbone_name,
        "tinytrain.backbone_digest": delta.backbone,
    }
