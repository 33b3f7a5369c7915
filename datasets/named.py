"""Datasets by name: generated domains, packs, target sets, or folders."""

import difflib
import os
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.generated import CLIPS, DOMAINS, domain


def open_dataset(name_or_path: str | os.PathLike, data_dir: str | os.PathLike | None = None) -> Dataset:
    """A domain or pack by name, an .npz file, a target set, or a folder with a folder per class.

    A target set is ``NAME:DIR``, ``gtsrb:downloads`` for example, or ``NAME/PART:DIR`` for other classes than
    those that are tested on. ``free_photos:DIR`` and ``free_emoji:DIR`` are what these packs are made of.
    Names come before paths; write ``./signs`` for a folder called like a domain.
    Raises InputError, for an unknown name with the closest known one.
    """
    name = os.fspath(name_or_path)
    if name in DOMAINS + CLIPS:
        return domain(name)()
    # A domain that is drawn needs none of these.
    from tinytrain.datasets.development import DEVELOPMENT, open_development
    from tinytrain.datasets.folder import folder_dataset
    from tinytrain.datasets.free_emoji import NAME as FREE_EMOJI
    from tinytrain.datasets.free_emoji import open_free_emoji
    from tinytrain.datasets.free_photos import NAME as FREE_PHOTOS
    from tinytrain.datasets.free_photos import open_free_photos
    from tinytrain.datasets.meta_dataset import TARGETS, open_target
    from tinytrain.datasets.packs import PACKS, load_pack

    free = {FREE_PHOTOS: open_free_photos, FREE_EMOJI: open_free_emoji}  # what these packs are made of
    if name in DEVELOPMENT:
        return open_development(name, data_dir)
    if name in PACKS or name.endswith(".npz"):
        return load_pack(name, data_dir)
    target, colon, folder = name.partition(":")
    target, _, part = target.partition("/")
    if colon and target in free:
        return free[target](Path(folder))
    if colon and target in TARGETS:
        return open_target(target, folder, part or "test")
    if os.sep in name or Path(name).is_dir():
        return folder_dataset(name)
    known = [*DOMAINS, *CLIPS, *PACKS, *DEVELOPMENT, *(f"{target}:DIR" for target in TARGETS)]
    closest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {closest[0]!r}? " if closest else ""
    raise InputError(
        "unknown-name", f"{name!r} is no folder, pack or domain; {hint}known names: {', '.join(known)}"
    )
