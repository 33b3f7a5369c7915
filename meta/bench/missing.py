"""What a matrix plans and a log does not hold: a comparison says itself what it lacks."""

from collections import Counter
from collections.abc import Iterable

from tinytrain.meta.bench.document import Block, Heading, Table, Text
from tinytrain.meta.bench.matrix import Matrix


def missing(matrix: Matrix, records: Iterable[dict]) -> list[dict]:
    """Rows of label, backbone and sampler of which runs are missing, with how many of how many."""
    done = {tuple(r[k] for k in ("label", "backbone", "sampler", "pack", "episode")) for r in records}
    planned = {
        (label, backbone, cell.sampler.name, pack, episode)
        for cell in matrix.cells
        for label in cell.policies
        for backbone in cell.backbones
        for pack in cell.packs
        for episode in range(cell.episodes)
    }
    of = Counter(run[:3] for run in planned)
    lacking = Counter(run[:3] for run in planned - done)
    names = ("label", "backbone", "sampler")
    return [
        {**dict(zip(names, kind, strict=True)), "missing": lacking[kind], "planned": of[kind]}
        for kind in sorted(lacking)
    ]


def missing_blocks(name: str, rows: list[dict]) -> list[Block]:
    """A section that names every row, or says that nothing is missing."""
    heading = Heading(f"Missing of the matrix {name}")
    if not rows:
        return [heading, Text("Nothing.")]
    header = ("policy", "backbone", "episodes", "runs missing", "runs planned")
    lines = tuple(
        (r["label"], r["backbone"], r["sampler"], str(r["missing"]), str(r["planned"])) for r in rows
    )
    return [heading, Text("Runs that were planned and are not in the logs."), Table(header, lines)]
