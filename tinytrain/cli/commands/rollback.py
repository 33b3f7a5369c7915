"""``tinytrain rollback``: back to the delta before."""

from tinytrain.cli.commands.common import add_json, add_store, print_result

DESCRIPTION = (
    "Go back to the delta that was in use before, to the last bit. The one in use is dropped; a confirmed "
    "delta with none before it is not."
)
EXAMPLES = """\
  tinytrain rollback --store state/
"""


def add_arguments(parser) -> None:
    add_store(parser)
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.store import Store

    generation = Store(arguments.store).roll_back()
    result = {"store": arguments.store, "generation": generation}
    back = "the bare network" if generation is None else f"generation {generation}"
    print_result(result, f"{back} is in use again", arguments.json)
    return 0
