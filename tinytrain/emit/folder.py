"""The folder that ``tinytrain emit`` writes."""

import os
from pathlib import Path

from tinytrain.base.files import write_bytes
from tinytrain.emit.adapt import c_adapt
from tinytrain.emit.device import HEADS, Device
from tinytrain.emit.draws import Draws
from tinytrain.emit.tables import c_draws, c_network, c_plan

SOURCES = Path(__file__).parent / "c"


def files_of(device: Device, draws: Draws) -> dict[str, str]:
    """All files by name."""
    others = set(HEADS.values()) - {HEADS[device.recipe.head]}
    fixed = {path.name: path.read_text() for path in sorted(SOURCES.iterdir()) if path.name not in others}
    return fixed | {
        "adapt.c": c_adapt(device),
        "draws.c": c_draws(device, draws),
        "network.c": c_network(device.network),
        "plan.h": c_plan(device, draws),
    }


def write_folder(folder: str | os.PathLike, files: dict[str, str]) -> None:
    """Write the files. Raises StorageError."""
    os.makedirs(folder, exist_ok=True)
    for name, text in files.items():
        write_bytes(os.path.join(folder, name), text.encode())
