"""`tinytrain.pipeline` with names and paths: what can be known before an adaptation."""

import os
import warnings

from tinytrain.api.opening import Drawn, open_dataset, open_network, open_task, suited, wrong_type
from tinytrain.base.progress import silent
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.episode.input_facts import skipped_lines
from tinytrain.network.committee import alone
from tinytrain.network.network import Network
from tinytrain.pipeline import check as checking
from tinytrain.pipeline.planned import Planned, planned
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.policies.common import Policy
from tinytrain.runtime.device import Device


def make_plan(
    network: str | os.PathLike | Network | None,
    episode: str | os.PathLike | Episode | Dataset | Drawn,
    budget: str | int | Budget | None = None,
    policy: str | Policy = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    head: str | None = None,
) -> Planned:
    """What `adapt` would train with the same arguments, and what that costs. Nothing is trained.

    The result has the `plan`, which `adapt` takes as its policy, and ``to_json()`` is what ``tinytrain plan
    --json`` prints, without warnings. `device` shows the progress of decoding. Raises what `adapt` raises.
    """
    if isinstance(policy, Plan):
        raise wrong_type("policy", policy, "what a plan is to be made by: the name of a policy, or a Policy")
    opened, planner = open_task(network, episode, budget, policy, seed, device, head)
    alone(planner.network, "a plan")
    return planned(opened, planner, seed)


def check(
    network: str | os.PathLike | Network | None,
    images: str | os.PathLike | Dataset | Episode,
    seed: int = 0,
    device: Device | None = None,
) -> checking.Check:
    """Whether labelled images are enough: expected accuracy, suspects, what five more per class would bring.

    `networks` of the result are what other networks on this machine would make of them, alone and
    side by side, and `auto` is which of these `adapt` takes for the network "auto".
    `network` is as in `adapt`. `images` is the path of a folder with a folder of images per class, a
    `Dataset`, or an `Episode`, whose queries are not looked at. Nothing is trained. Files that cannot be used
    are warned of and skipped. Raises InputError as `adapt` does.
    """
    if isinstance(images, Episode):
        drawn = Drawn(images, once=False)
    else:
        dataset = open_dataset(images, "images", "an Episode, ")
        drawn = Drawn(checking.episode_of(dataset), dataset, once=False)
    network = open_network(suited(network, drawn, seed, device))
    episode = drawn.decoded(network.input, device.progress if device else silent)
    if drawn.dataset:
        for line in skipped_lines(episode.skipped):
            warnings.warn(line, stacklevel=2)
    return checking.check(network, episode, seed, device)
