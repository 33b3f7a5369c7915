"""From a matrix to jobs: one episode each, with every policy that it is still to be run with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.bench.matrix import Cell, Matrix
from tinytrain.meta.bench.sampler import Entry, Sampler, seeds


@dataclass(frozen=True)
class Backbone:
    """A network by the name that the matrix gives it, where it is read from, and its digest."""

    name: str
    file: str
    digest: str


@dataclass(frozen=True)
class Job:
    """One episode with the policies that it is run with; everything that a worker needs to know."""

    backbone: Backbone
    pack: str
    sampler: Sampler
    episode: int
    seed: int
    entries: tuple[Entry, ...]
    data: str | None = None
    code: str = ""

    def identity(self, entry: Entry) -> dict:
        """What one run is, and nothing that it found out: its key in the log."""
        return {
            "backbone": self.backbone.name,
            "backbone_digest": self.backbone.digest,
            "pack": self.pack,
            "sampler": self.sampler.name,
            "episode": self.episode,
            "seed": self.seed,
            "label": entry.label,
            "policy": entry.policy,
            "rate_scale": entry.rate_scale,
            "budget": entry.memory,
            "macs_share": entry.macs,
            "code": self.code,
        }


def open_backbones(matrix: Matrix, names: Iterable[str], files: Mapping[str, str]) -> dict[str, Backbone]:
    """The backbones of these names; `files` come before those of the matrix. Raises InputError."""
    found = {}
    for name in dict.fromkeys(names):
        row = matrix.backbones.get(name)
        file = files.get(name) or (row.file if row else name)
        try:
            found[name] = Backbone(name, file, load_backbone(file).digest)
        except InputError as error:
            if not row or not row.made_by or name in files:
                raise
            raise InputError(
                "backbone-not-here", f"{error}; make it with '{row.made_by}' or give --backbone {name}=FILE"
            ) from error
    return found


def expand(
    matrix: Matrix, rates: Mapping[str, float], backbones: Mapping[str, Backbone], data: str | None = None
) -> list[Job]:
    """All jobs, episode by episode, so that a log which was stopped has about as many of everything."""
    merged: dict[tuple, Job] = {}
    for cell in matrix.cells:
        entries = tuple(matrix.entry(label, matrix.scale(label, rates) or 1.0) for label in cell.policies)
        for job in _of_cell(cell, entries, backbones, data):
            key = (job.backbone.name, job.pack, job.sampler, job.episode)
            known = merged.get(key)
            both = dict.fromkeys((*known.entries, *entries)) if known else entries
            merged[key] = replace(job, entries=tuple(both))
    return sorted(merged.values(), key=lambda job: job.episode)


def _of_cell(cell: Cell, entries, backbones, data) -> Iterable[Job]:
    code = code_hash()
    for k, seed in enumerate(seeds(cell.episodes)):
        for name in cell.backbones:
            for pack in cell.packs:
                yield Job(backbones[name], pack, cell.sampler, k, seed, entries, data, code)


def pending(jobs: Iterable[Job], done: Callable[[dict], bool]) -> list[Job]:
    """What is left of `jobs` when runs that are `done` (by their identity) are taken out."""
    left = []
    for job in jobs:
        entries = tuple(entry for entry in job.entries if not done(job.identity(entry)))
        if entries:
            left.append(replace(job, entries=entries))
    return left


def count_runs(jobs: Iterable[Job]) -> int:
    return sum(len(job.entries) for job in jobs)
