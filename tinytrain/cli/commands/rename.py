"""``tinytrain rename``: another name for a class of a delta."""

from tinytrain.cli.commands import changing
from tinytrain.cli.commands.common import print_result, text_width

DESCRIPTION = (
    "Give a class of a delta another name. Nothing else of the delta changes. Images of the class that "
    "'tinytrain watch' has kept in a store are moved."
)
EXAMPLES = """\
  tinytrain rename mine.safetensors "folder 7" parsley
  tinytrain rename mine.safetensors parsley coriander --out other.safetensors
  tinytrain rename state/ parsley coriander
"""


def add_arguments(parser) -> None:
    changing.add_arguments(parser)
    parser.add_argument("old", metavar="OLD", help="name that the class has")
    parser.add_argument("new", metavar="NEW", help="name that it gets")


def run(arguments) -> None:
    from tinytrain.delta.classes import rename
    from tinytrain.report.layout import Item, count_of, fitted, short
    from tinytrain.store import Store

    delta, place = changing.changed(arguments, lambda delta: rename(delta, arguments.old, arguments.new))
    moved = changing.kept_images(place, arguments.old)
    result = {"old": arguments.old, "new": arguments.new, "classes": list(delta.class_names), **place}
    result["kept_images"] = moved
    items = [Item("renamed", f"{short(arguments.old)} is {short(arguments.new)} now")]
    if moved:
        kept = Store(place["store"]).kept
        kept.rename(arguments.old, arguments.new)
        items.append(Item("kept", f"{count_of(moved, 'image')} of it in {kept.path} moved to the new name"))
    items += changing.written_items(place)
    print_result(result, "\n".join(fitted(items, text_width(), None)), arguments.json)
