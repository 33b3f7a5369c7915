"""A network with its head as one ONNX file that classifies by itself: pixels in, class names out.

    image (n, height, width, channels) uint8 -> probabilities (n, classes) float32, label (n,) text

The pixels are normalised inside. What stays outside is resizing: an image must come in the size of the
network, resized as `InputSpec` says. Int8 weights stay int8, with their scales behind them.
"""

import json
import os

import numpy as np

from tinytrain import __version__
from tinytrain.backbones.onnx.nodes import Nodes
from tinytrain.backbones.onnx.reading import need_onnx
from tinytrain.base.errors import InputError
from tinytrain.base.files import write_bytes
from tinytrain.delta.delta import Delta, apply
from tinytrain.heads.linear import LinearHead
from tinytrain.network.layer import Layer
from tinytrain.network.lite_residual import Module
from tinytrain.network.network import Network

OPSET = 13  # the first whose DequantizeLinear knows a scale for each channel
IR_VERSION = 8
INPUT, PROBABILITIES, LABEL = "image", "probabilities", "label"


def export_onnx(network: Network, delta: Delta, path: str | os.PathLike) -> None:
    """Write `network` with `delta` applied, and its head, as an ONNX file, all of it or nothing.

    Raises InputError for a delta of another backbone, a head that is no linear map, or if the package onnx is
    missing; StorageError if the file cannot be written.
    """
    write_bytes(path, onnx_model(network, delta))


def onnx_model(network: Network, delta: Delta) -> bytes:
    """The bytes of that file; raises as `export_onnx` does."""
    onnx = need_onnx()
    adapted, nodes = apply(network, delta), Nodes(onnx)
    embedding = _embedding(nodes, adapted)
    _classify(nodes, embedding, delta)
    helper, kinds = onnx.helper, onnx.TensorProto
    shape, way = list(network.input.shape), len(delta.class_names)
    graph = helper.make_graph(
        nodes.made,
        "tinytrain",
        [helper.make_tensor_value_info(INPUT, kinds.UINT8, ["n", *shape])],
        [
            helper.make_tensor_value_info(PROBABILITIES, kinds.FLOAT, ["n", way]),
            helper.make_tensor_value_info(LABEL, kinds.STRING, ["n"]),
        ],
        nodes.constants,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tinytrain",
        producer_version=__version__,
    )
    helper.set_model_props(model, described(adapted, delta))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def described(network: Network, delta: Delta) -> dict[str, str]:
    """What the file says about itself: texts by key, all but names as JSON."""
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


def _embedding(nodes: Nodes, network: Network) -> str:
    """The nodes from the pixels to the embedding (n, d), whose name is returned."""
    values = nodes.add("Cast", [INPUT], to=nodes.onnx.TensorProto.FLOAT)
    values = nodes.add("Sub", [values, nodes.constant("mean", np.float32(network.input.mean))])
    values = nodes.add("Mul", [values, nodes.constant("scale", np.float32(network.input.scale))])
    x = nodes.add("Transpose", [values], perm=[0, 3, 1, 2])
    modules = {module.last: module for module in network.modules}
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            block = x
        x = _convolution(nodes, network, i, layer, x)
        if i in modules:
            x = _with_module(nodes, network, modules[i], block, x)
        if layer.residual and _ends_block(network, i):
            x = nodes.add("Add", [x, block])
    return nodes.add("Flatten", [nodes.add("GlobalAveragePool", [x])])


def _ends_block(network: Network, i: int) -> bool:
    return i + 1 == len(network.layers) or network.layers[i + 1].block != network.layers[i].block


def _convolution(nodes: Nodes, network: Network, i: int, layer: Layer, x: str) -> str:
    weight = _weight(nodes, network, i, layer)
    bias = nodes.constant(f"{layer.name}.bias", network.bias(i))
    y = nodes.add(
        "Conv",
        [x, weight, bias],
        kernel_shape=[layer.kernel] * 2,
        strides=[layer.stride] * 2,
        pads=[layer.pad] * 4,
        group=layer.groups,
    )
    return nodes.add("Clip", [y, nodes.number(0), nodes.number(6)]) if layer.relu6 else y


def _weight(nodes: Nodes, network: Network, i: int, layer: Layer) -> str:
    """The weight of layer `i` as (cout, cin of a group, rows, columns)."""
    stored = network.added[i][0] if i in network.added else network.weights[i]
    scale = None if i in network.added else network.scales[i]
    cube = stored.reshape(layer.kernel, layer.kernel, layer.cin // layer.groups, layer.cout)
    name = nodes.constant(f"{layer.name}.weight", cube.transpose(3, 2, 0, 1))
    if scale is None:
        return name
    return nodes.add("DequantizeLinear", [name, nodes.constant(f"{layer.name}.scale", scale)], axis=0)


def _with_module(nodes: Nodes, network: Network, module: Module, block: str, y: str) -> str:
    """The output `y` of a block with what its lite residual module adds, from the `block`'s input."""
    window = [min(2, side) for side in network.layers[module.first].in_hw]
    x = nodes.add("AveragePool", [block], kernel_shape=window, strides=window)
    for i, layer in zip(module.indices, module.layers, strict=True):
        x = _convolution(nodes, network, i, layer, x)
    sizes, unused = nodes.add("Shape", [y]), ""
    x = nodes.add(
        "Resize", [x, unused, unused, sizes], mode="linear", coordinate_transformation_mode="half_pixel"
    )
    return nodes.add("Add", [y, x])


def _classify(nodes: Nodes, embedding: str, delta: Delta) -> None:
    """The nodes from the embedding to the two outputs."""
    head = delta.head
    if not isinstance(head, LinearHead):
        raise InputError("export-head", f"head {head.kind!r} is no linear map, which alone can be exported")
    squares = nodes.add("ReduceSumSquare", [embedding], axes=[1], keepdims=1)
    length = nodes.add("Sqrt", [nodes.add("Add", [squares, nodes.number(1e-12)])])
    unit = nodes.add("Div", [embedding, length])
    weights = nodes.constant("head.weights", head.weights)
    logits = nodes.add("Gemm", [unit, weights, nodes.constant("head.offsets", head.offsets)], transB=1)
    scaled = nodes.add("Div", [logits, nodes.number(head.temperature)])
    probabilities = nodes.add("Softmax", [scaled], PROBABILITIES, axis=1)
    best = nodes.add("ArgMax", [probabilities], axis=1, keepdims=0)
    nodes.add("Gather", [nodes.texts("classes", delta.class_names), best], LABEL, axis=0)
