"""``tinytrain plan``: show what would be trained and what it costs, without training."""

from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    add_backbone,
    add_json,
    add_verbosity,
    backbone_files,
    check_outputs,
    print_result,
    say,
    text_width,
)
from tinytrain.cli.commands.hints import extended, free_name, without

DESCRIPTION = (
    "Show the plan of an adaptation to these images: which layers and channels would be trained, and what "
    "that costs in memory and computation. Nothing is trained."
)
EXAMPLES = """\
  tinytrain plan --shots 5 --budget 1MB
  tinytrain plan photos/ --backbone net.safetensors --budget 512kB
  tinytrain plan photos/ --shots 5 --out plan.json
  tinytrain plan photos/ --seconds 2
  tinytrain plan --shots 5 --program | less
  tinytrain plan --data gtsrb --policy tinytrain_published --json
"""


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser)
    episodes.add_seconds(parser)
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="also write the plan to a file, for 'tinytrain adapt --plan'"
    )
    parser.add_argument(
        "--program", action="store_true",
        help="print the compiled program instead: the arena with offsets and lifetimes, all stages, and "
        "every kernel call with its bytes and MACs; with --json under the key \"program\"",
    )  # fmt: skip
    add_verbosity(parser, "every layer, what the memory is for, and the cost of other methods")
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.api.outlook import make_plan
    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.episode.kinds import kind_of
    from tinytrain.plan.plan import save_plan
    from tinytrain.runtime.device import Device

    check_outputs(
        arguments.out, needed=(*backbone_files(arguments.backbone), episodes.searched_file(arguments))
    )
    policy = episodes.policy_of(arguments)
    drawn = episodes.draw(arguments, policy)
    with episodes.naming_tiers(arguments), ProgressLine() as progress:
        network = episodes.network_of(arguments, drawn, progress, "a plan")
        budget = episodes.budget_of(arguments)
        found = make_plan(network, drawn, budget, policy, arguments.seed, Device(progress=progress))
    result = found.to_json()
    if arguments.program:
        from tinytrain.program.listing import listing

        result["program"] = listing(found.program)
    if arguments.out:
        save_plan(arguments.out, found.plan)
    words = kind_of(network.input.kind).words
    warnings = episodes.warnings(arguments, policy, found.episode) + file_lines(found.episode)
    result["warnings"] = [*map(words, warnings)]
    if arguments.json or arguments.program:
        say(*result["warnings"])
    print_result(result, _text(arguments, result), arguments.json)


def _text(arguments, result: dict) -> str:
    from tinytrain.report.layout import worded
    from tinytrain.report.text import render_plan, summarize_plan

    if arguments.program:
        return worded(result, result["program"])
    summary = summarize_plan(result, _next(arguments), arguments.out, text_width())
    return f"{summary}\n\n{render_plan(result, text_width())}" if arguments.verbose else summary


def _next(arguments) -> tuple[str, ...]:
    """The command that adapts as planned."""
    name, _, *options = without(arguments.words, ("--out",), ("--program", "--json", "--quiet", "--verbose"))
    plan = ()
    if arguments.out:
        options, plan = without(options, ("--policy", "--head", "--seconds")), ("--plan", arguments.out)
    return extended((name, "adapt", *options), *plan, "--out", free_name(arguments))
