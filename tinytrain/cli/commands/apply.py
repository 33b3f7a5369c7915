"""``tinytrain apply``: put a delta into use, on trial."""

from tinytrain.cli.commands.common import add_json, add_store, print_result

DESCRIPTION = (
    "Put a delta into use in a store. It is on trial: 'tinytrain confirm' keeps it; without that, the delta "
    "before it is used again after two starts. A power cut leaves the old delta or the new one in use."
)
EXAMPLES = """\
  tinytrain apply mine.safetensors --store state/
  tinytrain apply mine.safetensors --store state/ --json
"""


def add_arguments(parser) -> None:
    parser.add_argument("delta", metavar="DELTA", help="what 'tinytrain adapt --out' wrote")
    add_store(parser, "folder of the store; created if its parent is there")
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.store import TRIAL_STARTS, Store

    generation = Store(arguments.store).commit_file(arguments.delta)
    result = {"store": arguments.store, "generation": generation, "starts_left": TRIAL_STARTS}
    text = (
        f"generation {generation} is in use, on trial for {TRIAL_STARTS} starts; keep it with "
        f"'tinytrain confirm --store {arguments.store}'"
    )
    print_result(result, text, arguments.json)
    return 0
