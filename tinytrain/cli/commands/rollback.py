"""``tinytrain rollback``: go back to the previous delta."""

from tinytrain.cli.commands.common import add_json, add_store, print_result, say_what_goes

DESCRIPTION = (
    "Go back to the previous delta, bit for bit. The delta in use is dropped; a confirmed delta without a "
    "previous one is never dropped. Corrections of a trial go on in the previous one; "
    "those that it cannot learn are named."
)
EXAMPLES = """\
  tinytrain rollback --store state/
"""


def add_arguments(parser) -> None:
    add_store(parser)
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.store import Store

    say_what_goes(arguments.store)
    generation = Store(arguments.store).roll_back()
    result = {"store": arguments.store, "generation": generation}
    back = "the bare network" if generation is None else f"generation {generation}"
    print_result(result, f"{back} is in use again", arguments.json)
