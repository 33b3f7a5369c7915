"""The complete state of a run in one file, written all or not at all."""

import glob
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.files import write_bytes
from tinytrain.base.locks import lock, lock_failed, open_lock
from tinytrain.base.safetensors import encode, parse_json, read_file

KIND = "tinytrain-checkpoint"


@dataclass(frozen=True)
class Paths:
    """Files of a run, beside its result."""

    result: Path

    def beside(self, suffix: str) -> Path:
        return self.result.with_name(self.result.name.removesuffix(".safetensors") + suffix)

    @property
    def checkpoint(self) -> Path:
        return self.beside(".checkpoint")

    @property
    def log(self) -> Path:
        return self.beside(".jsonl")

    @property
    def curve(self) -> Path:
        return self.beside(".svg")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other runs away from these files. Raises StorageError ``store-busy`` or ``write-failed``."""
        path = self.beside(".lock")
        try:
            descriptor = open_lock(path)
        except OSError as error:
            raise lock_failed(path, error) from error
        with open(descriptor, "wb") as file:
            if not lock(file.fileno()):
                raise StorageError(
                    "store-busy", f"another run is writing {self.checkpoint}; let it end or give another -o"
                )
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a run that was killed in the middle of writing left beside its files."""
        for path in (self.result, self.checkpoint, self.log, self.curve):
            for left in path.parent.glob(f".{glob.escape(path.name[:100])}.*.tmp"):
                left.unlink(missing_ok=True)


def save_checkpoint(path: Path, arrays: dict[str, np.ndarray], state: dict) -> None:
    """Write named float32 `arrays` and JSON `state`. Raises StorageError; the old file then stays."""
    metadata = {"kind": KIND, "state": json.dumps(state, sort_keys=True)}
    write_bytes(path, encode(arrays, metadata))


def load_checkpoint(path: Path, digest: str) -> tuple[dict[str, np.ndarray], dict] | None:
    """Arrays (writable) and state of the checkpoint of the run `digest`; None if there is no file.

    Raises InputError ``file-kind`` for another file and ``run-mismatch`` for another run's.
    """
    if not path.exists():
        return None
    tensors, metadata = read_file(path)
    if metadata.get("kind") != KIND or "state" not in metadata:
        raise InputError("file-kind", f"{path} is no checkpoint of ours; move it away")
    state = parse_json(metadata["state"], f"{path}: state", floats=True)
    if state.get("digest") != digest:
        raise InputError(
            "run-mismatch",
            f"{path} belongs to another recipe, network or seed; give --restart to drop it or another -o",
        )
    return {name: array.copy() for name, array in tensors.items()}, state
