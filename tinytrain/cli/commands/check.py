"""``tinytrain check``: whether images are enough, what is confused, and what more of them would bring."""

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import episodes
from tinytrain.cli.commands.common import (
    SEVERAL,
    add_backbone,
    add_json,
    add_threads,
    add_verbosity,
    print_result,
    say,
    text_width,
)

DESCRIPTION = (
    "Show in seconds whether these images are enough: the accuracy to expect, which classes are confused, "
    "which images look mislabelled, what five more images per class would bring, and which class to "
    "photograph next; and what other networks on this machine would make of them. Nothing is trained and "
    "nothing is written."
)
EXAMPLES = """\
  tinytrain check photos/
  tinytrain check photos/ --adapt
  tinytrain check photos/ --shots 5 --json
  tinytrain check photos/ --backbone net.safetensors
  tinytrain check --data leaves --way 5 --shots 5
"""
# Options of `episodes` that only --adapt needs.
TRAINING = ("budget", "macs", "macs_mode", "precision", "policy", "head")


def add_arguments(parser) -> None:
    episodes.add_arguments(parser)
    add_backbone(parser, SEVERAL)
    add_threads(parser)
    parser.add_argument(
        "--adapt", action="store_true",
        help="estimate the accuracy by three real adaptations, each judged by the third of the images that "
        "it did not see; takes as long as these; --budget and --policy apply to them",
    )  # fmt: skip
    add_verbosity(parser, "every suspect, duplicate and confused image")
    add_json(parser)


def run(arguments) -> None:
    from functools import partial

    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.kinds import kind_of
    from tinytrain.pipeline.check import check, with_adaptations
    from tinytrain.report.outlook import render
    from tinytrain.runtime.device import Device

    unused = ("queries", "replay") if arguments.adapt else ("queries", "replay", *TRAINING)
    if ignored := episodes.given(arguments, unused):
        remedy = "" if ignored[0] in ("--queries", "--replay") else " without --adapt"
        raise UsageError(
            "usage", f"{ignored[0]} has no effect{remedy}: no image is held out, none trained on"
        )
    arguments.queries = 0
    policy = episodes.policy_of(arguments)
    with ProgressLine() as progress:
        drawn = episodes.draw(arguments, policy)
        network = episodes.network_of(arguments, drawn, progress)
        given = arguments, network, policy, progress, drawn, arguments.adapt
        episode, warnings = episodes.open_episode(*given)
        device = Device(threads=arguments.threads, progress=progress)
        found = check(network, episode, arguments.seed, device)
        if arguments.adapt:
            # Not that of `tinytrain`, which leaves out queries that are copies: every image is judged.
            from tinytrain.pipeline.committee import adapt

            budget, seed = episodes.budget_of(arguments), arguments.seed
            adapted = partial(adapt, network, budget=budget, policy=policy, seed=seed, device=device)
            found = with_adaptations(found, episode, adapted, seed)
    say(*warnings)
    about = {"backbone": network.name, "backbone_digest": network.digest, "source": episode.source}
    text = kind_of(network.input.kind).words(render(found, text_width(), arguments.verbose))
    skipped = [file.to_json() for file in episode.skipped]
    about |= {**found.to_json(), "skipped": skipped, "warnings": warnings}
    print_result(about, text, arguments.json)
