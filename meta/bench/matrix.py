"""A matrix: which policies meet on which backbones, packs and episodes. Strict YAML into dataclasses."""
# ruff: noqa: RUF009 - `of` makes a dataclass field

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.schema import WrongError, count, list_of, named, number, of, parsed, table, text
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.base.yaml_file import read_yaml
from tinytrain.meta.bench.rates import load_rates
from tinytrain.meta.bench.sampler import DEFAULT_MACS, DEFAULT_MEMORY, Entry, Sampler
from tinytrain.policies.own import pinned

FOLDER = Path(__file__).parent / "matrices"
NAMES = list_of(text, 1)


def quantity(parse, example: str):
    """A text that `parse` understands, or a plain number."""

    def check(value, where):
        try:
            return parse(str(value))
        except UsageError:
            raise WrongError(where, value, f"for example {example}") from None

    return check


SIZE, FRACTION = quantity(parse_bytes, "1MB"), quantity(parse_fraction, "15%")


@dataclass(frozen=True)
class PolicySettings:
    """What a label stands for: by default the policy of that name, inside the limits of the matrix.

    `policy`: NAME or FILE.py:NAME, with +HEAD or +FILE.py:HEAD behind it. Such a file is executed.

    `rate_of`: it takes the learning rates that `tinytrain bench tune` finds for that label, and is not tuned.
    """

    policy: str | None = of(text, None)
    memory: int | None = of(SIZE, None)
    macs: float | None = of(FRACTION, None)
    rate_of: str | None = of(text, None)


@dataclass(frozen=True)
class BackboneSettings:
    """A network `file`, the command that makes it, and the backbone that it is trained from."""

    file: str = of(text)
    made_by: str = of(text, "")
    trained_from: str | None = of(text, None)


@dataclass(frozen=True)
class Cell:
    """Every policy on every pack with every backbone, `episodes` of each."""

    backbones: tuple[str, ...] = of(NAMES)
    packs: tuple[str, ...] = of(NAMES)
    policies: tuple[str, ...] = of(NAMES)
    episodes: int = of(count(1, 10_000))
    sampler: Sampler = of(table(Sampler), Sampler)


@dataclass(frozen=True)
class Tuning:
    """The same `grid` of rate scales and as many `episodes` of each of the `packs`, no targets, for all."""

    backbone: str = of(text)
    packs: tuple[str, ...] = of(NAMES)
    episodes: int = of(count(2, 10_000), 20)
    grid: tuple[float, ...] = of(list_of(number(1e-6, 1e6), 4), (0.25, 0.5, 1.0, 2.0, 4.0))
    sampler: Sampler = of(table(Sampler), Sampler)


@dataclass(frozen=True)
class Matrix:
    """`rates`: file of tuned learning rates, beside the matrix; without it policies keep their own."""

    name: str = of(text)
    cells: tuple[Cell, ...] = of(list_of(table(Cell), 1))
    policies: dict[str, PolicySettings] = field(
        default_factory=dict, metadata={"check": named(table(PolicySettings))}
    )
    backbones: dict[str, BackboneSettings] = field(
        default_factory=dict, metadata={"check": named(table(BackboneSettings))}
    )
    tuning: Tuning | None = of(table(Tuning), None)
    rates: str | None = of(text, None)
    memory: int = of(SIZE, DEFAULT_MEMORY)
    macs: float = of(FRACTION, DEFAULT_MACS)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label in use, in order of appearance."""
        return tuple(dict.fromkeys(label for cell in self.cells for label in cell.policies))

    @property
    def run_backbones(self) -> tuple[str, ...]:
        """Every backbone of a cell, in order of appearance."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.backbones))

    @property
    def starts(self) -> dict[str, str]:
        """The backbone that each trained one was trained from, by its name."""
        return {name: row.trained_from for name, row in self.backbones.items() if row.trained_from}

    def settings(self, label: str) -> PolicySettings:
        return self.policies.get(label, PolicySettings())

    def scale(self, label: str, rates: Mapping[str, float]) -> float | None:
        """The rate scale in `rates` of `label`, or of the label whose rates it takes; None if not tuned."""
        return rates.get(self.settings(label).rate_of or label)

    def entry(self, label: str, scale: float = 1.0) -> Entry:
        """The row called `label`, its learning rates times `scale`."""
        row = self.settings(label)
        memory = self.memory if row.memory is None else row.memory
        macs = self.macs if row.macs is None else row.macs
        return Entry(label, pinned(row.policy or label), scale, memory, macs)


def load_matrix(path: str | os.PathLike) -> tuple[Matrix, dict[str, float]]:
    """The matrix in the file `path`, or the shipped one so called, and its rate scales. Raises InputError."""
    shipped = FOLDER / f"{os.fspath(path)}.yaml"
    found = shipped if os.sep not in os.fspath(path) and shipped.is_file() else Path(path)
    matrix = parsed(table(Matrix), read_yaml(found, "bad-value"), str(found), "bad-value")
    for wrong in _contradictions(matrix):
        raise InputError("bad-value", f"{found}: {wrong}")
    rates = found.parent / matrix.rates if matrix.rates else None
    return matrix, load_rates(rates) if rates and rates.is_file() else {}


def _contradictions(matrix: Matrix) -> Iterator[str]:
    """Rows of a matrix that contradict each other, each with a remedy."""
    tuning, labels, run = matrix.tuning, matrix.labels, matrix.run_backbones
    # A row of `policies` or `backbones` that no cell names would change nothing: its name is mistyped.
    of_tuning = (tuning.backbone,) if tuning else ()
    backbones = tuple(dict.fromkeys((*run, *of_tuning)))
    names = {"policies": (matrix.policies, labels), "backbones": (matrix.backbones, backbones)}
    for what, (rows, used) in names.items():
        for name in rows:
            if name not in used:
                count = len(matrix.cells)
                yield f"{what}.{name} is in none of the {count} cells; take one of {', '.join(used)}"
    targets = {pack for cell in matrix.cells for pack in cell.packs}
    if both := targets.intersection(tuning.packs if tuning else ()):
        yield f"{min(both)} of tuning.packs is one of the {len(targets)} targets; take another"
    for label, row in matrix.policies.items():
        if row.rate_of and (row.rate_of not in labels or matrix.settings(row.rate_of).rate_of):
            one = f"take one of the {len(labels)} labels that is tuned itself"
            yield f"policies.{label}.rate_of is {row.rate_of!r}; {one}"
    for name, start in matrix.starts.items():
        if start not in run:
            yield f"backbones.{name}.trained_from is {start!r}; take one of {', '.join(run)}"
