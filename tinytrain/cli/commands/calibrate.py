"""``tinytrain calibrate``: give a network the codes by which it runs in int8."""

from tinytrain.cli.commands.common import add_json, add_number, check_network_output, print_result

DESCRIPTION = (
    "Give a network the codes by which it runs in int8: what its layers give for some images is measured and "
    "written to a network file. Weights and digest stay, so that deltas fit both files. Float32 weights are "
    "rounded to int8, which makes another network. Published checkpoints have codes already."
)
EXAMPLES = """\
  tinytrain calibrate net.safetensors -o net-int8.safetensors
  tinytrain calibrate net.safetensors -o net-int8.safetensors --data photos/
"""
IMAGES = 200


def add_arguments(parser) -> None:
    parser.add_argument("network", metavar="NET", help="network file, or a name of 'tinytrain backbones'")
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="network file to write")
    parser.add_argument(
        "--data", metavar="DIR", help="folder with a folder per class, or pack; default: generated domains"
    )
    add_number(parser, "--images", 1, "images at most of --data", IMAGES)
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.backbones.load import open_backbone
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import open_dataset
    from tinytrain.datasets.calibration import calibration_images, images_from
    from tinytrain.network.file import save_network
    from tinytrain.network.network import quantised
    from tinytrain.runtime.calibrate import calibrated_network

    check_network_output(arguments.out, needed=(arguments.network,))
    network = open_backbone(arguments.network, "calibration")
    rounded = any(scale is None for scale in network.scales)
    images = calibration_images(network.input.kind)
    if arguments.data is not None:
        images = images_from(open_dataset(arguments.data), arguments.images)
    with ProgressLine() as progress:
        found = calibrated_network(
            quantised(network) if rounded else network,
            images,
            lambda done, total: progress("images measured", done, total, None),
        )
    save_network(found, arguments.out)
    result = {
        "out": arguments.out,
        "name": found.name,
        "digest": found.digest,
        "images": len(images),
        "weights_rounded": rounded,
    }
    text = f"{arguments.out}: {found.name} with codes for int8, measured on {len(images)} images"
    text += "; its weights were rounded to int8" if rounded else ""
    print_result(result, text, arguments.json)
