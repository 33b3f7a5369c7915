"""What people give (names, paths, sizes) as the values that the packages below take."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral

from tinytrain.backbones.catalogue import AUTO, ENCODERS, SHIPPED, is_here, usual_budget
from tinytrain.backbones.load import backbone_of, load_backbone
from tinytrain.backbones.motion import motion_name
from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.base.units import parse_bytes
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.decoding import all_decoded, decoded
from tinytrain.datasets.duplicates import unrepeated
from tinytrain.datasets.folder import folder_dataset, folder_episode
from tinytrain.delta.delta import Delta
from tinytrain.delta.file import load_delta
from tinytrain.episode import Input
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.holding import held
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.pipeline.networks import choices, left_out
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.planner.committee import CommitteePlanner, planner_for
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, least_classes
from tinytrain.report import Report
from tinytrain.runtime.device import Device


def open_network(value, delta: Delta | None = None) -> Network | Committee:
    """A network from itself, its path, or a name that ``tinytrain backbones`` lists; of several a committee.

    None is the backbone of `delta`, by its digest; without a delta it is the shipped one. Raises InputError.
    """
    if isinstance(value, Network | Committee):
        return value
    if value is None:
        return backbone_of(delta) if delta else load_backbone(SHIPPED.name)
    if isinstance(value, str | os.PathLike):
        return load_backbone(value)
    raise wrong_type("network", value, "a Network, a path, or a name that 'tinytrain backbones' lists")


def open_delta(value) -> Delta:
    """A delta from itself, its path, or the report of the adaptation. Raises InputError."""
    if isinstance(value, Delta):
        return value
    if isinstance(value, Report):
        return value.delta
    if not isinstance(value, str | os.PathLike):
        raise wrong_type("delta", value, "a Delta, a Report, or the path of a delta file")
    if os.path.isdir(value):
        raise InputError(
            "file-kind",
            f"{os.fspath(value)!r} is a folder; a store gives its delta in use as Store(...).start().delta",
        )
    return load_delta(value)


@dataclass(frozen=True, eq=False)
class Drawn:
    """An `episode` of `dataset` whose images are not decoded yet; without a dataset they are its own.

    `again` draws another one from a dataset without broken images; None: there are no other images. If
    queries count `once`, those that are copies of a support image, or of another query, are left out.
    """

    episode: Episode
    dataset: Dataset | None = None
    again: Callable[[Dataset], Episode] | None = None
    once: bool = True

    def decoded(self, given: Input, progress: OnProgress = silent) -> Episode:
        """The episode with images as `given` describes them. It says which were left out, and which are there
        more than once. Raises InputError, also for another kind.
        """
        found = self.episode
        found.support.check_kind(given)
        if self.dataset is not None:
            found = decoded(self.dataset, found, given, progress, self.again)
        else:
            found = held(found, given)
            if not len(found.query):
                return found
        return unrepeated(found, given) if self.once else found


def open_task(
    network, episode, budget, policy, seed: int, device: Device | None, head: str | None = None
) -> tuple[Episode, Planner | CommitteePlanner]:
    """What is adapted to, and the planner for it, from what `tinytrain.adapt` takes.

    Raises InputError, UsageError, and BudgetError for an infeasible budget before any image is decoded.
    """
    if not isinstance(device, Device | None):
        raise wrong_type("device", device, "a Device, such as Device(threads=1), or None")
    if isinstance(policy, Planner | CommitteePlanner):
        planner, drawn = policy, open_episode(episode, seed, policy.asked)
    else:
        policy = open_policy(policy, head)
        backbone = None if network is None or network == AUTO else open_network(network)
        drawn = open_episode(episode, seed, policy)
        if network == AUTO:
            memory = None if budget is None else open_budget(budget, None).memory
            network, drawn = chosen_network(drawn, memory, partial(open_budget, budget), policy, seed, device)
        network = suited(network, drawn, seed, device)
        # A plan brings its own budget.
        limits = None if budget is None and isinstance(policy, Plan) else open_budget(budget, network)
        planner = planner_for(backbone or open_network(network), TaskShape.of(drawn.episode), policy, limits)
    planner.probe()
    progress = device.progress if device else silent
    opened = drawn.decoded(planner.network.input, progress)
    return opened, planner.of(TaskShape.of(opened))


def chosen_network(
    drawn: Drawn,
    memory: int | None,
    limits: Callable[[str], Budget],
    policy: Policy | Plan,
    seed: int,
    device: Device | None,
) -> tuple[str, Drawn]:
    """The name of the networks for "auto", and `drawn`, with images decoded.

    Those for images work inside ``limits(name)``. `memory` are the bytes that were asked for, None if every
    network that is here may have what is usual for it.
    """
    device = device or Device()
    if (name := suited(AUTO, drawn, seed, device)) != AUTO:
        return name, drawn
    small = load_backbone(SHIPPED.name)
    ready = Drawn(drawn.decoded(small.input, device.progress), once=False)
    task = TaskShape.of(ready.episode)
    for name in choices(small, ready.episode.support, memory, seed, device):
        with suppress(BudgetError, UsageError):  # too large for it, or a policy or plan of one network
            planner_for(load_backbone(name), task, policy, limits(name)).probe()
            return name, ready
    return SHIPPED.name, ready


def suited(network, drawn: Drawn, seed: int, device: Device | None = None):
    """`network`; for None and "auto" the name of the network for what was drawn, if that is not images.

    The first recordings of motion say theirs. Of several encoders that are here it is the one that names most
    of the clips that are left out. Raises InputError for what cannot be read.
    """
    support, device = drawn.episode.support, device or Device()
    if not isinstance(network, str | None) or network not in (None, AUTO):
        return network
    if support.kind == "motion":
        files = drawn.dataset or support
        folder = drawn.dataset.provenance.folder if drawn.dataset else ""
        return motion_name(os.path.join(folder, name) for name in sorted(files.names))
    if support.kind not in ENCODERS:
        return network
    known = ENCODERS[support.kind]
    here = [name for name in known if is_here(name)] or known[-1:]
    if len(here) == 1 or min(drawn.episode.shots) < 2:
        return here[0]

    def right(name: str) -> float:
        network = load_backbone(name)
        return left_out(network, drawn.decoded(network.input, device.progress).support, seed, device)

    return max(here, key=right)


def open_episode(value, seed: int = 0, policy: Policy | Plan | None = None) -> Drawn:
    """What is drawn of a dataset or the path of a folder with a folder per class; or an episode as it is.

    Images of a folder are divided between support and query as `tinytrain.datasets.folder_episode` does by
    default. They may be of one class alone if the head of `policy` needs no second one. Raises InputError.
    """
    if isinstance(value, Drawn):
        return value
    if isinstance(value, Episode):
        return Drawn(value)
    dataset = open_dataset(value, "episode", "an Episode, ")
    return Drawn(folder_episode(dataset, seed=seed, least_classes=least_classes(policy)), dataset)


def open_images(
    images, class_names: Sequence[str] | None, given: Input, progress: OnProgress = silent
) -> tuple[Images, tuple[str, ...], bool, Provenance]:
    """All usable images, the names that their labels count in, whether they may be mirrored, and their files.

    Raises InputError.
    """
    if isinstance(images, Images):
        if class_names is None:
            raise InputError("class-names", "Images have numbers as labels; give class_names, one for each")
        return images, tuple(class_names), False, Provenance()
    if class_names is not None:
        raise InputError("class-names", "class_names are those of the folders; give them with Images only")
    dataset = open_dataset(images, "images")
    held, facts = all_decoded(dataset, given, progress)
    return held, dataset.class_names, dataset.may_flip, facts


def open_dataset(value, name: str, also: str = "") -> Dataset:
    """A dataset from itself or the path of a folder with a folder per class.

    Raises InputError; for a wrong type it names the argument `name`, which may `also` be something else.
    """
    if isinstance(value, str | os.PathLike):
        value = folder_dataset(value)
    if not isinstance(value, Dataset):
        raise wrong_type(name, value, f"{also}a Dataset, or the path of a folder with a folder per class")
    return value


def open_budget(value, network) -> Budget:
    """A budget from itself or from bytes of memory: a number or a text such as "1MB".

    None is what is usual for `network`, which may be given by name.

    Raises InputError, or UsageError for a text or number that is no size.
    """
    if value is None:
        return Budget(usual_budget(network))
    if isinstance(value, Budget):
        return value
    if isinstance(value, str):
        return Budget(parse_bytes(value))
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Budget(int(value))
    raise wrong_type("budget", value, 'a Budget, bytes as a whole number, or a text such as "1MB"')


def open_policy(value, head: str | None = None) -> Policy | Plan:
    """A policy from itself or its name, with the classifier called `head` unless that is None; or a plan.

    Raises InputError for another type, and for a plan, which names its head itself; UsageError for an unknown
    policy or head.
    """
    if not isinstance(value, str | Policy | Plan):
        raise wrong_type("policy", value, "the name of a policy, a Policy, or a Plan")
    if not isinstance(head, str | None):
        raise wrong_type("head", head, "the name of a head, or None")
    if isinstance(value, Plan):
        if head is not None:
            raise wrong_type("policy", value, f"a Policy with head={head!r}; a plan says itself which head")
        return value
    policy = find_policy(value)
    return policy if head is None else policy.with_head(head)


def wrong_type(name: str, value, wanted: str) -> InputError:
    """The error for an argument `name` whose `value` is not what is `wanted`."""
    return InputError("bad-value", f"{name} is a value of type {type(value).__name__}; give {wanted}")
