"""`tinytrain.pipeline` with names and paths: what trains."""

import os
from collections.abc import Sequence
from dataclasses import replace

from tinytrain.api.opening import (
    Drawn,
    open_budget,
    open_delta,
    open_images,
    open_network,
    open_task,
)
from tinytrain.base.errors import UsageError
from tinytrain.base.progress import silent
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta.delta import Delta
from tinytrain.delta.rebase import begun, rebased
from tinytrain.episode.episode import Episode, Images
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.pipeline import committee as adapting
from tinytrain.pipeline.continual import (
    continued_budget,
    continued_episode,
    continued_policy,
    with_forgotten,
)
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device


def adapt(
    network: str | os.PathLike | Network | Committee | None,
    episode: str | os.PathLike | Episode | Dataset | Drawn,
    budget: str | int | Budget | None = None,
    policy: str | Policy | Plan | Planner = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    force: bool = False,
    head: str | None = None,
    train: bool | None = None,
    start: str | os.PathLike | Delta | Report | None = None,
) -> Report:
    """Adapt `network` to `episode` inside `budget`; the network itself is not changed.

    `network` is a name that ``tinytrain backbones`` lists, the path of a network file, a `Network`, or None
    for the one that comes with the package. Several of these, joined by "+" or in a `Committee`, are adapted
    one after another in the same bytes, and one head sees the embeddings of all; "auto": those of the tiers
    that are here, suit the images and fit the budget. `episode` is the path of a folder with a folder of
    images per class, an `Episode`, or a `Dataset`, all of whose images are used. `budget` is a `Budget` or
    the bytes of its memory, ``"1MB"`` or ``1_000_000``; None is 1 MB, and 4 MB if the large network is given
    by its name, alone or beside another.
    `policy` is a name, a `Policy`, or a `Plan`, which is obeyed and whose budget is the default one. (A
    `Planner`, which has its own network and budget, and a `Drawn` are what the command line gives.)
    `device` (default: this computer) is what it runs on. `head` is the name of a classifier head (None: the
    one that the policy chooses), which a policy's name may also say, as in ``"none+slda"``.
    One class alone is enough for the head ``"oselm-ae"``: it learns which images are normal.
    The result is `report.delta`, which `save_delta` writes and `Predictor` takes; ``report.to_json()`` is
    what the command line prints with ``--json``.
    `report.guard.kept` says what that is: "adapted"; "head", a new head alone for the network as it was, if
    training would not help or did harm; or "cosine", cosine prototypes for it. If the images do not fit their
    labels, `accepted` is False, and it is one of the last two. `train`: whether training is run; None: unless
    the images show beforehand that it would not help. `force` trains, and keeps all that can be kept.
    `start`: a delta of `network`, such as a merged one, whose trained layers are where training begins; None:
    those of the network. The result is one for `network`, and knows the classes of `episode` alone.
    Raises BudgetError if nothing fits, InputError for an unsuitable network, plan or images, UsageError for
    an unknown policy or head, AdaptationRefusedError if even the network as it is gives NaN or infinity.
    """
    if start is not None:
        start = open_delta(start)
        base = open_network(network, start)
        network = begun(base, start)
    opened, planner = open_task(network, episode, budget, policy, seed, device, head)
    if start is not None and planner.backend.stored(planner.network):
        what = f"in {planner.precision} training begins at the network"
        raise UsageError("unsupported", f"{what}; give --precision float32")
    if start is not None and opened.replay:
        what = "--replay is for training that begins at the network, and --start begins elsewhere"
        raise UsageError("unsupported", f"{what}; leave one of them out")
    report = adapting.adapt(planner.network, opened, None, planner, seed, device, force, train)
    return report if start is None else replace(report, delta=rebased(base, start, report.delta))


def adapt_again(
    network: str | os.PathLike | Network | None,
    delta: str | os.PathLike | Delta | Report,
    images: str | os.PathLike | Dataset | Images | None = None,
    class_names: Sequence[str] | None = None,
    budget: str | int | Budget | None = None,
    seed: int = 0,
    force: bool = False,
    device: Device | None = None,
) -> Report:
    """Adapt to `images` and to what `delta` remembers of its classes, without their images.

    `network` and `delta` are as in `Predictor`, `images` and `class_names` as in `add_classes`; without
    images it adapts to what is remembered alone, as after `forget`. `budget`, `force` and `device` are as in
    `adapt`; the report names files that cannot be used. The delta must come from an `Episode` with `replay`
    above 0 (``tinytrain adapt --replay``). The same layers and channels are trained as before, from the
    network on. Raises InputError ``no-replay`` if a class is not remembered, and what `adapt` raises.
    """
    delta = open_delta(delta)
    backbone = open_network(network, delta)
    if images is None:
        episode = continued_episode(delta)
    else:
        progress = device.progress if device else silent
        *given, facts = open_images(images, class_names, backbone.input, progress)
        episode = replace(continued_episode(delta, *given, facts.folder), skipped=facts.skipped)
    policy, limits = continued_policy(delta), continued_budget(delta, open_budget(budget, network))
    report = adapting.adapt(backbone, episode, limits, policy, seed, device, force)
    return with_forgotten(report, delta)
