"""Options and steps that several commands share. Imports nothing heavy until it is needed."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tinytrain.backbones.catalogue import BACKBONES, SHIPPED
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import at_least
from tinytrain.base.errors import InputError, UsageError, visible

DEFAULT_DATA = "leaves"  # a domain that the shipped backbone was not trained on
HELD_BYTES = 64_000_000  # decoded images kept at once; what is beyond is decoded again when needed
NAMED = 5  # skipped files that are named one by one


def add_backbone(parser) -> None:
    parser.add_argument(
        "--backbone",
        metavar="NET",
        help="network file (.safetensors), published checkpoint (.pkl) or a name that 'tinytrain backbones'"
        f" lists; default: {SHIPPED.name}",
    )


def add_json(parser, inherited: bool = False) -> None:
    """``--json``; where it is `inherited`, a parser above this one has it as well."""
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS if inherited else False,
        help="print one JSON object instead of text",
    )


def add_store(parser, text: str = "folder of the store") -> None:
    parser.add_argument("--store", metavar="DIR", required=True, help=text)


def add_threads(parser) -> None:
    parser.add_argument(
        "--threads",
        type=at_least(1),
        metavar="N",
        help="images worked on at once; never changes the result",
    )


def lanes(arguments) -> int:
    """Images to work on at once: ``--threads``, by default the number of cores."""
    return arguments.threads or os.cpu_count() or 1


def backbone_file(path: str | None) -> str | None:
    """The file of ``--backbone``, None where that is a name."""
    return None if path in BACKBONES else path


def open_delta(path: str, *, start_of: str | None = None):
    """The delta of file `path`, or the one in use where `path` is the folder of a store.

    With `start_of`, the digest of a network, that counts as a start of a delta on trial.
    """
    if os.path.isdir(path):
        from tinytrain.store import Store

        store = Store(path)
        return _delta_in_use(path, store.peek() if start_of is None else store.start(start_of))
    from tinytrain.delta.file import load_delta

    return load_delta(path)


def _delta_in_use(path: str, start):
    from tinytrain.store import TRIAL_STARTS

    for warning in start.warnings:
        say(f"{path}: {warning}")
    if start.delta is None:
        raise InputError("store-empty", f"{path} has 0 deltas in use; put one there with 'tinytrain apply'")
    if not start.confirmed:
        say(
            f"generation {start.generation} is on trial, {start.starts} of {TRIAL_STARTS} starts used; keep "
            f"it with 'tinytrain confirm --store {path}'"
        )
    return start.delta


def check_store(path: str | None, *others: str | None) -> None:
    """Raise StorageError for a store that could not be written, before any work is done for it.

    Raises UsageError where one of the `others` would be written to its place.
    """
    if path is None:
        return
    if os.path.realpath(path) in [os.path.realpath(other) for other in others if other is not None]:
        raise UsageError("usage", f"two results would be written to {path}; give each its own place")
    check_outputs(os.path.join(path, "tinytrain-delta") if os.path.lexists(path) else path.rstrip(os.sep))


def check_outputs(*paths: str | None, needed: Sequence[str | None] = ()) -> None:
    """Raise StorageError for a file that could not be written, before any work is done for it.

    Raises UsageError where one would be written over another, or over something that is `needed`.
    """
    from tinytrain.base.files import check_writable

    given = [path for path in paths if path is not None]
    for path in given:
        check_writable(path)
    if len({os.path.realpath(path) for path in given}) < len(given):
        raise UsageError("usage", f"two results would be written to {given[-1]}; give each its own file")
    kept = {os.path.realpath(path) for path in needed if path is not None}
    if lost := [path for path in given if os.path.realpath(path) in kept]:
        raise UsageError("usage", f"the result would replace {lost[0]}, which is needed; name another file")


def check_network_output(path: str, needed: Sequence[str | None] = ()) -> None:
    """`check_outputs` for a network file, whose name tells later what it is."""
    if os.path.splitext(path)[1].lower() != ".safetensors":
        raise UsageError("network-kind", f"{path!r} must end in .safetensors, or no command would read it")
    check_outputs(path, needed=needed)


def hold(images, shape: tuple[int, int, int], progress) -> tuple[object, dict[str, str]]:
    """`images` without the broken ones, and what is wrong with those, by name. All are decoded once for it.

    `shape` (height, width, channels) is what they are asked for.

    They are kept decoded, unless that takes more than HELD_BYTES: then they are decoded again when asked for.
    """
    keep = len(images) * prod(shape) <= HELD_BYTES
    decoded, good, broken = [], [], {}
    for i in range(len(images)):
        try:
            image = images.image(i, shape)
        except InputError as error:
            broken[images.names[i]] = str(error)
        else:
            good.append(i)
            if keep:
                decoded.append(image)
        progress("pictures", i + 1, len(images), None)
    held = images.take(good)
    return replace(held, read=lambda i, _size: decoded[i]) if keep else held, broken


def skipped_files(dataset) -> list[str]:
    """A sentence for each file of a dataset that was not used; many are counted."""
    lines = [f"skipped {path}: {reason}" for path, reason in dataset.skipped]
    if len(lines) > NAMED:
        lines[NAMED:] = [f"skipped {len(lines) - NAMED} more files"]
    return lines


def say(message: str) -> None:
    """A message for people, on stderr."""
    print(f"tinytrain: {shown(message)}", file=sys.stderr)


def shown(text: str) -> str:
    """`text` without characters that steer a terminal; class and file names may hold any."""
    return "\n".join(map(visible, text.split("\n")))


def print_result(result: dict, text: str, as_json: bool) -> None:
    """The result on stdout: one JSON object, or text."""
    if as_json:
        ANSWER.give_json(result)
    else:
        ANSWER.give(shown(text))
