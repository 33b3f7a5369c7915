"""The images given to ``predict`` and ``eval``: files, folders, patterns, lists of paths, standard input."""

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tinytrain.base.errors import InputError, UsageError

STDIN = "-"
MAX_STDIN = 2**28  # bytes of an image from standard input
MAX_PATH = 2**16
IMAGES_HELP = (
    "image file, folder (searched with the folders inside it), pattern such as 'photos/*.jpg', or - for one"
    " image from standard input"
)


@dataclass(frozen=True, eq=False)
class Input:
    """An image to read: a path, or `STDIN`, which is read when its content is asked for."""

    path: str
    kind: object  # of `tinytrain.episode.kinds`

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else self.path

    @cached_property
    def content(self) -> str | bytes:
        """What decoders take: the path, or the bytes of standard input. Raises InputError."""
        return read_stdin(self.kind) if self.path == STDIN else self.path

    def check(self) -> None:
        """Raise InputError if the image is missing or its header is broken."""
        self.kind.check(self.content)

    def images(self):
        """The image as an `Images` of length 1, decoded when it is asked for. Raises InputError."""
        from tinytrain.episode.sources import images_of

        return images_of([self.content], names=(self.name,), kind=self.kind.name)


def add_arguments(parser, metavar: str = "IMAGE", help_text: str = IMAGES_HELP) -> None:
    parser.add_argument("images", metavar=metavar, nargs="*", help=help_text)
    parser.add_argument(
        "--files-from",
        metavar="FILE",
        help="also read paths from this file, one a line; - for standard input",
    )
    parser.add_argument(
        "-0",
        "--null",
        action="store_true",
        help="paths of --files-from end with NUL, as 'find -print0' writes them",
    )


def check_arguments(arguments) -> None:
    """Raise UsageError if no image is given or two things would be read from standard input."""
    if not arguments.images and arguments.files_from is None:
        raise UsageError("usage", "the following arguments are required: IMAGE, or --files-from FILE")
    if [*arguments.images, arguments.files_from].count(STDIN) > 1:
        raise UsageError("usage", "standard input can be read once; give - once")
    if arguments.null and arguments.files_from is None:
        raise UsageError("usage", "--null has no effect without --files-from FILE")


def given(arguments) -> Iterator[str]:
    """Every path that the user gave, with patterns expanded; those of --files-from as they arrive.

    Raises InputError if the list cannot be read.
    """
    for word in arguments.images:
        yield from expanded(word)
    if arguments.files_from is not None:
        yield from read_lines(arguments.files_from, "\0" if arguments.null else "\n")


def all_given(arguments) -> str:
    """What the user gave, for messages."""
    listed = "standard input" if arguments.files_from == STDIN else arguments.files_from
    return ", ".join([*arguments.images, *filter(None, [listed])])


def expanded(word: str) -> list[str]:
    """What the pattern `word` names, sorted; `word` itself if it is a path or names nothing."""
    if word == STDIN or os.path.lexists(word) or not glob.has_magic(word):
        return [word]
    found = sorted(glob.glob(word, recursive=True))
    # The folders that ** matches hold the files that it matches, too.
    return [path for path in found if not os.path.isdir(path)] or found or [word]


def read_lines(path: str, end: str) -> Iterator[str]:
    """The paths in a file, without empty ones; those of a pipe as they arrive. Raises InputError."""
    try:
        with open(
            0 if path == STDIN else path, errors="surrogateescape", newline="\n", closefd=path != STDIN
        ) as file:
            yield from _split(file, end)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError("file-missing", f"{path} cannot be read ({why}); check the name") from error


def _split(file, end: str) -> Iterator[str]:
    rest = ""
    while text := file.readline(MAX_PATH) if end == "\n" else file.read(1):
        rest += text
        if rest.endswith(end) or len(rest) > MAX_PATH:
            yield from filter(None, [rest.removesuffix(end).removesuffix("\r")])
            rest = ""
    if rest:
        yield rest


def files_below(folder: str, skipped: list, kind) -> Iterator[str]:
    """The files of `kind` in `folder` and the folders inside it, sorted; others are added to `skipped`.

    What is hidden, or was left by the system, is passed over.
    """
    from tinytrain.datasets.folder_layout import listed, printable
    from tinytrain.episode.input_facts import Skipped

    def entries(of: Path) -> Iterator[Path]:
        try:
            found, away = listed(of)
        except OSError as error:
            skipped.append(Skipped(printable(of), f"cannot be listed ({error.strerror})", "unreadable"))
            return
        skipped.extend(away)
        yield from found

    searched = [entries(Path(folder))]  # no recursion: folders may be nested deeper than Python's calls
    while searched:
        path = next(searched[-1], None)
        if path is None:
            searched.pop()
        elif path.is_dir() and not path.is_symlink():
            searched.append(entries(path))
        elif not path.is_dir() and kind.owns(path):
            yield str(path)
        else:
            link = "is a link to a folder, which is not followed; give that folder itself"
            why = link if path.is_dir() else kind.why_not(path)
            skipped.append(Skipped(printable(path), why, "other-kind"))


def read_stdin(kind) -> bytes:
    """A file of `kind` from standard input. Raises InputError ``file-missing`` or ``image-too-large``."""
    if sys.stdin is None or sys.stdin.isatty():
        text = "- is standard input, which is a terminal; send an image to it"
        raise InputError("file-missing", kind.words(text))
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if not data:
        raise InputError("file-missing", kind.words("standard input gave 0 bytes; send an image to it"))
    if len(data) > MAX_STDIN:
        text = f"standard input gave more than {MAX_STDIN:,} bytes; send one image"
        raise InputError("image-too-large", kind.words(text))
    return data


def inputs(paths: Iterable[str], skipped: list, kind) -> Iterator[Input]:
    """Every item of `kind` of `paths`, with folders searched; a `Skipped` of others is added to `skipped`."""
    for path in paths:
        found = files_below(path, skipped, kind) if os.path.isdir(path) else [path]
        yield from (Input(each, kind) for each in found)
