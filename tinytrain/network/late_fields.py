"""Fields that came after the first files: out of files and digests as long as they have their default.

So a network that uses none of them is written, and has the digest, as before they came.
"""

from dataclasses import asdict, field, fields

LATE = "late"


def late(default):
    """A field of a dataclass that files of older schemas do not have."""
    return field(default=default, metadata={LATE: True})


def late_names(kind: type) -> set[str]:
    """Names of the late fields of the dataclass `kind`."""
    return {each.name for each in fields(kind) if LATE in each.metadata}


def used(value) -> list[str]:
    """Names of the late fields of `value`, a dataclass, that differ from their default."""
    late = (each for each in fields(value) if LATE in each.metadata)
    return [each.name for each in late if getattr(value, each.name) != each.default]


def written(value) -> dict:
    """The fields of `value`, a dataclass, as files and digests have them."""
    out = late_names(type(value)).difference(used(value))
    return {name: content for name, content in asdict(value).items() if name not in out}
