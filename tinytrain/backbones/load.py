"""Loads a network by path or name. Imports nothing heavy before it reads one."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tinytrain.backbones.catalogue import BACKBONES, SHIPPED, local_file
from tinytrain.base.errors import InputError

if TYPE_CHECKING:
    from tinytrain.network.network import Network


def open_backbone(path: str | None) -> Network:
    """The network of ``--backbone``, a path or a name; the default is the one in the package."""
    return load_backbone(SHIPPED.name if path is None else path)


def load_backbone(path: str | os.PathLike) -> Network:
    """Network of one of our ``.safetensors`` files, of a published ``.pkl`` checkpoint, or of a name in
    `tinytrain.backbones.catalogue`. Raises InputError.
    """
    name = os.fspath(path)
    if name in BACKBONES:
        return _load_named(name)
    suffix = Path(path).suffix.lower()
    if suffix == ".safetensors":
        from tinytrain.network.file import load_network

        return load_network(path)
    if suffix == ".pkl":
        # Imported here, because most runs do not read zip files and pickles.
        from tinytrain.backbones.torch_checkpoint import import_checkpoint

        return import_checkpoint(path)
    closest = difflib.get_close_matches(name, BACKBONES, n=1)
    hint = f"did you mean {closest[0]}? " if closest else ""
    raise InputError(
        "backbone-kind",
        f"{path} ends in {suffix!r}; {hint}supported are .safetensors and published .pkl checkpoints, and the"
        " names that 'tinytrain backbones' lists; 'tinytrain import' makes one of an .onnx model",
    )


def find_backbone(digest: str, name: str) -> Network:
    """The network with this digest: the shipped one, or one that was downloaded or imported to the cache.

    `name` is what messages call it. Raises InputError ``backbone-unknown``.
    """
    rows = sorted(BACKBONES.values(), key=lambda row: (row.digest != digest, row.name != name))
    for row in rows:
        if row.path.is_file() and row.digest in (None, digest):
            network = _load_named(row.name)
            if network.digest == digest:
                return network
    raise InputError(
        "backbone-unknown",
        f"no backbone on this machine has the digest {digest[:12]}; give the file of {name}, from which the"
        " delta was made",
    )


def _load_named(name: str) -> Network:
    from tinytrain.network.file import load_network

    path = local_file(name)
    try:
        return load_network(path)
    except InputError as error:
        if not BACKBONES[name].is_published:
            raise
        raise InputError(
            "backbone-broken", f"{name}: {error}; run: tinytrain backbones get {name}"
        ) from error
