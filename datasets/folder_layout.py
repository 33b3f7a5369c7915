"""The folders of the classes below a folder. What is laid out otherwise is refused with the right command."""

import os
import shlex
import unicodedata
from itertools import pairwise
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import is_litter, may_be_bin
from tinytrain.episode.imagefile import others
from tinytrain.episode.input_facts import Skipped
from tinytrain.episode.kinds import kind_of_file, kind_of_files

TRAIN = ("train", "training")
HELD_OUT = ("val", "valid", "validation", "test", "testing")
BESIDE, INSIDE = "lies beside the class folders", "is a folder inside a class"
BIN = "is taken for a bin or snapshot of a system by the first sign of its name; a class needs another name"


def printable(path: str | os.PathLike) -> str:
    """A file name as text that can be printed and stored: bytes that are no UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def class_name(folder: Path) -> str:
    """The name of a class in composed letters, which file systems of other computers take apart."""
    return unicodedata.normalize("NFC", printable(folder.name))


def listed(folder: Path) -> tuple[list[Path], list[Skipped]]:
    """What a folder holds, by name, without what is hidden or left by systems.

    Also the files that iCloud keeps away, and folders that may be bins. Raises OSError.
    """
    entries, away = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name.endswith(".icloud"):
            away.append(Skipped(printable(path), others.CLOUD, "placeholder"))
        elif is_litter(path.name):
            continue
        elif may_be_bin(path.name) and path.is_dir():
            away.append(Skipped(printable(path), BIN, "bin"))
        else:
            entries.append(path)
    return entries, away


def class_folders(root: Path) -> tuple[list[Path], list[Skipped]]:
    """The folders of the classes by name, and the images, or files of other kinds, that lie beside them.

    Raises InputError ``file-missing``, ``class-names`` or ``folder-layout``.
    """
    entries, away = _listed_root(root)
    classes = sorted((p for p in entries if p.is_dir()), key=class_name)
    for name, next_name in pairwise(map(class_name, classes)):
        if name == next_name:
            raise InputError(
                "class-names",
                f"{str(root)!r} has two folders for class {name!r}, which differ only in how"
                " letters are encoded; put their images together",
            )
    beside = [p for p in entries if p not in classes and kind_of_file(p)]
    if not classes:
        many = kind_of_files(str(root), beside).plural
        bins = "".join(f", and {row.file} {row.reason}" for row in away if row.kind == "bin")
        raise InputError(
            "folder-layout",
            f"{str(root)!r} has 0 class folders and {len(beside)} {many}{bins}; make one folder per class in "
            f"it, such as apple/ and pear/, and put the {many} of each class into its folder",
        )
    _refuse_split(root, classes)
    _refuse_nested(root, classes)
    lost = [p for p in beside if not kind_of_file(p).aside]
    return classes, away + [Skipped(printable(p), BESIDE, "beside") for p in lost]


def _listed_root(root: Path) -> tuple[list[Path], list[Skipped]]:
    try:
        return listed(root)
    except NotADirectoryError:
        packed = root.suffix.lower() in (".zip", ".tar", ".gz", ".tgz")
        remedy = "unpack it and give the folder" if packed else "give the folder of the class folders"
        raise InputError("file-missing", f"{str(root)!r} is a file, not a folder; {remedy}") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        why = f"{str(root)!r} cannot be listed ({getattr(error, 'strerror', error)}); check the path"
        raise InputError("file-missing", why) from error


def _refuse_split(root: Path, classes: list[Path]) -> None:
    """Raises InputError ``folder-layout`` for folders of training and validation images."""
    known = {folder.name.lower(): folder for folder in classes if folder.name.lower() in (*TRAIN, *HELD_OUT)}
    others = [folder for folder in classes if folder not in known.values()]
    # Folders without images, such as those of annotations, may lie beside them.
    if any(_images_in(folder) or _has_classes(folder) for folder in others):
        return
    train = next((known[name] for name in TRAIN if name in known), None)
    held_out = next((known[name] for name in HELD_OUT if name in known), None)
    if train is None or held_out is None or not any(map(_folders_in, (train, held_out))):
        return
    found = ", ".join(f"{folder.name}/" for folder in known.values())
    adapt, rest = (shlex.quote(str(folder)) for folder in (train, held_out))
    if _images_in(held_out):
        then, command = f"predict those of {held_out.name}/, which lie in no class folders", "predict"
    else:
        then, command = f"evaluate by {held_out.name}/", "eval"
    raise InputError(
        "folder-layout",
        f"{str(root)!r} has {found} and no classes; adapt to {train.name}/, then {then}: "
        f"'tinytrain adapt {adapt} --out mine.safetensors', then "
        f"'tinytrain {command} mine.safetensors {rest}'",
    )


def _refuse_nested(root: Path, classes: list[Path]) -> None:
    """Raises InputError ``folder-layout`` if no class has an image, but folders below them have."""
    if any(_images_in(folder) for folder in classes):
        return
    deeper = [(folder, inner) for folder in classes for inner in _folders_in(folder) if _images_in(inner)]
    if not deeper:
        return
    folder, inner = deeper[0]
    many = kind_of_files(str(inner), listed(inner)[0]).plural
    raise InputError(
        "folder-layout",
        f"{str(root)!r} has {len(classes)} folders without {many}; the {many} lie one level deeper, in "
        f"{str(inner)!r} for example; give {str(folder)!r}, or move the folders with the {many} up",
    )


def _images_in(folder: Path) -> bool:
    def wanted(path: Path) -> bool:
        kind = kind_of_file(path)
        return kind is not None and not kind.aside and not path.is_dir()

    return _any(folder, wanted)


def _has_classes(folder: Path) -> bool:
    return any(map(_images_in, _folders_in(folder)))


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [path for path in listed(folder)[0] if path.is_dir()]
    except OSError:
        return []


def _any(folder: Path, wanted) -> bool:
    try:
        return any(map(wanted, listed(folder)[0]))
    except OSError:
        return False
