"""What can be downloaded: the delta, the network for other programs, the C library, the images."""

import contextlib
import io
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.shell import quoted
from tinytrain.datasets.folder_layout import printable
from tinytrain.serve.live import NOTHING
from tinytrain.serve.project import TAKEN, Project
from tinytrain.serve.settings import Settings

EXPORTED = ("delta", "onnx", "tflite")
NAMES = {**{what: f"mine.{what}" for what in EXPORTED}, "c": "firmware.zip", "images": "images.zip"}


def lines(project: Project, settings: Settings) -> list[dict]:
    """A command line that makes the same, for each thing."""
    state, images = quoted(str(project.state)), quoted(str(project.images))
    found = {what: f"tinytrain export {state} -o {NAMES[what]}" for what in EXPORTED}
    options = "".join(f" {quoted(word)}" for word in settings.options(settings.one_backbone))
    found["c"] = f"tinytrain emit {images} --shots {shots_of(project)}{options} -o firmware/"
    found["images"] = f"cd {quoted(str(project.path))} && zip -r images.zip images"
    return [{"what": what, "line": line} for what, line in found.items()]


def shots_of(project: Project) -> int:
    """Images of every class that a microcontroller gets: it wants the same number of each."""
    return min(map(len, project.classes().values()), default=0) or 1


def exported(project: Project, what: str) -> bytes:
    """The file of one of EXPORTED. Raises what `tinytrain.export` raises."""
    from tinytrain.api.deltas import export

    if not project.state.is_dir():
        raise InputError("store-missing", NOTHING)
    with tempfile.TemporaryDirectory(prefix=TAKEN, dir=project.path) as folder:
        path = Path(folder) / NAMES[what]
        export(project.state, path)
        return path.read_bytes()


def firmware(project: Project, settings: Settings) -> bytes:
    """The C library as a ZIP file. Raises what `tinytrain.emit` raises."""
    from tinytrain.api.emit import emit
    from tinytrain.datasets.folder import folder_dataset, folder_episode

    episode = folder_episode(folder_dataset(project.images), shots_of(project), hold_out=0)
    with tempfile.TemporaryDirectory(prefix=TAKEN, dir=project.path) as folder:
        made = Path(folder) / "firmware"
        emit(settings.one_backbone, episode, made, settings.budget())
        files = sorted(path for path in made.rglob("*") if path.is_file())
        return b"".join(zipped((path, str(path.relative_to(folder))) for path in files))


def images(project: Project) -> Iterator[bytes]:
    """All images as a ZIP file, piece by piece."""
    every = ((name, image.path) for name, of in project.classes().items() for image in of)
    return zipped((path, f"images/{name}/{printable(path.name)}") for name, path in every)


def zipped(files: Iterable[tuple[Path, str]]) -> Iterator[bytes]:
    """A ZIP file of files with these names; what has vanished meanwhile is left out."""
    held = _Held()
    with zipfile.ZipFile(held, "w", strict_timestamps=False) as archive:
        for path, name in files:
            with contextlib.suppress(FileNotFoundError):
                archive.write(path, name)
            yield held.taken()
    yield held.taken()


class _Held(io.RawIOBase):
    """What was written since it was taken last; a ZIP file need not go back in it."""

    def __init__(self):
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data
