"""From images to the folder of C: a plan inside the bytes of a device, its programs, and all files."""

import os
from dataclasses import dataclass, replace

from tinytrain.base.class_names import BACKGROUND
from tinytrain.base.errors import UsageError, one_line
from tinytrain.codegen.device import Device, device_of, for_one_core
from tinytrain.codegen.draws import draws_of
from tinytrain.codegen.folder import EXAMPLES, c_examples, check_folder, files_of, write_folder
from tinytrain.codegen.tables import flash_bytes
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan, save_plan
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.runtime import device as host

PLAN = "plan.json"


@dataclass(frozen=True, eq=False)
class Emitted:
    """What was written: the `plan` that the device obeys, its programs, and the names of all `files`."""

    folder: str
    plan: Plan
    device: Device
    files: tuple[str, ...]

    def __repr__(self) -> str:
        name = one_line(self.device.network.name, 100)
        return f"<C for {name!r} in {one_line(self.folder, 60)!r}: {self.device.arena:,} bytes of RAM>"

    def to_json(self) -> dict:
        """The facts that ``tinytrain emit --json`` prints."""
        device, recipe, layers = self.device, self.plan.recipe, self.device.network.all_layers
        return {
            "backbone": device.network.name,
            "policy": self.plan.policy,
            "classes": device.ways,
            "shots": device.shots,
            "arena": device.arena,
            "flash": flash_bytes(device),
            "steps": recipe.n_steps,
            "channels": {layers[u.layer].name: len(u.channels) for u in recipe.updates if u.channels},
            "quotas": bool(recipe.measured),
            "out": self.folder,
            "files": list(self.files),
        }


def emit(
    network: Network,
    episode: Episode,
    folder: str | os.PathLike,
    budget: Budget,
    policy: str | Policy | Plan = "tinytrain",
    seed: int = 0,
) -> Emitted:
    """Write the C library of an adaptation of `network` to images like those of `episode` into `folder`.

    `budget` limits the arena of the device; `plan.json` has the plan. Raises what `planned` raises,
    UsageError ``usage`` if `folder` is a file, and StorageError.
    """
    check_folder(folder)
    plan, device = planned(network, episode, budget, policy, seed)
    files = files_of(device, draws_of(device, seed, episode.may_flip), episode.class_names)
    files[EXAMPLES] = c_examples(device, episode)
    write_folder(folder, files)
    save_plan(os.path.join(folder, PLAN), plan)
    return Emitted(os.fspath(folder), plan, device, tuple(sorted([*files, PLAN])))


def planned(
    network: Network, episode: Episode, budget: Budget, policy: str | Policy | Plan, seed: int = 0
) -> tuple[Plan, Device]:
    """The plan with quotas for images like these, or the one that was given, and the programs of a device.

    Raises BudgetError if nothing fits, UsageError ``unsupported`` for what has no form in C, and what
    `Plan.check` raises.
    """
    if episode.background is not None:
        raise UsageError("unsupported", f"no microcontroller knows a {BACKGROUND}; leave that folder out")
    task = TaskShape.of(episode)
    if isinstance(policy, Plan):
        policy.check(network, task, budget)
        plan = for_one_core(policy, network, policy.recipe.options.quotas)
        return plan, device_of(network, plan)
    measured, devices = {}, {}

    def made(memory: int) -> tuple[Plan, Device]:
        # Queries take bytes in a Python process. A device answers them one by one.
        planner = Planner(network, replace(task, n_query=0), policy, replace(budget, memory=memory))
        probe = planner.probe()
        key = probe and (probe.precision, probe.inspected)
        if key not in measured:
            with host.Device().open(network, episode, seed) as run:
                measured[key] = run.measure_fisher(probe)
        plan = for_one_core(planner.plan(measured[key]), network)
        key = plan.recipe, plan.resources
        if key not in devices:
            devices[key] = device_of(network, plan)
        return plan, devices[key]

    plan, device = made(budget.memory)
    spared = plan.cost.arena - device.arena  # bytes that a Python process needs and a device does not
    if spared and (wider := made(budget.memory + spared))[1].arena <= budget.memory:
        plan, device = wider
    return for_one_core(replace(plan, task=task, budget=budget), network), device
