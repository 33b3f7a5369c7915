"""What is known before anything is learnt: whether the images are enough, and what learning will cost."""

import time

from tinytrain.api.opening import Drawn, open_budget, suited
from tinytrain.backbones.load import open_backbone
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.decoding import decoded
from tinytrain.datasets.folder import folder_dataset, folder_episode
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.pipeline.check import check, episode_of
from tinytrain.pipeline.networks import embed
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.published_costs import full_backward_macs
from tinytrain.planner.planner import Planner
from tinytrain.program.mac_counts import macs_by_part
from tinytrain.runtime.device import Device
from tinytrain.serve.project import Project, id_of
from tinytrain.serve.settings import Settings

TIMED = 16  # images, once more, for the speed of this machine
OVERHEAD = 1.0  # seconds of an adaptation that are none of its MACs


def outlook(
    project: Project, settings: Settings, device: Device
) -> tuple[dict, Network | Committee, float | None]:
    """What `check` says of the images, as JSON values, the network for them, and the seconds of a MAC here.

    Raises InputError, and CancelledError by the progress of `device`.
    """
    dataset = folder_dataset(project.images)
    network = _network(dataset, settings, device)
    images = decoded(dataset, episode_of(dataset), network.input, device.progress)
    found = check(network, images, device=device, others=False)
    facts = found.to_json()
    for suspect in facts["suspects"]:
        suspect["id"] = id_of(project.images / suspect["name"])
    facts["skipped"] = [file.to_json() for file in images.skipped]
    timed = images.support.take(range(min(TIMED, len(images.support))))
    return facts, network, _seconds_of_mac(network, timed, device)


def expected(
    project: Project,
    settings: Settings,
    budget: Budget | None,
    network: Network | Committee | None,
    seconds_of_mac: float | None,
) -> dict:
    """What learning will take: {"seconds", "bytes"}, null where that is not known; `network` and
    `seconds_of_mac` are those of an `outlook`, if there was one.

    Raises what an adaptation raises before it looks at an image, BudgetError for one.
    """
    network = network or _network(folder_dataset(project.images), settings, Device())
    if isinstance(network, Committee) or budget is None:
        budget = budget or open_budget(None, network)
        return {"seconds": None, "bytes": budget.memory}
    task = TaskShape.of(folder_episode(folder_dataset(project.images)))
    planner = Planner(network, task, "tinytrain", budget)
    plan = planner.plan(planner.unmeasured())
    macs = sum(macs_by_part(planner.program(plan)).values())
    seconds = seconds_of_mac and round(OVERHEAD + macs * seconds_of_mac, 1)
    return {"seconds": seconds, "bytes": plan.cost.arena}


def _network(dataset: Dataset, settings: Settings, device: Device) -> Network | Committee:
    """The network that was asked for, or the one for such files."""
    drawn = Drawn(episode_of(dataset), dataset)
    return open_backbone(suited(settings.one_backbone, drawn, 0, device))


def _seconds_of_mac(network: Network | Committee, images, device: Device) -> float | None:
    if isinstance(network, Committee):
        return None
    start = time.perf_counter()
    embed(network, images, device)
    return (time.perf_counter() - start) / (len(images) * full_backward_macs(network.layers) / 2)
