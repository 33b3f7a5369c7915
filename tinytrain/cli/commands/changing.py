"""What commands share that change a finished delta: where it comes from, and where the new one goes."""

import os
from collections.abc import Callable
from unicodedata import normalize

from tinytrain.cli.commands.common import add_delta, add_json, check_outputs, check_store, open_placed

IN_PLACE = "file to write the new delta to; default: the delta file itself, or on trial in the store"


def add_arguments(parser) -> None:
    add_delta(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help=IN_PLACE)
    add_json(parser)


def changed(arguments, change: Callable) -> tuple:
    """The delta of the options after ``change(delta)``, and where it was written.

    That is "out", or "store" and the "generation" that is on trial there. Raises StorageError or UsageError
    if the result could not be written, before anything is done; and StorageError if the store has learnt
    something meanwhile.
    """
    from tinytrain.delta.file import save_delta
    from tinytrain.store import Store

    in_store = arguments.out is None and os.path.isdir(arguments.delta)
    if in_store:
        check_store(arguments.delta)
    else:
        check_outputs(arguments.out or arguments.delta)
    before, at = open_placed(arguments.delta)
    delta = change(before)
    if in_store:
        generation = Store(arguments.delta).commit(delta, at)
        return delta, {"out": None, "store": arguments.delta, "generation": generation}
    place = arguments.out or arguments.delta
    save_delta(place, delta)
    return delta, {"out": place, "store": None, "generation": None}


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
