"""Unsupported ONNX files: one InputError each, which names the problem."""

import numpy as np
import pytest
from cases import each

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnxmodels import SIZE, Maker, mobile, save  # noqa: E402

from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.base.errors import InputError  # noqa: E402


def refusal(model, folder, code="unsupported", **options) -> str:
    """The message for `model`: of `code`, one line, with the file's name."""
    path = save(model, folder)
    with pytest.raises(InputError, match=r"net\.onnx") as caught:
        import_onnx(path, **options)
    message = str(caught.value)
    assert caught.value.code == code and "\n" not in message
    return message


def stem(m: Maker) -> str:
    return m.conv_norm_relu6("x", 3, 8, kernel=3, stride=2)


def expanded(m: Maker) -> tuple[str, str]:
    """(a block's input, the block's linear output)"""
    x = stem(m)
    return x, m.conv(x, 8, 8)


def poisoned(m: Maker) -> str:
    x = m.conv(stem(m), 8, 8)
    weight = numpy_helper.to_array(m.constants[-2]).copy()
    weight[3, 2] = np.nan
    m.constants[-2].CopyFrom(numpy_helper.from_array(weight, m.constants[-2].name))
    return x


def excited(m: Maker, kernel=1, last=None) -> str:
    x = m.relu6(m.conv(stem(m), 8, 8))
    factors = m.conv(m.node("Relu", m.conv(m.node("GlobalAveragePool", x), 8, 4)), 4, 8, kernel=kernel)
    factors = (last or (lambda x: m.node("HardSigmoid", x, alpha=1 / 6)))(factors)
    return m.conv(m.node("Mul", x, factors), 8, 8)


def pooled(m: Maker, **other) -> str:
    given = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4} | other
    return m.node("MaxPool", m.node("Relu", m.conv("x", 3, 8, kernel=3)), **given)


def padded(m: Maker, channels=0, value=0.0) -> str:
    pads = m.constant(np.array([0, channels, 1, 1, 0, 0, 1, 1]))
    return m.node("Pad", stem(m), pads, m.constant(np.array(value, np.float32)))


def raw_and_normed(m: Maker) -> str:
    x = m.conv(stem(m), 8, 8)
    return m.node("Add", m.conv(m.relu6(x), 8, 8), x)


def frozen_norm(m: Maker) -> str:
    return m.norm(stem(m), 8)


def negative_variance(m: Maker) -> str:
    x = m.norm(m.conv(stem(m), 8, 8), 8)
    m.constants[-1].CopyFrom(numpy_helper.from_array(-np.ones(8, np.float32), m.constants[-1].name))
    return x


# (nodes before the pooling, words of the message).
FEATURES = {
    "sigmoid": (lambda m: m.node("Sigmoid", m.conv(stem(m), 8, 8)), "Sigmoid (sigmoid4): no such oper"),
    "another clip": (lambda m: m.node("Clip", stem(m)), "Clip (clip3): bounds -inf and inf"),
    "two activations": (lambda m: m.node("HardSwish", stem(m)), "HardSwish (hardswish3): it follows an act"),
    "another hard sigmoid": (
        lambda m: m.node("HardSigmoid", m.conv(stem(m), 8, 8)), "alpha 0.2 and beta 0.5, not 1/6 and 0.5",
    ),
    "another excitation": (
        lambda m: excited(m, last=lambda x: m.node("Sigmoid", x)), "Sigmoid (sigmoid9): no such operation",
    ),
    "a wide excitation": (lambda m: excited(m, kernel=3), "squeeze-and-excitation only dense kernels of 1"),
    "max pooling with gaps": (lambda m: pooled(m, dilations=[2, 2]), "windows without gaps"),
    "max pooling of nothing": (lambda m: pooled(m, kernel_shape=[13] * 2, pads=[0] * 4), "not fit into 12"),
    "an alpha that is no slope": (
        lambda m: m.node("LeakyRelu", m.conv(stem(m), 8, 8), alpha=-1.0), "alpha is -1, not between 0 and 1",
    ),
    "a maximum of something else": (
        lambda m: m.node("Max", stem(m), m.constant(np.float32(-1))), "only a leaky ReLU and a number below",
    ),
    "a branch of another size": (
        lambda m: m.node("Concat", *expanded(m), m.conv("clip2_out", 8, 8, kernel=3, stride=2), axis=1),
        "only channels of feature maps of one size",
    ),
    "rows beside each other": (lambda m: m.node("Concat", *expanded(m), axis=2), "only channels of feature"),
    "padding that is no zero": (
        lambda m: m.conv(padded(m, value=1.0), 8, 8, kernel=3, pads=[0] * 4), "only zeros around what a Conv",
    ),
    "padding of channels": (lambda m: m.conv(padded(m, 1), 8, 8, kernel=3), "it pads other axes than rows"),
    "padding before something else": (
        lambda m: m.node("GlobalAveragePool", padded(m)), "it follows a Pad, which only a Conv may do",
    ),
    "padding on either side": (
        lambda m: m.conv(m.conv("x", 3, 8, kernel=3, stride=2, pads=[0, 0, 1, 1]), 8, 8, kernel=3, stride=2),
        "padding [1, 1, 1, 1] here, and elsewhere more zeros on the opposite sides",
    ),
    "a mean of channels": (lambda m: m.node("ReduceMean", stem(m), axes=[1]), "axes [1]; supported are rows"),
    "padding": (lambda m: m.conv(stem(m), 8, 8, kernel=3, groups=8, pads=[0, 0, 2, 2]), "[0, 0, 2, 2], not"),
    "groups": (lambda m: m.conv(stem(m), 8, 8, groups=2), "2 groups, not 1 or one per channel"),
    "multiplier": (lambda m: m.conv(stem(m), 8, 16, kernel=3, groups=8), "8 groups, not 1 or one per"),
    "dilation": (lambda m: m.conv(stem(m), 8, 8, dilations=[2, 2]), "it is dilated"),
    "stride 3": (lambda m: m.conv("x", 3, 8, kernel=3, stride=3), "strides [3, 3]"),
    "dense 9x9": (lambda m: m.conv(stem(m), 8, 8, kernel=9), "dense with kernel 9, not one of (1, 3, 5, 7)"),
    "even kernel": (lambda m: m.conv("x", 3, 8, kernel=2), "kernel of (1, 3, 5, 7)"),
    "large depthwise": (lambda m: m.conv(stem(m), 8, 8, kernel=9, groups=8), "kernel 9, not one of"),
    "wrong channels": (lambda m: m.conv(stem(m), 6, 8), "takes 6 channels, but its input has 8"),
    "depthwise stem": (lambda m: m.conv("x", 3, 3, kernel=3, groups=3), "the first one must be dense"),
    "kernel_shape": (lambda m: m.conv(stem(m), 8, 8, kernel_shape=[3, 3]), "kernel_shape is not"),
    "attribute of another type": (lambda m: m.conv(stem(m), 8, 8, group=1.5), "group is 1.5"),
    "one-dimensional weight": (
        lambda m: m.node("Conv", stem(m), m.constant(np.ones((8, 8, 1), np.float32))), "(8, 8, 1)",
    ),
    "double weights": (lambda m: m.node("Conv", stem(m), m.constant(np.ones((8, 8, 1, 1)))), "is float64"),
    "computed weights": (lambda m: m.node("Conv", "x", "x"), "weight is not a constant of the file"),
    "NaN": (poisoned, "Conv (conv3): 1 of 64 numbers in its weight are NaN or infinite"),
    "an activation after an addition": (
        lambda m: m.relu6(m.node("Add", *expanded(m))), "Clip (clip5): it follows a residual addition",
    ),
    "twice the same": (lambda m: m.node("Add", *(expanded(m)[1],) * 2), "Add (add4): the graph branches"),
    "a sum with the image": (
        lambda m: m.node("Add", m.conv("x", 3, 3, kernel=3), "x"), "it does not add an earlier result",
    ),
    "a sum of unlike shapes": (
        lambda m: m.node("Add", m.conv(m.relu6(m.conv(stem(m), 8, 9)), 9, 9), "clip2_out"),
        "8 x (6, 6) added to 9 x (6, 6)",
    ),
    "a constant added": (
        lambda m: m.node("Add", stem(m), m.constant(np.ones(1, np.float32))), "it adds a constant",
    ),
    "a normalisation by another shape": (
        lambda m: m.conv(m.node("Sub", "x", m.constant(np.ones(3, np.float32))), 3, 8),
        "not a number or (3, 1, 1)",
    ),
    "a normalisation that mirrors": (
        lambda m: m.conv(m.node("Mul", "x", m.constant(-np.ones(1, np.float32))), 3, 8), "is not above 0",
    ),
    "a constant minus the image": (
        lambda m: m.conv(m.node("Sub", m.constant(np.ones(1, np.float32)), "x"), 3, 8),
        "input 0 is not computed",
    ),
    "a normalisation of a part": (
        lambda m: m.node(
            "Add", m.conv("x", 3, 8), m.conv(m.node("Mul", "x", m.constant(np.float32(2))), 3, 8)
        ),
        "the graph branches before it",
    ),
    "a factor behind the first convolution": (
        lambda m: m.node("Mul", stem(m), m.constant(np.float32(2))), "it follows an activation",
    ),
    "a text as a factor": (
        lambda m: m.conv(m.node("Mul", m.constant(np.array(["two"], object)), "x"), 3, 8), "is object, not",
    ),
    "a raw convolution used twice": (raw_and_normed, "the graph branches before it"),
    "normalisation after the activation": (frozen_norm, "(batchnormalization3): it follows an activation"),
    "negative variance": (negative_variance, "a variance is not above 0"),
    "flattened, not pooled": (lambda m: m.node("Flatten", stem(m)), "not the pooling at the end"),
    "pooled in between": (
        lambda m: m.conv(m.node("GlobalAveragePool", stem(m)), 8, 8), "it follows the pooling at the end",
    ),
}  # fmt: skip


@each("name", FEATURES)
def test_a_node_in_the_way_is_named_with_the_reason(tmp_path, name):
    make, words = FEATURES[name]
    m = Maker()
    message = refusal(m.model(m.node("GlobalAveragePool", make(m))), tmp_path)
    assert words in message and "docs/own-network.md" in message


def test_the_first_reasons_are_named_and_all_nodes_in_the_way_are_counted(tmp_path):
    m = Maker()
    x = stem(m)
    for _ in range(5):
        x = m.node("Sigmoid", m.conv(x, 8, 8))
    x = m.node("Tanh", m.conv(x, 8, 8, groups=4))
    x = m.node("Erf", m.node("Exp", x))
    message = refusal(m.model(m.classifier(x, 8)), tmp_path)
    assert "9 of 21 operations cannot be imported; first Sigmoid (sigmoid4 and 4 more): no such" in message
    assert "Conv (conv13): 4 groups, not 1 or one per channel; Tanh (tanh14): no such" in message
    assert "; and 2 other reasons; MobileNets" in message and "BatchNorm" not in message
    assert len(message) < 600


def test_a_network_without_pooling_is_refused(tmp_path):
    m = Maker()
    assert "1 convolutions and no pooling at the end" in refusal(m.model(stem(m)), tmp_path)


def changed(change):
    m, x = mobile()
    model = m.model(m.classifier(x, 16))
    change(model)
    return model


def external(model):
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    tensor.ClearField("raw_data")


def cycle(model):
    model.graph.node[0].input[0] = model.graph.node[3].output[0]


def reshaped(*shape, kind=TensorProto.FLOAT):
    def change(model):
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", kind, shape))

    return change


FILES = {
    "external data": (external, "unsupported", "is in another file than net.onnx.data beside it"),
    "an unsorted graph": (lambda m: m.graph.node.insert(0, m.graph.node.pop()), "file-damaged", "unsorted"),
    "a cycle": (cycle, "file-damaged", "which no earlier node computes"),
    "a name twice": (lambda m: m.graph.node.append(m.graph.node[0]), "file-damaged", "computes nothing new"),
    "a weight that is missing": (lambda m: m.graph.initializer.pop(0), "file-damaged", "reads 'c0'"),
    "a weight too short": (
        lambda m: m.graph.initializer[0].dims.__setitem__(0, 10**15), "file-damaged", "'c0' cannot be read",
    ),
    "an old opset": (lambda m: setattr(m.opset_import[0], "version", 7), "unsupported", "opset 7; supported"),
    "a future opset": (lambda m: setattr(m.opset_import[0], "version", 999), "unsupported", "opset 999"),
    "no nodes": (lambda m: m.graph.ClearField("node"), "file-damaged", "0 operations"),
    "two inputs": (lambda m: m.graph.input.append(helper.make_tensor_value_info("y", 1, (1,))),
                   "unsupported", "2 inputs; supported is one"),
    "rows first": (
        reshaped(1, SIZE, SIZE, 3), "unsupported",
        "(conv0): it reads axes in the order nhwc, not nchw; export the model with channels first",
    ),
    "two channels": (reshaped(1, 2, SIZE, SIZE), "unsupported", "(1, 2, 12, 12); supported is (batch, c"),
    "three axes": (reshaped(3, SIZE, SIZE), "unsupported", "has shape (3, 12, 12)"),
    "images of whole numbers": (
        reshaped(1, 3, SIZE, SIZE, kind=TensorProto.UINT8), "unsupported", "'x' is of type uint8; supported",
    ),
    "images of a type that nobody knows": (
        reshaped(1, 3, SIZE, SIZE, kind=99), "unsupported", "'x' is of type unknown",
    ),
    "our own export": (
        lambda m: setattr(m, "producer_name", "tinytrain"), "file-kind",
        "'tinytrain export' wrote for other programs; give the delta",
    ),
    "an open size": (reshaped(1, 3, None, None), "bad-value", "give --size PIXELS"),
    "an operation from elsewhere": (
        lambda m: setattr(m.graph.node[0], "domain", "mine"), "unsupported", "mine.Conv (conv0)",
    ),
}  # fmt: skip


@each("name", FILES)
def test_a_file_that_is_no_such_model_is_refused_by_name(tmp_path, name):
    change, code, words = FILES[name]
    assert words in refusal(changed(change), tmp_path, code)


def test_a_size_other_than_the_files_is_refused(tmp_path):
    assert "takes images of 12 x 12, --size says 16" in refusal(
        changed(lambda m: None), tmp_path, "bad-value", size=16
    )


def test_a_damaged_file_is_an_input_error_or_another_network(tmp_path):
    data = changed(lambda m: None).SerializeToString()
    rng = np.random.default_rng(0)
    path = tmp_path / "net.onnx"
    for k in range(300):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), 1 + k % 4):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(1, len(data))] if k % 3 == 0 else damaged)
        try:
            import_onnx(path)
        except InputError as error:
            assert str(path) in str(error) or error.code in ("network-not-finite", "file-damaged"), error
