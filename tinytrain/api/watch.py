"""`tinytrain.Watcher` and `tinytrain.watch`: `tinytrain.stream` with names, paths and stores."""

import os
import warnings
from collections.abc import Iterable, Iterator

from tinytrain.api.opening import open_delta, open_network
from tinytrain.base.errors import InputError
from tinytrain.base.events import Note
from tinytrain.delta.delta import Delta
from tinytrain.network.network import Network
from tinytrain.report import Report
from tinytrain.store import Start, Store
from tinytrain.store.kept import MOST
from tinytrain.stream import watcher
from tinytrain.stream.events import Verdict
from tinytrain.stream.sources import FolderSource


class Watcher(watcher.Watcher):
    """Images one after another, verdicts, and corrections that are learnt at once.

    ::

        watcher = tinytrain.Watcher("state")
        for seen in watcher.watch(["a.jpg", "b.jpg"]):
            print(seen.key, seen.name, seen.verdict.confidence, seen.drift)
        watcher.correct("b.jpg", "oak")  # new=True if that is a new class
        watcher.undo()

    `delta` is a `Store` or the path of its folder, in which all that is learnt is kept (opening it counts as
    a start), or a delta as in `Predictor`, and then nothing is kept. `network` is as in `Predictor`. A store
    also holds the last `keep` corrected images. Warnings of a store are given as such. Raises InputError for
    a delta of another backbone, ``store-missing``, or if the backbone is not found.
    """

    def __init__(
        self,
        delta: str | os.PathLike | Store | Delta | Report,
        network: str | os.PathLike | Network | None = None,
        keep: int = MOST,
        backend: str = "auto",
    ):
        store, start, found = _opened(delta, backend)
        super().__init__(open_network(network, found), found, store, start, keep, backend)


def watch(
    delta: str | os.PathLike | Store | Delta | Report,
    images: str | os.PathLike | Iterable,
    network: str | os.PathLike | Network | None = None,
    reject: float | None = None,
) -> Iterator[Verdict]:
    """The verdict on each of `images`, as they come: ``for seen in tinytrain.watch("state", "camera"):``.

    `images` is an iterable of images as `Predictor` takes them, which may be endless, or the path of a folder
    that a camera writes to, whose images are given as they come, without end. `delta` and `network` are as
    in `Watcher`, which also takes corrections. An image of a folder that cannot be read is warned of. None
    of the classes if the confidence is below `reject`. Raises InputError.
    """
    watcher = Watcher(delta, network)
    if not isinstance(images, str | os.PathLike):
        yield from watcher.watch(images, reject)
        return
    store = delta.path if isinstance(delta, Store) else delta
    without = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    for frame in FolderSource(os.fspath(images), watcher.kind, without=without):
        if frame is None:
            watcher.idle()
            continue
        if isinstance(frame, Note):
            warnings.warn(frame.text, stacklevel=2)
            continue
        try:
            yield watcher.look_at(frame, reject)
        except InputError as error:
            warnings.warn(str(error), stacklevel=2)


def _opened(delta, backend: str) -> tuple[Store | None, Start | None, Delta]:
    """The store with its start, if `delta` is one, and the delta itself."""
    if isinstance(delta, str | os.PathLike) and os.path.isdir(delta):
        delta = Store(delta, backend)
    if not isinstance(delta, Store):
        return None, None, open_delta(delta)
    start = delta.start()
    for line in start.warnings:
        warnings.warn(line, stacklevel=3)
    if start.delta is None:
        raise InputError("store-missing", f"{delta.path} has 0 deltas in use; add one with 'tinytrain apply'")
    return delta, start, start.delta
