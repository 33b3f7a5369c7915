"""Arithmetic on small constants, such as exporters leave where a model computes its padding."""

from collections.abc import Callable

import numpy as np

from tinytrain.backbones.onnx.reading import FLOAT, FLOAT16, Node

MOST = 64  # numbers of anything that is computed here
CASTS = {FLOAT: np.float32, FLOAT16: np.float32, 6: np.int32, 7: np.int64}


def fold(node: Node, constants: dict[str, np.ndarray]) -> np.ndarray | None:
    """The output of `node`, which reads nothing but small constants; None for any other node."""
    if node.op not in OPERATIONS or not any(node.inputs) or len(node.outputs) != 1:
        return None
    found = [constants.get(name) if name else None for name in node.inputs]
    known = [array for name, array in zip(node.inputs, found, strict=True) if name]
    if any(array is None or array.size > MOST for array in known):
        return None
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(OPERATIONS[node.op](node, *found))
    except Exception:  # numpy's errors for arrays that do not fit: nobody needs to know this value
        return None
    return result if result.size <= MOST else None


def _divide(node: Node, x, y):
    return np.trunc(x / y).astype(x.dtype) if x.dtype.kind == "i" else x / y


def _clip(node: Node, x, low=None, high=None):
    return x if low is None and high is None else np.clip(x, low, high)


def _constant_of_shape(node: Node, shape):
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if shape.prod() > MOST:
        raise ValueError("too large")
    return np.full(shape, value.reshape(-1)[0])


def _slice(node: Node, x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    chosen = [slice(None)] * x.ndim
    for axis, *of_axis in zip(axes, starts, ends, steps, strict=True):
        start, end, step = map(int, of_axis)
        chosen[axis] = slice(start, end if end >= -x.shape[axis] else None, step)
    return x[tuple(chosen)]


OPERATIONS: dict[str, Callable] = {
    "Add": lambda node, x, y: x + y,
    "Cast": lambda node, x: x.astype(CASTS[node.attributes["to"]]),
    "Ceil": lambda node, x: np.ceil(x),
    "Clip": _clip,
    "Concat": lambda node, *parts: np.concatenate(parts, axis=node.attributes["axis"]),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Gather": lambda node, x, indices: np.take(x, indices, axis=node.attributes.get("axis", 0)),
    "Mul": lambda node, x, y: x * y,
    "Pow": lambda node, x, y: x**y,
    "Reshape": lambda node, x, shape: x.reshape(shape),
    "Shape": lambda node, x: np.array(x.shape, np.int64),
    "Slice": _slice,
    "Sqrt": lambda node, x: np.sqrt(x),
    "Sub": lambda node, x, y: x - y,
    "Transpose": lambda node, x: x.transpose(node.attributes.get("perm")),
    "Unsqueeze": lambda node, x, axes: np.expand_dims(x, tuple(axes.tolist())),
}
