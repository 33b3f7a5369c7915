"""`tinytrain.emit`: `tinytrain.codegen.planning` with names and paths."""

import os

from tinytrain.api.opening import open_budget, open_episode, open_network, open_policy, suited, wrong_type
from tinytrain.codegen import planning
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.network.committee import alone
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.policies.common import Policy


def emit(
    network: str | os.PathLike | Network | None,
    episode: str | os.PathLike | Episode | Dataset,
    folder: str | os.PathLike,
    budget: str | int | Budget | None = None,
    policy: str | Policy | Plan = "tinytrain",
    seed: int = 0,
    head: str | None = None,
) -> planning.Emitted:
    """Write a C99 library into `folder` that adapts `network` on a microcontroller to images like `episode`.

    `network`, `episode`, `policy`, `seed` and `head` are as in `adapt`, and so is `budget`, which limits the
    block of RAM of the device. All classes must have the same number of support images. `plan` of the result
    is what the device does, which ``plan.json`` has, too; ``to_json()`` is what ``tinytrain emit --json``
    prints.
    Raises BudgetError if nothing fits, UsageError ``unsupported`` for what has no form in C and ``usage`` if
    `folder` is a file, StorageError, and what `adapt` raises for wrong names and images.
    """
    if not isinstance(folder, str | os.PathLike):
        raise wrong_type("folder", folder, "the path of a folder")
    policy = open_policy(policy, head)
    drawn = open_episode(episode, seed, policy)
    network = suited(network, drawn, seed)
    backbone = alone(open_network(network), "a microcontroller")
    limits = policy.budget if budget is None and isinstance(policy, Plan) else open_budget(budget, network)
    return planning.emit(backbone, drawn.decoded(backbone.input), folder, limits, policy, seed)
