"""What would make an adaptation fit that does not: another policy, another backbone, another board."""

from collections.abc import Iterator

from tinytrain.backbones.catalogue import BACKBONES, tier_of
from tinytrain.base.units import format_bytes
from tinytrain.firmware_sim.boards.board import Board, load_boards
from tinytrain.network.file import load_network
from tinytrain.network.network import Network, frozen_bytes
from tinytrain.pipeline.tiers import least_arena
from tinytrain.plan.budget import TaskShape
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import POLICIES


def for_ram(
    board: Board, network: Network, policy: Policy, task: TaskShape, precision: str, needs: int
) -> Iterator[str]:
    """Sentences for an arena of `needs` bytes that the board has no room for."""
    for other in POLICIES.values():
        least = least_arena(network, other, task, precision)
        if other.name != policy.name and least is not None and least <= board.memory.arena_bytes:
            yield f"--policy {other.name} needs {least} bytes"
    for other in _backbones_here(network):
        least = least_arena(other, policy, task, precision)
        if least is not None and least <= board.memory.arena_bytes:
            yield f"--backbone {tier_of(other.name)} needs {least} bytes"
    fitting = [n for n, b in load_boards().items() if b.memory.arena_bytes >= needs]
    if fitting:
        yield f"these boards have the RAM: {', '.join(fitting)}"


def for_flash(board: Board, network: Network, slots: int) -> Iterator[str]:
    """Sentences for a network and `slots` bytes of deltas that the board has no room for."""
    block, left = board.flash.erase_block_bytes.value, board.flash.storage_bytes - frozen_bytes(network)
    if left >= 2 * block:
        yield f"a delta of at most {left // 2 // block * block} bytes: a smaller --budget trains less"
    for other in _backbones_here(network):
        if _stores(board, other, slots):
            yield f"--backbone {tier_of(other.name)} takes {format_bytes(frozen_bytes(other))} of flash"
    fitting = [n for n, b in load_boards().items() if _stores(b, network, slots)]
    if fitting:
        yield f"these boards have the flash: {', '.join(fitting)}"


def _stores(board: Board, network: Network, slots: int) -> bool:
    return frozen_bytes(network) + slots <= board.flash.storage_bytes


def _backbones_here(network: Network) -> Iterator[Network]:
    """Backbones on this machine other than `network`, for the same kind of input."""
    for row in BACKBONES.values():
        if row.name != network.name and row.path.is_file():
            other = load_network(row.path)
            if other.input.kind == network.input.kind:
                yield other
