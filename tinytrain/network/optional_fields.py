"""Fields that came after the first files: out of files and digests as long as they have their default.

So a network that uses none of them is written, and has the digest, as before they came.
"""

from dataclasses import asdict, field, fields

OPTIONAL = "optional"


def optional_field(default):
    """A field of a dataclass that files of older schemas do not have."""
    return field(default=default, metadata={OPTIONAL: True})


def optional_names(kind: type) -> set[str]:
    """Names of the optional fields of the dataclass `kind`."""
    return {each.name for each in fields(kind) if OPTIONAL in each.metadata}


def used(value) -> list[str]:
    """Names of the optional fields of `value`, a dataclass, that differ from their default."""
    optional = (each for each in fields(value) if OPTIONAL in each.metadata)
    return [each.name for each in optional if getattr(value, each.name) != each.default]


def written(value) -> dict:
    """The fields of `value`, a dataclass, as files and digests have them."""
    out = optional_names(type(value)).difference(used(value))
    return {name: content for name, content in asdict(value).items() if name not in out}
