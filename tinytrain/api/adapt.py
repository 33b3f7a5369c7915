"""`tinytrain.adapt`: `tinytrain.pipeline.adapt` with names and paths."""

import os

from tinytrain.api.opening import open_budget, open_episode, open_network, open_policy, wrong_type
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network
from tinytrain.pipeline import adapt as pipeline
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.policies.common import Policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device


def adapt(
    network: str | os.PathLike | Network | None,
    episode: str | os.PathLike | Episode | Dataset,
    budget: str | int | Budget | None = None,
    policy: str | Policy | Plan = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    force: bool = False,
    head: str | None = None,
) -> Report:
    """Adapt `network` to `episode` inside `budget`; the network itself is not changed.

    `network` is a name that ``tinytrain backbones`` lists, the path of a network file, a `Network`, or None
    for the one that comes with the package. `episode` is the path of a folder with a folder of images per
    class, an `Episode`, or a `Dataset`, all of whose images are used. `budget` is a `Budget` or the bytes of
    its memory, ``"1MB"`` or ``1_000_000``; None is 1 MB, and 4 MB for the large network if it is given by its
    name. `policy` is a name, a `Policy`, or a `Plan`, which is obeyed and whose budget is the default one.
    `device` (default: this computer) is what it runs on. `head` is the name of a classifier head (None: the
    one that the policy chooses), which a policy's name may also say, as in ``"none+slda"``.
    One class alone is enough for the head ``"oselm-ae"``: it learns which images are normal.
    The result is `report.delta`, which `save_delta` writes and `Predictor` takes; ``report.to_json()`` is
    what the command line prints with ``--json``.
    `report.guard` says whether the adaptation was kept. If it was not, the delta holds cosine prototypes
    for the network as it was, and nothing else; `force` keeps all that can be kept.
    Raises BudgetError if nothing fits, InputError for an unsuitable network, plan or images, UsageError for
    an unknown policy or head, AdaptationRefusedError if even the network as it is gives NaN or infinity.
    """
    if not isinstance(device, Device | None):
        raise wrong_type("device", device, "a Device, such as Device(threads=1), or None")
    policy = open_policy(policy, head)
    backbone = open_network(network)
    # A plan brings its own budget.
    limits = None if budget is None and isinstance(policy, Plan) else open_budget(budget, network)
    opened = open_episode(episode, backbone.input.shape, seed, policy)
    return pipeline.adapt(backbone, opened, limits, policy, seed, device, force)
