"""``tinytrain export``: write the adapted network as a plain network file."""

from tinytrain.cli.commands.common import (
    DELTA_HELP,
    BackboneOfDelta,
    add_backbone_of_delta,
    add_json,
    backbone_file,
    check_network_output,
    open_delta,
    print_result,
)

DESCRIPTION = (
    "Apply a delta to its backbone and save the result as a network file. Changed layers become float32. The "
    "classifier is not part of a network file; it is only in the delta."
)
EXAMPLES = """\
  tinytrain export mine.safetensors -o adapted.safetensors
"""


def add_arguments(parser) -> None:
    parser.add_argument("delta", metavar="DELTA", help=DELTA_HELP)
    parser.add_argument("-o", "--out", metavar="NET", required=True, help="network file to write")
    add_backbone_of_delta(parser)
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.delta.delta import apply
    from tinytrain.network.file import save_network

    check_network_output(arguments.out, needed=(arguments.delta, backbone_file(arguments.backbone)))
    delta = open_delta(arguments.delta)
    network = apply(BackboneOfDelta(arguments.backbone).of(delta, arguments.out), delta)
    save_network(network, arguments.out)
    changed = sorted({s.layer for s in delta.slices})
    result = {
        "out": arguments.out,
        "digest": network.digest,
        "layers_changed": changed,
        "numbers_changed": sum(s.values.size for s in delta.slices),
    }
    parameters = f"{result['numbers_changed']:,} parameters in {len(changed)} layers changed"
    text = f"{arguments.out}: {network.name}, {parameters}"
    print_result(result, text, arguments.json)
    return 0
