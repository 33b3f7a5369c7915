"""Several networks whose embeddings lie side by side: one that learnt from other data sees other things."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network

MOST_MEMBERS = 10  # a digit numbers them in the file of a delta


def joint_digest(digests: Iterable[str]) -> str:
    """sha256 over the digests of members, in their order."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Committee:
    """Two `members` or more, which all look at the same image. The embedding is theirs, one after another.

    Each part of it has length 1, so that no member drowns the others. Raises InputError for fewer members
    or more than MOST_MEMBERS, for one that is there twice, and for different inputs.
    """

    members: tuple[Network, ...]

    def __post_init__(self):
        if len({member.digest for member in self.members}) < max(2, len(self.members)):
            raise InputError(
                "bad-value", f"{self} has one network more than once; name two or more, each of them once"
            )
        if len(self.members) > MOST_MEMBERS:
            raise InputError("bad-value", f"{len(self.members)} networks given; name at most {MOST_MEMBERS}")
        if len({member.input.item for member in self.members}) > 1:
            found = " and ".join(sorted({m.input.words for m in self.members}))
            text = f"members of {self} take different inputs: {found}; name networks for one input"
            raise InputError("bad-value", text)

    def __str__(self) -> str:
        return one_line(self.name, 100)

    def __repr__(self) -> str:
        return f"<Committee {self}: digest {self.digest[:12]}>"

    @property
    def name(self) -> str:
        return "+".join(member.name for member in self.members)

    @cached_property
    def digest(self) -> str:
        return joint_digest(member.digest for member in self.members)

    @property
    def input(self) -> InputSpec:
        """Shape and resizing are those of all members; each has a mean and a scale of its own."""
        return self.members[0].input

    @property
    def embedding_size(self) -> int:
        return sum(member.embedding_size for member in self.members)

    @property
    def macs(self) -> int:
        """Forward multiply-accumulates for one image."""
        return sum(member.macs for member in self.members)

    def check_finite(self) -> None:
        """Raise InputError for a member with a weight, scale or bias that is NaN or infinite."""
        for member in self.members:
            member.check_finite()


def members_of(network: Network | Committee) -> tuple[Network, ...]:
    """The networks of a committee, or the one network itself."""
    return network.members if isinstance(network, Committee) else (network,)


def layer_numbers(network: Network | Committee) -> list[list[int]]:
    """Of each member the numbers of `all_layers`: those of modules are behind the layers of all members."""
    members, found = members_of(network), []
    first, behind = 0, sum(len(member.layers) for member in members)
    for member in members:
        layers, modules = len(member.layers), len(member.all_layers) - len(member.layers)
        found.append([*range(first, first + layers), *range(behind, behind + modules)])
        first, behind = first + layers, behind + modules
    return found


def alone(network: Network | Committee, what: str) -> Network:
    """`network`, unless it is a committee. Raises UsageError ``unsupported``: `what` takes one network."""
    if isinstance(network, Committee):
        names = " or ".join(one_line(member.name, 100) for member in network.members)
        text = f"{what} takes one network, {network} has {len(network.members)}; name one of them: {names}"
        raise UsageError("unsupported", text)
    return network
