"""Where windows of convolutions and of max pooling lie, and the ONNX operation for the latter."""

from tinytrain.backbones.onnx.graph import DESCRIBED, READ, Part, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError


def max_pool(walk: Walk, node: Node) -> Value:
    value = walk.value(node)
    if value.stage not in READ[1:]:
        raise UnsupportedError(f"it follows {DESCRIBED[value.stage]}")
    if any(node.outputs[1:]) or node.get("dilations", [1, 1], 2) != [1, 1]:
        raise UnsupportedError("only the largest values of windows without gaps are supported")
    if node.get("auto_pad", "NOTSET") != "NOTSET":
        raise UnsupportedError("its padding must be written out, in pads")
    kernel, stride = (tuple(node.get(key, [1, 1], 2)) for key in ("kernel_shape", "strides"))
    pads = node.get("pads", [0] * 4, 4)
    pad, out_hw = fitted(walk, kernel, stride, pads, value.hw, bool(node.get("ceil_mode", 0)), other=True)
    part = Part("max-pool", (value,), out_hw, kernel=kernel, stride=stride, pad=pad)
    return walk.add(node, part, "largest")


def fitted(walk: Walk, kernel, stride, pads: list[int], hw, lacks_end: bool, other: bool) -> tuple:
    """(padding, or None for the usual one; rows and columns of the result) of windows in a map of `hw`.

    `lacks_end`: the last window may lack its end. `other`: paddings beside the usual one are supported, if
    the image lies upright. Raises UnsupportedError.
    """
    usual = tuple((size - 1) // 2 for size in kernel)
    out, fits = [], {False, True}  # fits: whether the image is turned, if the padding is then the usual one
    for k, (side, size, step, pad) in enumerate(zip(hw, kernel, stride, usual, strict=True)):
        before, room = pads[k], side + pads[k] + pads[k + 2] - size
        count = -(-room // step) if lacks_end else room // step
        # A window that lies behind the map and the padding before it is none.
        out.append(min(count, (side + before - 1) // step) + 1)
        behind = (out[k] - 1) * step + size - side - before  # zeros that are read there
        same = out[k] - 1 == room // step == (side + 2 * pad - size) // step
        fits &= {turned for turned, found in ((False, before), (True, behind)) if same and found == pad}
    if min(out) < 1:
        raise UnsupportedError(f"its window of {kernel[0]} x {kernel[1]} does not fit into {hw[0]} x {hw[1]}")
    if other and not fits & walk.turned:
        walk.turn({False}, pads)
        return (pads[0], pads[1]), tuple(out)
    if not fits:
        raise UnsupportedError(f"padding {pads}, not {usual[0]} on every side")
    walk.turn(fits, pads)
    return None, tuple(out)
