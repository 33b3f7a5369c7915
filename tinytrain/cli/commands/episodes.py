"""The images of an adaptation: a folder, a pack, a target set or a generated domain."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tinytrain.backbones.load import open_backbone
from tinytrain.base.class_names import BACKGROUND
from tinytrain.base.errors import BudgetError, UsageError
from tinytrain.base.file_kinds import refuse_other_kinds
from tinytrain.base.units import parse_bytes, parse_fraction, parse_seconds
from tinytrain.cli.commands.common import DEFAULT_DATA, DEFAULT_WAY, add_number, say


def add_arguments(parser) -> None:
    """Add the options for images, budget and policy."""
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        help="folder that contains one folder of images per class; of texts"
        " also a CSV file with a sentence and its label in each row",
    )
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="pack, generated domain or target set NAME:DIR instead of DIR (see 'tinytrain data --help'); "
        f"default: {DEFAULT_DATA}",
    )
    parser.add_argument(
        "--background",
        metavar="DIR",
        help="folder of what is no answer, such as a minute of the room and of talk, which sets what is "
        "unknown; a folder 'background' in DIR is the same",
    )
    add_number(
        parser, "--way", 2,
        f"classes; default: all of DIR, 5 of --data, or without both {DEFAULT_WAY} of {DEFAULT_DATA}",
    )  # fmt: skip
    add_number(
        parser, "--shots", 1,
        "images per class to adapt to; default: all of DIR that are not held out, 5 without it",
    )  # fmt: skip
    add_number(
        parser, "--queries", 0,
        "images per class for evaluation; default: with --shots the rest of DIR, without it a fifth if "
        "every class has 10 or more and that makes 20 images; 0 holds out none; without DIR 10",
    )  # fmt: skip
    add_number(parser, "--episode", 0, "number of the random episode of --data", 0, metavar="K")
    add_number(parser, "--seed", 0, "seed of all random choices", 0)
    parser.add_argument(
        "--flip",
        action="store_true",
        help="also train on mirrored images of DIR; only if that changes no class",
    )
    parser.add_argument(
        "--budget",
        type=parse_bytes,
        metavar="SIZE",
        help="working memory, such as 1MB or 512KiB; default: 1MB, with --backbone large or best 4MB",
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
        "--precision",
        metavar="NAME",
        help="numbers that are computed and trained with: one of the precisions below; default: auto",
    )
    parser.add_argument(
        "--policy", metavar="NAME",
        help="method that chooses what is trained: one of the policies below, the FILE.json of 'tinytrain "
        "search', or FILE.py:NAME of your own, a file that is executed; default: tinytrain",
    )  # fmt: skip
    parser.add_argument(
        "--head", metavar="NAME",
        help="classifier: one of the heads below, or FILE.py:NAME of your own, a file that is executed; "
        "default: what the policy chooses",
    )  # fmt: skip
    add_number(
        parser, "--replay", 0,
        "keep the features of so many images of each class in the delta, so that 'tinytrain adapt "
        "--from' can go on without the images; best are all images of a class: with fewer, old classes "
        "lose against new ones; default: 0, none", 0, metavar="K",
    )  # fmt: skip
    parser.set_defaults(seconds=None)  # an option of few commands: `add_seconds`


def add_seconds(parser) -> None:
    parser.add_argument(
        "--seconds", type=parse_seconds, metavar="N",
        help="time for the adaptation on this machine, without start and decoding of images: MACs and steps "
        "are chosen by it, and the result depends on how fast the machine is; --macs is then at most 30%% by "
        "default",
    )  # fmt: skip


def given(arguments, names) -> list[str]:
    """Those of the options `names` that do not have their default values."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    defaults = parser.parse_args([])
    return [f"--{n.replace('_', '-')}" for n in names if getattr(arguments, n) != getattr(defaults, n)]


def policy_of(arguments):
    """The policy of ``--policy``, a name or the result of a search, with the classifier of ``--head``.

    Either may be FILE.py:NAME of the user's own. Raises UsageError or InputError.
    """
    from tinytrain.policies.own import given_head, given_policy

    if path := searched_file(arguments):
        from tinytrain.meta.search.result import searched_policy

        policy = searched_policy(path)
    else:
        policy = given_policy(arguments.policy or "tinytrain")
    return policy if arguments.head is None else policy.with_head(given_head(arguments.head))


def plan_of(arguments):
    """The plan of ``--plan``, None without one. Raises UsageError, InputError."""
    from tinytrain.plan.plan import load_plan

    if arguments.plan is None:
        return None
    if ignored := given(arguments, ("policy", "head", "seconds")):
        raise UsageError("usage", f"--plan FILE says what is trained, so {ignored[0]} would mean nothing")
    return load_plan(arguments.plan)


def searched_file(arguments) -> str | None:
    """The file of ``--policy``, None if that is a name."""
    return arguments.policy if (arguments.policy or "").endswith(".json") else None


def budget_of(arguments, plan=None, backbone: str | None = None):
    """The budget of the options; those that were not given are as in `plan`, or as usual for `backbone`.

    None is that of the options.
    """
    from tinytrain.backbones.catalogue import usual_budget
    from tinytrain.plan.budget import Budget

    asked = {"memory": arguments.budget, "macs": arguments.macs, "macs_mode": arguments.macs_mode}
    asked["precision"] = arguments.precision
    memory = usual_budget(backbone or arguments.backbone)
    usual = plan.budget if plan else Budget(memory, seconds=arguments.seconds)
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})


@contextmanager
def naming_tiers(arguments) -> Iterator[None]:
    """A BudgetError that passes also names the recommended networks that fit, if memory is too small."""
    try:
        yield
    except BudgetError as error:
        from tinytrain.pipeline.tiers import fitting_tiers

        if error.task is None or getattr(arguments, "plan", None):
            raise
        policy, budget = policy_of(arguments), budget_of(arguments)
        found = fitting_tiers(open_backbone(arguments.backbone), policy, error.task, budget)
        if not (names := [f"--backbone {tier} needs {least}" for tier, least in found]):
            raise
        message = f"{error.message}; {', '.join(names)}"
        raise BudgetError(error.code, message, error.smallest, error.task) from error


def network_of(arguments, drawn, progress, alone: str | None = None):
    """The network of ``--backbone``, by default that which is `suited` to what was `drawn`.

    Raises what `suited` and `open_backbone` raise.
    """
    from tinytrain.api.opening import suited
    from tinytrain.runtime.device import Device

    asked = arguments.backbone
    arguments.backbone = suited(asked, drawn, arguments.seed, Device(progress=progress))
    if arguments.backbone != asked:
        say(f"--backbone is {arguments.backbone}")
    return open_backbone(arguments.backbone, alone)


def open_episode(arguments, network, policy, progress, drawn, within_budget: bool = True) -> tuple:
    """The episode of what was `drawn` by the options, decoded, and warnings about it, a list.

    `policy` may be a plan. With `within_budget`, raises BudgetError for an infeasible budget before any image
    is decoded.
    """
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.episode.kinds import kind_of

    if within_budget:
        planner_of(arguments, network, policy, drawn).probe()
    episode = drawn.decoded(network.input, progress)
    words = kind_of(network.input.kind).words
    return episode, [*map(words, warnings(arguments, policy, episode) + file_lines(episode))]


def planner_of(arguments, network, policy, drawn):
    """The planner of the options for what was `drawn`; `policy` may be a plan."""
    from tinytrain.plan.budget import TaskShape
    from tinytrain.plan.plan import Plan
    from tinytrain.planner.committee import planner_for

    budget = budget_of(arguments, policy if isinstance(policy, Plan) else None)
    return planner_for(network, TaskShape.of(drawn.episode), policy, budget)


def draw(arguments, policy):
    """What `tinytrain.adapt` takes as the episode of the options; no image is decoded."""
    from tinytrain.api.opening import Drawn
    from tinytrain.datasets import folder_dataset
    from tinytrain.policies.registry import least_classes

    of_folder = arguments.folder is not None
    if of_folder and arguments.data is not None:
        raise UsageError("usage", "give a folder or --data, not both")
    if ignored := given(arguments, ("episode",) if of_folder else ("flip", "background")):
        raise UsageError(
            "usage", f"{ignored[0]} has no effect {'for a folder' if of_folder else 'without DIR'}"
        )
    if not of_folder:
        from tinytrain.datasets import open_dataset

        dataset = open_dataset(DEFAULT_DATA if arguments.data is None else arguments.data)
        again = partial(_from_dataset, arguments)
        return Drawn(again(dataset), dataset, again, once=False)
    refuse_other_kinds(arguments.folder, "images")
    dataset = folder_dataset(arguments.folder, arguments.flip, arguments.background)
    again = partial(_from_folder, arguments, least_classes(policy))
    return Drawn(again(dataset), dataset, None if arguments.shots is None else again)


def _from_dataset(arguments, dataset):
    from tinytrain.datasets import sample_episode

    way = arguments.way or (DEFAULT_WAY if arguments.data is None else 5)
    shots = arguments.shots or 5
    queries = 10 if arguments.queries is None else arguments.queries
    drawn = sample_episode(dataset, way, shots, queries, arguments.seed, arguments.episode)
    return replace(drawn, replay=arguments.replay)


def _from_folder(arguments, least: int, dataset):
    from tinytrain.datasets import folder_episode

    if least == dataset.n_classes == 1 and arguments.queries:
        raise UsageError(
            "usage",
            "--queries measures how classes are told apart, and here is one; 'tinytrain eval' judges it",
        )
    found = folder_episode(
        dataset,
        arguments.shots,
        arguments.way,
        arguments.seed,
        hold_out=arguments.queries,
        least_classes=least,
    )
    return replace(found, replay=arguments.replay)


def warnings(arguments, policy, episode) -> list[str]:
    """Warnings about the options for this `episode`, none about its files; `policy` may be a plan."""
    from tinytrain.plan.plan import Plan

    limits = [] if isinstance(policy, Plan) else _unlimited(arguments, policy)
    return limits + _too_few(arguments, episode)


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
        if count < arguments.shots and name != BACKGROUND
    ]
