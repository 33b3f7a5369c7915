"""``tinytrain confirm``: keep the delta that is on trial."""

from tinytrain.cli.commands.common import add_json, add_store, print_result, say

DESCRIPTION = (
    "Keep the delta that is on trial in a store. A confirmed delta stays confirmed. If a class was forgotten "
    "in it, what still knows the class is removed: the previous delta, kept images, and damaged corrections, "
    "which may know it."
)
EXAMPLES = """\
  tinytrain confirm --store state/
"""


def add_arguments(parser) -> None:
    add_store(parser)
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.store import Store

    store = Store(arguments.store)
    generation, delta = store.confirm(), store.peek().delta
    text = f"generation {generation} is confirmed"
    if "forgotten" in delta.report:
        if left := store.kept.counts().keys() - set(delta.class_names):
            say(f"{store.kept.path}: images of {', '.join(sorted(left))} cannot be removed", error=True)
        else:
            text += "; the store holds nothing else that knows a forgotten class"
    print_result({"store": arguments.store, "generation": generation}, text, arguments.json)
