"""A part of a matrix: some of its backbones, packs and policies, and fewer episodes."""

from collections.abc import Collection
from dataclasses import replace

from tinytrain.base.errors import UsageError
from tinytrain.meta.bench.matrix import Matrix

UNKNOWN = "{} has no {!r} in its {} {}: {}"
LOST = "{} has {!r} in no cell with the others that are asked for; leave it out or take another matrix"


def narrowed(
    matrix: Matrix,
    backbones: Collection[str] | None = None,
    packs: Collection[str] | None = None,
    policies: Collection[str] | None = None,
    episodes: int | None = None,
) -> Matrix:
    """`matrix` with only the rows named (None: all).

    Raises UsageError for a name that no row has, or that no row has together with the others.
    """
    cells = []
    for cell in matrix.cells:
        kept = replace(
            cell,
            backbones=_kept(cell.backbones, backbones),
            packs=_kept(cell.packs, packs),
            policies=_kept(cell.policies, policies),
            episodes=min(cell.episodes, episodes or cell.episodes),
        )
        if kept.backbones and kept.packs and kept.policies:
            cells.append(kept)
    wanted = {"backbones": backbones, "packs": packs, "policies": policies}
    for some, text in ((matrix.cells, UNKNOWN), (cells, LOST)):
        for what, asked in wanted.items():
            known = sorted({name for cell in some for name in getattr(cell, what)})
            if lost := [name for name in asked or () if name not in known]:
                told = text.format(matrix.name, lost[0], len(known), what, ", ".join(known))
                raise UsageError("unknown-name", told)
    return replace(matrix, cells=tuple(cells))


def _kept(names: tuple[str, ...], wanted: Collection[str] | None) -> tuple[str, ...]:
    return names if wanted is None else tuple(name for name in names if name in wanted)
