"""Options and steps that several commands share. Imports nothing heavy before it is needed."""

import argparse
import contextlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence

from tinytrain.backbones.catalogue import JOINS, SHIPPED, TIERS, is_name, parts_of
from tinytrain.backbones.load import backbone_of, open_backbone, remember_backbone
from tinytrain.backbones.remembered import recall
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import at_least
from tinytrain.base.errors import InputError, TinytrainError, UsageError, visible
from tinytrain.base.file_kinds import DELTAS
from tinytrain.base.help_format import HelpFormatter
from tinytrain.base.notices import NOTICES

DEFAULT_DATA = "meters"  # the shipped backbone was not trained on this domain
DEFAULT_WAY = 10  # of its classes: all
DELTA_HELP = "delta file, or folder of a store, of which the delta in use is taken"
SEVERAL = "; several of these joined by + look at an image side by side"
NAMED = 5  # missing files that are listed by name
LEAST_TOKEN = 16  # letters


def add_action(actions, name: str, summary: str, examples: str, **options):
    """The parser for action `name` of a command, with help in the form of the command's help."""
    return actions.add_parser(
        name, help=summary, epilog=f"examples:\n{examples}", formatter_class=HelpFormatter, **options
    )


def add_number(
    parser, option: str, least: int, text: str, default: int | None = None, metavar: str = "N"
) -> None:
    """An option for a whole number of at least `least`; its help is `text` and the default."""
    parser.add_argument(option, type=at_least(least), default=default, metavar=metavar, help=text)


def add_backbone(parser, several: str = "") -> None:
    """`several`: what there is to say of more than one network; of a command that takes one, nothing."""
    tiers = (name for name, tier in TIERS.items() if several or JOINS not in tier.backbone)
    parser.add_argument(
        "--backbone",
        metavar="NET",
        help=f"{', '.join(tiers)}, or another name listed by 'tinytrain backbones', or a network file"
        f" (.safetensors) or published checkpoint (.pkl){several}; default: {SHIPPED.name}",
    )


def add_backbone_of_delta(parser) -> None:
    parser.add_argument(
        "--backbone",
        metavar="NET",
        help="network that the delta was made from, a file or a name; default: found by its digest",
    )


class BackboneOfDelta:
    """The network that a delta needs: that of ``--backbone``, or else the one with its digest.

    Raises InputError if `given` is no network.
    """

    def __init__(self, given: str | None):
        self.given = given
        self.network = None if given is None else open_backbone(given)

    def is_here(self, delta) -> bool:
        """Whether the network of `delta` is the given one, or can be found if none is given."""
        try:
            return (self.network or backbone_of(delta)).digest == delta.backbone
        except InputError:
            return False

    def of(self, delta, out: str | None = None):
        """The network for `delta`. Raises InputError ``backbone-mismatch``, or what `find_backbone` raises.

        Raises UsageError if a result in the file `out` would replace it.
        """
        check_outputs(out, needed=tuple(recall(part.backbone) for part in delta.parts))
        if self.network is None:
            return backbone_of(delta)
        try:
            delta.check_backbone(self.network)
        except InputError as error:
            raise self._said_where(error, delta) from None
        remember_backbone(self.given, self.network)
        return self.network

    @staticmethod
    def _said_where(error: InputError, delta) -> InputError:
        """`error`, also saying that no --backbone is needed, if the right network can be found."""
        try:
            backbone_of(delta)
        except InputError:
            return error
        return InputError(
            error.code, f"{error.message}, or leave out --backbone: it can be found by its digest"
        )


def add_json(parser, inherited: bool = False) -> None:
    """``--json``. If `inherited`, the parent parser has this option as well, and its value counts too."""
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS if inherited else False,
        help="print one JSON object instead of text",
    )


def add_verbosity(parser, details: str) -> None:
    """``--quiet`` and ``--verbose``; `details` is what the latter adds to the result."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-q", "--quiet", action="store_true", help="print only the result and errors, no notices or progress"
    )
    group.add_argument("-v", "--verbose", action="store_true", help=f"also print {details}")


def add_store(parser, text: str = "folder of the store") -> None:
    """The folder of a store as the last name, or as ``--store``."""
    parser.add_argument("store", metavar="STORE", help=text)
    parser.add_store_option(first=False)


def add_delta(parser, more: str = "") -> None:
    """A delta as the first name; a store may also be given as ``--store``."""
    parser.add_argument("delta", metavar="DELTA", help=DELTA_HELP + more)
    parser.add_store_option(first=True)


def add_threads(parser) -> None:
    add_number(
        parser, "--threads", 1, "worker threads; default: up to one per core; does not change the result"
    )


def workers(arguments) -> int:
    """Number of workers: ``--threads``, by default one for each core that this process may use."""
    from tinytrain.runtime.thread_pool import cores

    return arguments.threads or cores()


def backbone_files(path: str | None) -> tuple[str, ...]:
    """The files among the networks of ``--backbone``."""
    return tuple(part for part in parts_of(path) if not is_name(part)) if path else ()


def open_delta(path: str, *, start_of: Callable[..., bool] | None = None):
    """The delta of file `path`, or the delta in use if `path` is the folder of a store.

    With `start_of`, which says of a delta whether its network is there, this counts as a start of a
    delta on trial. Raises InputError.
    """
    return open_placed(path, start_of)[0]


def open_placed(path: str, start_of: Callable[..., bool] | None = None):
    """The delta as `open_delta` gives it, and how far its store is, None for a file.

    What is made of the delta is committed to the store only at this place.
    """
    if os.path.isdir(path):
        from tinytrain.store import Store

        if not any(name.startswith("tinytrain") for name in os.listdir(path)):
            text = f"{path} is a folder, but no store: it holds 0 deltas; {DELTAS}"
            raise InputError("store-missing", text)

        store = Store(path)
        start = store.peek() if start_of is None else store.start(start_of)
        return delta_in_use(path, start), start.place
    from tinytrain.delta.file import load_delta

    return load_delta(path), None


def kind_in_use(path: str, backbone: BackboneOfDelta):
    """What the delta in use of the store `path` looks at: images, if that is not known. It is no start."""
    from tinytrain.episode.kinds import IMAGES, kind_of
    from tinytrain.store import Store

    with contextlib.suppress(TinytrainError):
        if (delta := Store(path).peek(0).delta) is not None:  # `start` waits
            return kind_of(backbone.of(delta).input.kind)
    return IMAGES


def say_what_goes(path: str, over: bool = False) -> None:
    """Name the corrections that nobody knows any more if the delta in use of the store `path` is dropped.

    If another one is put `over` it, only a trial is dropped. A store that cannot be read has none.
    """
    from tinytrain.store import Store

    store, before = Store(path), None
    with contextlib.suppress(InputError):
        before = None if over and store.peek().confirmed else store.before()
    say(*(f"{path}: {warning}" for warning in (before.warnings if before else ())))


def delta_in_use(path: str, start):
    """The delta of a `start` of the store `path`, after what there is to say about it. Raises InputError."""
    from tinytrain.store import TRIAL_STARTS

    say(*(f"{path}: {warning}" for warning in start.warnings))
    if start.delta is None:
        raise InputError("store-missing", f"{path} has 0 deltas in use; add one with 'tinytrain apply'")
    if not start.confirmed:
        say(
            f"generation {start.generation} is on trial, {start.starts} of {TRIAL_STARTS} starts used; keep "
            f"it with 'tinytrain confirm --store {path}'"
        )
    return start.delta


def check_store(path: str | None, *others: str | None) -> None:
    """Raise StorageError if the store `path` cannot be written, before any work is done for it.

    Raises UsageError if one of the `others` would be written to the same path.
    """
    if path is None:
        return
    if os.path.realpath(path) in [os.path.realpath(other) for other in others if other is not None]:
        raise UsageError("usage", f"two results would be written to {path}; give each its own place")
    check_outputs(os.path.join(path, "tinytrain-delta") if os.path.lexists(path) else path.rstrip(os.sep))


def check_outputs(*paths: str | None, needed: Sequence[str | None] = ()) -> None:
    """Raise StorageError if one of the files `paths` cannot be written, before any work is done for it.

    Raises UsageError if two of them are the same file, or if one would replace a `needed` file.
    """
    from tinytrain.base.files import check_writable

    given = [path for path in paths if path is not None]
    for path in given:
        if path in ("", "-"):
            raise UsageError("usage", f"{path!r} names no file, and results are not sent on; name one")
        check_writable(path)
    if len({os.path.realpath(path) for path in given}) < len(given):
        raise UsageError("usage", f"two results would be written to {given[-1]}; give each its own file")
    kept = {os.path.realpath(path) for path in needed if path is not None}
    if lost := [path for path in given if os.path.realpath(path) in kept]:
        raise UsageError("usage", f"the result would replace {lost[0]}, which is needed; name another file")


def check_network_output(path: str, needed: Sequence[str | None] = ()) -> None:
    """`check_outputs` for a network file, which needs the right suffix to be readable later."""
    if os.path.splitext(path)[1].lower() != ".safetensors":
        raise UsageError("usage", f"{path!r} must end in .safetensors, or no command could read it")
    check_outputs(path, needed=needed)


def print_line(text: str) -> None:
    """Print one line of a result that comes in lines, at once."""
    ANSWER.give(shown(text))
    sys.stdout.flush()


def say(*messages: str, error: bool = False) -> None:
    """Print notices on stderr, except with --quiet; if they are an `error`, always."""
    for message in messages if error or not NOTICES.quiet else ():
        print(f"tinytrain: {shown(message)}", file=sys.stderr)


def shown(text: str) -> str:
    """`text` with control characters escaped, because class and file names may contain them."""
    return "\n".join(map(visible, text.split("\n")))


def text_width() -> int:
    """Columns of text on stdout: those of the terminal, 100 at most; 100 if it is no terminal."""
    return max(40, min(100, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else 100


def print_result(result: dict, text: str, as_json: bool) -> None:
    """Print the result on stdout, as one JSON object or as text."""
    if as_json:
        ANSWER.give_json(result)
    else:
        ANSWER.give(shown(text))


def token_in(path: str | None, make: bool = True) -> str:
    """A new token, or the one in file `path`, which is made if it is not there, unless `make` is False.

    Raises UsageError for what is no token.
    """
    from tinytrain.base.files import read_bytes, write_bytes

    if path is None:
        return secrets.token_urlsafe(18)
    if make and not os.path.exists(path):
        write_bytes(path, secrets.token_urlsafe(18).encode() + b"\n", 0o600)
    token = read_bytes(path, 1000).decode(errors="replace").strip()
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{LEAST_TOKEN},}}", token):
        text = f"{path} holds no token of at least {LEAST_TOKEN} letters, digits, - and _; remove it"
        raise UsageError("usage", f"{text}, and one is made")
    return token


def readers_of(arguments, class_names) -> list:
    """Who hears of verdicts by ``--mqtt`` and ``--on-verdict``. Raises UsageError and InputError."""
    found = []
    if arguments.mqtt is not None:
        from tinytrain.stream.mqtt import Mqtt, parse_address

        found.append(Mqtt(parse_address(arguments.mqtt), class_names))
    if arguments.on_verdict is not None:
        from tinytrain.stream.on_verdict import OnVerdict

        found.append(OnVerdict(arguments.on_verdict))
    return found
