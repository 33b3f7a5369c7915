"""``tinytrain search``: SparseUpdate's offline search for what to train of a network."""

from tinytrain.backbones.load import open_backbone
from tinytrain.base.console import at_least
from tinytrain.base.errors import UsageError
from tinytrain.base.units import format_bytes, parse_bytes
from tinytrain.cli.commands.common import (
    DEFAULT_DATA,
    add_backbone,
    add_json,
    add_threads,
    backbone_file,
    check_outputs,
    lanes,
    print_result,
)

DESCRIPTION = (
    "Find what SparseUpdate (Lin et al., NeurIPS 2022) should train of a network: measure what each layer or "
    "number of last biases gains alone on episodes of a source domain, then search for the largest sum of "
    "gains within a memory budget by evolution. Memory is counted by the authors' formula. Measured gains go "
    "to a log, from which a stopped search goes on; "
    "--first, --ratios and --episodes make it shorter."
)
EXAMPLES = """\
  tinytrain search --backbone mcunet-5fps --data tiny_imagenet200 --budget 100KiB -o mcunet-100.json
  tinytrain search --backbone net.safetensors --data photos/ --episodes 4 --ratios 1,1/4 -o plan.json
  tinytrain search --data caltech101 --budget 64KiB --first 10 -o small.json --json
"""


def add_arguments(parser) -> None:
    add_backbone(parser)
    parser.add_argument(
        "--data", metavar="NAME", default=DEFAULT_DATA,
        help=f"source domain: pack, generated domain, folder or NAME:DIR; default: {DEFAULT_DATA}",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=parse_bytes, default="100KiB", metavar="SIZE",
        help="memory beside inference, by the formula of the authors; default: 100KiB",
    )  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FILE.json", required=True, help="result to write")
    parser.add_argument(
        "--log", metavar="FILE", help="measured gains; default: FILE.json with .log behind it"
    )
    parser.add_argument("--episodes", type=at_least(1), default=10, metavar="N", help="default: 10")
    parser.add_argument("--way", type=at_least(2), default=5, metavar="N", help="classes; default: 5")
    parser.add_argument("--shots", type=at_least(1), default=5, metavar="N", help="default: 5")
    parser.add_argument("--queries", type=at_least(1), default=10, metavar="N", help="per class; default: 10")
    parser.add_argument(
        "--first", type=at_least(0), metavar="LAYER", help="shallowest layer; default: after the first 40%%"
    )
    parser.add_argument(
        "--ratios", type=ratios, default="1,1/2,1/4,1/8", metavar="LIST",
        help="shares of input channels of a layer; default: 1,1/2,1/4,1/8",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=at_least(100), default=20_000, metavar="N", help="configurations; default: 20000"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help="of every random choice")
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
        raise UsageError("bad-ratios", f"{text!r} are no shares above 0 up to 1; write for example 1,1/2,1/8")
    return tuple(sorted(found, reverse=True))


def run(arguments) -> int:
    import json
    from pathlib import Path

    from tinytrain.base.files import write_bytes
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import open_dataset
    from tinytrain.meta.search.contribution import Draw
    from tinytrain.meta.search.run import Evolution, search
    from tinytrain.meta.search.space import Space, default_first

    check_outputs(arguments.out, arguments.log, needed=(backbone_file(arguments.backbone),))
    network = open_backbone(arguments.backbone)
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
            lanes(arguments),
            progress,
        )
    result = searched.json()
    write_bytes(arguments.out, json.dumps(result, indent=2).encode() + b"\n")
    print_result({"out": arguments.out, "log": str(log), **result}, _text(result), arguments.json)
    return 0


def _text(result: dict) -> str:
    lines = [f"{result['network']}: sum of gains in points, memory beside inference, biases, layer:share"]
    lines.append(_line("found", result["found"]))
    lines += [_line("published", facts) for facts in result["published"]]
    best = sorted(result["contributions"].items(), key=lambda item: -item[1])[:5]
    lines.append("largest gains alone: " + ", ".join(f"{name} {100 * gain:+.1f}" for name, gain in best))
    return "\n".join(lines)


def _line(title: str, facts: dict) -> str:
    shares = " ".join(f"{i}:{share:g}" for i, share in facts["shares"].items())
    gain, memory = 100 * facts["gain"], format_bytes(facts["memory"])
    return f"{title:<10} {gain:>6.1f} {memory:>9}  last {facts['biases']}  {shares}"
