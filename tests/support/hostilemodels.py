"""ONNX files that ask for far more memory or time than they have bytes.

Those of table `HOSTILE` are refused. Those of `HARMLESS` are imported: what they ask for is not computed.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MOST = 60_000_000  # bytes of a file
SIDE = 8


def model(nodes: list, shape=(1, 3, SIDE, SIDE), **constants) -> bytes:
    graph = helper.make_graph(
        nodes, "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def convolutions(count: int, channels: int) -> bytes:
    """`count` convolutions that all read one weight."""
    nodes = [helper.make_node("Conv", ["x", "stem"], ["c0"])]
    nodes += [helper.make_node("Conv", [f"c{k}", "w"], [f"c{k + 1}"]) for k in range(count)]
    nodes.append(helper.make_node("GlobalAveragePool", [f"c{count}"], ["y"]))
    return model(nodes, stem=np.zeros((channels, 3, 1, 1)), w=np.zeros((channels, channels, 1, 1)))


def refused(count: int) -> bytes:
    """Convolutions that are refused after their weight was read."""
    nodes = [helper.make_node("Conv", ["x", "w"], [f"c{k}"]) for k in range(count)]
    return model(nodes, w=np.zeros((1000, 1000, 4, 1)))


def norms(count: int) -> bytes:
    """Normalisations of one large convolution."""
    nodes = [helper.make_node("Conv", ["x", "stem"], ["a"]), helper.make_node("Conv", ["a", "w"], ["n0"])]
    nodes += [
        helper.make_node("BatchNormalization", [f"n{k}", *["one"] * 4], [f"n{k + 1}"]) for k in range(count)
    ]
    return model(nodes, stem=np.zeros((1500, 3, 1, 1)), w=np.zeros((1500, 1500, 1, 1)), one=np.ones(1500))


def dequantised(count: int) -> bytes:
    """One quantised weight, made float32 again and again."""
    nodes = [helper.make_node("QuantizeLinear", ["w", "s"], ["q"])]
    nodes += [helper.make_node("DequantizeLinear", ["q", "s"], [f"d{k}"]) for k in range(count)]
    return model(nodes, w=np.zeros((2000, 2000, 1, 1)), s=1)


def largest() -> bytes:
    """A network of 16 million weights, none of them shared."""
    nodes = [helper.make_node("Conv", ["x", "stem"], ["a"])]
    nodes += [helper.make_node("Conv", ["a", "w"], ["b"])]
    nodes += [helper.make_node("BatchNormalization", ["b", *["one"] * 4], ["c"])]
    nodes += [helper.make_node("GlobalAveragePool", ["c"], ["y"])]
    w = np.random.default_rng(0).standard_normal((3900, 3900, 1, 1), np.float32)
    return model(nodes, stem=np.ones((3900, 3, 1, 1)), w=w, one=np.ones(3900))


def shaped(*shape: int, channels: int = 8, tail=()) -> bytes:
    """A small network of images of `shape`; the nodes `tail` read its embedding "e", (batch, channels)."""
    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"]), helper.make_node("GlobalAveragePool", ["a"], ["p"]),
        helper.make_node("Flatten", ["p"], ["e"]), *tail,
        helper.make_node("Softmax", [tail[-1].output[0] if tail else "e"], ["y"]),
    ]  # fmt: skip
    return model(nodes, shape, stem=np.ones((channels, 3, 1, 1)))


def halved() -> bytes:
    """A network whose first layer reads and gives 2**23 numbers."""
    nodes = [helper.make_node("Conv", ["x", "stem"], ["c0"])]
    nodes += [helper.make_node("Conv", [f"c{k}", "w"], [f"c{k + 1}"], strides=[2, 2]) for k in range(7)]
    nodes.append(helper.make_node("GlobalAveragePool", ["c7"], ["y"]))
    return model(nodes, (1, 3, 1024, 1024), stem=np.ones((5, 3, 1, 1)), w=np.ones((5, 5, 1, 1)))


def outer_product() -> bytes:
    """A classifier that multiplies the embedding of 20,000 numbers by itself."""
    tail = [
        helper.make_node("Constant", [], ["shape"], value_ints=[-1, 1]),
        helper.make_node("Reshape", ["e", "shape"], ["column"]),
        helper.make_node("MatMul", ["column", "e"], ["product"]),
    ]
    return shaped(1, 3, SIDE, SIDE, channels=20_000, tail=tail)


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


OPERATION = field(1, field(4, b"Relu"))


def in_model(graph: bytes) -> bytes:
    return b"\x08\x08" + field(8, b"\x10\x0d") + field(7, graph)


def in_tensor(size: int, kind: int, content: bytes) -> bytes:
    """A model with one tensor of `size` numbers of the ONNX type `kind`."""
    return in_model(OPERATION + field(5, b"\x08" + varint(size) + b"\x10" + bytes([kind]) + content))


def attribute(number: int, kind: int, content: bytes) -> bytes:
    about = field(1, b"k") + b"\xa0\x01" + bytes([kind])
    return in_model(field(1, field(4, b"Relu") + field(5, about + field(number, content))))


def nested(depth: int) -> bytes:
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(1, b"b") + b"\xa0\x01\x05" + field(6, graph)))
    return in_model(graph)


HOSTILE = {
    "one weight of 3,000 convolutions": lambda: convolutions(3000, 1024),
    "one small weight of 3,000 convolutions": lambda: convolutions(3000, 2),
    "one weight of refused convolutions": lambda: refused(2000),
    "normalisations": lambda: norms(2000),
    "one weight dequantised": lambda: dequantised(2000),
    "empty operations": lambda: in_model(b"\x0a\x00" * (MOST // 2)),
    "empty tensors": lambda: in_model(OPERATION + b"\x2a\x00" * (MOST // 2)),
    "empty attributes": lambda: in_model(field(1, field(4, b"Relu") + b"\x2a\x00" * (MOST // 2))),
    "whole numbers of a byte": lambda: in_tensor(MOST, 7, field(7, b"\1" * MOST)),
    "truth values of a byte": lambda: in_tensor(MOST, 9, field(5, b"\1" * MOST)),
    "empty texts": lambda: in_tensor(MOST // 2, 8, b"\x32\x00" * (MOST // 2)),
    "numbers of half a byte": lambda: in_tensor(2 * MOST, 22, field(9, bytes(MOST))),
    "numbers as a list": lambda: in_tensor(MOST // 4, 1, field(4, bytes(MOST))),
    "whole numbers of an attribute": lambda: attribute(8, 7, b"\1" * MOST),
    "numbers of an attribute": lambda: attribute(7, 6, bytes(MOST)),
    "numbers of 16 bits": lambda: in_tensor(MOST // 2, 10, field(9, bytes(MOST))),
    "numbers that are not there": lambda: in_tensor(2**40, 1, b""),
    "graphs in graphs": lambda: nested(3000),
}

HARMLESS = {
    "largest": largest,
    "a batch of 200,000": lambda: shaped(200_000, 3, SIDE, SIDE),
    "a batch that no number of 32 bits holds": lambda: shaped(2**40, 3, SIDE, SIDE),
    "an image of 4,096 rows and columns": lambda: shaped(1, 3, 4096, 4096),
    "the largest image that is compared": halved,
    "many channels of a large image": lambda: shaped(1, 3, 1024, 1024, channels=256),
    "a product of 400 million numbers behind the pooling": outer_product,
}
