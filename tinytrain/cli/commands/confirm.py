"""``tinytrain confirm``: keep the delta that is on trial."""

from tinytrain.cli.commands.common import add_json, add_store, print_result

DESCRIPTION = "Keep the delta that is on trial in a store. A confirmed delta stays confirmed."
EXAMPLES = """\
  tinytrain confirm --store state/
"""


def add_arguments(parser) -> None:
    add_store(parser)
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.store import Store

    generation = Store(arguments.store).confirm()
    result = {"store": arguments.store, "generation": generation}
    print_result(result, f"generation {generation} is confirmed", arguments.json)
    return 0
