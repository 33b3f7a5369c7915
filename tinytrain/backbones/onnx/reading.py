"""Reads an ONNX file as plain data: nodes in order, constants as arrays, the shape of the input.

Needs the package ``onnx``, which only parses the file: nothing is run, and the one other file that may be
opened is ``<file>.data`` beside it, where PyTorch puts the weights.
"""

import os
from dataclasses import dataclass

import numpy as np

from tinytrain.backbones.onnx.weights import AGAIN, elsewhere, take_in, unreadable
from tinytrain.backbones.onnx.wire import MAX_FIELDS, count_fields
from tinytrain.base.errors import InputError
from tinytrain.base.extras import install
from tinytrain.base.file_kinds import EXPORTED, PRODUCER
from tinytrain.base.files import read_bytes
from tinytrain.base.safetensors import MAX_FILE
from tinytrain.network.validation import FOR_ANOTHER

OLDEST_OPSET = 9  # BatchNormalization and other operations were different before
STANDARD = ("", "ai.onnx")
FLOAT, FLOAT16 = 1, 10  # types of numbers by their number in ONNX


class UnsupportedError(Exception):
    """The reason why a node is not supported; the reasons are collected and reported together."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operation; omitted `inputs` are empty names. `_attribute` converts the attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict

    def get(self, key: str, default, count: int | None = None):
        """Attribute `key`, of the type of `default`; with `count`, a list of `count` whole numbers.

        Raises UnsupportedError if it has another type or length.
        """
        value = self.attributes.get(key, default)
        if count is not None:
            good = isinstance(value, list) and len(value) == count and all(type(x) is int for x in value)
        else:
            good = type(value) is type(default)
        if not good:
            raise UnsupportedError(f"{key} is {str(value)[:40]}")
        return value


@dataclass(frozen=True, eq=False)
class Graph:
    """An ONNX graph.

    `shape` of the input is (batch, channels, rows, columns), with None for batch, rows or columns that the
    file does not state; `axes` are "nchw" or "nhwc", as the graph has them. Constants of float16 are float32
    here, which holds each of them. `model` is the whole file as protobuf, with all weights in it, `source`
    its name in messages.
    """

    nodes: tuple[Node, ...]
    constants: dict[str, np.ndarray]
    input: str
    shape: tuple[int | None, ...]
    axes: str
    model: object
    source: str


def need_onnx():
    """The module ``onnx``. Raises InputError ``package-missing``."""
    try:
        import onnx
    except ImportError as error:
        raise InputError(
            "package-missing", f".onnx files need the package onnx; run {install('onnx')}"
        ) from error
    return onnx


def read_onnx(path: str | os.PathLike, channels: tuple[int, ...]) -> Graph:
    """Graph of the ONNX file `path`, at most 64 MiB together with its weights, for an input of one of these
    numbers of channels, the last of them if the file does not state it.

    Raises InputError: a code of `read_bytes`, ``package-missing``, ``unsupported``, ``file-damaged`` and
    ``file-kind`` for a file of ``tinytrain export``.
    """
    onnx, source = need_onnx(), str(path)
    data = read_bytes(path, MAX_FILE)
    try:
        fields = count_fields(data, onnx.ModelProto.DESCRIPTOR)
        if fields > MAX_FIELDS:
            raise InputError(
                "unsupported",
                f"{source} has more than {MAX_FIELDS:,} fields, operations and numbers outside of weights;"
                " export the model with its weights as raw data and only with what is needed to run it",
            )
        model = onnx.load_model_from_string(data)
    except InputError:
        raise
    except Exception as error:  # the errors of protobuf differ between versions
        raise InputError("file-damaged", f"{source} is not a readable ONNX file; copy it again") from error
    if not model.graph.node:
        raise InputError("file-damaged", f"{source} holds 0 operations; is it an ONNX file?")
    _check_model(onnx, model, source)
    if any(tensor.external_data for tensor in model.graph.initializer):
        take_in(onnx, model, path, MAX_FILE - len(data))
    constants = {_text(tensor.name): _array(onnx, tensor, source) for tensor in model.graph.initializer}
    nodes = []
    for index, proto in enumerate(model.graph.node):
        node = _node(onnx, proto, index, source)
        if node.op == "Constant" and len(node.outputs) == 1:
            constants[node.outputs[0]] = _constant(node)
        else:
            nodes.append(node)
    name, shape, axes = _input(onnx, model.graph, constants, channels, source)
    _check_order(nodes, {name, *constants}, source)
    return Graph(tuple(nodes), constants, name, shape, axes, model, source)


def _check_model(onnx, model, source: str) -> None:
    if model.producer_name == PRODUCER:
        raise InputError("file-kind", f"{source} is {'; '.join(EXPORTED)}")
    version = max((x.version for x in model.opset_import if x.domain in STANDARD), default=0)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= version <= newest:
        raise InputError(
            "unsupported", f"{source} has opset {version}; supported are {OLDEST_OPSET} to {newest}; {AGAIN}"
        )
    if any(function.domain in STANDARD for function in model.functions):
        raise InputError("unsupported", f"{source} redefines standard operations; {AGAIN}")


def _array(onnx, tensor, source: str) -> np.ndarray:
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise elsewhere(tensor, source)
    try:
        array = np.asarray(onnx.numpy_helper.to_array(tensor))
        return array.astype(np.float32) if array.dtype == np.float16 else array
    except Exception as error:  # any error of numpy about values that do not fit their shape
        raise unreadable(tensor, source) from error


def _node(onnx, proto, index: int, source: str) -> Node:
    attributes = {_text(attribute.name): _attribute(onnx, attribute, source) for attribute in proto.attribute}
    domain, op = _text(proto.domain), _text(proto.op_type)
    inputs, outputs = (tuple(_text(name) for name in names) for names in (proto.input, proto.output))
    name = _text(proto.name) or (outputs[0] if outputs else "") or f"number {index}"
    return Node(name, op if domain in STANDARD else f"{domain}.{op}", inputs, outputs, attributes)


def _text(text: str | bytes) -> str:
    """A name as str; protobuf returns bytes if it is not UTF-8."""
    return text if isinstance(text, str) else text.decode(errors="backslashreplace")


def _attribute(onnx, attribute, source: str):
    """Value of an attribute: number, str, list of numbers or array; None for other kinds."""
    kinds = onnx.AttributeProto
    if attribute.type == kinds.TENSOR:
        return _array(onnx, attribute.t, source)
    if attribute.type in (kinds.INTS, kinds.FLOATS):
        return list(attribute.ints or attribute.floats)
    if attribute.type == kinds.STRING:
        return attribute.s.decode(errors="replace")
    return {kinds.INT: attribute.i, kinds.FLOAT: attribute.f}.get(attribute.type)


def _constant(node: Node) -> np.ndarray:
    """Value of a Constant node: its one attribute, of any kind; a sparse one gives no numbers."""
    value = next(iter(node.attributes.values()), None)
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, list) and value and isinstance(value[0], float):
        return np.array(value, np.float32)
    return np.asarray(value)


def _input(
    onnx, graph, constants: dict, channels: tuple[int, ...], source: str
) -> tuple[str, tuple[int | None, ...], str]:
    """Name, shape and axes, as in `Graph`, of the only input that is not a constant."""
    inputs = [value for value in graph.input if _text(value.name) not in constants]
    if len(inputs) != 1:
        raise InputError("unsupported", f"{source} has {len(inputs)} inputs; supported is one, the image")
    tensor = inputs[0].type.tensor_type
    shape = tuple(d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim)
    about = f"{source}: input {inputs[0].name[:40]!r}"
    if tensor.elem_type not in (FLOAT, FLOAT16):
        names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
        kind = names.get(tensor.elem_type, "unknown")
        raise InputError(
            "unsupported",
            f"{about} is of type {kind}; supported are float32 and float16; export the model again",
        )
    if len(shape) == 4 and shape[1] not in channels and shape[3] in channels:
        return _text(inputs[0].name), (shape[0], shape[3], *shape[1:3]), "nhwc"
    if len(shape) != 4 or shape[1] not in (*channels, None):
        raise InputError(
            "unsupported",
            f"{about} has shape {shape}; supported is (batch, channels, rows, columns) or (batch, rows,"
            f" columns, channels) with {' or '.join(map(str, channels))} channels; export the model for such"
            f" images, for another kind of input {FOR_ANOTHER}",
        )
    return _text(inputs[0].name), (shape[0], shape[1] or channels[-1], *shape[2:]), "nchw"


def _check_order(nodes: list[Node], known: set[str], source: str) -> None:
    """Raises InputError unless all inputs of a node come from earlier nodes and no name is written twice."""
    known = known | {""}
    for node in nodes:
        for name in node.inputs:
            if name not in known:
                raise InputError(
                    "file-damaged",
                    f"{source}: node {node.name[:80]!r} reads {name[:80]!r}, which no earlier node computes:"
                    f" the graph is unsorted, incomplete or has a cycle; {AGAIN}",
                )
        made = [name for name in node.outputs if name]
        if known & set(made) or len(set(made)) != len(made) or not made:
            raise InputError(
                "file-damaged", f"{source}: node {node.name[:80]!r} computes nothing new; {AGAIN}"
            )
        known |= set(made)
