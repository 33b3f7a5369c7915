"""The folder of files that can be made again: compiled kernels and downloaded backbones."""

import os
from pathlib import Path

VARIABLE = "TINYTRAIN_CACHE"


def cache_folder(part: str) -> Path:
    """Folder `part` of ``$TINYTRAIN_CACHE``, or of ``tinytrain`` in the user's cache folder; not created."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen) / part
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tinytrain" / part
