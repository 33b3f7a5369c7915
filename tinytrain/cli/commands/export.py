"""``tinytrain export``: write the adapted network: with its head as an ONNX file, or alone."""

import os

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import (
    DELTA_HELP,
    BackboneOfDelta,
    add_backbone_of_delta,
    add_json,
    backbone_file,
    check_outputs,
    open_delta,
    print_result,
)

DESCRIPTION = (
    "Write the adapted network as one file. A .onnx file classifies by itself: it takes uint8 images of the "
    "network's size and gives probabilities and class names; resizing is left to its user. A .safetensors "
    "file is a network for this program: changed layers become float32, the classifier stays in the delta."
)
EXAMPLES = """\
  tinytrain export mine.safetensors -o mine.onnx
  tinytrain export mine.safetensors -o adapted.safetensors
"""
KINDS = (".onnx", ".safetensors")


def add_arguments(parser) -> None:
    parser.add_argument("delta", metavar="DELTA", help=DELTA_HELP)
    parser.add_argument(
        "-o", "--out", metavar="FILE", required=True, help=f"file to write ({' or '.join(KINDS)})"
    )
    add_backbone_of_delta(parser)
    add_json(parser)


def run(arguments) -> int:
    kind = os.path.splitext(arguments.out)[1].lower()
    if kind not in KINDS:
        raise UsageError("export-kind", f"{arguments.out!r} must end in {' or '.join(KINDS)}")
    check_outputs(arguments.out, needed=(arguments.delta, backbone_file(arguments.backbone)))
    delta = open_delta(arguments.delta)
    network = BackboneOfDelta(arguments.backbone).of(delta, arguments.out)
    changed = {
        "layers_changed": sorted({s.layer for s in delta.slices}),
        "numbers_changed": sum(s.values.size for s in delta.slices),
    }
    result, text = (_as_onnx if kind == ".onnx" else _as_network)(arguments.out, network, delta)
    layers = len(changed["layers_changed"])
    parameters = f"{changed['numbers_changed']:,} parameters in {layers} layers changed"
    print_result({"out": arguments.out, **result, **changed}, f"{text}, {parameters}", arguments.json)
    return 0


def _as_onnx(path: str, network, delta) -> tuple[dict, str]:
    from tinytrain.backbones.onnx.export import export_onnx

    export_onnx(network, delta, path)
    size, classes = os.path.getsize(path), len(delta.class_names)
    height, width, channels = network.input.shape
    text = f"{path}: {network.name} with {classes} classes for images of {height} x {width} x {channels}"
    facts = {"bytes": size, "classes": list(delta.class_names), "input": [height, width, channels]}
    return facts, f"{text}, {size:,} bytes"


def _as_network(path: str, network, delta) -> tuple[dict, str]:
    from tinytrain.delta.delta import apply
    from tinytrain.network.file import save_network

    adapted = apply(network, delta)
    save_network(adapted, path)
    return {"digest": adapted.digest}, f"{path}: {adapted.name}"
