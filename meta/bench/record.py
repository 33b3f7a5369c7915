"""What a line of a log must hold before anything is counted or compared, and what tells runs apart."""

from collections.abc import Iterable

from tinytrain.base.schema import WrongError, count, holding, named, number, text
from tinytrain.base.units import LARGEST

KEY = (
    "pack", "episode", "seed", "label", "policy", "rate_scale", "budget", "macs_share", "backbone_digest",
    "sampler", "code",
)  # fmt: skip
SIZE, COST = count(1, LARGEST), number(0, LARGEST)
_CHECKS = {
    **dict.fromkeys(("backbone", "backbone_digest", "pack", "sampler", "label", "policy", "code"), text),
    "episode": count(0),
    "seed": count(0, LARGEST),
    "rate_scale": number(0, LARGEST),
    "budget": SIZE,
    "macs_share": number(0, LARGEST),
    "accuracy": holding(dict.fromkeys(("before", "after"), number(0, 1))),
    "seconds": named(COST),
    "memory": holding(
        dict.fromkeys(("arena", "paper", "batch_1", "batch_100"), SIZE)
        | {"trained_parameters": count(0, LARGEST)}
    ),
    "macs": holding(
        dict.fromkeys(("backward_per_sample", "backward_per_query", "total"), COST) | {"full_backward": SIZE}
    ),
    "head": text,
    "refused": text,
}
_RECORD = holding(_CHECKS, optional=("memory", "macs", "head", "refused"))


def checked(value) -> dict:
    """What is used of the record `value`. Raises WrongError for what is none."""
    memory = value.get("memory") if isinstance(value, dict) else None
    if isinstance(memory, dict) and "trained_numbers" in memory:  # as logs of 0.2 have it
        value = value | {"memory": memory | {"trained_parameters": memory["trained_numbers"]}}
    record = _RECORD(value, "")
    if "wall" not in record["seconds"]:
        raise WrongError("seconds.wall", "missing", "a value; it has no default")
    if ("memory" in record) != ("macs" in record):
        raise WrongError("the content", "memory or macs alone", "both of them or none")
    return record


def key_of(record: dict, any_code: bool = False) -> tuple:
    """What tells runs apart; with `any_code` runs of different code are the same run."""
    return tuple(record[name] for name in KEY if name != "code" or not any_code)


def keys_of(records: Iterable[dict], any_code: bool = False) -> set[tuple]:
    return {key_of(record, any_code) for record in records}
