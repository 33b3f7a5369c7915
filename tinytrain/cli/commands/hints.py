"""What to type next: command lines made of the one that was given."""

import os
from collections.abc import Sequence

from tinytrain.backbones.remembered import recall
from tinytrain.cli.commands.common import DEFAULT_DATA, backbone_files

LETTERS = {"-o": "--out", "-q": "--quiet", "-v": "--verbose"}  # of options that hints leave out


def predict_words(place: str, backbone: str | None, delta) -> tuple[str, ...]:
    """The command that uses `delta`, which is in `place`, a file or a store.

    `backbone` is only named if a file of it could not be noted in the cache for a network of the delta.
    """
    from tinytrain.episode.kinds import kind_in

    noted = {os.fspath(recall(part.backbone) or "") for part in delta.parts}
    unknown = any(os.path.realpath(file) not in noted for file in backbone_files(backbone))
    given = ("--backbone", backbone) if unknown else ()
    new = f"new{kind_in(delta.report).suffixes[0]}"
    return ("tinytrain", "predict", positional(place), new, *given)


def positional(path: str) -> str:
    """`path` as a word that is not taken for an option."""
    return os.path.join(os.curdir, path) if path.startswith("-") else path


def extended(words: Sequence[str], *more: str) -> tuple[str, ...]:
    """The command line `words` with `more` options, which count only before a ``--``."""
    end = words.index("--") if "--" in words else len(words)
    return (*words[:end], *more, *words[end:])


def without(words: Sequence[str], options: Sequence[str] = (), flags: Sequence[str] = ()) -> tuple[str, ...]:
    """`words` without `options` and their values, and without `flags`; all are given by their long names."""
    left, rest = [], iter(words)
    for word in rest:
        if word == "--":
            return (*left, word, *rest)
        name, equals, _ = word.partition("=")
        if not word.startswith("--"):
            name, equals = LETTERS.get(word[:2], word), word[2:]
        if name in options:
            if not equals:
                next(rest, None)
        elif name not in flags:
            left.append(word)
    return tuple(left)


def free_name(arguments) -> str:
    """A file name for the delta of a command without ``--out``: no file has it yet."""
    source = arguments.folder or (arguments.data or DEFAULT_DATA).partition(":")[0]
    stem = os.path.splitext(os.path.basename(os.path.normpath(source)))[0].lstrip(".-") or "adapted"
    name, number = f"{stem}.safetensors", 1
    while os.path.lexists(name):
        number += 1
        name = f"{stem}-{number}.safetensors"
    return name
