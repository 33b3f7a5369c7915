"""``tinytrain search``: SparseUpdate's offline search for the layers and channels to train."""

from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import UsageError
from tinytrain.base.units import format_bytes, parse_bytes
from tinytrain.cli.commands.common import (
    DEFAULT_DATA,
    add_backbone,
    add_json,
    add_number,
    add_threads,
    backbone_files,
    check_outputs,
    print_result,
    workers,
)

DESCRIPTION = (
    "Search what SparseUpdate (Lin et al., NeurIPS 2022) should train of a network. First measures the gain "
    "of training each layer alone, and each number of last biases, on episodes of a source domain. Then "
    "searches by evolution for the largest sum of gains within a memory budget, which is counted by the "
    "authors' formula. The gains are written to a log, and a stopped search continues from it. Use --first, "
    "--ratios and --episodes for a shorter search. 'tinytrain adapt --policy FILE.json' uses the result."
)
EXAMPLES = """\
  tinytrain search --backbone mcunet-5fps --data tiny_imagenet200 --budget 100KiB -o mcunet-100.json
  tinytrain search --backbone net.safetensors --data photos/ --episodes 4 --ratios 1,1/4 -o net.json
  tinytrain search --data caltech101 --budget 64KiB --first 10 -o small.json --json
"""


def add_arguments(parser) -> None:
    add_backbone(parser)
    parser.add_argument(
        "--data", metavar="NAME", default=DEFAULT_DATA,
        help=f"source domain: pack, generated domain, folder or target set NAME:DIR; default: {DEFAULT_DATA}",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=parse_bytes, default="100KiB", metavar="SIZE",
        help="memory of training beside inference, by the authors' formula; default: 100KiB",
    )  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FILE.json", required=True, help="result to write")
    parser.add_argument("--log", metavar="FILE", help="log of the measured gains; default: FILE.json.log")
    for option, least, default, text in (
        ("--episodes", 1, 10, "episodes per measurement"),
        ("--way", 2, 5, "classes per episode"),
        ("--shots", 1, 5, "support images per class"),
        ("--queries", 1, 10, "query images per class"),
    ):
        add_number(parser, option, least, text, default)
    add_number(
        parser, "--first", 0,
        "first layer that may be trained; default: skip the first 40%% of the layers", metavar="LAYER",
    )  # fmt: skip
    parser.add_argument(
        "--ratios", type=ratios, default="1,1/2,1/4,1/8", metavar="LIST",
        help="fractions of the input channels of a layer; default: 1,1/2,1/4,1/8",
    )  # fmt: skip
    add_number(parser, "--samples", 100, "configurations to try", 20_000)
    add_number(parser, "--seed", 0, "random seed", 0)
    add_threads(parser)
    add_json(parser)


def ratios(text: str) -> tuple[float, ...]:
    """An argparse type: ``"1,1/4"`` to (1.0, 0.25), largest first."""
    from fractions import Fraction

    try:
        found = {float(Fraction(part)) for part in text.split(",")}
    except (ValueError, ZeroDivisionError):
        found = {0.0}
    if not all(0 < ratio <= 1 for ratio in found):
        raise UsageError("usage", f"{text!r} is not a list of fractions above 0, up to 1; write 1,1/2,1/8")
    return tuple(sorted(found, reverse=True))


def run(arguments) -> None:
    import json
    from pathlib import Path

    from tinytrain.base.files import write_bytes
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import open_dataset
    from tinytrain.meta.search.contribution import Draw
    from tinytrain.meta.search.run import Evolution, search
    from tinytrain.meta.search.space import Space, default_first

    check_outputs(arguments.out, arguments.log, needed=backbone_files(arguments.backbone))
    network = open_backbone(arguments.backbone, "a search")
    first = default_first(network) if arguments.first is None else arguments.first
    space = Space(network, first, arguments.ratios)
    draw = Draw(arguments.episodes, arguments.way, arguments.shots, arguments.queries, arguments.seed)
    log = Path(arguments.log or f"{arguments.out}.log")
    with ProgressLine() as progress:
        searched = search(
            space,
            open_dataset(arguments.data),
            draw,
            Evolution(arguments.budget, arguments.samples),
            log,
            workers(arguments),
            progress,
        )
    result = searched.json()
    write_bytes(arguments.out, json.dumps(result, indent=2).encode() + b"\n")
    print_result({"out": arguments.out, "log": str(log), **result}, _text(result), arguments.json)


def _text(result: dict) -> str:
    lines = [f"{result['network']}: sum of gains in points, memory beside inference, biases, layer:fraction"]
    lines.append(_line("found", result["found"]))
    lines += [_line("published", facts) for facts in result["published"]]
    best = sorted(result["contributions"].items(), key=lambda item: -item[1])[:5]
    lines.append("largest gains alone: " + ", ".join(f"{name} {100 * gain:+.1f}" for name, gain in best))
    return "\n".join(lines)


def _line(title: str, facts: dict) -> str:
    layers = " ".join(f"{i}:{fraction:g}" for i, fraction in facts["shares"].items())
    gain, memory = 100 * facts["gain"], format_bytes(facts["memory"])
    return f"{title:<10} {gain:>6.1f} {memory:>9}  last {facts['biases']}  {layers}"
