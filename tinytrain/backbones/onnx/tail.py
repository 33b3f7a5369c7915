"""The end of an ONNX graph: the pooling, whose result is the embedding, and the dropped classifier.

The functions have the form of those in `tinytrain.backbones.onnx.operators`.
"""

from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.graph import DESCRIBED, READ, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError


def global_pool(walk: Walk, node: Node) -> Value:
    return _averaged(walk, node, {2, 3}, keep=True)


def reduce_mean(walk: Walk, node: Node) -> Value:
    """The mean over rows and columns together, or over one of them."""
    value = walk.value(node)
    axes = axes_of(walk, node)
    rank = len(value.axes)
    if not axes or not all(-rank <= axis < rank for axis in axes):
        raise UnsupportedError(f"axes {axes} of {rank}")
    return _averaged(walk, node, {axis % rank for axis in axes}, bool(node.get("keepdims", 1)))


def axes_of(walk: Walk, node: Node) -> list[int]:
    """The axes: an input since opset 18, an attribute before."""
    if len(node.inputs) > 1 and node.inputs[1]:
        array = walk.constants.get(node.inputs[1])
        if array is None or array.dtype != np.int64 or array.ndim != 1:
            raise UnsupportedError("its axes are not a constant of the file")
        return array.tolist()
    axes = node.attributes.get("axes", [])
    return node.get("axes", [], len(axes) if isinstance(axes, list) else 0)


def _averaged(walk: Walk, node: Node, axes: set[int], keep: bool) -> Value:
    """The mean over `axes`, which are positions in the remaining axes."""
    value = walk.value(node)
    squeezed = (keep, axes, value.axes, value.stage) == (True, {2, 3}, "nchw", "active")
    if squeezed and walk.readers[node.inputs[0]] == 2:
        return replace(value, stage="squeezed")
    value = walk.changing(node, 0, (*READ[1:], "pooling"))
    if any(value.axes[axis] not in "hw" for axis in axes):
        raise UnsupportedError(f"axes {sorted(axes)}; supported are rows and columns")
    left = [("1" if keep else "") if k in axes else letter for k, letter in enumerate(value.axes)]
    done = not {"h", "w"} & set(left)
    if done:
        walk.pooled = node.outputs[0]
    return Value(value.part, "pooled" if done else "pooling", value.channels, value.hw, "".join(left))


def tail(walk: Walk, node: Node) -> Value:
    """A node after the pooling: it rearranges the embedding or belongs to the classifier."""
    stages = [walk.value(node, k).stage for k, name in enumerate(node.inputs) if name not in walk.constants]
    value = walk.values.get(node.inputs[0]) if node.inputs else None
    if stages == ["picture"] and node.op == "Reshape" and value.channels == 1:
        target = walk.constants.get(node.inputs[-1], np.empty(0))
        if target.ravel().tolist()[1:] == [1, *value.hw]:
            return walk.shared(node, replace(value, axes="nchw"))  # the one channel lies in front now
    if value and value.stage in READ[1:] and value.hw == (1, 1) and node.op in SHAPED[:3]:
        walk.pooled = node.outputs[0]  # the mean of one position is that position
        return replace(value, stage="pooled")
    for stage in stages:
        if stage not in ("pooled", "tail"):
            raise UnsupportedError(f"it follows {DESCRIBED[stage]}, not the pooling at the end")
    if not stages:
        raise UnsupportedError("it is not computed from the image")
    if node.op not in SHAPED:
        walk.dropped.append(node)
    return Value(len(walk.parts) - 1, "tail", 0, (1, 1), "nc")


SHAPED = ("Flatten", "Reshape", "Squeeze", "Dropout", "Transpose")  # they change no number
TAIL = {
    "GlobalAveragePool": global_pool,
    "ReduceMean": reduce_mean,
    **dict.fromkeys(("Flatten", "Gemm", "LogSoftmax"), tail),
}
