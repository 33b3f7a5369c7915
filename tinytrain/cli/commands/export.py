"""``tinytrain export``: write the adapted network as one file for other programs, or as a network file."""

import argparse
import contextlib
import hashlib
import os

from tinytrain.backbones.export.files import DELTA, ENDINGS, export, kind_of
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    add_backbone_of_delta,
    add_delta,
    add_json,
    backbone_files,
    check_outputs,
    open_delta,
    print_result,
)

DESCRIPTION = (
    "Write the adapted network as one file. A .onnx or .tflite file classifies by itself: it takes images of "
    "the network's size, normalises them and gives probabilities; the class names are in its metadata. "
    "Resizing is left to its user. A .safetensors file is a network for this program: changed layers become "
    "float32, and the classifier stays in the delta. A .delta file is the delta itself: from a store, the "
    "one in use with what was learnt since, to be applied or used elsewhere, also with noise that hides "
    "every single image."
)
EXAMPLES = """\
  tinytrain export mine.safetensors -o mine.onnx
  tinytrain export mine.safetensors -o mine.tflite --float-input
  tinytrain export mine.safetensors -o adapted.safetensors
  tinytrain export state/ -o in-use.delta
  tinytrain export mine.safetensors -o shared.delta --epsilon 8
"""


def add_arguments(parser) -> None:
    add_delta(parser)
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help=f"file to write ({ENDINGS})")
    parser.add_argument(
        "--labels", action=argparse.BooleanOptionalAction, default=False,
        help="give a .onnx file a second output, the name of the class as text, which few programs but ONNX "
        "Runtime and OpenVINO can read; default: --no-labels",
    )  # fmt: skip
    text = "take pixels of 0 to 255 as float32 instead of uint8"
    parser.add_argument("--float-input", action="store_true", help=text)
    parser.add_argument(
        "--epsilon", type=_epsilon, metavar="E",
        help="give a .delta file as much noise as hides any single image, by differential privacy with this "
        "budget (0.1 to 50, less is more noise) and delta 1e-5; embeddings, the replay memory and the report "
        "are left out",
    )  # fmt: skip
    add_backbone_of_delta(parser)
    add_json(parser)


def _epsilon(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.1 <= (epsilon := float(text)) <= 50:
            return epsilon
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 0.1 to 50")


def run(arguments) -> None:
    from tinytrain.report.layout import worded

    options = {"labels": arguments.labels, "float_input": arguments.float_input}
    kind = kind_of(arguments.out, **options)
    check_outputs(arguments.out, needed=(arguments.delta, *backbone_files(arguments.backbone)))
    if arguments.epsilon is not None and kind != DELTA:
        raise UsageError("usage", f"--epsilon is for a .delta file, not for {arguments.out}; name one")
    delta = open_delta(arguments.delta)
    if kind == DELTA:
        return _delta(arguments, delta)
    network = BackboneOfDelta(arguments.backbone).of(delta, arguments.out)
    export(network, delta, arguments.out, **options)
    result = _facts(arguments, network, delta)
    print_result(result, worded(delta.report, _text(result, kind, network.name)), arguments.json)


def _delta(arguments, delta) -> None:
    """Write the delta itself, which needs no network, or what may be given away of it."""
    from tinytrain.base.files import write_bytes
    from tinytrain.delta.file import encode_delta
    from tinytrain.trust.noise import private

    delta = delta if arguments.epsilon is None else private(delta, arguments.epsilon)
    data, classes = encode_delta(delta), list(delta.class_names)
    write_bytes(arguments.out, data)
    digest = hashlib.sha256(data).hexdigest()
    text = f"{arguments.out}: delta for {delta.backbone_name}, {len(classes)} classes, {len(data):,} bytes"
    result = {"out": arguments.out, "bytes": len(data), "sha256": digest, "classes": classes}
    if arguments.epsilon is not None:
        result["private"] = budget = delta.report["private"]
        text += f", private with epsilon {budget['epsilon']:g} and delta {budget['delta']:g}"
    print_result(result, f"{text}, sha256 {digest[:12]}", arguments.json)


def _facts(arguments, network, delta) -> dict:
    from tinytrain.delta.delta import apply
    from tinytrain.network.committee import layer_numbers

    parts = zip(layer_numbers(network), delta.parts, strict=True)
    changed = [(numbers[s.layer], s.values.size) for numbers, part in parts for s in part.slices]
    return {
        "out": arguments.out,
        "bytes": os.path.getsize(arguments.out),
        "digest": apply(network, delta).digest,
        "classes": list(delta.class_names),
        "input": list(network.input.shape),
        "layers_changed": sorted({layer for layer, _ in changed}),
        "numbers_changed": sum(size for _, size in changed),
        "dtype": "float32" if arguments.float_input else network.input.dtype,
    }


def _text(result: dict, kind: str, name: str) -> str:
    takes = f"takes {result['dtype']} images of {' x '.join(map(str, result['input']))}"
    if kind != ".safetensors":
        takes = f"tells {len(result['classes'])} classes apart, {takes}"
    changed = f"{result['numbers_changed']:,} parameters in {len(result['layers_changed'])} layers changed"
    return f"{result['out']}: {name}, {takes}, {result['bytes']:,} bytes, {changed}"
