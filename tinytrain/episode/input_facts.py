"""Lines about the files of an episode: those that were left out, and images that appear more than once."""

from collections.abc import Sequence
from typing import NamedTuple

from tinytrain.base.errors import visible

EXAMPLES = 3  # files that are named of those left out for one reason, and copies of one image
COPIES = 5  # images of each kind of copies that have a line
NAMED = ("damaged", "too-large")  # kinds of which every file is named
ONE_CLASS, CLASSES, SIDES = "one class", "several classes", "both sides"
# Where copies of an image lie -> the place in words, and what to do.
PLACES = {
    SIDES: (
        "on both sides of the split",
        "the copies were taken out of the held-out images; keep one of them",
    ),
    ONE_CLASS: ("each in one class", "all copies stay on one side of a split; keep one of them"),
    CLASSES: ("each in several classes", "one label must be wrong; keep the right one"),
}


class Skipped(NamedTuple):
    """A file that was left out. `reason` has no subject: "is cut off".

    `kind`: "damaged", "too-large", "other-kind", "beside" the class folders, "inside" a class folder,
    "decoder" (does not run here), "placeholder", "bin" (a folder of a system), "missing" or "unreadable".
    """

    file: str
    reason: str
    kind: str = "unreadable"

    def to_json(self) -> dict:
        return self._asdict()


class Duplicate(NamedTuple):
    """Files with the same image, their classes in the same order, and where they are: a key of PLACES."""

    files: tuple[str, ...]
    classes: tuple[str, ...]
    where: str

    def to_json(self) -> dict:
        return {"files": list(self.files), "classes": list(self.classes), "where": self.where}


def file_lines(facts) -> list[str]:
    """Lines about skipped files and copies of images, of an `Episode` or the `Provenance` of a dataset."""
    return skipped_lines(facts.skipped) + duplicate_lines(facts.duplicates)


def skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """One line for each damaged file, and one for each other reason, with a count and examples."""
    lines = [f"skipped {visible(file)}: {reason}" for file, reason, kind in skipped if kind in NAMED]
    reasons: dict[str, list[str]] = {}
    for file, reason, kind in skipped:
        if kind not in NAMED:
            reasons.setdefault(reason, []).append(file)
    for reason, files in reasons.items():
        if len(files) == 1:
            lines.append(f"skipped {visible(files[0])}: {reason}")
        else:
            lines.append(f"skipped {len(files)} files, each {reason}: {_some(files)}")
    return lines


def duplicate_lines(duplicates: Sequence[Duplicate]) -> list[str]:
    """A line for each image that appears more than once; if there are many of a kind, for the first ones."""
    lines = []
    for where, (place, remedy) in PLACES.items():
        alike = [d for d in duplicates if d.where == where]
        lines += [
            f"the same image {len(d.files)} times, in {_place(d)}: {_some(d.files)}; {remedy}"
            for d in alike[:COPIES]
        ]
        if (more := len(alike) - COPIES) > 0:
            lines.append(f"{more:,} more such images, {place}; 'tinytrain check DIR --json' names all")
    return lines


def _place(duplicate: Duplicate) -> str:
    if duplicate.where == ONE_CLASS:
        return f"class {duplicate.classes[0]!r}"
    if duplicate.where == SIDES:
        return "the images to adapt to and the held-out ones"
    return "classes " + ", ".join(map(repr, dict.fromkeys(duplicate.classes)))


def _some(files: Sequence[str]) -> str:
    more = len(files) - EXAMPLES
    return ", ".join(map(visible, files[:EXAMPLES])) + (f" and {more:,} more" if more > 0 else "")
