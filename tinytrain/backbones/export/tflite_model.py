"""A network with its head as a LiteRT (TensorFlow Lite) model: pixels in, probabilities out.

    image (n, height, width, channels) uint8 or float32 -> probabilities (n, classes) float32

n is 1 unless the interpreter resizes the input. The pixels are normalised inside; an image must come in the
size of the network, resized as `InputSpec` says. All weights are float32, and every operation is an old one,
so that small interpreters know it. Operations give no text, so the class names are metadata and, as the tools
of the format expect them, a file ``labels.txt`` in a zip archive behind the model.
"""

import io
import zipfile
from collections.abc import Sequence

import numpy as np

from tinytrain.backbones.export.walk import described, is_inside, pool_padding, write_steps
from tinytrain.base.errors import InputError
from tinytrain.base.extras import install
from tinytrain.delta.delta import Delta, apply
from tinytrain.heads.linear import LinearHead
from tinytrain.network.committee import Committee
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.network.node import Node

VERSION = 3  # of the format
IDENTIFIER = b"TFL3"
VERSIONS = {"RESIZE_BILINEAR": 3}  # of operations: the first with pixel centres at a half
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive knows: the same bytes every time
LABELS = "labels.txt"
LOWEST = float(np.finfo(np.float32).min)


def need_litert():
    """The modules of the schema of LiteRT and of flatbuffers. Raises InputError ``package-missing``."""
    try:
        import flatbuffers
        from ai_edge_litert import schema_py_generated
    except ImportError as error:
        raise InputError(
            "package-missing", f".tflite files need the package ai-edge-litert; run {install('tflite')}"
        ) from error
    return schema_py_generated, flatbuffers


def tflite_model(network: Network | Committee, delta: Delta, float_input: bool = False) -> bytes:
    """The bytes of the file of `network` with `delta` applied, and its head.

    With `float_input` the pixels come as float32, still from 0 to 255. Raises InputError for a delta of
    another backbone, a head that is no linear map, a class name that is more than one line, or if the package
    ai-edge-litert is missing.
    """
    schema, flatbuffers = need_litert()
    for name in delta.class_names:
        if len(name.splitlines()) > 1:
            raise InputError("unsupported", f"class name {name!r:.60} has 2 lines; rename the class")
    adapted, writer = apply(network, delta), TfliteWriter(schema, float_input)
    write_steps(adapted, delta, writer)
    builder = flatbuffers.Builder(2**20)
    builder.Finish(writer.model(described(adapted, delta, float_input)).Pack(builder), IDENTIFIER)
    return _with_labels(bytes(builder.Output()), delta.class_names)


def _with_labels(model: bytes, class_names: tuple[str, ...]) -> bytes:
    """The model and behind it a zip archive with a line for each class."""
    file = io.BytesIO(model)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo(LABELS, EPOCH), "".join(f"{name}\n" for name in class_names))
    return file.getvalue()


class TfliteWriter:
    """Tensors, operators and buffers of one subgraph; a value is the number of its tensor."""

    suffix, inside = ".tflite", ("relu6", "relu")

    def __init__(self, schema, float_input: bool):
        self.schema, self.float_input = schema, float_input
        self.tensors, self.operators, self.codes = [], [], []
        self.buffers = [schema.BufferT()]  # the first one stands for "no buffer"
        self._shapes: list[tuple[int, ...]] = []
        self._numbers: dict[float, int] = {}
        self._names: set[str] = set()
        self.activations = dict.fromkeys(("relu", "relu6", "hard-swish"), self._same_name)
        self.activations |= {"hard-sigmoid": self._hard_sigmoid, "leaky-relu": self._leaky_relu}

    def model(self, facts: dict[str, str]):
        """The whole model, with `facts` as its metadata."""
        graph = self._made(
            "SubGraph", name="tinytrain", tensors=self.tensors, operators=self.operators,
            inputs=[0], outputs=[len(self.tensors) - 1],
        )  # fmt: skip
        texts = ((name, np.frombuffer(text.encode(), np.uint8)) for name, text in facts.items())
        return self._made(
            "Model", version=VERSION, description="tinytrain", subgraphs=[graph], operatorCodes=self.codes,
            metadata=[self._made("Metadata", name=name, buffer=self._buffer(text)) for name, text in texts],
            buffers=self.buffers,
        )  # fmt: skip

    def image(self, shape: tuple[int, ...]) -> int:
        if self.float_input:
            return self._tensor("image", shape, "FLOAT32")
        codes = self._tensor("image", shape, "UINT8")
        # A code is the value of its pixel.
        scale = self._made("QuantizationParameters", scale=np.float32([1]), zeroPoint=np.int64([0]))
        self.tensors[codes].quantization = scale
        # Not a CAST, which small interpreters do not have for uint8.
        return self._operator("DEQUANTIZE", [codes], shape)

    def pixels(self, values: int, spec: InputSpec) -> int:
        for axis in (1, 2) if spec.rotated else ():
            reversed_axis = self._constant("reversed axis", np.array([axis], np.int32))
            values = self._operator("REVERSE_V2", [values, reversed_axis], spec.shape)
        values = self._operator("SUB", [values, self._constant("mean", np.float32(spec.mean))], spec.shape)
        return self._operator("MUL", [values, self._constant("scale", np.float32(spec.scale))], spec.shape)

    def convolution(self, network: Network, index: int, x: int) -> int:
        layer = network.all_layers[index]
        depthwise = layer.op == "depthwise"
        facts = {"strideH": layer.stride[0], "strideW": layer.stride[1], "padding": self.schema.Padding.VALID}
        facts |= {"depthMultiplier": 1} if depthwise else {}
        if is_inside(self, layer):
            functions = self.schema.ActivationFunctionType
            facts["fusedActivationFunction"] = getattr(functions, layer.activation.upper())
        options = self._made("DepthwiseConv2DOptions" if depthwise else "Conv2DOptions", **facts)
        filters = np.ascontiguousarray(_filters(network.float_weight(index), layer))
        inputs = [
            self._padded(x, layer.pad, layer.pad),
            self._constant(f"{layer.name}.weight", filters),
            self._constant(f"{layer.name}.bias", network.bias(index)),
        ]
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self._operator(name, inputs, (*layer.filter_hw, layer.cout), options)

    def _padded(self, x: int, before: tuple[int, int], after: tuple[int, int], value: float = 0) -> int:
        """Zeros, or a value, around x: the format's own padding lies otherwise where the stride is 2."""
        if not any(before + after):
            return x
        height, width, channels = self._shapes[x]
        (top, left), (bottom, right) = before, after
        sides = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32)
        shape = (height + top + bottom, width + left + right, channels)
        inputs = [x, self._constant("padding", sides)]
        if value:
            return self._operator("PADV2", [*inputs, self._number(value)], shape)
        return self._operator("PAD", inputs, shape)

    def join(self, values: list[int]) -> int:
        shape = *self._shapes[values[0]][:2], sum(self._shapes[x][2] for x in values)
        return self._operator("CONCATENATION", values, shape, self._made("ConcatenationOptions", axis=3))

    def _same_name(self, x: int, node: Node) -> int:
        return self._operator(node.activation.upper().replace("-", "_"), [x], self._shapes[x])

    def _leaky_relu(self, x: int, node: Node) -> int:
        (slope, floor), shape = node.numbers("slope", "floor"), self._shapes[x]
        leaky = self._operator("LEAKY_RELU", [x], shape, self._made("LeakyReluOptions", alpha=slope))
        return self._operator("MAXIMUM", [leaky, self._number(floor)], shape)

    def _hard_sigmoid(self, x: int, node: Node) -> int:
        shape = self._shapes[x]
        moved = self._made("AddOptions", fusedActivationFunction=self.schema.ActivationFunctionType.RELU6)
        ramp = self._operator("ADD", [x, self._number(3)], shape, moved)
        return self._operator("MUL", [ramp, self._number(1 / 6)], shape)

    def max_pool(self, x: int, node: Node) -> int:
        padded = self._padded(x, *pool_padding(node), LOWEST)
        shape = (*node.out_hw, node.cout)
        return self._operator("MAX_POOL_2D", [padded], shape, self._windows(node.kernel, node.stride))

    def _windows(self, size: tuple[int, int], stride: tuple[int, int]):
        names = ("filterHeight", "filterWidth", "strideH", "strideW")
        sides = dict(zip(names, (*size, *stride), strict=True))
        return self._made("Pool2DOptions", padding=self.schema.Padding.VALID, **sides)

    def mean(self, x: int) -> int:
        axes = self._constant("rows and columns", np.array([1, 2], np.int32))
        options = self._made("ReducerOptions", keepDims=True)
        return self._operator("MEAN", [x, axes], (1, 1, self._shapes[x][2]), options)

    def scale(self, x: int, factors: int) -> int:
        return self._operator("MUL", [x, factors], self._shapes[x])

    def add(self, x: int, y: int) -> int:
        return self._operator("ADD", [x, y], self._shapes[x])

    def average(self, x: int, window: tuple[int, int]) -> int:
        height, width, channels = self._shapes[x]
        shape = (height // window[0], width // window[1], channels)
        return self._operator("AVERAGE_POOL_2D", [x], shape, self._windows(window, window))

    def interpolate(self, x: int, like: int, hw: tuple[int, int]) -> int:
        options = self._made("ResizeBilinearOptions", halfPixelCenters=True)
        size = self._constant("size", np.array(hw, np.int32))
        return self._operator("RESIZE_BILINEAR", [x, size], self._shapes[like], options)

    def embedding(self, x: int) -> int:
        axes = self._constant("rows and columns", np.array([1, 2], np.int32))
        return self._operator("MEAN", [x, axes], self._shapes[x][2:], self.schema.ReducerOptionsT())

    def unit(self, embedding: int) -> int:
        size = self._shapes[embedding]
        squares = self._operator("MUL", [embedding, embedding], size)
        axis = self._constant("features", np.array([1], np.int32))
        square = self._operator("SUM", [squares, axis], (1,), self._made("ReducerOptions", keepDims=True))
        length = self._operator("SQRT", [self._operator("ADD", [square, self._number(1e-12)], (1,))], (1,))
        return self._operator("DIV", [embedding, length], size)

    def side_by_side(self, embeddings: list[int]) -> int:
        size = sum(self._shapes[part][0] for part in embeddings)
        options = self._made("ConcatenationOptions", axis=1)
        return self._operator("CONCATENATION", embeddings, (size,), options)

    def classify(self, unit: int, head: LinearHead) -> None:
        way = head.offsets.shape
        weights = self._constant("head.weights", head.weights)
        offsets = self._constant("head.offsets", head.offsets)
        dense = self._made("FullyConnectedOptions")
        logits = self._operator("FULLY_CONNECTED", [unit, weights, offsets], way, dense)
        scaled = self._operator("DIV", [logits, self._number(head.temperature)], way)
        self._operator("SOFTMAX", [scaled], way, self._made("SoftmaxOptions", beta=1.0), "probabilities")

    def _operator(self, name: str, inputs: list[int], shape: Sequence[int], options=None, output="") -> int:
        """An operation with one output of `shape`, not counting images; the number of that is returned."""
        usual = f"{name.capitalize()}Options"  # which some operations have
        if options is None and hasattr(self.schema, f"{usual}T"):
            options = self._made(usual)
        operator = self._made("Operator", opcodeIndex=self._code(name), inputs=inputs)
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, kind)
            operator.builtinOptions = options
        operator.outputs = [self._tensor(output or f"{name}.{len(self.operators)}", shape, "FLOAT32")]
        self.operators.append(operator)
        return operator.outputs[0]

    def _made(self, kind: str, **fields):
        """A table of the schema."""
        made = getattr(self.schema, f"{kind}T")()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def _code(self, name: str) -> int:
        """The number of an operation in the table of those in use."""
        builtin, version = getattr(self.schema.BuiltinOperator, name), VERSIONS.get(name, 1)
        numbers = [code.builtinCode for code in self.codes]
        if builtin not in numbers:
            # The older field has 8 bits; 127 there says that the newer one has the number.
            codes = {"builtinCode": builtin, "deprecatedBuiltinCode": min(builtin, 127)}
            self.codes.append(self._made("OperatorCode", version=version, **codes))
        return [*numbers, builtin].index(builtin)

    def _tensor(self, name: str, shape: Sequence[int], kind: str, buffer: int = 0) -> int:
        """A new tensor; without a buffer its first axis counts images."""
        if name in self._names:  # some readers find tensors by name
            name = f"{name}.{len(self.tensors)}"
        self._names.add(name)
        tensor = self._made("Tensor", name=name, type=getattr(self.schema.TensorType, kind), buffer=buffer)
        tensor.shape = list(shape) if buffer else [1, *shape]
        if not buffer:
            tensor.shapeSignature = [-1, *shape]
        self.tensors.append(tensor)
        self._shapes.append(tuple(shape))
        return len(self.tensors) - 1

    def _constant(self, name: str, array: np.ndarray) -> int:
        kind = {"float32": "FLOAT32", "int32": "INT32"}[str(array.dtype)]
        return self._tensor(name, array.shape, kind, self._buffer(array.reshape(-1).view(np.uint8)))

    def _number(self, value: float) -> int:
        """A float32 scalar, once in the file."""
        if value not in self._numbers:
            self._numbers[value] = self._constant(f"{value:g}", np.array([value], np.float32))
        return self._numbers[value]

    def _buffer(self, data: np.ndarray) -> int:
        self.buffers.append(self._made("Buffer", data=data))
        return len(self.buffers) - 1


def _filters(weight: np.ndarray, layer) -> np.ndarray:
    """A weight (fan_in, cout) as (cout, rows, columns, cin), or (1, rows, columns, channels) if depthwise.

    Groups become zeros in a dense filter: not every interpreter knows them.
    """
    cin = layer.cin // layer.groups
    cube = weight.reshape(*layer.kernel, cin, layer.cout)
    if layer.op == "depthwise":
        return cube.transpose(2, 0, 1, 3)
    dense = np.zeros((*layer.kernel, layer.cin, layer.cout), np.float32)
    for group in range(layer.groups):
        columns = slice(group * layer.cout // layer.groups, (group + 1) * layer.cout // layer.groups)
        dense[:, :, group * cin : (group + 1) * cin, columns] = cube[..., columns]
    return dense.transpose(3, 0, 1, 2)
