"""The side of a server in rounds over HTTP: a folder keeps what came, so that it goes on where it stopped.

``rounds.json`` says which rounds these are, ``round-K/NAME.safetensors`` are the answers, and
``layers-K.safetensors`` the layers after round K.
"""

import json
from pathlib import Path
from typing import NamedTuple

from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.base.safetensors import encode, read_file
from tinytrain.delta.delta import Delta
from tinytrain.federate.grid import HttpGrid
from tinytrain.federate.rounds import Rounds
from tinytrain.federate.task import Task
from tinytrain.plan.plan import MAX_BYTES, plain

FOR_CLIENTS = 30  # seconds that clients have to fetch the result


class Ran(NamedTuple):
    """A round: its name, who has answered, bytes of all answers, and bytes that were sent to clients."""

    name: str
    answered: tuple[str, ...]
    bytes_in: int
    bytes_out: int


def run(rounds: Rounds, grid: HttpGrid) -> tuple[list[Delta], list[str], list[Ran]]:
    """All rounds that are left: deltas to be merged, the names of who sent them, and each round.

    Raises InputError ``run-mismatch`` for a folder of other rounds, and what `Rounds` raises.
    """
    folder, arrays, done, ran = grid.folder, rounds.begin(), 0, []
    _check(rounds, folder)
    while (kept := folder / f"layers-{done + 1}.safetensors").exists() and done < rounds.layers:
        (arrays, _), done = read_file(kept), done + 1
    for number in range(done + 1, rounds.layers + 1):
        arrays = rounds.run_layers(grid, number, arrays)
        write_bytes(folder / f"layers-{number}.safetensors", encode(arrays, {}))
        ran.append(_ran(grid, rounds.task(number)))
    deltas, names = rounds.run_heads(grid, arrays)
    return deltas, names, [*ran, _ran(grid, rounds.task(rounds.layers + 1))]


def finish(grid: HttpGrid, data: bytes, names: list[str], seconds: float = FOR_CLIENTS) -> None:
    """Give the bytes of the merged delta to the clients called `names`, and wait for them so long."""
    with grid.changed:
        grid.result = data
        grid.changed.wait_for(lambda: grid.taken.issuperset(names), seconds)


def _check(rounds: Rounds, folder: Path) -> None:
    facts = {**plain(rounds.task(1)), "strategy": rounds.strategy}
    text, path = json.dumps(facts, sort_keys=True).encode(), folder / "rounds.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_bytes(path, text)
    elif read_bytes(path, MAX_BYTES) != text:
        text = f"{folder} holds rounds with another network or other options; name a new folder"
        raise InputError("run-mismatch", text)


def _ran(grid: HttpGrid, task: Task) -> Ran:
    return Ran(task.name, tuple(sorted(grid.replies)), grid.bytes_in, grid.bytes_out)
