"""Int8 training against float32 training: budgets, ways to round an update, and scaled or plain gradients.

Every form adapts to the same episodes. The published int8 training rounds float32 weights in the forward pass
("masters" here); the C code that was published with it truncates.
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np

from tinytrain.base.console import guarded
from tinytrain.base.units import parse_bytes
from tinytrain.datasets.samplers import sample_episode
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import (
    EPISODES,
    add_episodes,
    add_log,
    episode_jobs,
    run_study,
    study_parser,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import ROUNDINGS, Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.runtime.device import Device

DOMAINS = "pacs_photo,tiny_imagenet200,signs,leaves"  # none of them is a target
PLAIN = "float32"
UNSCALED = "-unscaled"


def forms(args) -> list[str]:
    """Names such as "float32@1MB", "int8@256KB", or "nearest-unscaled@1MB" for int8 by that rule."""
    return args.forms.split(",")


def in_form(policy: Policy, rounding: str) -> Policy:
    """`policy` with updates that are rounded by this rule."""
    rule, scaled = rounding.removesuffix(UNSCALED), not rounding.endswith(UNSCALED)

    def recipe(*arguments) -> Recipe:
        return policy.recipe(*arguments).in_precision("int8", rule, scaled)

    return replace(policy, recipe=recipe)


class CountingDevice(Device):
    """Counts updates of int8 weights by at least a thousandth of a code, and those that are lost."""

    def __init__(self):
        super().__init__(threads=1)
        self.updates = self.lost = 0

    def kernels(self):
        table = super().kernels()
        rounded = table.round_codes

        def round_codes(w, rest, steps, lsb, columns, *others):
            moved, before = np.abs(steps * lsb[columns]) > 1e-3, w.copy()
            rounded(w, rest, steps, lsb, columns, *others)
            self.updates += int(moved.sum())
            self.lost += int((moved & (w == before)).sum())

        table.round_codes = round_codes
        return table


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = sample_episode(dataset, args.way, args.shots, args.queries, args.seed, episode)
    parts = (part.held(network.input.shape) for part in (drawn.support, drawn.query))
    drawn = replace(drawn, **dict(zip(("support", "query"), parts, strict=True)))
    found: dict = {}
    for form in forms(args):
        kind, _, memory = form.partition("@")
        policy = policy_for(find_policy(args.policy), args.way).with_rates(args.rates)
        if kind.removesuffix(UNSCALED) in ROUNDINGS:
            policy = in_form(policy, kind)
        if kind == "none":
            policy = find_policy("none_lda")
        precision = PLAIN if kind in (PLAIN, "none") else "int8"
        budget, device = Budget(parse_bytes(memory), args.macs, precision=precision), CountingDevice()
        report = adapt(network, drawn, budget, policy, args.seed, device)
        facts = report.to_json()
        found[form] = {
            "accuracy": facts["accuracy"]["withheld" if not report.guard.accepted else "after"],
            "arena": facts["memory"]["arena"],
            "parameters": facts["memory"]["trained_numbers"],
            "lost": device.lost / device.updates if device.updates else None,
            "refused": not report.guard.accepted,
        }
    return {"forms": found}


def summary(rows: list[dict], base: str | None = None) -> list[str]:
    """Per form: accuracy in per cent, and points above the form `base` with 95 % intervals, by pack."""
    packs, names = list(dict.fromkeys(row["pack"] for row in rows)), list(rows[0]["forms"])
    base = base or names[0]
    columns = ["form", *packs, "mean", f"above {base}", "parameters", "arena", "lost", "refused", "episodes"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [_line(rows, packs, name, base) for name in names]
    lines += ["", f"| above {base} | {' | '.join(packs)} |", "|" + "---|" * (len(packs) + 1)]
    return lines + [_above(rows, packs, name, base) for name in names if name != base]


def _points(rows: list[dict], pack: str, form: str) -> np.ndarray:
    return np.array([100 * row["forms"][form]["accuracy"] for row in rows if row["pack"] == pack])


def _interval(strata: list[np.ndarray]) -> str:
    found = stratified(strata)
    return f"{found.mean:+.2f} ±" + ("-" if found.half is None else f"{found.half:.2f}")


def _above(rows: list[dict], packs: list[str], name: str, base: str) -> str:
    cells = (_interval([_points(rows, p, name) - _points(rows, p, base)]) for p in packs)
    return f"| {name} | {' | '.join(cells)} |"


def _line(rows: list[dict], packs: list[str], name: str, base: str) -> str:
    means = [_points(rows, pack, name).mean() for pack in packs]
    above = _interval([_points(rows, pack, name) - _points(rows, pack, base) for pack in packs])
    facts = [row["forms"][name] for row in rows]
    sizes = (f"{np.median([fact[key] for fact in facts]):,.0f}" for key in ("parameters", "arena"))
    lost = [fact["lost"] for fact in facts if fact["lost"] is not None]
    cells = [
        name, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.1f}",
        above, *sizes,
        f"{100 * np.mean(lost):.0f} %" if lost else "-",
        str(sum(fact["refused"] for fact in facts)), str(len(rows)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def parser():
    p = study_parser("int8_training", __doc__.split("\n")[0], "tinytrain-small-2", DOMAINS)
    p.add_argument("--forms", default="none@1MB,float32@1MB,int8@256KB,int8@1MB", help="comma-separated")
    p.add_argument("--above", metavar="FORM", help="compare with it in the summary (default: the first)")
    p.add_argument("--policy", default="tinytrain")
    p.add_argument("--macs", type=float, default=0.15, help="fraction (default: %(default)s)")
    p.add_argument("--rates", type=float, default=1.0, help="factor of learning rates (default: %(default)s)")
    add_episodes(p, 10)
    add_log(p, adapts=False)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("forms", "policy", "macs", "rates", *EPISODES)
    run_study(args, episode_jobs(args), settings, run_job, partial(summary, base=args.above))


if __name__ == "__main__":
    sys.exit(main())
