"""One adaptation on a simulated board, and what it would cost there; or what is missing for it to fit."""

from dataclasses import dataclass, replace

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import BudgetError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.delta.delta import apply
from tinytrain.delta.file import encode_delta
from tinytrain.firmware_sim.boards.board import Board
from tinytrain.firmware_sim.boards.counters import Count
from tinytrain.firmware_sim.boards.estimate import (
    BAND,
    MEASURED,
    MEASURED_BAND,
    MODEL,
    band,
    one_inference,
    seconds,
    seconds_by_stage,
    wear,
)
from tinytrain.firmware_sim.boards.remedies import for_flash, for_ram
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.report import Report, content

JOULES_PER_WATT_HOUR = 3600
WATT_HOURS = 10.0  # of a cell of size 18650
NETWORK_STAGES = ("probe", "features", "heads", "training")  # of a plan: where the network computes


@dataclass(frozen=True, eq=False)
class Simulation:
    """`facts` for JSON; `report` and `device` are None if the arena did not fit and nothing ran."""

    facts: dict
    report: Report | None = None
    device: SimulatedDevice | None = None

    @property
    def fits(self) -> bool:
        return self.facts["fits"]


def simulate(
    board: Board, network, episode, budget: Budget, policy, seed: int = 0, progress: OnProgress = silent
) -> Simulation:
    """Adapt `network` on `board`. The arena gets the smaller of budget and board.

    Raises BudgetError if the budget that was asked for is too small and the board is not.
    """
    capped = replace(budget, memory=min(budget.memory, board.memory.arena_bytes))
    facts = {
        "board": describe(board),
        "backbone": network.name,
        "policy": policy.name,
        "episode": content.describe_episode(episode),
        "budget": budget.memory,
    }
    device = SimulatedDevice(board.memory.arena_bytes, progress=progress)
    try:
        # Forced: what is asked is whether a delta of this size can be made and kept on the board.
        report = adapt(network, episode, capped, policy, seed, device, force=True)
    except BudgetError as error:
        if error.smallest is None or error.smallest <= board.memory.arena_bytes:
            raise
        ram = room(board.memory.arena_bytes, error.smallest)
        task = TaskShape.of(episode)
        remedies = list(for_ram(board, network, policy, task, budget.precision, error.smallest))
        return Simulation({**facts, "fits": False, "remedies": remedies, "ram": ram, "flash": None})
    delta = encode_delta(report.delta)
    worn = wear(board, delta)
    weights = content.frozen_bytes(network)
    ram = room(board.memory.arena_bytes, max(p.nbytes for p in device.programs))
    flash = {
        **room(board.flash.storage_bytes, weights + 2 * worn["slot_bytes"]),
        "weights": weights,
        "slots": 2 * worn["slot_bytes"],
    }
    remedies = list(for_flash(board, network, flash["slots"])) if flash["missing"] else []
    facts |= {"fits": not flash["missing"], "remedies": remedies, "ram": ram, "flash": flash}
    facts |= _costs(board, network, device, report, worn)
    return Simulation(facts, report, device)


def describe(board: Board) -> dict:
    figures = {name: vars(figure) for name, figure in board.figures().items()}
    part = board.processor
    return {"title": part.title, "core": part.core, "kind": part.kind, "figures": figures}


def battery(joules: dict[str, float], watt_hours: float = WATT_HOURS) -> dict:
    """The fraction of a battery that a band of joules takes."""
    share = {name: value / (watt_hours * JOULES_PER_WATT_HOUR) for name, value in joules.items()}
    return {"watt_hours": watt_hours, "share": share}


def room(has: int, needs: int) -> dict[str, int]:
    """Bytes that there are, that are needed, and that are missing."""
    return {"has": has, "needs": needs, "missing": max(0, needs - has)}


def _costs(board: Board, network, device: SimulatedDevice, report: Report, worn: dict) -> dict:
    tally, planned = device.tally, report.to_json()
    precision = report.plan.recipe.precision
    time = seconds_by_stage(tally, board, precision)
    stages = {name: tally.total(name) for name in time}
    total = sum(stages.values(), Count())
    one = one_inference(apply(network, report.delta), precision).values()
    measured = board.speed.measured.get(precision)
    width = MEASURED_BAND if measured else BAND
    joules = band(sum(time.values()) * board.speed.watts.value, width)
    facts = {
        "accuracy": planned["accuracy"],
        "counted": {
            "stages": {name: vars(count) for name, count in stages.items()},
            "calls": total.calls,
            "network_macs": total.network_macs,
            "other_macs": total.other_macs,
            "bytes": total.bytes,
            "planned_network_macs": sum(planned["macs"]["stages"][k] for k in NETWORK_STAGES),
        },
        "canaries": device.canaries,
        "model": {
            "calibrated": measured is not None,
            "precision": precision,
            "measured": measured and vars(measured),
            "statement": MEASURED if measured else MODEL,
            "cores": 1,
            "assumed": [name for name, f in board.figures().items() if f.is_assumed],
        },
        "seconds": {**band(sum(time.values()), width), "stages": time},
        "inference": {
            "seconds": band(sum(seconds(count, board, precision) for count in one), width),
            "macs": sum(count.network_macs for count in one),
        },
        "joules": joules,
        "battery": battery(joules),
        "wear": worn,
        "warnings": planned["warnings"],
        "support_images": planned["memory"]["outside"]["support_images"],
    }
    return with_old_keys(facts)
