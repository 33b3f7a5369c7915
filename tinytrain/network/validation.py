"""Check that a network makes sense: every layer known, each fitting the one before, every number a number."""

import math
import re

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.input_spec import DTYPES, IMAGE
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
MOST_PARAMETERS, MOST_LETTERS = 64, 100  # of what a kind of input is read with
NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def _require(good: bool, problem: str, code: str = "file-damaged") -> None:
    if not good:
        raise InputError(code, problem)


def _require_supported(good: bool, problem: str) -> None:
    _require(good, problem, "unsupported")


def check_network(network: Network) -> None:
    """Raises InputError, naming the layer, when `network` is inconsistent or holds NaN or infinity.

    Codes: ``file-damaged``, ``unsupported`` or ``network-not-finite``.
    """
    check_layers(network.layers)
    check_input(network.input, network.layers[0])
    n, arrays = len(network.layers), (network.weights, network.scales, network.biases)
    _require(all(len(some) == n for some in arrays), f"{n} layers need {n} weights, scales and biases")
    for layer, weight, scale, bias in zip(network.layers, *arrays, strict=True):
        _check_array(layer, "weight", weight, (layer.fan_in, layer.cout), "f4" if scale is None else "i1")
        _check_array(layer, "bias", bias, (layer.cout,), "f4")
        if scale is not None:
            _check_array(layer, "scale", scale, (layer.cout,), "f4")
            _require(scale.min() > 0, f"layer {layer.name}: a weight scale is {scale.min()}")
    if network.quantisation is not None:
        check_codes(network.layers, network.quantisation)


def check_layers(layers: tuple[Layer, ...]) -> None:
    """Raises InputError unless every layer is supported and takes what the layer before it gives."""
    usual = 1 <= len(layers) <= MAX_LAYERS
    _require(usual, f"{len(layers)} layers; a network has 1 to {MAX_LAYERS}")
    names = set()
    for index, layer in enumerate(layers):
        _check_fields(layer)
        _check_kind(layer)
        _require(layer.name not in names, f"layer {index}: the name {layer.name} occurs twice")
        names.add(layer.name)
        _check_chain(layers, index)
    first, last = layers[0], layers[-1]
    dense = first.kind == "conv"
    _require_supported(dense, f"layer {first.name}: the first layer is a dense convolution (kind conv)")
    _require_supported(not last.squeezes, f"layer {last.name}: an excite layer must follow a squeeze layer")


def check_codes(layers: tuple[Layer, ...], quantisation: Quantisation) -> None:
    """Raises InputError ``file-damaged`` unless every layer has codes that say what its activation says.

    Weights are not looked at: a network with float32 weights can have codes, too.
    """
    obstacle = layers_obstacle(layers)
    _require(not obstacle, f"{obstacle}, so that its network can have no codes")
    outputs, sums, n = quantisation.outputs, quantisation.sums, len(layers)
    _require(len(outputs) == len(sums) == n, f"{n} layers need {n} codes of outputs and sums")
    for layer, output, total in zip(layers, outputs, sums, strict=True):
        where, codes = f"layer {layer.name}", (output, *(() if total is None else (total,)))
        summed = (total is not None) == layer.adds
        _require(summed, f"{where}: codes of a sum are for layers that add, and only them")
        good = all(type(each) is Codes and each.is_valid for each in codes)
        _require(good, f"{where}: a code needs a scale above 0 and a zero from -128 to 127")
        lowest = layer.follows is None or output.zero == -128
        _require(lowest, f"{where}: behind {layer.follows} the zero must be -128")
        bounded = layer.follows != "relu6" or 255 * output.scale <= RELU6_TOP
        _require(bounded, f"{where}: the largest code behind relu6 must be at most 6")


def _check_fields(layer: Layer) -> None:
    """Types exactly as documented (the digest is taken over their text) and every number in its range."""
    ranges = {"cin": MAX_CHANNELS, "cout": MAX_CHANNELS, "kernel": MAX_SIDE, "stride": MAX_SIDE}
    named = type(layer.name) is str and NAME.fullmatch(layer.name)
    _require(named, "a layer name must be 1 to 64 letters, digits, dots, dashes, underscores")
    for field, most in ranges.items():
        _check_int(layer, field, getattr(layer, field), 1, most)
    _check_int(layer, "block", layer.block, 0, MAX_LAYERS)
    for field in ("in_hw", "out_hw"):
        pair = getattr(layer, field)
        two = type(pair) is tuple and len(pair) == 2
        _require(two, f"layer {layer.name}: {field} must be two whole numbers")
        for side in pair:
            _check_int(layer, field, side, 1, MAX_SIDE)
    rated = type(layer.rate) is float and 0 < layer.rate <= MAX_RATE
    _require(rated, f"layer {layer.name}: rate must be a number above 0, at most {MAX_RATE}")
    flags = ("relu6", "residual", "shortcut", "max_pool")
    booleans = all(type(getattr(layer, flag)) is bool for flag in flags)
    _require(booleans, f"layer {layer.name}: {', '.join(flags)} must be true or false")
    known = layer.activation in (None, *ACTIVATIONS[1:]) and not (layer.relu6 and layer.activation)
    names = ", ".join(ACTIVATIONS[1:])
    _require(known, f"layer {layer.name}: activation must be null, or without ReLU6 one of {names}")


def _check_int(layer: Layer, field: str, value, least: int, most: int) -> None:
    good = type(value) is int and least <= value <= most
    _require(good, f"layer {layer.name}: {field} must be a whole number {least}..{most}")


def _check_kind(layer: Layer) -> None:
    where, plain = f"layer {layer.name}", (layer.kernel, layer.stride) == (1, 1)
    supported = f"supported are {', '.join(KINDS)} with kernels {KERNELS} and strides {STRIDES}"
    known = layer.kind in KINDS and layer.kernel in KERNELS and layer.stride in STRIDES
    _require_supported(known, f"{where} is not supported; {supported}")
    flat = plain or layer.kind != "pointwise"
    _require_supported(flat, f"{where}: pointwise means kernel 1 and stride 1; {supported}")
    flat = plain or not (layer.squeezes or layer.excites)
    _require_supported(flat, f"{where}: {layer.kind} means kernel 1 and stride 1")
    excited = (layer.follows == "hard-sigmoid") == layer.excites
    _require_supported(excited, f"{where}: hard-sigmoid follows excite layers, and no others")
    pooled = not layer.max_pool or layer.follows in ("relu", "relu6")
    _require_supported(pooled, f"{where}: max pooling must follow ReLU or ReLU6")
    even = layer.kind != "depthwise" or layer.cin == layer.cout
    _require_supported(even, f"{where}: depthwise with {layer.cin} inputs and {layer.cout} outputs")


def _check_chain(layers: tuple[Layer, ...], index: int) -> None:
    layer = layers[index]
    before = layers[index - 1] if index else layer
    where, expected = f"layer {layer.name}", layer.filter_hw
    if layer.max_pool:
        expected = tuple((side + 1) // 2 for side in expected)
    if layer.excites:
        fits = index and before.squeezes and layer.cout == before.cin and layer.block == before.block
        what = "an excite layer must follow a squeeze layer, with as many channels as that takes"
        _require_supported(fits, f"{where}: {what}")
        expected = before.in_hw
    else:
        excited = not (before.squeezes and index)
        _require_supported(excited, f"layer {before.name}: an excite layer must follow a squeeze layer")
    _require(layer.out_hw == expected, f"{where}: output {layer.out_hw}, must be {expected}")
    if layer.shortcut:
        _check_shortcut(layers, index)
    elif index:
        given, taken = (before.cout, before.out_hw), (layer.cin, layer.in_hw)
        _require(given == taken, f"{where} takes {_of(*taken)}; {before.name} gives {_of(*given)}")
    counted = layer.block in (before.block, before.block + 1) if index else layer.block == 0
    _require(counted, f"{where}: blocks must count 0, 1, 2 ..., not {layer.block}")
    if layer.residual:
        _check_residual(layers, index)


def _of(channels: int, side: tuple[int, int]) -> str:
    return f"{channels} x {side}"


def _first_of_block(layers: tuple[Layer, ...], index: int) -> Layer:
    """The first layer of the block whose last layer is `index`; refuses a sum anywhere else."""
    layer, start = layers[index], index
    while start > 0 and layers[start - 1].block == layer.block:
        start -= 1
    last = index + 1 == len(layers) or layers[index + 1].block != layer.block
    _require(last, f"layer {layer.name}: only the last layer of a block is residual")
    _require(
        layer.kind in ("conv", "pointwise") and layer.follows in (None, "relu") and not layer.max_pool,
        f"layer {layer.name}: a residual layer is pointwise or dense, with ReLU or no activation behind"
        " the addition, and without max pooling",
    )
    return layers[start]


def _check_shortcut(layers: tuple[Layer, ...], index: int) -> None:
    layer, first, before = layers[index], _first_of_block(layers, index), layers[index - 1]
    several = not layer.residual and first is not layer
    _require(several, f"layer {layer.name}: a shortcut has other layers in its block")
    taken, given = (layer.cin, layer.in_hw), (first.cin, first.in_hw)
    what = f"layer {layer.name} takes {_of(*taken)}, but the input of its block is {_of(*given)}"
    _require(taken == given, what)
    made, added = (layer.cout, layer.out_hw), (before.cout, before.out_hw)
    what = f"cannot add the output {_of(*added)} of {before.name} to {_of(*made)}"
    _require(made == added, f"layer {layer.name}: {what}")


def _check_residual(layers: tuple[Layer, ...], index: int) -> None:
    layer, first = layers[index], _first_of_block(layers, index)
    given, made = (first.cin, first.in_hw), (layer.cout, layer.out_hw)
    what = f"cannot add the block's input {_of(*given)} to its output {_of(*made)}"
    _require(given == made, f"layer {layer.name}: {what}")


def check_input(spec: InputSpec, first: Layer) -> None:
    """Raises InputError unless the items it describes are what layer `first` takes."""
    shape, wanted = spec.shape, (*first.in_hw, first.cin)
    taken = shape == wanted and all(type(count) is int for count in shape)
    _require(taken, f"images are {_by(shape)}, but {first.name} takes {_by(wanted)}")
    _check_reading(spec)
    complete = all(type(each) is tuple and len(each) == first.cin for each in (spec.mean, spec.scale))
    _require(complete, f"mean and scale must have a number for each of {first.cin} channels")
    finite = all(type(x) is float and math.isfinite(x) for x in spec.mean + spec.scale)
    good = finite and min(spec.scale) > 0
    _require(good, "mean and scale must be finite numbers, and scale above 0")
    _require(type(spec.rotated) is bool, "rotated must be true or false")
    _require(spec.resize == InputSpec.resize, f"the only known resize is {InputSpec.resize}")


def _check_reading(spec: InputSpec) -> None:
    """What is read, and what with: whether there is such a kind is for `tinytrain.episode` to know."""
    named = type(spec.kind) is str and NAME.fullmatch(spec.kind)
    _require(named, "kind must be 1 to 64 letters, digits, dots, dashes, underscores")
    if spec.kind == IMAGE:
        _require(spec.dtype == InputSpec.dtype, f"the only known dtype of images is {InputSpec.dtype}")
        _require(spec.shape[2] in CHANNELS, f"{spec.shape[2]} channels; an image has 1 or 3")
        _require(spec.parameters == (), "images have no parameters")
    _require(spec.dtype in DTYPES, f"the only known dtypes are {' and '.join(DTYPES)}")
    few = type(spec.parameters) is tuple and len(spec.parameters) <= MOST_PARAMETERS
    _require(few, f"parameters must be at most {MOST_PARAMETERS} names with values")
    for name, value in spec.parameters:
        plain = type(value) in (str, int, float, bool) and (type(value) is not float or math.isfinite(value))
        short = plain and len(text := f"{value}") <= MOST_LETTERS and text.isprintable()
        what = f"parameter {name!r:.60} needs a plain name, and a number, a text, true or false"
        _require(bool(NAME.fullmatch(name)) and short, what)
    _require(spec.kind == IMAGE or not spec.rotated, "only images are rotated")


def _by(shape: tuple) -> str:
    return " x ".join(f"{count!r:.20}" for count in shape)


def _check_array(layer: Layer, what: str, array: np.ndarray, shape: tuple, dtype: str) -> None:
    where, wanted = f"layer {layer.name}", np.dtype(dtype)
    good = array.shape == shape and array.dtype == wanted
    _require(good, f"{where}: {what} is {array.dtype} {array.shape}, must be {wanted} {shape}")
    bad = int(array.size - np.isfinite(array).sum()) if wanted.kind == "f" else 0
    many = f"{bad} of {array.size} numbers in its {what}"
    _require(not bad, f"{where}: {many} are NaN or infinite; use another file", "network-not-finite")
