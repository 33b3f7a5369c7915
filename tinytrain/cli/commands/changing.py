"""What commands share that change a finished delta: where it comes from, and where the new one goes."""

import os
from unicodedata import normalize

from tinytrain.cli.commands.common import add_delta, add_json, check_outputs, check_store, place_of

IN_PLACE = "file to write the new delta to; default: the delta file itself, or on trial in the store"


def add_arguments(parser) -> None:
    add_delta(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help=IN_PLACE)
    add_json(parser)


def check_place(arguments) -> None:
    """Raise StorageError or UsageError if the result could not be written, before anything is done.

    If the store learns something from now on, `write` refuses.
    """
    arguments.place = None
    if arguments.out is None and os.path.isdir(arguments.delta):
        check_store(arguments.delta)
        arguments.place = place_of(arguments.delta)
    else:
        check_outputs(arguments.out or arguments.delta)


def write(arguments, delta) -> dict:
    """Write `delta` where the options say: "out", or "store" and the "generation" that is on trial there."""
    from tinytrain.delta.file import save_delta
    from tinytrain.store import Store

    if arguments.out is None and os.path.isdir(arguments.delta):
        generation = Store(arguments.delta).commit(delta, arguments.place)
        return {"out": None, "store": arguments.delta, "generation": generation}
    place = arguments.out or arguments.delta
    save_delta(place, delta)
    return {"out": place, "store": None, "generation": None}


def kept_images(place: dict, name: str) -> int:
    """How many images of class `name` the store keeps that the result is in; 0 without one."""
    from tinytrain.store import Store

    return 0 if place["store"] is None else Store(place["store"]).kept.counts()[normalize("NFC", name)]


def written_items(place: dict) -> list:
    """Lines of a result that say where it is, and what is left to do."""
    from tinytrain.report.conclusion import Written, written_item
    from tinytrain.report.layout import Command

    out, store = place["out"], place["store"]
    size = None if out is None else os.path.getsize(out)
    items = [written_item(Written(out, size, store, place["generation"]))]
    if store is not None:
        items.append(Command("next", ("tinytrain", "confirm", "--store", store)))
    return items
