"""The folder of a project: images by class as plain files, a store, reports; and the steps back.

``images/CLASS/FILE`` is what ``tinytrain adapt`` takes, ``state`` the store of ``tinytrain watch``. What is
taken away lies in ``.trash`` for a week: every change of images is a few renames, so that it can be undone.
"""

import contextlib
import hashlib
import os
import shutil
import time
import unicodedata
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock

import numpy as np

from tinytrain.base.class_names import is_text
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.files import sync_folder, write_bytes, write_failed
from tinytrain.datasets.folder_layout import class_name
from tinytrain.episode.kind import Kind
from tinytrain.episode.kinds import IMAGES, kind_of_content, kind_of_file
from tinytrain.store.kept import can_be_folder, digest_of

LONGEST = 80  # letters of the name of a class
STEPS = 50  # that can be undone
TRASH_DAYS, TRASH_BYTES = 7, 256 * 10**6  # what is older, or more, goes when the project is opened
TAKEN = ".take-"  # begins the names of folders in which downloads are made
SIDE = 96  # pixels of a small image
# Near-copies: pixels a side, grey levels apart, images looked back. Noise of a camera makes 1, other light of
# 3 % or a hand that trembles by 4 of 640 columns 4, another view 15 and more.
GRAIN, NEAR, COMPARED = 16, 8.0, 30
ONE_STEP = 3.0  # seconds: images of a class that come so closely one after another are undone together


@dataclass(frozen=True)
class Image:
    """An image of class `label`, or a file of another kind: its path; the `id` says nothing of it."""

    id: str
    label: str
    path: Path
    kind: Kind


@dataclass
class Step:
    """What was done, in words, and the renames that did it; `renamed`: a class, from and to."""

    text: str
    moves: list[tuple[Path, Path]]
    renamed: tuple[str, str] | None = None
    label: str = ""
    at: float = 0.0


class Project:
    """The project in `path`, made if it is not there. Safe for threads.

    What a method has done is on the medium when it returns. All raise InputError (``unknown-class``,
    ``class-names``, ``file-missing`` and those of images) and StorageError ``write-failed``.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.images, self.state, self.reports = (self.path / n for n in ("images", "state", "reports"))
        self._trash, self._lock = self.path / ".trash", RLock()
        self._steps: deque[Step] = deque(maxlen=STEPS)
        self._listed: dict[Path, tuple[int, list[Image]]] = {}
        self._recorded: dict[str, deque] = {}
        self._expected: Kind | None = None
        self._decoding = Lock()  # one image at a time: some take a large part of a small board's memory
        self._open()

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def known_kind(self) -> Kind | None:
        """That of its first file, or without any the one that is expected; None: the next file decides."""
        kinds = (image.kind for images in self.classes().values() for image in images)
        return next(kinds, self._expected)

    @property
    def kind(self) -> Kind:
        return self.known_kind or IMAGES

    def expect(self, kind: Kind) -> None:
        """What a project without files is for."""
        self._expected = kind

    @property
    def undo_text(self) -> str | None:
        """What `undo` would take back."""
        return self.kind.words(self._steps[-1].text) if self._steps else None

    def classes(self) -> dict[str, list[Image]]:
        """Images by class, the newest first. What is `aside` gives way to files of other kinds."""
        with self._lock:
            folders = sorted((p for p in self._folders() if p.is_dir()), key=class_name)
            found = {class_name(folder): self._images_of(folder) for folder in folders}
        rest = {name: [image for image in images if not image.kind.aside] for name, images in found.items()}
        return rest if any(rest.values()) else found

    def images_stamp(self) -> tuple:
        """Another value if images were changed since, by whomever; take it before they are listed."""
        with self._lock:
            return _stamps(self._folders())

    def state_stamp(self) -> tuple:
        """Another value if another delta was put into the store since; take it before that is read."""
        return _stamps(path for path in self.state.glob("tinytrain-*") if path.suffix != ".journal")

    def find(self, wanted: str) -> Image:
        """The image with this `id`."""
        for images in self.classes().values():
            for image in images:
                if image.id == wanted:
                    return image
        raise InputError("file-missing", "there is no such image; it was moved or deleted")

    def add_class(self, name: str) -> str:
        """Make a class; returns its name, which may be `name` without the blanks around it."""
        with self._lock:
            folder = self.images / self._new_name(name)
            self._made(folder)
            self._steps.append(Step(f"added class {name}", [(folder, self._place_in_trash(folder))]))
            return class_name(folder)

    def rename_class(self, name: str, new: str) -> tuple[str, str]:
        """Returns the names that the class had and has; see `add_class`."""
        with self._lock:
            folder, to = self._folder(name), self.images / self._new_name(new)
            self._move(folder, to)
            renamed = class_name(folder), class_name(to)
            self._steps.append(Step(f"renamed {name} to {new}", [(to, folder)], renamed))
            return renamed

    def delete_class(self, name: str) -> None:
        with self._lock:
            folder = self._folder(name)
            place = self._place_in_trash(folder)
            self._move(folder, place)
            self._steps.append(Step(f"deleted class {name}", [(place, folder)]))

    def add(self, name: str, data: bytes, recording: bool = False, step: bool = True) -> dict:
        """Keep the bytes of a file as an image of class `name`: {"id", "kept", "why"}.

        What is there already is not kept, nor, of a `recording`, what nearly repeats one of its last images.
        Without `step` it is not undone by `undo`.
        """
        kind = self.known_kind or kind_of_content(data)
        with self._decoding:
            small = kind.thumbnail(data, SIDE, f"the {kind.noun}")
        with self._lock:
            folder = self._folder(name)
            path = folder / (digest_of(data) + kind.suffix(data))
            if path.exists():
                return {"id": id_of(path), "kept": False, "why": "it is there already"}
            if recording and self._repeats(name, small):
                return {"id": None, "kept": False, "why": "near copy"}
            write_bytes(path, data)
            if step:
                self._added(name, path)
        return {"id": id_of(path), "kept": True, "why": None}

    def move(self, wanted: str, name: str, step: bool = True) -> str:
        """Make an image one of class `name`; returns its new id."""
        with self._lock:
            image, folder = self.find(wanted), self._folder(name)
            to = folder / image.path.name
            if to == image.path:
                return wanted
            if to.exists():  # the same image, or one of that name from elsewhere
                to = to.with_name(f"{time.time_ns()}-{to.name}")
            self._move(image.path, to)
            if step:
                self._steps.append(Step(f"moved an image from {image.label} to {name}", [(to, image.path)]))
            return id_of(to)

    def delete(self, wanted: str, step: bool = True) -> None:
        with self._lock:
            image = self.find(wanted)
            place = self._place_in_trash(image.path)
            self._move(image.path, place)
            if step:
                self._steps.append(Step(f"deleted an image of {image.label}", [(place, image.path)]))

    def undo(self) -> Step:
        """Take the last step back, and return it."""
        with self._lock:
            if not self._steps:
                raise InputError("file-missing", "there is nothing to undo")
            step = self._steps.pop()
            for now, before in reversed(step.moves):
                if before.exists():
                    raise InputError("class-names", f"cannot be undone: {before.name!r} is there again")
                if now.exists():
                    self._made(before.parent)
                    self._move(now, before)
            return step

    def small(self, source: Path | bytes) -> np.ndarray:
        """An image file, or the bytes of one, as uint8 (SIDE, SIDE, 3)."""
        with self._decoding:
            return self.kind.thumbnail(source, SIDE)

    def _open(self) -> None:
        try:
            held = self.path.is_dir() and any(p.name[0] != "." for p in self.path.iterdir())
            if held and not self.images.is_dir():
                text = f"{self.path} is no project: there is no images/ in it"
                remedy = "name a new folder, and put folders of images into its images/"
                raise InputError("folder-layout", f"{text}; {remedy}")
            for folder in (self.path, self.images, self.reports):
                folder.mkdir(exist_ok=True)
            self._empty_trash()
        except OSError as error:
            raise write_failed(self.path, error) from error

    def _empty_trash(self) -> None:
        """Remove what is old, and of a trash that is too large the oldest."""
        for place in self.path.glob(f"{TAKEN}*"):
            shutil.rmtree(place, ignore_errors=True)
        for part in self.images.glob("*/.*.tmp"):  # of an image that was being written when power went
            part.unlink(missing_ok=True)
        left = 0
        for place in sorted(self._trash.glob("*"), reverse=True):
            left += sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
            if left > TRASH_BYTES or time.time() - place.stat().st_mtime > 86400 * TRASH_DAYS:
                shutil.rmtree(place, ignore_errors=True)

    def _folders(self) -> list[Path]:
        return [p for p in self.images.iterdir() if can_be_folder(p.name)]

    def _images_of(self, folder: Path) -> list[Image]:
        changed, known = self._listed.get(folder, (0, []))
        with contextlib.suppress(OSError):
            if (now := folder.stat().st_mtime_ns) != changed:
                files = [(e.stat().st_mtime_ns, e.name) for e in os.scandir(folder) if e.is_file()]
                paths = [folder / name for _, name in sorted(files, reverse=True) if name[0] != "."]
                held = {image.path: image for image in known}  # for a kind, some files are looked into
                new = ((p, kind_of_file(p)) for p in paths if p not in held)
                held |= {p: Image(id_of(p), class_name(folder), p, kind) for p, kind in new if kind}
                known = [held[p] for p in paths if p in held]
                self._listed[folder] = now, known
        return known

    def _folder(self, name: str) -> Path:
        name = unicodedata.normalize("NFC", name)
        for folder in self._folders():
            if class_name(folder) == name:
                return folder
        raise InputError("unknown-class", f"there is no class {one_line(name, 100)!r}; add it first")

    def _new_name(self, name: str) -> str:
        """`name` as a class may have it, without one of that name."""
        name = unicodedata.normalize("NFC", name).strip()
        if not (is_text(name) and name.isprintable() and len(name) <= LONGEST and can_be_folder(name)):
            text = f"{one_line(name, 100)!r} is no name for a class; give 1 to {LONGEST} letters, no / and no"
            raise InputError("class-names", f"{text} sign such as . # @ $ ~ first")
        if name in map(class_name, self._folders()):
            raise InputError("class-names", f"there is a class {name!r} already; choose another name")
        return name

    def _place_in_trash(self, path: Path) -> Path:
        return self._trash / f"{time.time_ns()}" / path.name

    def _made(self, folder: Path) -> None:
        for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
            try:
                missing.mkdir(exist_ok=True)
                sync_folder(missing.parent)
            except OSError as error:
                raise write_failed(missing, error) from error

    def _move(self, path: Path, to: Path) -> None:
        self._made(to.parent)
        try:
            os.rename(path, to)
            for folder in {path.parent, to.parent}:
                sync_folder(folder)
        except OSError as error:
            raise write_failed(to, error) from error

    def _added(self, name: str, path: Path) -> None:
        move, now = (path, self._place_in_trash(path)), time.monotonic()
        last = self._steps[-1] if self._steps else None
        if last and last.label == name and now - last.at < ONE_STEP:
            last.moves.append(move)
            last.text, last.at = f"added {len(last.moves)} images to {name}", now
        else:
            self._steps.append(Step(f"added an image to {name}", [move], label=name, at=now))

    def _repeats(self, name: str, small: np.ndarray) -> bool:
        """Whether the image nearly repeats one of those that were recorded last; otherwise it is one now."""
        grain = small.reshape(GRAIN, SIDE // GRAIN, GRAIN, SIDE // GRAIN, 3).mean((1, 3, 4))
        last = self._recorded.setdefault(name, deque(maxlen=COMPARED))
        if any(np.sqrt(np.mean((grain - other) ** 2)) < NEAR for other in last):
            return True
        last.append(grain)
        return False


def _stamps(paths: Iterable[Path]) -> tuple:
    found = []
    for path in sorted(paths):
        with contextlib.suppress(OSError):  # it has vanished since
            found.append((path.name, path.stat().st_mtime_ns))
    return tuple(found)


def id_of(path: Path) -> str:
    name = os.fsencode(f"{class_name(path.parent)}/") + os.fsencode(path.name)
    return hashlib.sha256(name).hexdigest()[:16]
