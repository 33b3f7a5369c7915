"""The images of an adaptation: a folder, a pack, a target set or a generated domain."""

import argparse
from dataclasses import replace
from typing import NamedTuple

from tinytrain.base.console import at_least
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.file_kinds import refuse_other_kinds
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.cli.commands.common import DEFAULT_DATA
from tinytrain.episode.holding import fits, hold


def add_arguments(parser) -> None:
    """Add the options for images, budget and policy."""
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help="folder that contains one folder of images per class"
    )
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="pack, generated domain or target set NAME:DIR instead of DIR (see 'tinytrain data --help'); "
        f"default: {DEFAULT_DATA}",
    )
    parser.add_argument(
        "--way", type=at_least(2), metavar="N", help="classes; default: all of DIR, or 5 of --data"
    )
    parser.add_argument(
        "--shots", type=at_least(1), metavar="N",
        help="images per class to adapt to; default: all of DIR that are not held out, or 5 of --data",
    )  # fmt: skip
    parser.add_argument(
        "--queries", type=at_least(0), metavar="N",
        help="images per class for evaluation; default: with --shots the rest of DIR, without it a fifth if "
        "every class has 10 or more and that makes 20 images; 0 holds out none; with --data 10",
    )  # fmt: skip
    parser.add_argument(
        "--episode", type=at_least(0), default=0, metavar="K",
        help="number of the random episode of --data; default: 0",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="seed of all random choices; default: 0"
    )
    parser.add_argument(
        "--flip",
        action="store_true",
        help="also train on mirrored images of DIR; only if that changes no class",
    )
    parser.add_argument(
        "--budget",
        type=parse_bytes,
        metavar="SIZE",
        help="working memory, such as 1MB or 512KiB; default: 1MB",
    )
    parser.add_argument(
        "--macs", type=parse_fraction, metavar="FRACTION",
        help="backward computation per pseudo-query as a fraction of full training; default: 15%%. Some "
        "policies apply it to each image, some ignore it; a warning says so",
    )  # fmt: skip
    parser.add_argument(
        "--macs-mode",
        choices=("mean", "sample"),
        help="--macs limits the mean over pseudo-queries (default), or the cost of each image",
    )
    parser.add_argument(
        "--policy", metavar="NAME",
        help="method that chooses what is trained: one of the policies below, or the FILE.json of "
        "'tinytrain search'; default: tinytrain",
    )  # fmt: skip


def given(arguments, names) -> list[str]:
    """Those of the options `names` that do not have their default values."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    defaults = parser.parse_args([])
    return [f"--{n.replace('_', '-')}" for n in names if getattr(arguments, n) != getattr(defaults, n)]


def policy_of(arguments):
    """The policy of ``--policy``, a name or the result of a search. Raises UsageError or InputError."""
    if path := searched_file(arguments):
        from tinytrain.meta.search.result import searched_policy

        return searched_policy(path)
    from tinytrain.policies.registry import find_policy

    return find_policy(arguments.policy or "tinytrain")


def searched_file(arguments) -> str | None:
    """The file of ``--policy``, None if that is a name."""
    return arguments.policy if (arguments.policy or "").endswith(".json") else None


def budget_of(arguments, plan=None):
    """The budget of the options; those that were not given are as in `plan`, or as usual."""
    from tinytrain.plan.budget import Budget

    asked = {"memory": arguments.budget, "macs": arguments.macs, "macs_mode": arguments.macs_mode}
    usual = plan.budget if plan else Budget()
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})


class Opened(NamedTuple):
    """The images of an adaptation, decoded, and what is to be said about them.

    `others` are the warnings that are not about the `skipped` files and the `duplicates`, both JSON values.
    """

    episode: object
    warnings: list[str]
    skipped: list[dict]
    duplicates: list[dict]
    others: list[str]


def open_episode(arguments, network, policy, progress, within_budget: bool = True) -> Opened:
    """The episode of the options, with its images decoded, and warnings about them.

    `policy` may be a plan. With `within_budget`, raises BudgetError for an infeasible budget before any image
    is decoded.
    """
    from tinytrain.datasets import folder_dataset, open_dataset
    from tinytrain.datasets.duplicates import merged, without_copies
    from tinytrain.datasets.folder import late
    from tinytrain.episode.input_facts import duplicate_lines, skipped_lines
    from tinytrain.plan.budget import TaskShape
    from tinytrain.plan.plan import Plan
    from tinytrain.planner.planner import Planner

    of_folder = arguments.folder is not None
    if of_folder and arguments.data is not None:
        raise UsageError("usage", "give a folder or --data, not both")
    if ignored := given(arguments, ("episode",) if of_folder else ("flip",)):
        raise UsageError(
            "usage", f"{ignored[0]} has no effect {'for a folder' if of_folder else 'without DIR'}"
        )
    if of_folder:
        refuse_other_kinds(arguments.folder, "images")
        dataset, draw = folder_dataset(arguments.folder, arguments.flip), _from_folder
    else:
        data = DEFAULT_DATA if arguments.data is None else arguments.data
        dataset, draw = open_dataset(data), _from_dataset
    episode = draw(arguments, dataset)
    plan = policy if isinstance(policy, Plan) else None
    if within_budget:
        budget = budget_of(arguments, plan)
        Planner(network, TaskShape.of(episode), policy, budget).probe()
    shape, broken = network.input.shape, {}
    support, found = hold(episode.support, shape, progress)
    while found:  # what looked whole was not: others are drawn to adapt to
        broken |= found
        whole = without(dataset, broken)
        if of_folder and arguments.shots is None:
            break  # all images are in use, there are no others
        episode, support = draw(arguments, whole), None
        support, found = hold(episode.support, shape, progress)
    query, more = hold(episode.query, shape, progress)
    skipped = (*dataset.provenance.skipped, *late(arguments.folder, broken | more))
    duplicates = dataset.provenance.duplicates
    if of_folder and fits(len(support) + len(query), shape):  # otherwise decoded once more
        query, found = without_copies(support, query, shape, episode.class_names)
        duplicates = merged(duplicates, found)
    others = ([] if plan else _unlimited(arguments, policy)) + _too_few(arguments, episode)
    return Opened(
        replace(episode, support=support, query=query, skipped=skipped, duplicates=duplicates),
        others + skipped_lines(skipped) + duplicate_lines(duplicates),
        [facts.to_json() for facts in skipped],
        [facts.to_json() for facts in duplicates],
        others,
    )


def without(dataset, broken):
    """`dataset` without the `broken` images. Raises InputError if a class has no others."""
    import numpy as np

    good = np.array([name not in broken for name in dataset.names])
    kept = np.flatnonzero(good)
    for c, indices in enumerate(dataset.by_class):
        if len(indices) and not good[indices].any():
            reason = broken[dataset.names[indices[0]]]
            raise InputError("empty-class", f"class {dataset.class_names[c]!r} has 0 usable images: {reason}")
    return replace(
        dataset,
        labels=dataset.labels[kept],
        names=tuple(dataset.names[i] for i in kept),
        read=lambda i, size: dataset.read(int(kept[i]), size),
        groups=None if dataset.groups is None else dataset.groups[kept],
    )


def _from_dataset(arguments, dataset):
    from tinytrain.datasets import sample_episode

    way, shots = arguments.way or 5, arguments.shots or 5
    queries = 10 if arguments.queries is None else arguments.queries
    return sample_episode(dataset, way, shots, queries, arguments.seed, arguments.episode)


def _from_folder(arguments, dataset):
    from tinytrain.datasets import folder_episode

    return folder_episode(dataset, arguments.shots, arguments.way, arguments.seed, hold_out=arguments.queries)


def _unlimited(arguments, policy) -> list[str]:
    """A warning if --macs or --macs-mode is given for a policy that does not apply it as requested."""
    asked = given(arguments, ("macs", "macs_mode"))
    if asked and not policy.macs_limited:
        return [f"policy {policy.name} has no limit of MACs, so {' and '.join(asked)} had no effect"]
    if asked and policy.macs_of_image and arguments.macs_mode != "sample":
        return [f"policy {policy.name} applies --macs to each image, not to the mean over pseudo-queries"]
    return []


def _too_few(arguments, episode) -> list[str]:
    """A warning for each class of a folder with fewer images than requested."""
    if arguments.folder is None or arguments.shots is None:
        return []
    return [
        f"class {name!r} has {count} of {arguments.shots} images"
        for name, count in zip(episode.class_names, episode.shots.tolist(), strict=True)
        if count < arguments.shots
    ]
