"""A plan: what is trained, with which resources and at which cost, as a value that a file can hold."""

import json
import os
from dataclasses import dataclass, fields, is_dataclass

from tinytrain.base.errors import BudgetError, InputError, UsageError, one_line
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.base.schema import choice, count, flag, list_of, number, optional, parsed, table, text
from tinytrain.base.units import finite_or_none
from tinytrain.episode.augment import Ranges
from tinytrain.heads.registry import HEADS
from tinytrain.network.network import Network
from tinytrain.plan.budget import MACS_MODES, Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs, macs_of
from tinytrain.plan.recipe import (
    ROUNDINGS,
    Arithmetic,
    Recipe,
    Resources,
    StepOptions,
    Update,
    check_recipe,
)

VERSION = 2
MAX_BYTES = 10**7
SLACK = 1 + 1e-9  # of a comparison of MACs


@dataclass(frozen=True)
class Cost:
    """Bytes of the `arena`; backward MACs of a step per pseudo-query, and of the dearest image."""

    arena: int
    macs_per_query: float
    macs_per_image: int


@dataclass(frozen=True)
class Plan:
    """What one adaptation does, decided before it starts.

    `network` and `digest` name the network; `task` are the sizes and `budget` the limits it was made for.
    `macs_limit`: which MACs the budget limits, "query" or "image"; None if the policy has no limit.
    `row_tile`: bytes of what is computed in rows; None for the usual ones.
    """

    network: str
    digest: str
    policy: str
    budget: Budget
    task: TaskShape
    recipe: Recipe
    resources: Resources
    cost: Cost
    macs_limit: str | None = None
    row_tile: int | None = None

    def __repr__(self) -> str:
        names = f"{one_line(self.policy, 60)} for {one_line(self.network, 100)!r}"
        memory = f"{self.cost.arena:,} of {self.budget.memory:,} bytes"
        return f"<Plan of {names}: {len(self.recipe.updates)} layers trained, {memory}>"

    def to_json(self) -> dict:
        """The plan as JSON values; what is None is left out."""
        return {"version": VERSION, **plain(self)}

    @classmethod
    def from_json(cls, facts, source: str = "the plan") -> "Plan":
        """The plan that `to_json` gave. Raises InputError ``file-damaged`` naming the place in `source`."""
        if not isinstance(facts, dict) or facts.get("version") != VERSION:
            raise InputError(
                "file-damaged", f"{source} is no plan of version {VERSION}; make one with {MAKE}"
            )
        return parsed(_CHECK, {k: v for k, v in facts.items() if k != "version"}, source, "file-damaged")

    def check(self, network: Network, task: TaskShape, budget: Budget) -> None:
        """Raise unless `network` can be adapted to a task of these sizes by this plan inside `budget`.

        Raises InputError ``backbone-mismatch``, ``run-mismatch`` or ``file-damaged``, and BudgetError.
        """
        if self.digest != network.digest:
            raise InputError(
                "backbone-mismatch",
                f"the plan is for {self.network} with digest {self.digest[:16]}, {network.name} has"
                f" {network.digest[:16]}; make one for it with {MAKE}",
            )
        if self.task != task:
            raise InputError(
                "run-mismatch",
                f"the plan is for {_sizes(self.task)}, here are {_sizes(task)}; make one with {MAKE}",
            )
        try:
            check_recipe(network, self.recipe)
        except UsageError as error:
            raise InputError(
                "file-damaged", f"{error.message.partition(';')[0]}; make one with {MAKE}"
            ) from error
        r, said = self.resources, (self.cost.macs_per_query, self.cost.macs_per_image)
        if (
            not r.micro <= r.step_support <= task.n_support
            or not task.n_way <= r.step_queries <= r.step_support
        ):
            what = (
                f"steps of {r.step_support} images and {r.step_queries} pseudo-queries, {r.micro} at a time"
            )
            raise InputError("file-damaged", f"the plan has {what}: not possible here; make one with {MAKE}")
        if (taken := macs_of(network, self.recipe, r, task)) != said:
            raise InputError(
                "file-damaged", f"the plan says {said} MACs, it takes {taken}; make one with {MAKE}"
            )
        self._check_budget(network, budget)

    def _check_budget(self, network: Network, budget: Budget) -> None:
        if self.cost.arena > budget.memory:
            raise BudgetError(
                "budget-too-small",
                f"the plan needs {self.cost.arena} bytes, the budget is {budget.memory}; give --budget"
                f" {self.cost.arena} or more",
                self.cost.arena,
            )
        if self.macs_limit is not None:
            by_image = self.macs_limit == "image" or budget.macs_mode == "sample"
            cost = self.cost.macs_per_image if by_image else self.cost.macs_per_query
            check_macs("the plan", cost, budget, network)


MAKE = "tinytrain plan --out FILE"


def check_macs(who: str, cost: float, budget: Budget, network: Network) -> None:
    """Raise BudgetError if `cost`, in backward MACs, is above the budget's fraction of the full pass."""
    full = full_backward_macs(network)
    if cost > budget.macs * full * SLACK:
        raise BudgetError(
            "budget-too-small",
            f"{who} needs {cost:.0f} backward MACs per pseudo-query, the budget is "
            f"{budget.macs * full:.0f} ({budget.macs:.0%}); give --macs {cost / full + 0.005:.0%} or more",
        )


def save_plan(path: str | os.PathLike, plan: Plan) -> None:
    """Write `plan` as JSON, all of it or nothing. Raises StorageError."""
    write_bytes(path, (json.dumps(plan.to_json(), allow_nan=False) + "\n").encode())


def load_plan(path: str | os.PathLike) -> Plan:
    """The plan in a file. Raises InputError ``file-damaged``, or what `read_bytes` raises."""
    try:
        facts = json.loads(read_bytes(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(
            "file-damaged", f"{path} is no JSON ({one_line(error, 100)}); make it again"
        ) from error
    return Plan.from_json(facts, str(path))


def _sizes(task: TaskShape) -> str:
    old = f", {task.n_remembered} of them remembered," if task.n_remembered else ""
    kept = f", features of {task.replay} images of each class to keep" if task.replay else ""
    return f"{task.n_support} support images{old} of {task.n_way} classes and {task.n_query} queries{kept}"


def plain(value):
    """Dataclasses and tuples as JSON has them."""
    if is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: plain(v) for name, v in pairs if v is not None}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str | None):
        return value
    return int(value) if hasattr(value, "__index__") else finite_or_none(value)


_FRACTION, _SOME, _RATE = number(0, 1), count(0, 10**6), number(0, 1e38)
_CHANNELS = list_of(_SOME, 0, 10**6)
_UPDATE = table(Update, {"layer": _SOME, "channels": _CHANNELS, "bias": flag, "inputs": _CHANNELS})
_OPTIONS = {
    **dict.fromkeys(("hard_fraction", "sampled_fraction"), _FRACTION),
    **dict.fromkeys(("single_pass", "resample_channels"), flag),
    "entropy": number(0, 1e6),
    "temperature": number(1e-6, 1e6),
    "quotas": flag,
    "last_step": _SOME,
    "augmentation": table(Ranges, dict.fromkeys(("colours", "turn", "zoom"), number(0, 100))),
    "arithmetic": table(Arithmetic, {"precision": text, "rounding": choice(*ROUNDINGS), "scaled": flag}),
}
_RECIPE = {
    "policy": text,
    "updates": list_of(_UPDATE, 0, 10**4),
    "rates": list_of(list_of(_RATE, 2, 2, "a pair"), 0, 10**4),
    "optimizer": choice("adam", "momentum", "sgd"),
    "step": choice("both", "constant"),
    "decay": list_of(optional(_FRACTION), 2, 2, "a pair"),
    "steps": _SOME,
    "head": choice(*HEADS),
    "views": _SOME,
    "options": table(StepOptions, _OPTIONS),
}


def recipe_check():
    """The check of a recipe as `Plan.to_json` writes it, for `schema.parsed`."""
    return table(Recipe, _RECIPE)


_BYTES = count(0, 2**53)
_CHECK = table(
    Plan,
    {
        **dict.fromkeys(("network", "digest", "policy"), text),
        "budget": table(
            Budget,
            {
                "memory": _BYTES,
                "macs": number(0, 1e300),
                "macs_mode": choice(*MACS_MODES),
                "precision": text,
                "seconds": number(1e-300, 1e300),
            },
        ),
        "task": table(
            TaskShape,
            {
                "n_support": count(1),
                "n_way": count(1),
                "n_query": count(0),
                "n_remembered": count(0),
                "replay": count(0),
            },
        ),
        "recipe": table(Recipe, _RECIPE),
        "resources": table(
            Resources,
            {
                "sets": count(0, 1000),
                "workers": count(1, 1000),
                **dict.fromkeys(("micro", "step_support", "step_queries"), count(1)),
                "small_head": flag,
            },
        ),
        "cost": table(Cost, {"arena": _BYTES, "macs_per_query": number(0, 1e300), "macs_per_image": _BYTES}),
        "macs_limit": choice("query", "image"),
        "row_tile": count(1000, 2**40),
    },
)
