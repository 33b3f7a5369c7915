"""Tuned learning rates in a small file: what every policy takes, and what every factor gave."""

import json
import os
from dataclasses import asdict, dataclass, field

import yaml

from tinytrain.base.files import write_bytes
from tinytrain.base.schema import WrongError, count, flag, list_of, named, number, of, parsed, table, text
from tinytrain.base.yaml_file import read_yaml

FRACTION = number(0, 1)


def tried(value, where):
    """A mean accuracy, or None for a factor that was not tried."""
    return None if value is None else FRACTION(value, where)


@dataclass(frozen=True)
class TunedRate:
    """`scale` is taken; `best` has the best mean, `edge`: at an end of what was tried; `accuracy` by factor.

    None stands for a factor of the grid that only other policies tried.
    """

    scale: float = of(number(1e-6, 1e6))
    best: float = of(number(1e-6, 1e6))
    edge: bool = of(flag)
    accuracy: tuple[float | None, ...] = of(list_of(tried, 1))


@dataclass(frozen=True)
class Rates:
    """What `tinytrain bench tune` found: `episodes` of each pack, and every factor in rising order."""

    backbone: str = of(text)
    packs: tuple[str, ...] = of(list_of(text, 1))
    sampler: str = of(text)
    episodes: int = of(count(1, 10_000))
    code: str = of(text)
    grid: tuple[float, ...] = of(list_of(number(1e-6, 1e6), 1))
    policies: dict[str, TunedRate] = field(default_factory=dict, metadata={"check": named(table(TunedRate))})

    def __post_init__(self):
        for label, row in self.policies.items():
            for name in ("scale", "best"):
                if (factor := getattr(row, name)) not in self.grid:
                    raise WrongError(f"policies.{label}.{name}", factor, "a factor of the grid")
            if len(row.accuracy) != len(self.grid):
                allowed = f"{len(self.grid)} figures, one of each factor of the grid"
                raise WrongError(f"policies.{label}.accuracy", list(row.accuracy), allowed)


def read_rates(path: str | os.PathLike) -> Rates:
    """Raises InputError."""
    return parsed(table(Rates), read_yaml(path, "bad-value"), os.fspath(path), "bad-value")


def load_rates(path: str | os.PathLike) -> dict[str, float]:
    """Rate scale by label. Raises InputError."""
    return {label: tuned.scale for label, tuned in read_rates(path).policies.items()}


def save_rates(path: str | os.PathLike, rates: Rates) -> None:
    """Raises StorageError; the old file then stays."""
    content = json.loads(json.dumps(asdict(rates)))  # YAML has no tuples
    write_bytes(path, yaml.safe_dump(content, sort_keys=False).encode())
