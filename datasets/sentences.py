"""A table of texts, a CSV file with a sentence and its label in each row, as a `Dataset`."""

import csv
import io
import os
import unicodedata
from collections.abc import Sequence
from functools import partial

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import TABLES
from tinytrain.base.files import read_bytes
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.duplicates import groups_of, repeated
from tinytrain.episode.input_facts import Skipped
from tinytrain.episode.kind import MOST_BYTES
from tinytrain.episode.kinds import KINDS, kind_of_file

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # those of most rows part a table
TEXT, LABEL = ("sentence", "text"), ("label", "class")  # names of columns in a first row


def is_table(path: str | os.PathLike) -> bool:
    """Whether `path` is a file of such a name, and no recording of motion."""
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    known = suffix in TABLES and os.path.isfile(path)
    return known and (kind_of_file(path) is None or not os.path.getsize(path))


def table_dataset(path: str | os.PathLike) -> Dataset:
    """All texts of the table, classes in the order of their sorted names.

    Commas, semicolons or tabs part the fields: those by which most rows have all. A first row may name the
    columns, in any order, and more of them: one of TEXT and one of LABEL. Rows that cannot be used are listed
    in `skipped`. Raises InputError ``file-missing``, ``file-damaged`` or ``folder-layout``.
    """
    file = os.fspath(path)
    rows, skipped = _rows(file)
    if not rows:
        why = (
            f"{os.path.basename(skipped[0].file)} {skipped[0].reason}"
            if skipped
            else "write: lights off,home"
        )
        raise InputError("folder-layout", f"{file!r} has 0 rows of a sentence and its label; {why}")
    lines, texts, given = zip(*rows, strict=True)
    class_names = tuple(sorted(set(given)))
    places = {name: place for place, name in enumerate(class_names)}
    labels = np.array([places[label] for label in given], np.int32)
    names = tuple(f"line {line}" for line in lines)
    first: dict[str, int] = {}
    copies = np.array([first.setdefault(text, i) for i, text in enumerate(texts)])
    return Dataset(
        name=os.path.basename(file),
        labels=labels,
        class_names=class_names,
        names=names,
        read=partial(_read, texts, names),
        kind=KINDS["text"].name,
        groups=groups_of(copies, labels),
        provenance=Provenance(
            folder=file,
            licence="yours",
            skipped=tuple(skipped),
            duplicates=tuple(repeated(names, given, copies)),
        ),
    )


def _read(texts: Sequence[str], names: Sequence[str], i: int, asked) -> np.ndarray:
    return KINDS["text"].read(texts[i].encode(), asked, names[i])


def _rows(file: str) -> tuple[list[tuple[int, str, str]], list[Skipped]]:
    """(line, sentence, label) of each row, and those that are none."""
    try:
        content = read_bytes(file, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"line {line} has a byte {error.object[error.start]:#x} that is no UTF-8"
        raise InputError("file-damaged", f"{file!r}: {what}; store it as UTF-8") from error
    usual = "\t" if file.lower().endswith(".tsv") else ","
    orders = sorted(SEPARATORS, key=lambda separator: separator != usual)
    return max((_parted(file, content, each) for each in orders), key=lambda found: len(found[0]))


def _parted(file: str, content: str, separator: str) -> tuple[list[tuple[int, str, str]], list[Skipped]]:
    """As `_rows`, if `separator` parts the fields."""
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=separator, strict=True)
    found, skipped, columns, width = [], [], (0, 1), 2
    while True:
        first, sentence, label = reader.line_num + 1, "", ""
        try:
            if (row := next(reader, None)) is None:
                return found, skipped
            if not (found or skipped) and (named := _columns(row)):
                columns, width = named, len(row)
                continue
            sentence, label = (row[k].strip() if k < len(row) else "" for k in columns)
            missing = "no sentence" if not sentence else "no label" if not label else f"{len(row)} fields"
            why = f"has {missing}; a sentence with {SEPARATORS[separator]} stands in quotes"
        except csv.Error as error:  # the next row begins in the next line
            row, why = [""], f"cannot be read ({error}); end what a quote begins, and double quotes inside"
        if len(row) == width and sentence and label:
            found.append((first, sentence, unicodedata.normalize("NFC", label)))
        elif row:
            last = reader.line_num
            line = f"line {first}" if last == first else f"lines {first} to {last}"
            skipped.append(Skipped(os.path.join(file, line), why, "damaged"))


def _columns(row: list[str]) -> tuple[int, int] | None:
    """The columns of sentence and label in a first row that names both."""
    names = [name.strip().lower() for name in row]
    found = [[names.index(name) for name in known if name in names] for known in (TEXT, LABEL)]
    return (found[0][0], found[1][0]) if all(found) else None
