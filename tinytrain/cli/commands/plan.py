"""``tinytrain plan``: show what would be trained and what it costs, without training."""

from tinytrain.backbones.load import open_backbone
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    add_backbone,
    add_json,
    add_verbosity,
    backbone_file,
    check_outputs,
    print_result,
    say,
    text_width,
)
from tinytrain.cli.commands.hints import extended, free_name, without
from tinytrain.cli.commands.precisions import compared, planned
from tinytrain.cli.commands.tiers import naming_tiers

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
# Output channels of the 1x1 convolution that is counted in published tables but is not in the checkpoints.
PUBLISHED_HEADS = {"mbv2-w0.35": 448, "proxyless-w0.3": 384}


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


def run(arguments) -> int:
    with naming_tiers(arguments):
        return _plan(arguments)


def _plan(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.plan.plan import save_plan

    check_outputs(
        arguments.out, needed=(backbone_file(arguments.backbone), episodes.searched_file(arguments))
    )
    policy, network = episodes.policy_of(arguments), open_backbone(arguments.backbone)
    with ProgressLine() as progress:
        opened = episodes.open_episode(arguments, network, policy, progress)
    episode = opened.episode
    budget = episodes.budget_of(arguments)
    found = planned(network, episode, policy, budget, arguments.seed)
    planner, plan = found.planner, found.plan
    result = _facts(network, episode, planner, plan, found.scores)
    result["precisions"] = compared(network, episode, policy, budget, arguments.seed, found)
    if arguments.program:
        from tinytrain.program.listing import listing

        result["program"] = listing(planner.program(plan))
    if arguments.out:
        save_plan(arguments.out, plan)
    if arguments.json or arguments.program:
        for warning in opened.warnings:
            say(warning)
    result["warnings"] = opened.warnings
    print_result(result, _text(arguments, result), arguments.json)
    return 0


def _text(arguments, result: dict) -> str:
    from tinytrain.report.text import render_plan, summarize_plan

    if arguments.program:
        return result["program"]
    summary = summarize_plan(result, _next(arguments), arguments.out, text_width())
    return f"{summary}\n\n{render_plan(result, text_width())}" if arguments.verbose else summary


def _next(arguments) -> tuple[str, ...]:
    """The command that adapts as planned."""
    name, _, *options = without(arguments.words, ("--out",), ("--program", "--json", "--quiet", "--verbose"))
    plan = ()
    if arguments.out:
        options, plan = without(options, ("--policy", "--head", "--seconds")), ("--plan", arguments.out)
    return extended((name, "adapt", *options), *plan, "--out", free_name(arguments))


def _facts(network, episode, planner, plan, scores) -> dict:
    from tinytrain.report import content

    program, advice = planner.program(plan), planner.advice(scores)
    return {
        "policy": plan.policy,
        "backbone": network.name,
        "backbone_digest": network.digest,
        "episode": content.describe_episode(episode),
        "network": {
            "layers": len(network.layers),
            "parameters": network.n_weights + sum(layer.cout for layer in network.layers),
        },
        "memory": {**content.memory(network, plan, program), "smallest_budget": advice["smallest"]},
        "advice": advice,
        "macs": content.planned_macs(network, plan),
        "similarity": content.similarity(scores),
        "selection": content.selection(network, plan.recipe, scores),
        "resources": content.describe_resources(plan),
        "accounting": accounting(network),
        "arena_table": program.table(),
        "plan": plan.to_json(),
    }


def accounting(network) -> list[dict]:
    """Costs of training all layers and of training the last layer, counted as in published tables."""
    from tinytrain.plan import published_costs as published

    layers = network.layers
    if network.name in PUBLISHED_HEADS:
        layers = published.with_head(layers, PUBLISHED_HEADS[network.name])
    rows = []
    for name, first in (("full", 0), ("last_layer", len(layers) - 1)):
        shares = dict.fromkeys(range(first, len(layers)), 1.0)
        weights = published.updated_weights(layers, shares)
        macs = published.backward_macs(layers, shares)
        if name == "full":  # the published figure also charges the first layer's dX
            macs = published.full_backward_macs(layers)
        paper = published.paper_memory(layers, weights)
        rows.append({"method": name, "weights": weights, "paper": paper, "backward_macs": macs})
    return rows
