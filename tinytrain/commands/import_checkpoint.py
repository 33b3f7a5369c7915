"""``tinytrain import``: a published checkpoint as a network file."""

from tinytrain.commands.common import add_json, check_outputs, print_result

DESCRIPTION = "Read a published int8 checkpoint (.pkl) without PyTorch, running nothing in it, and save it."
EXAMPLES = """\
  tinytrain import mcunet-5fps.pkl -o mcunet.safetensors
"""


def add_arguments(parser) -> None:
    parser.add_argument("checkpoint", metavar="FILE", help="published checkpoint, a PyTorch zip file")
    parser.add_argument("-o", "--out", metavar="NET", required=True, help="network file to write")
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.importer import import_checkpoint
    from tinytrain.modelfile import save_network

    check_outputs(arguments.out)
    network = import_checkpoint(arguments.checkpoint)
    save_network(network, arguments.out)
    result = {
        "out": arguments.out,
        "name": network.name,
        "digest": network.digest,
        "layers": len(network.layers),
        "weights": network.n_weights,
    }
    text = f"{arguments.out}: {network.name}, {len(network.layers)} layers, {network.n_weights:,} weights"
    print_result(result, text, arguments.json)
    return 0
