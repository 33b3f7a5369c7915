"""The published seeds: episode k of every comparison is drawn and adapted with number k of this list."""

from pathlib import Path

from tinytrain.base.errors import UsageError

PATH = Path(__file__).with_name("seeds.txt")


def seeds(count: int) -> tuple[int, ...]:
    """The first `count` seeds. Raises UsageError if the list is shorter."""
    known = PATH.read_text(encoding="ascii").split()
    if count > len(known):
        raise UsageError("usage", f"{count} episodes asked for; the list has {len(known)} seeds")
    return tuple(int(seed) for seed in known[:count])
