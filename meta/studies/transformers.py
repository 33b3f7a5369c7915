"""A transformer in few shots: beside another network, and which rows of its dense layers are trained.

    python -m tinytrain.meta.studies.transformers --backbone compact-transformer.safetensors \\
        --beside compact-cnn.safetensors --packs gtsrb,flowers12 --out transformers.jsonl
    python -m tinytrain.meta.studies.transformers --backbone compact-transformer.safetensors \\
        --packs signs,leaves --forms random,learning,fisher,every --seeds 5 --episodes 4 --out rows.jsonl

A form is a policy, of the network of --beside if "beside/" stands before it, or it says which rows (output
channels) of the inspected dense layers are trained: "every" row, or 40 % of all. These are those with the
most Fisher information for the task, those that move most (L1 norm) in a tenth of the steps, in which every
row is trained (the learning rows of Freeze And Reconfigure, Vucetic et al. 2022), or some at random. All of
them train as the default policy does, with memory for every row. No matrix is put in another order, as it is
there: kernels take the columns of a gradient that are trained. Adaptations that the guard refused count as if
they were kept.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.study import (
    ABOVE,
    TASK,
    Rows,
    Study,
    chosen,
    compared_with,
    decoded_episode,
    episodes_option,
    form_table,
    grid,
    names_option,
    number,
    option,
    points_above,
    task_options,
    values_of,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy, learning_rates_by_size
from tinytrain.policies.registry import find_policy
from tinytrain.policies.tinytrain import BIAS_RATE, POLICY, RELATIVE_RATE, inspected
from tinytrain.report import Report
from tinytrain.runtime.device import Device

ROW_FORMS = ("every", "fisher", "learning", "random")
ROWS, PRIMING = 0.4, 0.1  # fractions: of rows that are trained, and of steps that find learning rows
ROWS_BUDGET = Budget(8_000_000, 10.0, precision="float32")
BESIDE = "beside/"
_loaded = cache(load_backbone)  # once for all jobs
Ranks = dict[int, np.ndarray]  # for each layer a number for each row; the largest are trained


def rows_policy(name: str, ranks_of: Callable, share: float = ROWS, steps: float = 1.0) -> Policy:
    """The default policy that trains this `share` of the rows, the first by ``ranks_of(network, scores)``.

    `steps` is the fraction of its usual steps.
    """

    def recipe(network, scores, budget, task, fraction) -> Recipe:
        found = POLICY.recipe(network, scores, budget, task, fraction)
        rows = top(ranks_of(network, scores), share)
        updates = tuple(Update(i, tuple(np.flatnonzero(part).tolist()), bias=True) for i, part in rows)
        sizes = learning_rates_by_size(network, updates, RELATIVE_RATE)
        rates = tuple((size, BIAS_RATE) for size, _ in sizes)
        count = round(steps * found.steps)
        return replace(found, policy=name, updates=updates, rates=rates, steps=count)

    return replace(POLICY, name=name, recipe=recipe, shrinks=False, macs_limited=False)


def top(ranks: Ranks, share: float) -> list[tuple[int, np.ndarray]]:
    """Each layer that has some of the first rows of all by rank, and a mask of those of its rows."""
    order = np.argsort(-np.concatenate([*ranks.values()]), kind="stable")
    kept = np.zeros(len(order), bool)
    kept[order[: round(share * len(order))]] = True
    parts = np.split(kept, np.cumsum([len(rank) for rank in ranks.values()])[:-1])
    return [(i, part) for i, part in zip(ranks, parts, strict=True) if part.any()]


def moved(network: Network, report: Report) -> Ranks:
    """How far an adaptation moved the weights of each row of the inspected layers, as an L1 norm."""
    found = alike(network)
    for part in report.delta.slices:
        if part.part == "weight" and part.layer in found:
            change = part.values - network.float_weight(part.layer)[:, part.channels]
            found[part.layer][part.channels] = np.abs(change).sum(axis=0)
    return found


def alike(network: Network, scores=None) -> Ranks:
    return {i: np.zeros(network.layers[i].cout) for i in inspected(network)}


EVERY = rows_policy("every", alike, 1.0)
FISHER = rows_policy("fisher", lambda network, scores: {i: scores.fisher[i] for i in inspected(network)})


def learning(adapted: Callable[[Policy], Report], network: Network) -> Policy:
    ranks = moved(network, adapted(rows_policy("priming", alike, 1.0, PRIMING)))
    return rows_policy("learning", lambda *_: ranks)


def at_random(network: Network, seed: int) -> Policy:
    rng = rng_for(seed, "rows at random")
    ranks = {i: rng.random(len(rank)) for i, rank in alike(network).items()}
    return rows_policy("random", lambda *_: ranks)


def form(name: str) -> str:
    """The policy that a form names. Raises UsageError."""
    policy = name.removeprefix(BESIDE)
    return policy if policy in ROW_FORMS else find_policy(policy).name


def run_job(network: Network, dataset, args, seed: int, episode: int) -> dict:
    """The accuracy of each form after an adaptation to the same episode."""
    networks, found = [network, *([_loaded(args.beside)] if args.beside else ())], {}
    drawn = [decoded_episode(one, dataset, args, episode, seed=args.seed + seed) for one in networks]
    for name in args.forms.split(","):
        which = int(name.startswith(BESIDE))
        if which == len(networks):
            raise UsageError("usage", f"{name} needs another network; give it with --beside")
        accuracy = accuracy_of(networks[which], drawn[which], form(name), args, 1000 * seed + episode)
        found[name] = {"accuracy": accuracy}
    return {"forms": found}


def accuracy_of(network: Network, drawn: Episode, name: str, args, seed: int) -> float:
    def adapted(policy: Policy, budget: Budget = ROWS_BUDGET) -> Report:
        return adapt(network, drawn, budget, policy, seed, Device(threads=1), force=True)

    if name == "learning":
        policy = learning(adapted, network)
    elif name == "random":
        policy = at_random(network, seed)
    else:
        policy = {"every": EVERY, "fisher": FISHER}.get(name) or find_policy(name)
    budget = ROWS_BUDGET if name in ROW_FORMS else Budget(parse_bytes(args.budget))
    return adapted(policy, budget).to_json()["accuracy"]["after"]


def summary(rows: Rows, above: str | None = None) -> list[str]:
    """Accuracy by form, points above the form `above` with 95 % intervals, and in how many seeds."""
    base, seeds = compared_with(rows, above), values_of(rows, "seed")

    def won(name: str) -> str:
        leads = [points_above(chosen(rows, seed=seed), name, base).mean for seed in seeds]
        return f"{sum(lead > 0 for lead in leads)} of {len(seeds)}"

    return form_table(rows, base, {"seeds above": won, "episodes": lambda name: str(len(rows))})


OPTIONS = (
    option("--beside", None, "another network, for forms such as beside/tinytrain", metavar="NET"),
    names_option("--forms", "none_lda,tinytrain,beside/none_lda,beside/tinytrain", "with commas", form),
    option("--budget", "1MB", "of policies (default: %(default)s)"),
    *task_options(),
    episodes_option(20, "per pack and seed"),
    number("--seeds", 1, "each draws episodes of its own (default: %(default)s)"),
    ABOVE,
)
main = Study(
    "transformers", __doc__, "tinytrain-small-2", "gtsrb,flowers12", run_job, summary, OPTIONS,
    ("forms", "beside", "budget", *TASK), shown=("above",),
    jobs=lambda args: grid(args, seed=range(args.seeds), episode=range(args.episodes)),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
