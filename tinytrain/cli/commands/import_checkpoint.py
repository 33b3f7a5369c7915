"""``tinytrain import``: convert a published checkpoint or an ONNX model to a network file."""

from tinytrain.base.errors import UsageError
from tinytrain.base.extras import install
from tinytrain.base.file_kinds import refuse_other_kinds
from tinytrain.cli.commands.common import add_json, add_number, check_network_output, print_result, say

DESCRIPTION = (
    "Convert a published int8 checkpoint (.pkl) or an ONNX model (.onnx) to a network file. A checkpoint is "
    "read without PyTorch, and nothing in it is run. An ONNX model is a MobileNet (V1 to V4), an "
    "EfficientNet-Lite, a ResNet of basic blocks, a small transformer or another network of their layers; "
    "its weights stay float32, or int8 if it is quantised, and its classifier is dropped. If onnxruntime is "
    "installed, its embeddings are compared with those of the result. --mean, --scale, --std and --size are "
    "for .onnx only.\n"
    f"ONNX models need: {install('onnx')}."
)
EXAMPLES = """\
  tinytrain import mcunet-5fps.pkl -o mcunet.safetensors
  tinytrain import model.onnx -o net.safetensors
  tinytrain import model.onnx -o net.safetensors --size 128 --mean 0 --scale 1/255
  tinytrain import m.onnx -o net.safetensors --mean 123.675,116.28,103.53 --std 58.395,57.12,57.375
"""


def add_arguments(parser) -> None:
    parser.add_argument("checkpoint", metavar="FILE", help="published checkpoint or ONNX model")
    parser.add_argument("-o", "--out", metavar="NET", required=True, help="network file to write")
    parser.add_argument(
        "--mean",
        type=numbers,
        metavar="M",
        help="a pixel value v of 0 to 255 becomes (v - M) * S; M is a number, or R,G,B; default: 127.5",
    )
    parser.add_argument(
        "--scale", type=numbers, metavar="S", help="S, a number such as 1/255, or R,G,B; default: 1/127.5"
    )
    parser.add_argument("--std", type=numbers, metavar="D", help="instead of --scale: S is 1/D")
    add_number(parser, "--size", 1, "side of the images; default: that of the file", metavar="PIXELS")
    add_json(parser)


def number(text: str) -> float:
    """An argparse type: a finite number such as ``127.5`` or ``1/127.5``. Raises UsageError."""
    from math import isfinite

    top, _, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom or 1)
    except (ValueError, ZeroDivisionError):
        value = float("nan")
    if not isfinite(value):
        raise UsageError("usage", f"{text!r} is not a number; write for example 127.5 or 1/127.5")
    return value


def numbers(text: str) -> tuple[float, ...] | float:
    """An argparse type: a `number`, or one for each channel with commas between them. Raises UsageError."""
    found = tuple(map(number, text.split(",")))
    return found if len(found) > 1 else found[0]


def run(arguments) -> None:
    options = {key: getattr(arguments, key) for key in ("mean", "scale", "std", "size")}
    given = {key: value for key, value in options.items() if value is not None}
    for option in given.keys() & {"scale", "std"}:
        each = given[option] if isinstance(given[option], tuple) else (given[option],)
        if min(each) <= 0:
            raise UsageError("usage", f"--{option} is {min(each)}; it must be above 0")
    if given.keys() >= {"scale", "std"}:
        raise UsageError("usage", "give --scale or --std, not both")
    check_network_output(arguments.out)
    if arguments.checkpoint.lower().endswith(".onnx"):
        return _import_onnx(arguments, given)
    if given:
        raise UsageError("usage", f"--{next(iter(given))} goes with .onnx files; a checkpoint contains it")
    if not arguments.checkpoint.lower().endswith(".pkl"):
        refuse_other_kinds(arguments.checkpoint, "backbone")
    from tinytrain.backbones.torch_checkpoint import import_checkpoint

    _save(arguments, import_checkpoint(arguments.checkpoint), {}, [])


def _import_onnx(arguments, given: dict) -> None:
    from tinytrain.backbones.onnx.convert import import_onnx

    if "std" in given:
        std = given.pop("std")
        given["scale"] = tuple(1 / x for x in std) if isinstance(std, tuple) else 1 / std
    imported = import_onnx(arguments.checkpoint, **given)
    difference = _compare(imported)
    facts = {"dropped": list(imported.dropped), "largest_difference": difference}
    int8 = imported.network.quantisation is not None
    kept = "int8, with codes of all layers" if int8 else "float32"
    lines = [f"weights are {kept}, as in the file"]
    if imported.dropped:
        lines.append(f"dropped the classifier: {', '.join(imported.dropped)}")
    if difference is not None:
        lines.append(f"embeddings agree with onnxruntime: largest relative difference {difference:.1e}")
    _save(arguments, imported.network, facts, lines)


def _compare(imported) -> float | None:
    """The largest difference from onnxruntime; None, with a line on stderr, if nothing was compared."""
    from tinytrain.backbones.onnx.check import SkippedError, compare

    try:
        return compare(imported)
    except SkippedError as error:
        say(f"the comparison with onnxruntime was skipped: {error}")
        return None


def _save(arguments, network, facts: dict, lines: list[str]) -> None:
    """Write the network and print the result, with additional `facts` (JSON) and `lines` (text)."""
    from tinytrain.network.file import save_network

    save_network(network, arguments.out)
    result = {
        "out": arguments.out,
        "name": network.name,
        "digest": network.digest,
        "layers": len(network.layers),
        "weights": network.n_weights,
        **facts,
    }
    text = f"{arguments.out}: {network.name}, {len(network.layers)} layers, {network.n_weights:,} weights"
    print_result(result, "\n".join([text, *lines]), arguments.json)
