"""Check that a network makes sense: every node known, each fitting those it reads, every number a number."""

import math
import re

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.input_spec import DTYPES, IMAGE
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import ACTIVATIONS, ATTRIBUTES, OPS, Node, is_pair
from tinytrain.network.quantisation import RELU6_TOP, Codes, Quantisation, nodes_obstacle

MAX_LAYERS = 1024
MAX_CHANNELS = 2**16
MAX_SIDE = 4096
MAX_RATE = 100  # of a factor of learning rates
KERNELS = (1, 3, 5, 7)
MAX_WINDOW = 15  # of max pooling: places in a window are numbered in 8 bits
STRIDES = (1, 2)
MAX_PATCH = 32  # rows and columns of a patch
CHANNELS = (1, 3)  # of an image
FOR_ANOTHER = "import an ONNX model with import_onnx(FILE, spec=InputSpec(SHAPE, kind=NAME))"
MOST_PARAMETERS, MOST_LETTERS = 64, 100  # of what a kind of input is read with
NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
POINTS = ("pointwise", "squeeze", "excite", *ATTRIBUTES, "position")  # of one pixel, with stride 1
FIRST = ("conv", "words")  # operations that read the image
BEHIND_SUMS = ("relu", "gelu")  # activations
MAX_VOCABULARY = 2**20
KINDS = tuple(name for name, row in OPS.items() if not row.is_inner)


def _require(good: bool, problem: str, code: str = "file-damaged") -> None:
    if not good:
        raise InputError(code, problem)


def _require_supported(good: bool, problem: str) -> None:
    _require(good, problem, "unsupported")


def check_network(network: Network) -> None:
    """Raises InputError, naming the layer, when `network` is inconsistent or holds NaN or infinity.

    Codes: ``file-damaged``, ``unsupported`` or ``network-not-finite``.
    """
    check_nodes(network.nodes)
    check_rest(network)


def check_rest(network: Network) -> None:
    """`check_network` without `check_nodes`."""
    check_input(network.input, network.nodes[0])
    n, arrays = len(network.layers), (network.weights, network.scales, network.biases)
    _require(all(len(some) == n for some in arrays), f"{n} layers need {n} weights, scales and biases")
    for layer, weight, scale, bias in zip(network.layers, *arrays, strict=True):
        _check_array(layer, "weight", weight, (layer.fan_in, layer.cout), "f4" if scale is None else "i1")
        _check_array(layer, "bias", bias, (layer.cout,), "f4")
        if scale is not None:
            _check_array(layer, "scale", scale, (layer.cout,), "f4")
            _require(scale.min() > 0, f"layer {layer.name}: a weight scale is {scale.min()}")
    if network.quantisation is not None:
        check_codes(network.nodes, network.quantisation)


def check_nodes(nodes: tuple[Node, ...]) -> None:
    """Raises InputError unless every node is supported and takes what those that it reads give."""
    usual = 1 <= len(nodes) <= MAX_LAYERS
    _require(usual, f"{len(nodes)} layers; a network has 1 to {MAX_LAYERS}")
    start, at, unread = 0, {}, set()
    for i, node in enumerate(nodes):
        check_alone(node)
        _require(node.name not in at, f"layer {i}: the name {node.name} occurs twice")
        before = nodes[i - 1].block if i else -1
        counted = node.block in (before, before + 1) and node.block >= 0
        _require(counted, f"layer {node.name}: blocks must count 0, 1, 2 ..., not {node.block}")
        if node.block > before:
            start = i
            opens = node.is_layer and not unread.difference({i - 1})
            _require_supported(opens, f"layer {node.name}: a block begins with a layer, and reads one value")
        read = _read(nodes, i, at, start)
        _check_result(node, [nodes[k] for k in read if k >= 0])
        at[node.name] = i
        unread = unread.difference(read) | {i}
    first = nodes[0]
    reads = first.op in FIRST and all(node.op != "words" for node in nodes[1:])
    what = "the first layer is a dense convolution (kind conv), or reads words, as no other one does"
    _require_supported(reads, f"layer {first.name}: {what}")
    names = ", ".join(nodes[i].name for i in sorted(unread)[:-1])
    _require_supported(not names, f"nothing reads what {names} gives")


def _read(nodes: tuple[Node, ...], i: int, at: dict[str, int], start: int) -> list[int]:
    """Numbers of the nodes that node i reads; its block begins with node `start`."""
    node = nodes[i]
    unknown = [name for name in node.inputs if name not in at]
    _require(not unknown, f"layer {node.name} reads {unknown[:1]}, which no layer before it is called")
    read = [at[name] for name in node.inputs] or [i - 1]
    (least, most), count = node.row.inputs, len(read)
    if node.op == "excite":
        squeezed = count == 2 and read[0] >= 0 and nodes[read[0]].op == "squeeze"
        what = "an excite layer must follow a squeeze layer, with as many channels as that takes"
        squeezed = squeezed and node.cout == nodes[read[0]].cin
        _require_supported(squeezed, f"layer {node.name}: {what}")
    summed = least <= count <= most and (
        count == 1 or not node.adds or node.activation in (None, *BEHIND_SUMS)
    )
    _require(
        summed,
        f"layer {node.name}: it has {count} inputs; a residual layer is pointwise or dense, with ReLU, GELU"
        " or no activation behind the addition",
    )
    inside = all(k >= start - 1 for k in read) and (i == 0 or -1 not in read)
    _require_supported(inside, f"layer {node.name} reads from before the last layer of the block before")
    return read


def _check_result(node: Node, read: list[Node]) -> None:
    """The shapes of `node` are those of the nodes that it reads, none of which is the image."""
    where, given = f"layer {node.name}", [(other.cout, other.out_hw) for other in read]
    if read:
        taken = (node.cin, node.in_hw)
        _require(given[0] == taken, f"{where} takes {_of(*taken)}; {read[0].name} gives {_of(*given[0])}")
    cout, out_hw = node.row.result(node, given)
    _require(node.out_hw == out_hw, f"{where}: output {node.out_hw}, must be {out_hw}")
    _require(node.cout == cout, f"{where}: {node.cout} output channels, must be {cout}")
    if node.adds:
        what = f"cannot add the output {_of(*given[1])} of {read[1].name} to {_of(cout, out_hw)}"
        _require(given[1] == (cout, out_hw), f"{where}: {what}")


def check_codes(nodes: tuple[Node, ...], quantisation: Quantisation) -> None:
    """Raises InputError ``file-damaged`` unless every layer has codes that say what its activation says.

    Weights are not looked at: a network with float32 weights can have codes, too.
    """
    obstacle, layers = nodes_obstacle(nodes), [node for node in nodes if node.is_layer]
    _require(not obstacle, f"{obstacle}, so that its network can have no codes")
    outputs, sums, n = quantisation.outputs, quantisation.sums, len(layers)
    _require(len(outputs) == len(sums) == n, f"{n} layers need {n} codes of outputs and sums")
    for layer, output, total in zip(layers, outputs, sums, strict=True):
        where, codes = f"layer {layer.name}", (output, *(() if total is None else (total,)))
        summed = (total is not None) == layer.adds
        _require(summed, f"{where}: codes of a sum are for layers that add, and only them")
        good = all(type(each) is Codes and each.is_valid for each in codes)
        _require(good, f"{where}: a code needs a scale above 0 and a zero from -128 to 127")
        lowest = layer.activation is None or output.zero == -128
        _require(lowest, f"{where}: behind {layer.activation} the zero must be -128")
        bounded = layer.activation != "relu6" or 255 * output.scale <= RELU6_TOP
        _require(bounded, f"{where}: the largest code behind relu6 must be at most 6")


def check_alone(node: Node) -> None:
    """Raises InputError for a node that is wrong whatever it reads.

    Types are exactly as documented: the digest is taken over their text. Every number is in its range.
    """
    named = type(node.name) is str and NAME.fullmatch(node.name)
    _require(named, "a layer name must be 1 to 64 letters, digits, dots, dashes, underscores")
    where = f"layer {node.name}"
    known = type(node.op) is str and node.op in KINDS
    supported = f"supported are {', '.join(KINDS)} with kernels {KERNELS} and strides {STRIDES}"
    _require_supported(known, f"{where} is not supported; {supported}")
    for field, least, most in (("cin", 1, MAX_CHANNELS), ("cout", 1, MAX_CHANNELS), ("block", 0, MAX_LAYERS)):
        value = getattr(node, field)
        good = type(value) is int and least <= value <= most
        _require(good, f"{where}: {field} must be a whole number {least}..{most}")
    for field, least in (("kernel", 1), ("stride", 1), ("in_hw", 1), ("out_hw", 1), ("pad", 0)):
        value = getattr(node, field)
        good = is_pair(value) and all(least <= side <= MAX_SIDE for side in value)
        _require(good, f"{where}: {field} must be two whole numbers {least}..{MAX_SIDE}")
    rated = type(node.rate) is float and 0 < node.rate <= MAX_RATE
    _require(rated, f"{where}: rate must be a number above 0, at most {MAX_RATE}")
    known = node.activation is None or (type(node.activation) is str and node.activation in ACTIVATIONS)
    _require(known, f"{where}: activation must be null or one of {', '.join(ACTIVATIONS)}")
    followed = node.is_layer and node.op not in (*ATTRIBUTES, "position")
    _require(followed or node.activation is None, f"{where}: {node.op} has no activation")
    taken = ", ".join(_attributes(node)) or "none"
    _require(is_set_up(node), f"{where}: its attributes must be finite numbers, and these alone: {taken}")
    _check_sizes(node, where)
    listed = type(node.inputs) is tuple and all(type(name) is str for name in node.inputs)
    _require(listed, f"{where}: inputs must be a list of names")
    usual = not node.is_layer or (set(node.kernel) <= set(KERNELS) and set(node.stride) <= set(STRIDES))
    _require_supported(
        usual or is_patches(node.op, node.kernel, node.stride, node.pad),
        f"{where} is not supported; {supported}",
    )
    plain = node.op not in POINTS or (node.kernel, node.stride, node.pad) == ((1, 1), (1, 1), (0, 0))
    _require_supported(plain, f"{where}: {node.op} means kernel 1 and stride 1; {supported}")
    filters = not node.is_layer or node.op == "conv" or node.is_usual
    _require_supported(filters, f"{where}: {node.op} filters are square, with the usual padding")
    inside = all(pad < side for pad, side in zip(node.pad, node.kernel, strict=True))
    small = inside and (node.is_layer or max(node.kernel) <= MAX_WINDOW)
    _require_supported(
        small, f"{where}: windows have at most {MAX_WINDOW} rows and columns, and more than padding"
    )
    even_steps = not node.is_layer or node.stride[0] == node.stride[1]
    _require_supported(even_steps, f"{where}: filters have one stride for rows and columns")
    even = not node.row.same_channels or node.cin == node.cout
    _require_supported(even, f"{where}: {node.op} with {node.cin} inputs and {node.cout} outputs")


def is_patches(op: str, kernel, stride, pad) -> bool:
    """Whether a convolution reads squares that lie side by side, as the first one of a transformer may."""
    square = len({*kernel, *stride}) == 1 and 2 < kernel[0] <= MAX_PATCH
    return op == "conv" and square and tuple(pad) == (0, 0)


def _check_sizes(node: Node, where: str) -> None:
    """What operations of transformers say by numbers."""
    number = node.numbers(*ATTRIBUTES[node.op])[0] if node.op in ATTRIBUTES else 0.0
    if node.op == "words":
        good = number == int(number) and 2 <= number <= MAX_VOCABULARY and node.cin == 1
        _require(good, f"{where}: a vocabulary has 2 to {MAX_VOCABULARY:,} words, and one number for each")
    if node.op == "attention":
        good = number == int(number) and number >= 1 and node.cin % number == 0
        _require(good, f"{where}: {number:g} heads cannot share {node.cin} channels")
    _require(node.op != "layer-norm" or number > 0, f"{where}: epsilon must be above 0")


def is_set_up(node: Node) -> bool:
    """Whether its attributes are the finite float numbers that it and its activation take."""
    pairs = type(node.attributes) is tuple and all(
        type(pair) is tuple and len(pair) == 2 and type(pair[1]) is float and math.isfinite(pair[1])
        for pair in node.attributes
    )
    return pairs and tuple(name for name, _ in node.attributes) == _attributes(node)


def _attributes(node: Node) -> tuple[str, ...]:
    return ATTRIBUTES.get(node.op, ()) + ACTIVATIONS.get(node.activation, ())


def _of(channels: int, side: tuple[int, int]) -> str:
    return f"{channels} x {side}"


def check_input(spec: InputSpec, first: Node) -> None:
    """Raises InputError unless the items it describes are what layer `first` takes."""
    shape, wanted = spec.shape, (*first.in_hw, first.cin)
    what = f"images are {_by(shape)}, but {first.name} takes {_by(wanted)}"
    _require(len(shape) == 3 and all(type(count) is int for count in shape), what)
    _require_supported(shape == wanted, f"{what}; a network takes one shape, {FOR_ANOTHER}")
    _check_reading(spec)
    complete = all(type(each) is tuple and len(each) == first.cin for each in (spec.mean, spec.scale))
    _require(complete, f"mean and scale must have a number for each of {first.cin} channels")
    finite = all(type(x) is float and math.isfinite(x) for x in spec.mean + spec.scale)
    good = finite and min(spec.scale) > 0
    _require(good, "mean and scale must be finite numbers, and scale above 0")
    counted = first.op != "words" or (spec.mean, spec.scale, spec.rotated) == ((0.0,), (1.0,), False)
    _require(counted, f"{first.name} takes words by their numbers: mean 0, scale 1, not rotated")
    _require(type(spec.rotated) is bool, "rotated must be true or false")
    _require(spec.resize == InputSpec.resize, f"the only known resize is {InputSpec.resize}")


def _check_reading(spec: InputSpec) -> None:
    """What is read, and what with: whether there is such a kind is for `tinytrain.episode` to know."""
    named = type(spec.kind) is str and NAME.fullmatch(spec.kind)
    _require(named, "kind must be 1 to 64 letters, digits, dots, dashes, underscores")
    if spec.kind == IMAGE:
        _require(spec.dtype == InputSpec.dtype, f"the only known dtype of images is {InputSpec.dtype}")
        what = f"{spec.shape[2]} channels; an image has 1 or 3"
        _require_supported(spec.shape[2] in CHANNELS, f"{what}, for another kind of input {FOR_ANOTHER}")
        _require(spec.parameters == (), "images have no parameters")
    _require(spec.dtype in DTYPES, f"the only known dtypes are {' and '.join(DTYPES)}")
    few = type(spec.parameters) is tuple and len(spec.parameters) <= MOST_PARAMETERS
    _require(few, f"parameters must be at most {MOST_PARAMETERS} names with values")
    for name, value in spec.parameters:
        plain = type(value) in (str, int, float, bool) and (type(value) is not float or math.isfinite(value))
        short = plain and len(text := f"{value}") <= MOST_LETTERS and text.isprintable()
        what = f"parameter {name!r:.60} needs a plain name, and a number, a text, true or false"
        _require(bool(NAME.fullmatch(name)) and short, what)


def _by(shape: tuple) -> str:
    return " x ".join(f"{count!r:.20}" for count in shape)


def _check_array(layer: Node, what: str, array: np.ndarray, shape: tuple, dtype: str) -> None:
    where, wanted = f"layer {layer.name}", np.dtype(dtype)
    good = array.shape == shape and array.dtype == wanted
    _require(good, f"{where}: {what} is {array.dtype} {array.shape}, must be {wanted} {shape}")
    bad = int(array.size - np.isfinite(array).sum()) if wanted.kind == "f" else 0
    many = f"{bad} of {array.size} numbers in its {what}"
    _require(not bad, f"{where}: {many} are NaN or infinite; use another file", "network-not-finite")
