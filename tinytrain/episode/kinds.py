"""All kinds of input by name: that of a network, and that of files."""

import os
from collections.abc import Iterable

from tinytrain.base import file_kinds
from tinytrain.base.errors import InputError, one_line
from tinytrain.episode.image import ImageKind
from tinytrain.episode.kind import HEAD, Kind
from tinytrain.episode.motion import Motion
from tinytrain.episode.sound import SoundKind
from tinytrain.episode.text import Text

KINDS: dict[str, Kind] = {}
IMAGES = ImageKind()


def register(kind: Kind) -> Kind:
    """Make `kind` known. If several own a file, it is of the one that was registered last.

    `file_kinds` knows images by itself, also by their content.
    """
    KINDS[kind.name] = kind
    if own := tuple(suffix for suffix in kind.suffixes if suffix not in IMAGES.suffixes):
        file_kinds.add_input(kind.noun, kind.plural, own)
    return kind


def kind_of(name: str) -> Kind:
    """The kind that an `InputSpec` names. Raises InputError ``unsupported`` if there is none of that name."""
    if name not in KINDS:
        known = ", ".join(KINDS)
        raise InputError("unsupported", f"no kind of input {one_line(name, 100)!r} here, known: {known}")
    return KINDS[name]


def kind_in(report: dict) -> Kind:
    """The kind that the report of an adaptation names; images if it names none that is known here."""
    return KINDS.get(report.get("episode", {}).get("kind"), IMAGES)


def kind_of_file(path: str | os.PathLike) -> Kind | None:
    """The kind of a file, None if it is of no kind."""
    return next((kind for kind in reversed(KINDS.values()) if kind.owns(path)), None)


def kind_of_content(content: bytes) -> Kind:
    """The kind of a file without a name; images if it is of none that is known by its content."""
    return next((kind for kind in KINDS.values() if kind.begins(content[:HEAD])), IMAGES)


def kind_of_files(where: str, paths: Iterable[str | os.PathLike]) -> Kind:
    """The one kind of the files in `where`; images if there are none of any.

    Those that are `aside` give way to others. Raises InputError ``folder-layout`` for a mixture.
    """
    found: dict[str, str] = {}
    for path in paths:
        if (kind := kind_of_file(path)) is not None:
            found.setdefault(kind.name, os.fspath(path))
    found = {name: path for name, path in found.items() if not KINDS[name].aside} or found
    if len(found) > 1:
        mixed = " and ".join(f"{KINDS[name].plural}, such as {path!r}" for name, path in found.items())
        raise InputError("folder-layout", f"{where!r} has {mixed}; keep files of one kind in it")
    return KINDS[next(iter(found))] if found else IMAGES


for _kind in (IMAGES, SoundKind(), Motion(), Text()):
    register(_kind)
