"""Tuned learning rates in a small file: the best factor of every policy, and what the others gave."""

import os
from dataclasses import asdict, dataclass, field

import yaml

from tinytrain.atomic import write_bytes
from tinytrain.meta.schema import count, flag, list_of, named, number, of, parsed, read_yaml, table, text

SHARE = number(0, 1)


@dataclass(frozen=True)
class TunedRate:
    """`scale` of the grid with the best mean; `edge`: it is the first or the last; `accuracy` of each."""

    scale: float = of(number(1e-6, 1e6))
    edge: bool = of(flag)
    accuracy: tuple[float, ...] = of(list_of(SHARE, 1))


@dataclass(frozen=True)
class Rates:
    """What `tinytrain bench tune` found, and with which effort."""

    backbone: str = of(text)
    pack: str = of(text)
    sampler: str = of(text)
    episodes: int = of(count(1, 10_000))
    code: str = of(text)
    grid: tuple[float, ...] = of(list_of(number(1e-6, 1e6), 1))
    policies: dict[str, TunedRate] = field(default_factory=dict, metadata={"check": named(table(TunedRate))})


def read_rates(path: str | os.PathLike) -> Rates:
    """Raises InputError."""
    return parsed(table(Rates), read_yaml(path, "rates"), os.fspath(path), "rates")


def load_rates(path: str | os.PathLike) -> dict[str, float]:
    """Rate scale by label. Raises InputError."""
    return {label: tuned.scale for label, tuned in read_rates(path).policies.items()}


def save_rates(path: str | os.PathLike, rates: Rates) -> None:
    """Raises StorageError; the old file then stays."""
    write_bytes(path, yaml.safe_dump(_plain(asdict(rates)), sort_keys=False).encode())


def _plain(value):
    """YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value
