"""``tinytrain forget``: a class less in a delta."""

from tinytrain.cli.commands import changing
from tinytrain.cli.commands.common import print_result, text_width

DESCRIPTION = (
    "Take a class out of a delta, without any image. The result says what still carries traces of it: "
    "a classifier that keeps something of all classes together, such as a covariance, and weights that were "
    "trained on the class. In a store, the previous delta and kept images of the class stay for a roll-back "
    "until 'tinytrain confirm', which removes them."
)
EXAMPLES = """\
  tinytrain forget mine.safetensors parsley
  tinytrain forget mine.safetensors parsley --out fewer.safetensors
  tinytrain forget state/ parsley --json
"""
HEAD_TEXT = "what the classifier keeps of all classes together was computed with it"
WEIGHTS_TEXT = "trained weights have seen it"
REMEDY = "; only to adapt again without it removes that"
AGAIN = ": 'tinytrain adapt --from' does so with what the delta remembers"


def add_arguments(parser) -> None:
    changing.add_arguments(parser)
    parser.add_argument(
        "name", metavar="CLASS", help="class to forget; at least two must remain, or one with head oselm-ae"
    )


def run(arguments) -> None:
    from tinytrain.delta.classes import forget
    from tinytrain.report.layout import Item, fitted, short

    delta, place = changing.changed(arguments, lambda delta: forget(delta, arguments.name))
    left, names = delta.report["forgotten"]["traces"], list(delta.class_names)
    kept = changing.kept_images(place, arguments.name)
    result = {"forgotten": arguments.name, "classes": names, "traces": left, "kept_images": kept, **place}
    items = [
        Item("forgotten", f"{short(arguments.name)}; {_remain(len(names))}"),
        Item("traces", _traces_text(left, delta.replay is not None)),
        Item("note", _elsewhere(arguments, place["store"], kept)),
    ]
    items += changing.written_items(place)
    print_result(result, "\n".join(fitted(items, text_width(), None)), arguments.json)


def _remain(classes: int) -> str:
    return "1 class remains" if classes == 1 else f"{classes} classes remain"


def _elsewhere(arguments, store: str | None, kept: int) -> str:
    """What still knows the class outside of the new delta, and when that goes."""
    from tinytrain.report.layout import count_of
    from tinytrain.store import Store

    copies = "reports, exported files and copies that were made before still know the class"
    if store is None:
        return f"{copies}, and so does {arguments.delta}" if arguments.out else copies
    knows = "still knows the class"
    if kept:
        folder = Store(store).kept.path / arguments.name
        knows = f"and {count_of(kept, 'image')} kept in {folder} still know it"
    until = "for a roll-back; 'tinytrain confirm' removes that"
    return f"the previous delta in the store {knows}, {until}; {copies}"


def _traces_text(left: list[str], remembers: bool) -> str:
    """What of a delta still depends on a forgotten class."""
    from tinytrain.delta.classes import HEAD, WEIGHTS

    texts = [text for place, text in ((HEAD, HEAD_TEXT), (WEIGHTS, WEIGHTS_TEXT)) if place in left]
    if not texts:
        return "none: the delta answers as if it had never seen the class"
    return f"{', and '.join(texts)}{REMEDY}{AGAIN if remembers else ''}"
