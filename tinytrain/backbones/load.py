"""Loads a network by path or name. Imports nothing heavy before it reads one."""

from __future__ import annotations

import contextlib
import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tinytrain.backbones.catalogue import (
    AUTO,
    BACKBONES,
    JOINS,
    MOTION,
    NAMES,
    SHIPPED,
    is_name,
    local_file,
    named,
    parts_of,
)
from tinytrain.backbones.remembered import recall, remember
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.file_kinds import ROLES, refuse_other_kinds

if TYPE_CHECKING:
    from tinytrain.delta.delta import Delta
    from tinytrain.network.committee import Committee
    from tinytrain.network.network import Network


def open_backbone(path: str | None, alone: str | None = None) -> Network | Committee:
    """The network of ``--backbone``, a path or a name; the default is the one in the package.

    Raises UsageError ``unsupported`` for a committee if it is for what takes one network `alone`.
    """
    found = load_backbone(SHIPPED.name if path is None else path)
    if alone and len(parts_of(path or "")) > 1:
        from tinytrain.network.committee import alone as one

        return one(found, alone)
    return found


def load_backbone(path: str | os.PathLike) -> Network | Committee:
    """Network of one of our ``.safetensors`` files, of a published ``.pkl`` checkpoint, or of a name or tier
    in `tinytrain.backbones.catalogue`; of several of these joined by "+" a committee.

    Raises InputError, ``file-kind`` for a file of another kind, ``backbone-not-here`` for what is neither a
    file nor a name, and what `Committee` raises.
    """
    name = os.fspath(path)
    if named(name):
        return _load_named(name)
    if MOTION.fullmatch(name):
        from tinytrain.backbones.motion import motion_network

        return motion_network(name)
    if len(parts := parts_of(name)) > 1:
        from tinytrain.network.committee import Committee

        return Committee(tuple(map(load_backbone, parts)))
    suffix = Path(path).suffix.lower()
    if suffix == ".pkl":
        # Imported here, because most runs do not read zip files and pickles.
        from tinytrain.backbones.torch_checkpoint import import_checkpoint

        return import_checkpoint(path)
    refuse_other_kinds(path, "backbone")
    if suffix == ".safetensors" or Path(path).is_file():
        from tinytrain.network.file import load_network

        return load_network(path)
    raise _no_backbone(name)


def backbone_of(delta: Delta) -> Network | Committee:
    """The network or committee from which `delta` was made. Raises what `find_backbone` raises."""
    found = tuple(find_backbone(part.backbone, part.backbone_name) for part in delta.parts)
    if not delta.members:
        return found[0]
    from tinytrain.network.committee import Committee

    return Committee(found)


def backbone_option(delta: Delta) -> str:
    """What ``--backbone`` takes for the network or committee from which `delta` was made."""
    noted = ((recall(part.backbone), part.backbone_name) for part in delta.parts)
    return JOINS.join(os.fspath(path) if path and path.is_file() else name for path, name in noted)


def find_backbone(digest: str, name: str) -> Network:
    """The network with this sha256 `digest`, from which a delta was made; `name` is what it was called.

    It may be the shipped one, one in the cache folder, or a file that `remember_backbone` noted. The digest
    is checked. Raises InputError ``backbone-not-here``.
    """
    rows = sorted(BACKBONES.values(), key=lambda row: row.name != name)
    known = [row.path for row in rows if row.digest in (None, digest)]
    known += [name] if MOTION.fullmatch(name) else []
    remembered = recall(digest)
    for path in [*known, *([remembered] if remembered else [])]:
        with contextlib.suppress(InputError, OSError):
            network = load_backbone(path)
            if network.digest == digest:
                return network
    raise _not_here(digest, name, remembered)


def remember_backbone(path: str | os.PathLike | None, network: Network | Committee) -> None:
    """Note that the file `path` holds `network`, so that `find_backbone` finds it; names need no note."""
    if path is None:
        return
    members = getattr(network, "members", (network,))
    for file, member in zip(parts_of(os.fspath(path)), members, strict=True):
        if not is_name(file):
            remember(member.digest, file)


def _no_backbone(name: str) -> InputError | UsageError:
    if os.path.isdir(name):
        return InputError("file-kind", f"{name} is a folder; {ROLES['backbone'][1]}")
    if name == AUTO:
        return UsageError("unsupported", "auto chooses by the images of an adaptation; name a network here")
    closest = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
    hint = f"did you mean {closest[0]}? " if closest else ""
    return InputError(
        "backbone-not-here",
        f"{name!r} is neither a file nor the name of a backbone; {hint}known names: {', '.join(NAMES)}",
    )


def _not_here(digest: str, name: str, remembered: Path | None) -> InputError:
    what = f"the delta needs the backbone {name} with digest {digest[:12]}, which was not found"
    row = BACKBONES.get(name)
    if row and row.is_published and not row.path.is_file():
        return InputError("backbone-not-here", f"{what}; run: tinytrain backbones get {name}")
    was = f"; it was {remembered}, which is gone or has changed" if remembered else ""
    return InputError(
        "backbone-not-here", f"{what}{was}; give the network it was made from with --backbone FILE"
    )


def _load_named(name: str) -> Network:
    from tinytrain.network.file import load_network

    path = local_file(name)
    try:
        return load_network(path)
    except InputError as error:
        row = named(name)
        if not row.is_published:
            raise
        raise InputError(
            "file-damaged", f"{row.name}: {error}; run: tinytrain backbones get {row.name}"
        ) from error
