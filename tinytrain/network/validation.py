"""Check that a network makes sense: every layer known, each fitting the one before, every number a number."""

import math
import re

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.layer import ACTIVATIONS, KINDS, Layer
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.quantisation import RELU6_TOP, Codes, Quantisation, layers_obstacle

MAX_LAYERS = 1024
MAX_CHANNELS = 2**16
MAX_SIDE = 4096
MAX_RATE = 100  # of a factor of learning rates
KERNELS = (1, 3, 5, 7)
STRIDES = (1, 2)
CHANNELS = (1, 3)  # of an image


def check_network(network: Network) -> None:
    """Raises InputError, naming the layer, when `network` is inconsistent or holds NaN or infinity.

    Codes: ``file-damaged``, ``unsupported`` or ``network-not-finite``.
    """
    check_layers(network.layers)
    check_input(network.input, network.layers[0])
    n = len(network.layers)
    if not len(network.weights) == len(network.scales) == len(network.biases) == n:
        raise InputError("file-damaged", f"{n} layers need {n} weights, scales and biases")
    for layer, weight, scale, bias in zip(
        network.layers, network.weights, network.scales, network.biases, strict=True
    ):
        _check_array(layer, "weight", weight, (layer.fan_in, layer.cout), "f4" if scale is None else "i1")
        _check_array(layer, "bias", bias, (layer.cout,), "f4")
        if scale is not None:
            _check_array(layer, "scale", scale, (layer.cout,), "f4")
            if scale.min() <= 0:
                raise InputError("file-damaged", f"layer {layer.name}: a weight scale is {scale.min()}")
    if network.quantisation is not None:
        check_codes(network.layers, network.quantisation)


def check_layers(layers: tuple[Layer, ...]) -> None:
    """Raises InputError unless every layer is supported and takes what the layer before it gives."""
    if not 1 <= len(layers) <= MAX_LAYERS:
        raise InputError("file-damaged", f"{len(layers)} layers; a network has 1 to {MAX_LAYERS}")
    names = set()
    for index, layer in enumerate(layers):
        _check_fields(layer)
        _check_kind(layer)
        if layer.name in names:
            raise InputError("file-damaged", f"layer {index}: the name {layer.name} occurs twice")
        names.add(layer.name)
        _check_chain(layers, index)
    if layers[0].cin not in CHANNELS:
        raise InputError(
            "file-damaged", f"layer {layers[0].name} takes {layers[0].cin} channels; an image has 1 or 3"
        )
    if layers[0].kind != "conv":
        raise InputError(
            "unsupported", f"layer {layers[0].name}: the first layer is a dense convolution (kind conv)"
        )
    if layers[-1].squeezes:
        raise InputError(
            "unsupported", f"layer {layers[-1].name}: an excite layer must follow a squeeze layer"
        )


def check_codes(layers: tuple[Layer, ...], quantisation: Quantisation) -> None:
    """Raises InputError ``file-damaged`` unless every layer has codes that say what its activation says.

    Weights are not looked at: a network with float32 weights can have codes, too.
    """
    if obstacle := layers_obstacle(layers):
        raise InputError("file-damaged", f"{obstacle}, so that its network can have no codes")
    outputs, sums = quantisation.outputs, quantisation.sums
    if not len(outputs) == len(sums) == len(layers):
        raise InputError("file-damaged", f"{len(layers)} layers need {len(layers)} codes of outputs and sums")
    for layer, output, total in zip(layers, outputs, sums, strict=True):
        where = f"layer {layer.name}"
        if (total is not None) != layer.adds:
            raise InputError(
                "file-damaged", f"{where}: codes of a sum are for layers that add, and only them"
            )
        for codes in (output, *(() if total is None else (total,))):
            if type(codes) is not Codes or not codes.is_valid:
                raise InputError(
                    "file-damaged", f"{where}: a code needs a scale above 0 and a zero from -128 to 127"
                )
        if layer.follows is not None and output.zero != -128:
            raise InputError("file-damaged", f"{where}: behind {layer.follows} the zero must be -128")
        if layer.follows == "relu6" and 255 * output.scale > RELU6_TOP:
            raise InputError("file-damaged", f"{where}: the largest code behind relu6 must be at most 6")


def _check_fields(layer: Layer) -> None:
    """Types exactly as documented (the digest is taken over their text) and every number in its range."""
    ranges = {"cin": MAX_CHANNELS, "cout": MAX_CHANNELS, "kernel": MAX_SIDE, "stride": MAX_SIDE}
    good = type(layer.name) is str and re.fullmatch(r"[A-Za-z0-9_.\-]{1,64}", layer.name)
    if not good:
        raise InputError(
            "file-damaged", "a layer name must be 1 to 64 letters, digits, dots, dashes, underscores"
        )
    for field, most in ranges.items():
        _check_int(layer, field, getattr(layer, field), 1, most)
    _check_int(layer, "block", layer.block, 0, MAX_LAYERS)
    for field in ("in_hw", "out_hw"):
        pair = getattr(layer, field)
        if type(pair) is not tuple or len(pair) != 2:
            raise InputError("file-damaged", f"layer {layer.name}: {field} must be two whole numbers")
        for side in pair:
            _check_int(layer, field, side, 1, MAX_SIDE)
    if type(layer.rate) is not float or not 0 < layer.rate <= MAX_RATE:
        raise InputError(
            "file-damaged", f"layer {layer.name}: rate must be a number above 0, at most {MAX_RATE}"
        )
    flags = ("relu6", "residual", "shortcut", "max_pool")
    if any(type(getattr(layer, flag)) is not bool for flag in flags):
        raise InputError("file-damaged", f"layer {layer.name}: {', '.join(flags)} must be true or false")
    if layer.activation not in (None, *ACTIVATIONS[1:]) or (layer.relu6 and layer.activation):
        known = ", ".join(ACTIVATIONS[1:])
        raise InputError(
            "file-damaged", f"layer {layer.name}: activation must be null, or without ReLU6 one of {known}"
        )


def _check_int(layer: Layer, field: str, value, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InputError(
            "file-damaged", f"layer {layer.name}: {field} must be a whole number {least}..{most}"
        )


def _check_kind(layer: Layer) -> None:
    supported = f"supported are {', '.join(KINDS)} with kernels {KERNELS} and strides {STRIDES}"
    if layer.kind not in KINDS or layer.kernel not in KERNELS or layer.stride not in STRIDES:
        raise InputError("unsupported", f"layer {layer.name} is not supported; {supported}")
    if layer.kind == "pointwise" and (layer.kernel, layer.stride) != (1, 1):
        raise InputError(
            "unsupported", f"layer {layer.name}: pointwise means kernel 1 and stride 1; {supported}"
        )
    if (layer.squeezes or layer.excites) and (layer.kernel, layer.stride) != (1, 1):
        raise InputError("unsupported", f"layer {layer.name}: {layer.kind} means kernel 1 and stride 1")
    if (layer.follows == "hard-sigmoid") != layer.excites:
        raise InputError(
            "unsupported", f"layer {layer.name}: hard-sigmoid follows excite layers, and no others"
        )
    if layer.max_pool and layer.follows not in ("relu", "relu6"):
        raise InputError("unsupported", f"layer {layer.name}: max pooling must follow ReLU or ReLU6")
    if layer.kind == "depthwise" and layer.cin != layer.cout:
        raise InputError(
            "unsupported", f"layer {layer.name}: depthwise with {layer.cin} inputs and {layer.cout} outputs"
        )


def _check_chain(layers: tuple[Layer, ...], index: int) -> None:
    layer = layers[index]
    before = layers[index - 1] if index else layer
    expected = layer.filter_hw
    if layer.max_pool:
        expected = tuple((side + 1) // 2 for side in expected)
    if layer.excites:
        if not (index and before.squeezes and layer.cout == before.cin and layer.block == before.block):
            raise InputError(
                "unsupported",
                f"layer {layer.name}: an excite layer must follow a squeeze layer, with as many channels as"
                " that takes",
            )
        expected = before.in_hw
    elif before.squeezes and index:
        raise InputError("unsupported", f"layer {before.name}: an excite layer must follow a squeeze layer")
    if layer.out_hw != expected:
        raise InputError("file-damaged", f"layer {layer.name}: output {layer.out_hw}, must be {expected}")
    if layer.shortcut:
        _check_shortcut(layers, index)
    elif index and (layer.cin, layer.in_hw) != (before.cout, before.out_hw):
        raise InputError(
            "file-damaged",
            f"layer {layer.name} takes {layer.cin} x {layer.in_hw}; {before.name} gives"
            f" {before.cout} x {before.out_hw}",
        )
    first = index == 0 and layer.block == 0
    if not (first or (index and layer.block in (before.block, before.block + 1))):
        raise InputError(
            "file-damaged", f"layer {layer.name}: blocks must count 0, 1, 2 ..., not {layer.block}"
        )
    if layer.residual:
        _check_residual(layers, index)


def _first_of_block(layers: tuple[Layer, ...], index: int) -> Layer:
    """The first layer of the block whose last layer is `index`; refuses a sum anywhere else."""
    layer, start = layers[index], index
    while start > 0 and layers[start - 1].block == layer.block:
        start -= 1
    if index + 1 < len(layers) and layers[index + 1].block == layer.block:
        raise InputError("file-damaged", f"layer {layer.name}: only the last layer of a block is residual")
    if layer.kind not in ("conv", "pointwise") or layer.follows not in (None, "relu") or layer.max_pool:
        raise InputError(
            "file-damaged",
            f"layer {layer.name}: a residual layer is pointwise or dense, with ReLU or no activation behind"
            " the addition, and without max pooling",
        )
    return layers[start]


def _check_shortcut(layers: tuple[Layer, ...], index: int) -> None:
    layer, first, before = layers[index], _first_of_block(layers, index), layers[index - 1]
    if layer.residual or first is layer:
        raise InputError("file-damaged", f"layer {layer.name}: a shortcut has other layers in its block")
    if (layer.cin, layer.in_hw) != (first.cin, first.in_hw):
        raise InputError(
            "file-damaged",
            f"layer {layer.name} takes {layer.cin} x {layer.in_hw}, but the input of its block is {first.cin}"
            f" x {first.in_hw}",
        )
    if (layer.cout, layer.out_hw) != (before.cout, before.out_hw):
        raise InputError(
            "file-damaged",
            f"layer {layer.name}: cannot add the output {before.cout} x {before.out_hw} of {before.name} to"
            f" {layer.cout} x {layer.out_hw}",
        )


def _check_residual(layers: tuple[Layer, ...], index: int) -> None:
    layer, first = layers[index], _first_of_block(layers, index)
    if (first.cin, first.in_hw) != (layer.cout, layer.out_hw):
        raise InputError(
            "file-damaged",
            f"layer {layer.name}: cannot add the block's input {first.cin} x {first.in_hw} to its output"
            f" {layer.cout} x {layer.out_hw}",
        )


def check_input(spec: InputSpec, first: Layer) -> None:
    """Raises InputError unless the images it describes are what layer `first` takes."""
    shape, wanted = spec.shape, (*first.in_hw, first.cin)
    if shape != wanted or not all(type(count) is int for count in shape):
        raise InputError("file-damaged", f"images are {_by(shape)}, but {first.name} takes {_by(wanted)}")
    if not all(type(numbers) is tuple and len(numbers) == first.cin for numbers in (spec.mean, spec.scale)):
        raise InputError(
            "file-damaged", f"mean and scale must have a number for each of {first.cin} channels"
        )
    if not all(type(x) is float and math.isfinite(x) for x in spec.mean + spec.scale) or min(spec.scale) <= 0:
        raise InputError("file-damaged", "mean and scale must be finite numbers, and scale above 0")
    if type(spec.rotated) is not bool:
        raise InputError("file-damaged", "rotated must be true or false")
    for name in ("dtype", "resize"):
        if getattr(spec, name) != getattr(InputSpec, name):
            raise InputError("file-damaged", f"the only known {name} is {getattr(InputSpec, name)}")


def _by(shape: tuple) -> str:
    return " x ".join(f"{count!r:.20}" for count in shape)


def _check_array(layer: Layer, what: str, array: np.ndarray, shape: tuple, dtype: str) -> None:
    if array.shape != shape or array.dtype != np.dtype(dtype):
        raise InputError(
            "file-damaged",
            f"layer {layer.name}: {what} is {array.dtype} {array.shape}, must be {np.dtype(dtype)} {shape}",
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(array.size - np.isfinite(array).sum())
        raise InputError(
            "network-not-finite",
            f"layer {layer.name}: {bad} of {array.size} numbers in its {what} are NaN or infinite;"
            " use another file",
        )
