"""`tinytrain.adapt_again`: `tinytrain.pipeline.continual` with names and paths."""

import os
from collections.abc import Sequence

from tinytrain.api.add_classes import opened_images
from tinytrain.api.opening import open_budget, open_delta, open_network
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.continual import continued_episode, continued_policy, with_forgotten
from tinytrain.plan.budget import Budget
from tinytrain.report import Report


def adapt_again(
    network: str | os.PathLike | Network | None,
    delta: str | os.PathLike | Delta | Report,
    images: str | os.PathLike | Dataset | Images | None = None,
    class_names: Sequence[str] | None = None,
    budget: str | int | Budget | None = None,
    seed: int = 0,
    force: bool = False,
) -> Report:
    """Adapt to `images` and to what `delta` remembers of its classes, without their images.

    `network` and `delta` are as in `Predictor`, `images` and `class_names` as in `add_classes`; without
    images it adapts to what is remembered alone, as after `forget`. `budget` and `force` are as in `adapt`.
    The delta must come from an `Episode` with `replay` above 0 (``tinytrain adapt --replay``). The same
    layers and channels are trained as before, from the network on. Raises InputError ``no-replay`` if a
    class is not remembered, and what `adapt` raises.
    """
    delta = open_delta(delta)
    backbone = open_network(network, delta)
    given = () if images is None else opened_images(images, class_names, backbone.input.shape)
    episode, policy = continued_episode(delta, *given), continued_policy(delta)
    report = adapt(backbone, episode, open_budget(budget, network), policy, seed, force=force)
    return with_forgotten(report, delta)
