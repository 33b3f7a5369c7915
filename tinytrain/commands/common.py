"""Options and steps that several commands share. Imports nothing heavy until it is needed."""

import json
import os
import sys

from tinytrain.errors import InputError, UsageError
from tinytrain.zoo import SHIPPED

DEFAULT_BACKBONE = SHIPPED.path
DEFAULT_DATA = "leaves"  # a domain that the shipped backbone was not trained on
HELD_BYTES = 64_000_000  # decoded pictures kept at once; what is beyond is decoded again when needed
NAMED = 5  # skipped files that are named one by one


def add_backbone(parser) -> None:
    parser.add_argument(
        "--backbone",
        metavar="NET",
        help="network file (.safetensors), published checkpoint (.pkl) or a name that 'tinytrain backbones'"
        f" lists; default: {SHIPPED.name}",
    )


def add_json(parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_store(parser, text: str = "folder of the store") -> None:
    parser.add_argument("--store", metavar="DIR", required=True, help=text)


def add_threads(parser) -> None:
    parser.add_argument(
        "--threads",
        type=at_least(1),
        metavar="N",
        help="pictures worked on at once; never changes the result",
    )


def lanes(arguments) -> int:
    """Pictures to work on at once: ``--threads``, by default the number of cores."""
    return arguments.threads or os.cpu_count() or 1


def at_least(least: int):
    """An argparse type: a whole number not below `least`."""

    def whole_number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise UsageError("bad-number", f"{text!r} is no whole number of at least {least}")
        return int(text)

    return whole_number


def open_backbone(path: str | None):
    """The network of ``--backbone``, a path or a name; by default the one that comes with the package."""
    from tinytrain.modelfile import load_backbone

    return load_backbone(SHIPPED.name if path is None else path)


def open_delta(path: str, *, counted: bool = False):
    """The delta of file `path`, or the one in use where `path` is the folder of a store.

    With `counted`, that is a start of a delta on trial and counts as one.
    """
    if os.path.isdir(path):
        from tinytrain.store import Store

        return _delta_in_use(path, Store(path).start() if counted else Store(path).peek())
    from tinytrain.deltafile import load_delta

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


def check_store(path: str | None) -> None:
    """Raise StorageError for a store that could not be written, before any work is done for it."""
    if path is not None:
        check_outputs(os.path.join(path, "tinytrain-delta") if os.path.lexists(path) else path)


def check_outputs(*paths: str | None) -> None:
    """Raise StorageError for a file that could not be written, before any work is done for it."""
    from tinytrain.atomic import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def hold(pictures, size: int, progress) -> tuple[object, list[str]]:
    """`pictures` decoded once and kept, without the broken ones, and what is wrong with those.

    Pictures that would take more than HELD_BYTES are left to be decoded whenever they are asked for.
    """
    if len(pictures) * 3 * size**2 > HELD_BYTES:
        return pictures, []
    decoded, good, broken = [], [], []
    for i in range(len(pictures)):
        try:
            decoded.append(pictures.read(i, size))
            good.append(i)
        except InputError as error:
            broken.append(str(error))
        progress("pictures", i + 1, len(pictures), None)
    kept = type(pictures)(
        pictures.labels[good], tuple(pictures.names[i] for i in good), lambda i, _size: decoded[i]
    )
    return kept, broken


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
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_result(result: dict, text: str, as_json: bool) -> None:
    """The result on stdout: one JSON object, or text."""
    print(json.dumps(result, indent=2, allow_nan=False) if as_json else shown(text))
