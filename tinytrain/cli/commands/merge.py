"""``tinytrain merge``: one delta of what several devices learnt."""

import os
from functools import partial

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    add_backbone_of_delta,
    add_json,
    add_verbosity,
    check_outputs,
    open_delta,
    print_result,
    say,
    text_width,
)

DESCRIPTION = (
    "Make one delta of several that were adapted to different images, as if one device had seen them all. "
    "Heads of sums (lda, mild-lda, slda, ridge) add exactly, in any order. Classes are matched by their "
    "names. Trained layers are averaged by numbers of images if all deltas trained the same ones; otherwise "
    "those of the delta with most images are kept, and the result says so. No image leaves a device, but "
    "sums of few images show their embeddings."
)
EXAMPLES = """\
  tinytrain merge kitchen.safetensors cellar.safetensors -o house.safetensors
  tinytrain merge stick/*.safetensors -o all.safetensors --check held-out/
  tinytrain merge stick/*.safetensors -o all.safetensors --robust --json
  tinytrain merge all.safetensors --without kitchen.safetensors -o rest.safetensors
"""
LAYERS = {
    "untrained": "none was trained",
    "same": "all deltas have the same ones",
    "averaged": "averaged by numbers of images",
}


def add_arguments(parser) -> None:
    text = "delta files or stores, two or more; one with --without"
    parser.add_argument("deltas", metavar="DELTA", nargs="+", help=text)
    text = "file to write the delta of all to"
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help=text)
    parser.add_argument(
        "--check", metavar="DIR",
        help="folder with a folder of images per class: show how many are recognised before and after, and "
        "write nothing if merging is proved to be worse",
    )  # fmt: skip
    without = "take the delta PART, at hand as it was merged, out of one merged DELTA: exact for sums"
    parser.add_argument("--without", metavar="PART", help=without)
    add_robust(parser)
    signed = "file of public keys, with one of which every delta must be signed ('tinytrain sign')"
    parser.add_argument("--signed-by", metavar="KEYS", help=signed)
    add_backbone_of_delta(parser)
    add_verbosity(parser, "every delta and conflict")
    add_json(parser)


def add_robust(parser) -> None:
    text = "leave out deltas whose class means most others contradict; three or more must hold each class"
    parser.add_argument("--robust", action="store_true", help=text)


def run(arguments) -> None:
    from tinytrain.api.merge import merge
    from tinytrain.base.progress import ProgressLine
    from tinytrain.delta.file import save_delta

    names = arguments.deltas if arguments.without is None else [*arguments.deltas, arguments.without]
    if arguments.without is not None and (len(names) > 2 or arguments.check or arguments.robust):
        text = "--without takes a part out of one merged delta; name no other, and no check"
        raise UsageError("usage", text)
    check_outputs(arguments.out, needed=names)
    opened = [_opened(path, arguments.signed_by) for path in names]
    if arguments.without is not None:
        return _without(arguments, opened, names)
    network = BackboneOfDelta(arguments.backbone).of(opened[0], arguments.out) if arguments.check else None
    options = {"network": network, "names": names, "robust": arguments.robust}
    with ProgressLine() as progress:
        found = merge(opened, arguments.check, progress=progress, **options)
    save_delta(arguments.out, found.delta)
    result = {"out": arguments.out, **found.to_json()}
    say(*found.warnings)
    print_result(result, merged_text(result, opened[0], arguments.verbose), arguments.json)


def _opened(path: str, keys: str | None):
    """The delta in `path`; with a file of public `keys` that of the bytes that one of them has signed."""
    if keys is None:
        return open_delta(path)
    from tinytrain.base.safetensors import decode
    from tinytrain.delta.file import decode_delta
    from tinytrain.store.record import MAX_DELTA
    from tinytrain.trust.keys import read_signed

    return decode_delta(*decode(read_signed(path, MAX_DELTA, keys), path), path)


def merged_text(result: dict, first, verbose: bool) -> str:
    """What people read of a merge into the file ``result["out"]``, in the words for inputs of `first`."""
    from tinytrain.report.conclusion import LINES
    from tinytrain.report.layout import fitted, worded

    most, words = None if verbose else LINES, partial(worded, first.report)
    return "\n".join(fitted(_items(result["out"], result), text_width(), most, words))


def _without(arguments, deltas: list, names: list[str]) -> None:
    """Take one part out again: the second of `deltas`."""
    from tinytrain import kernels
    from tinytrain.delta.file import save_delta
    from tinytrain.delta.merge import sources_of, without
    from tinytrain.report.layout import count_of, worded

    delta = without(kernels.load(), *deltas, names)
    save_delta(arguments.out, delta)
    parts, classes, trained = sources_of(delta), list(delta.class_names), delta.is_trained
    images = sum(row["images"] for row in parts)
    result = {"out": arguments.out, "classes": classes, "parts": len(parts), "images": images}
    left = f"{count_of(len(parts), 'delta')} with {worded(delta.report, count_of(images, 'image'))}"
    text = f"{arguments.out}: {len(classes)} classes, of {left}"
    text += "; trained layers stay as they are, and have seen the others" * trained
    print_result({**result, "layers_kept": trained}, text, arguments.json)


def _items(out: str, result: dict) -> list:
    from tinytrain.report.conclusion import Written, written_item
    from tinytrain.report.layout import Command, Item, count_of, short

    rows, classes, right = result["merged"], result["classes"], result["right"]
    images = sum(row["images"] for row in rows)
    each = tuple(f"{short(row['name'])}: {count_of(row['images'], 'image')}" for row in rows)
    held = tuple(f"{short(name)}: {n:g}" for name, n in classes.items())
    how, largest = result["layers"]["how"], short(result["layers"]["largest"])
    layers = LAYERS.get(how, f"kept from {largest}, which has most images: the deltas trained different ones")
    items = [
        Item("merged", f"{count_of(len(rows), 'delta')}, {count_of(images, 'image')}", each),
        Item("classes", f"{len(classes)}, with images of each", held),
        Item("layers", layers),
    ]
    if right:
        best = max(right["each"])
        text = f"{right['merged']} of {right['n']} images recognised; by the best of the deltas {best}"
        items.insert(0, Item("checked", text))
    for label, names, why in (
        ("left out", result["left_out"], "all of its images are in others"),
        ("outvoted", result["outvoted"], "most others call something else so; left out"),
    ):
        if names:
            items.append(Item(label, f"{'; '.join(map(short, names))}: {why}"))
    if result["conflicts"]:
        texts = tuple(row["text"] for row in result["conflicts"])
        items.append(Item("look at", count_of(len(texts), "conflict"), texts))
    if result["replay_left_out"]:
        items.append(Item("note", "features that deltas remember for 'adapt --from' were left out"))
    items.append(written_item(Written(out, os.path.getsize(out))))
    items.append(Command("next", ("tinytrain", "apply", out, "--store", "state/")))
    return items
