"""Small ONNX models made by hand, node by node; needs the package onnx."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tinytrain.backbones.onnx.check import as_input

SIZE = 12


class Maker:
    """Collects nodes and weights; every method adds a node that reads `x` and returns what it makes."""

    def __init__(self, seed: int = 0, opset: int = 17):
        self.rng, self.opset = np.random.default_rng(seed), opset
        self.nodes, self.constants = [], []

    def constant(self, array, name=None) -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, *inputs, **attributes) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(self, x, cin, cout, kernel=1, stride=1, groups=1, bias=True, **attributes) -> str:
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        fan_in = cin // groups * sides[0] * sides[1]
        weight = self.rng.normal(0, np.sqrt(2 / fan_in), (cout, cin // groups, *sides))
        inputs = [x, self.constant(weight.astype(np.float32))]
        if bias:
            inputs.append(self.constant(self.rng.normal(0, 0.1, cout).astype(np.float32)))
        pads = [(side - 1) // 2 for side in sides] * 2
        given = {"pads": pads, "strides": [stride] * 2, "group": groups} | attributes
        return self.node("Conv", *inputs, **{k: v for k, v in given.items() if v is not None})

    def norm(self, x, channels) -> str:
        draws = (self.rng.uniform(0.5, 2, channels) if k in (0, 3) else self.rng.normal(0, 0.3, channels)
                 for k in range(4))  # fmt: skip
        inputs = [self.constant(draw.astype(np.float32)) for draw in draws]
        return self.node("BatchNormalization", x, *inputs, epsilon=1e-3)

    def relu6(self, x) -> str:
        if self.opset < 11:
            return self.node("Clip", x, min=0.0, max=6.0)
        bounds = [self.constant(np.array(value, np.float32)) for value in (0, 6)]
        return self.node("Clip", x, *bounds)

    def conv_norm_relu6(self, x, *args, **options) -> str:
        return self.relu6(self.norm(self.conv(x, *args, bias=False, **options), args[1]))

    def block(self, x, cin, mid, cout, kernel=3, stride=1, residual=False) -> str:
        """An inverted bottleneck, its last convolution without activation."""
        y = self.conv_norm_relu6(x, cin, mid) if mid != cin else x
        y = self.conv_norm_relu6(y, mid, mid, kernel=kernel, stride=stride, groups=mid)
        y = self.norm(self.conv(y, mid, cout, bias=False), cout)
        return self.node("Add", x, y) if residual else y

    def act(self, x, op) -> str:
        """An activation as exporters of opset 17 write it."""
        return self.relu6(x) if op == "Clip" else self.node(op, x)

    def conv_act(self, x, cin, cout, op, **options) -> str:
        """A convolution with normalisation, and an activation if `op` names one."""
        y = self.norm(self.conv(x, cin, cout, bias=False, **options), cout)
        return self.act(y, op) if op else y

    def excited(self, x, channels, squeezed) -> str:
        """x with squeeze-and-excitation."""
        y = self.node("Relu", self.conv(self.node("GlobalAveragePool", x), channels, squeezed))
        y = self.node("HardSigmoid", self.conv(y, squeezed, channels), alpha=1 / 6, beta=0.5)
        return self.node("Mul", x, y)

    def classifier(self, x, channels, classes=5) -> str:
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        weight = self.constant(self.rng.normal(0, 1, (classes, channels)).astype(np.float32))
        bias = self.constant(np.zeros(classes, np.float32))
        return self.node("Gemm", self.node("Dropout", flat), weight, bias, transB=1)

    def model(self, output, shape=(1, 3, SIZE, SIZE)):
        graph = helper.make_graph(
            self.nodes, "made",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def mobile(seed: int = 0, opset: int = 17) -> tuple[Maker, str]:
    """A maker with a small network of every kind of block, and its last feature map (16 channels)."""
    m = Maker(seed, opset)
    x = m.conv_norm_relu6("x", 3, 8, kernel=3, stride=2)
    x = m.block(x, 8, 8, 6)
    x = m.block(x, 6, 18, 6, kernel=5, residual=True)
    x = m.block(x, 6, 12, 8, kernel=7, stride=2)
    x = m.block(x, 8, 16, 8, residual=True)
    return m, m.conv_norm_relu6(x, 8, 16)


def separable(seed: int = 0) -> tuple[Maker, str, int]:
    """As MobileNetV1 is: (maker, last feature map, its channels)."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 8, "Relu", kernel=3, stride=2)
    for cin, cout, stride in ((8, 12, 1), (12, 16, 2), (16, 16, 1)):
        x = m.conv_act(x, cin, cin, "Relu", kernel=3, stride=stride, groups=cin)
        x = m.conv_act(x, cin, cout, "Relu")
    return m, x, 16


def residual(seed: int = 0) -> tuple[Maker, str, int]:
    """As ResNets of basic blocks are."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 6, "Relu", kernel=7, stride=2)
    x = m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for cin, cout, stride in ((6, 6, 1), (6, 10, 2), (10, 10, 1)):
        y = m.conv_act(x, cin, cout, "Relu", kernel=3, stride=stride)
        y = m.conv_act(y, cout, cout, None, kernel=3)
        x = m.conv_act(x, cin, cout, None, stride=stride) if cin != cout else x
        x = m.node("Relu", m.node("Add", y, x))
    return m, x, 10


def universal(seed: int = 0) -> tuple[Maker, str, int]:
    """As MobileNetV4 of convolutions is: dense layers, then depthwise ones before and in bottlenecks."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 8, "Relu", kernel=3, stride=2)
    x = m.conv_act(m.conv_act(x, 8, 8, "Relu", kernel=3), 8, 6, "Relu")
    for first, mid, stride, add in ((5, 5, 2, False), (0, 3, 1, True), (3, 0, 1, True), (5, 3, 1, True)):
        y = m.conv_act(x, 6, 6, None, kernel=first, groups=6) if first else x
        y = m.conv_act(y, 6, 18, "Relu")
        y = m.conv_act(y, 18, 18, "Relu", kernel=mid, stride=stride, groups=18) if mid else y
        y = m.conv_act(y, 18, 6, None)
        x = m.node("Add", y, x) if add else y
    return m, m.conv_act(x, 6, 12, "Relu"), 12


def excited(seed: int = 0) -> tuple[Maker, str, int]:
    """As MobileNetV3 is: hard-swish, squeeze and excitation."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 8, "HardSwish", kernel=3, stride=2)
    x = m.conv_act(m.excited(m.conv_act(x, 8, 8, "Relu", kernel=3, groups=8), 8, 4), 8, 6, None)
    for op, stride in (("Relu", 2), ("HardSwish", 1)):
        y = m.conv_act(x, 6, 16, op)
        y = m.excited(m.conv_act(y, 16, 16, op, kernel=5, stride=stride, groups=16), 16, 4)
        y = m.conv_act(y, 16, 6, None)
        x = m.node("Add", x, y) if stride == 1 else y
    return m, m.conv_act(x, 6, 14, "HardSwish"), 14


def padded_at_the_end(seed: int = 0) -> tuple[Maker, str, int]:
    """As networks of TensorFlow are: layers with stride 2 have more zeros on the right and below."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 8, "Clip", kernel=3, stride=2, pads=[0, 0, 1, 1])
    y = m.conv_act(x, 8, 12, "Clip")
    sides = m.constant(np.array([0, 0, 1, 1, 0, 0, 2, 2]))
    y = m.node("Pad", y, sides, m.constant(np.float32(0)))
    y = m.conv_act(y, 12, 12, "Clip", kernel=5, stride=2, groups=12, pads=[0] * 4)
    x = m.conv_act(y, 12, 8, None)
    return m, m.block(x, 8, 12, 8, residual=True), 8


def branched(seed: int = 0) -> tuple[Maker, str, int]:
    """As SqueezeNet is: branches that are joined, windows of max pooling that lack their end."""
    m = Maker(seed)
    x, channels = m.node("Relu", m.conv("x", 3, 8, kernel=3, stride=2, pads=[0] * 4)), 8
    for count in (6, 5):
        x = m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        x = m.node("Relu", m.conv(x, channels, 4))
        parts = [m.node("Relu", m.conv(x, 4, count, kernel=kernel)) for kernel in (1, 3)]
        x, channels = m.node("Concat", *parts, axis=1), 2 * count
    return m, m.node("Relu", m.conv(m.node("Dropout", x), channels, 9)), 9


def narrow(seed: int = 0) -> tuple[Maker, str, int]:
    """As encoders of sound are: filters of one row or column, leaky ReLU with a floor, narrow windows."""
    m = Maker(seed)

    def leaky(x: str) -> str:
        floor = m.constant(np.full((1,) * 4, -0.4, np.float32))
        return m.node("Max", m.node("LeakyRelu", x, alpha=0.2), floor)

    x, channels = leaky(m.conv("x", 3, 6, kernel=3, pads=[0, 1, 0, 1])), 6
    for window in ([2, 2], [1, 2], [2, 2]):
        x = leaky(m.conv(x, channels, 8, kernel=(1, 3)))
        x, channels = leaky(m.norm(m.conv(x, 8, 8, kernel=(3, 1), pads=[0] * 4), 8)), 8
        x = m.node("MaxPool", x, kernel_shape=window, strides=window)
    return m, m.conv(x, 8, 10, kernel=(3, 1), pads=[0] * 4), 10


def crossed(seed: int = 0) -> tuple[Maker, str, int]:
    """Additions that overlap, a shortcut before its block, and an activated branch."""
    m = Maker(seed)
    x = m.conv_act("x", 3, 8, "Relu", kernel=3, stride=2)
    y = m.conv_act(x, 8, 8, "Relu")
    z = m.node("Add", m.conv(y, 8, 8), x)
    z = m.node("Relu", m.node("Add", m.conv(z, 8, 8, kernel=3), y))
    short = m.conv_act(z, 8, 12, None, stride=2)
    y = m.node("Add", m.conv_act(m.conv_act(z, 8, 8, "Relu"), 8, 12, None, kernel=3, stride=2), short)
    y = m.conv_act(m.node("Relu", y), 12, 12, "Clip")
    active = m.conv_act(y, 12, 12, "HardSwish")
    return m, m.node("Add", m.conv(y, 12, 12), active), 12


FAMILIES = {
    "branched": branched, "narrow": narrow, "crossed": crossed,
    "separable": separable, "residual": residual, "universal": universal, "excited": excited,
    "padded at the end": padded_at_the_end,
}  # fmt: skip


def evaluated(model, fed, images) -> np.ndarray:
    """Embeddings by the evaluator of the onnx package, one image at a time."""
    evaluator, inputs = ReferenceEvaluator(model), as_input(fed, images)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value or 1
    rows = [evaluator.run(None, {"x": np.repeat(row[None], batch, axis=0)})[0][0].ravel() for row in inputs]
    return np.stack(rows)


def save(model, folder, name="net.onnx"):
    onnx.save(model, folder / name)
    return folder / name
