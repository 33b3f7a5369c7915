"""What a training step may leave out: accuracy against executed MACs and seconds, paired episodes.

    python -m tinytrain.meta.studies.operations --backbone mcunet-5fps --out operations.jsonl
    python -m tinytrain.meta.studies.operations --summary --out results/operations.jsonl
    python -m tinytrain.meta.studies.operations --summary --out new.jsonl --before old.jsonl

A form such as "single40@15%" makes 40 steps if a task is trained to its full extent, and has 15 % of the
MACs. A step of "single" computes the images that it back-propagates and no others, each of them once; one of
"double" computes all images first, and then back-propagates the hardest. "policy@15%" leaves both to the
policy. "x1.5" behind the steps makes learning rates half as large again. Adaptations that the guard refused
count as if they were kept. Seconds are those of the processor. --before names a log that another version
made of the same episodes: its forms are compared with, too.
"""

import re
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tinytrain.base.console import Parser, guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import (
    EPISODES,
    add_episodes,
    add_log,
    decoded_episode,
    episode_jobs,
    read_log,
    run_study,
    study_parser,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.policies.tinytrain import extent
from tinytrain.runtime.device import Device

DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,signs,glyphs,textures,leaves,fsdd_logmel"  # no targets
FORMS = "double40@15%,single40@15%,double40@30%,single40@30%"
PASSES = {"single": True, "double": False}
PATTERN = re.compile(r"(?:policy|(single|double)(\d+)(?:x([\d.]+))?)@(.+)")


@dataclass(frozen=True)
class Form:
    """`single_pass` is None if the policy decides on it, and on the steps."""

    macs: float
    single_pass: bool | None = None
    steps: int = 0
    rates: float = 1.0

    def policy(self, policy: Policy) -> Policy:
        if self.single_pass is None:
            return policy
        policy = policy.with_rates(self.rates)

        def recipe(network, scores, *others) -> Recipe:
            found = policy.recipe(network, scores, *others)
            steps = round(self.steps * (extent(scores.similarity) if scores else 1.0))
            options = replace(found.options, single_pass=self.single_pass)
            return replace(found, options=options, steps=steps)

        return replace(policy, recipe=recipe)


def form(name: str) -> Form:
    """The form of this name. Raises UsageError ``bad-form``."""
    try:
        passes, steps, rates, macs = PATTERN.fullmatch(name).groups()
        found = Form(parse_fraction(macs), PASSES.get(passes), int(steps or 0), float(rates or 1))
        if found.rates <= 0 or (passes and not found.steps):
            raise ValueError
    except (AttributeError, ValueError):
        text = f"there is no form {name}; a form is such as single40@15% or policy@15%"
        raise UsageError("bad-form", text) from None
    return found


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = decoded_episode(network, dataset, args, episode)
    policy, found = policy_for(find_policy(args.policy), args.way), {}
    for name in args.forms.split(","):
        each = form(name)
        budget = Budget(parse_bytes(args.budget), each.macs)
        start = time.process_time()
        report = adapt(network, drawn, budget, each.policy(policy), episode, Device(threads=1), force=True)
        seconds = time.process_time() - start
        facts = report.to_json()
        found[name] = {
            "accuracy": facts["accuracy"]["after"],
            "before": facts["accuracy"]["before"],
            "executed": facts["macs"]["total"],
            "seconds": seconds,
        }
    return {"forms": found}


def beside(rows: list[dict], others: list[dict]) -> list[dict]:
    """Those of `rows` whose episode is among `others`, with their forms as well, which come first."""

    def episode(row: dict) -> tuple:
        same = (row["settings"][name] for name in (*EPISODES, "policy", "budget", "backbone"))
        return (row["pack"], row["episode"], *same)

    older: dict[tuple, dict] = {}
    for row in others:
        older.setdefault(episode(row), {}).update({f"{n} before": v for n, v in row["forms"].items()})
    return [row | {"forms": older[episode(row)] | row["forms"]} for row in rows if episode(row) in older]


def summary(rows: list[dict], base: str | None = None, others: list[dict] | None = None) -> list[str]:
    """Per form: accuracy in per cent, points above the form `base` with 95 % intervals, MACs and seconds."""
    rows = rows if others is None else beside(rows, others)
    if not rows:
        return ["no episode is in both logs"]
    packs, names = list(dict.fromkeys(row["pack"] for row in rows)), list(rows[0]["forms"])
    base = base or names[0]
    columns = ["form", *packs, "mean", f"above {base}", "executed, G", f"of {base}", "seconds", "episodes"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return lines + [_line(rows, packs, name, base) for name in names]


def _values(rows: list[dict], pack: str, name: str, key: str) -> np.ndarray:
    return np.array([row["forms"][name][key] for row in rows if row["pack"] == pack])


def _line(rows: list[dict], packs: list[str], name: str, base: str) -> str:
    mine, others = (
        {key: [_values(rows, p, form, key) for p in packs] for key in ("accuracy", "executed", "seconds")}
        for form in (name, base)
    )
    above = stratified([100 * (a - b) for a, b in zip(mine["accuracy"], others["accuracy"], strict=True)])
    means = [100 * values.mean() for values in mine["accuracy"]]
    executed, before = (np.mean([v.mean() for v in each["executed"]]) for each in (mine, others))
    seconds = np.mean([v.mean() for v in mine["seconds"]])
    cells = [
        name, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.1f}",
        f"{above.mean:+.2f} ±" + ("-" if above.half is None else f"{above.half:.2f}"),
        f"{executed / 1e9:.1f}", f"{executed / before:.0%}", f"{seconds:.2f}", str(len(rows)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def parser() -> Parser:
    p = study_parser("operations", __doc__.split("\n")[0], "tinytrain-small-2", DOMAINS)
    p.add_argument("--forms", default=FORMS, help="with commas")
    p.add_argument("--above", metavar="FORM", help="compare with it in the summary (default: the first)")
    p.add_argument("--before", type=Path, metavar="LOG", help="log of another version, for the summary")
    add_episodes(p, 10)
    add_log(p)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("forms", "policy", "budget", *EPISODES)
    for name in args.forms.split(","):
        form(name)
    others = read_log(args.before, required=True) if args.before else None
    shown = partial(summary, base=args.above, others=others)
    run_study(args, episode_jobs, settings, run_job, shown)


if __name__ == "__main__":
    sys.exit(main())
