"""A network with its head as an ONNX model that classifies by itself: pixels in, probabilities out.

    image (n, height, width, channels) uint8 or float32 -> probabilities (n, classes) float32

A second output, label (n,), can have the class name as text, which few programs can read. The pixels are
normalised inside. What stays outside is resizing: an image must come in the size of the network, resized as
`InputSpec` says. Int8 weights stay int8, with their scales behind them.
"""

import numpy as np

from tinytrain import __version__
from tinytrain.backbones.export.walk import described, pool_padding, write_steps
from tinytrain.backbones.onnx.reading import need_onnx
from tinytrain.base.file_kinds import PRODUCER
from tinytrain.delta.delta import Delta, apply
from tinytrain.heads.linear import LinearHead
from tinytrain.network.committee import Committee
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.network.node import Node

OPSET = 13  # the first whose DequantizeLinear knows a scale for each channel
IR_VERSION = 8
INPUT, PROBABILITIES, LABEL = "image", "probabilities", "label"


def onnx_model(
    network: Network | Committee, delta: Delta, labels: bool = False, float_input: bool = False
) -> bytes:
    """The bytes of the file of `network` with `delta` applied, and its head.

    `labels` adds the output of text. With `float_input` the pixels come as float32, still from 0 to 255.
    Raises InputError for a delta of another backbone, a head that is no linear map, or if the package onnx
    is missing.
    """
    onnx = need_onnx()
    adapted, writer = apply(network, delta), OnnxWriter(onnx, float_input)
    write_steps(adapted, delta, writer)
    helper, kinds = onnx.helper, onnx.TensorProto
    outputs = [(PROBABILITIES, kinds.FLOAT, ["n", len(delta.class_names)])]
    if labels:
        writer.name_the_best(delta.class_names)
        outputs.append((LABEL, kinds.STRING, ["n"]))
    pixels = kinds.FLOAT if float_input else kinds.UINT8
    graph = helper.make_graph(
        writer.nodes,
        "tinytrain",
        [helper.make_tensor_value_info(INPUT, pixels, ["n", *network.input.shape])],
        [helper.make_tensor_value_info(*output) for output in outputs],
        writer.constants,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name=PRODUCER,
        producer_version=__version__,
    )
    helper.set_model_props(model, described(adapted, delta, float_input))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


class OnnxWriter:
    """`nodes` and `constants` are lists of protobuf messages, in order; every value has a name of its own.

    Values between layers are (n, channels, height, width).
    """

    suffix, inside = ".onnx", ()

    def __init__(self, onnx, float_input: bool):
        self.onnx, self.nodes, self.constants, self.float_input = onnx, [], [], float_input
        self._numbers: dict[float, str] = {}
        self.activations = {
            "relu": self._relu, "relu6": self._relu6, "hard-swish": self._hard_swish,
            "hard-sigmoid": self._hard_sigmoid, "leaky-relu": self._leaky_relu,
        }  # fmt: skip

    def image(self, shape: tuple[int, ...]) -> str:
        return INPUT if self.float_input else self._node("Cast", [INPUT], to=self.onnx.TensorProto.FLOAT)

    def pixels(self, values: str, spec: InputSpec) -> str:
        for axis in (1, 2) if spec.rotated else ():
            # Not a Slice, whose negative steps OpenCV does not know.
            order = self._constant("reversed", np.arange(spec.shape[axis - 1], dtype=np.int64)[::-1])
            values = self._node("Gather", [values, order], axis=axis)
        values = self._node("Sub", [values, self._constant("mean", np.float32(spec.mean))])
        values = self._node("Mul", [values, self._constant("scale", np.float32(spec.scale))])
        return self._node("Transpose", [values], perm=[0, 3, 1, 2])

    def convolution(self, network: Network, index: int, x: str) -> str:
        layer = network.all_layers[index]
        weight, scale = self._weight(network, index)
        if scale is not None:
            scale = self._constant(f"{layer.name}.scale", scale)
            weight = self._node("DequantizeLinear", [weight, scale], axis=0)
        return self._node(
            "Conv",
            [x, weight, self._constant(f"{layer.name}.bias", network.bias(index))],
            kernel_shape=layer.kernel,
            strides=layer.stride,
            pads=layer.pad * 2,
            group=layer.groups,
        )

    def _relu(self, x: str, node: Node) -> str:
        return self._node("Relu", [x])

    def _relu6(self, x: str, node: Node) -> str:
        return self._node("Clip", [x, self._number(0), self._number(6)])

    def _hard_swish(self, x: str, node: Node) -> str:
        return self._node("Mul", [x, self._node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])

    def _hard_sigmoid(self, x: str, node: Node) -> str:
        # Not a HardSigmoid: OpenCV takes that and any product of it for a hard-swish.
        ramp = self._relu6(self._node("Add", [x, self._number(3)]), node)
        return self._node("Mul", [ramp, self._number(1 / 6)])

    def _leaky_relu(self, x: str, node: Node) -> str:
        slope, floor = node.numbers("slope", "floor")
        return self._node("Max", [self._node("LeakyRelu", [x], alpha=slope), self._number(floor)])

    def max_pool(self, x: str, node: Node) -> str:
        before, after = pool_padding(node)
        return self._node("MaxPool", [x], kernel_shape=node.kernel, strides=node.stride, pads=before + after)

    def join(self, values: list[str]) -> str:
        return self._node("Concat", values, axis=1)

    def mean(self, x: str) -> str:
        return self._node("GlobalAveragePool", [x])

    def scale(self, x: str, factors: str) -> str:
        return self._node("Mul", [x, factors])

    def _weight(self, network: Network, index: int) -> tuple[str, np.ndarray | None]:
        """The weight as it is kept, as (cout, cin of a group, rows, columns), and its scales (cout,)."""
        layer, added = network.all_layers[index], index in network.added
        stored = network.added[index][0] if added else network.weights[index]
        cube = stored.reshape(*layer.kernel, layer.cin // layer.groups, layer.cout)
        name = self._constant(f"{layer.name}.weight", cube.transpose(3, 2, 0, 1))
        return name, None if added else network.scales[index]

    def add(self, x: str, y: str) -> str:
        return self._node("Add", [x, y])

    def average(self, x: str, window: tuple[int, int]) -> str:
        return self._node("AveragePool", [x], kernel_shape=window, strides=window)

    def interpolate(self, x: str, like: str, hw: tuple[int, int]) -> str:
        inputs = [x, "", "", self._node("Shape", [like])]  # its number of images is known only then
        return self._node("Resize", inputs, mode="linear", coordinate_transformation_mode="half_pixel")

    def embedding(self, x: str) -> str:
        return self._node("Flatten", [self._node("GlobalAveragePool", [x])])

    def unit(self, embedding: str) -> str:
        squares = self._node("ReduceSumSquare", [embedding], axes=[1], keepdims=1)
        length = self._node("Sqrt", [self._node("Add", [squares, self._number(1e-12)])])
        return self._node("Div", [embedding, length])

    def side_by_side(self, embeddings: list[str]) -> str:
        return self._node("Concat", embeddings, axis=1)

    def classify(self, unit: str, head: LinearHead) -> None:
        weights = self._constant("head.weights", head.weights)
        offsets = self._constant("head.offsets", head.offsets)
        logits = self._node("Gemm", [unit, weights, offsets], transB=1)
        scaled = self._node("Div", [logits, self._number(head.temperature)])
        self._node("Softmax", [scaled], PROBABILITIES, axis=1)

    def name_the_best(self, class_names: tuple[str, ...]) -> None:
        """The name of the most probable class as an output."""
        best = self._node("ArgMax", [PROBABILITIES], axis=1, keepdims=0)
        names = [name.encode() for name in class_names]
        string = self.onnx.TensorProto.STRING
        self.constants.append(self.onnx.helper.make_tensor("classes", string, [len(names)], names))
        self._node("Gather", ["classes", best], LABEL, axis=0)

    def _node(self, op: str, inputs: list[str], output: str = "", **attributes) -> str:
        """A node with one output, whose name is returned; "" as an input leaves it out."""
        output = output or f"{op}.{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def _constant(self, name: str, array: np.ndarray) -> str:
        """An array in the file; returns `name`, made unique."""
        name = f"{name}.{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _number(self, value: float) -> str:
        """A float32 scalar, once in the file."""
        if value not in self._numbers:
            self._numbers[value] = self._constant(f"{value:g}", np.array(value, np.float32))
        return self._numbers[value]
