"""``tinytrain info``: show layers, shapes, parameters and costs of a network."""

from tinytrain.backbones.load import open_backbone
from tinytrain.cli.commands.common import add_json, print_result

DESCRIPTION = "Show layers, shapes, parameters, multiply-accumulates and peak activation of a network."
EXAMPLES = """\
  tinytrain info net.safetensors
  tinytrain info mcunet-5fps --json
"""
NETWORK_HELP = "network file, or a name listed by 'tinytrain backbones'; default: the one in the package"


def add_arguments(parser) -> None:
    parser.add_argument("network", metavar="NET", nargs="?", help=NETWORK_HELP)
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.report.network_facts import describe, describe_text

    network = open_backbone(arguments.network, "info")
    print_result(describe(network), describe_text(network), arguments.json)
