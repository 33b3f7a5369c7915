"""Int8 training against float32 training: budgets, ways to round an update, and scaled or plain gradients.

Every form adapts to the same episodes. The published int8 training rounds float32 weights in the forward pass
("masters" here); the C code that was published with it truncates.

A form is a rule and a budget, such as "carried@1MB". Rules are "none" (not adapted, LDA head), "float32",
"int8" (as the policy has it) and those of ``recipe.ROUNDINGS``, also without quantisation-aware scaling
("masters-unscaled"); "*10" behind it makes the learning rates ten times as large ("carried*10@1MB").
"""

import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import (
    EPISODES,
    add_episodes,
    add_log,
    decoded_episode,
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
from tinytrain.program.trained_buffers import OPTIMIZER_STATES
from tinytrain.report import Report
from tinytrain.runtime.device import Device
from tinytrain.runtime.int8_copy import working_copy

DOMAINS = "pacs_photo,tiny_imagenet200,signs,leaves"  # none of them is a target
NONE, PLAIN = "none", "float32"
UNSCALED = "-unscaled"


@dataclass(frozen=True)
class Form:
    """What one name stands for: see above."""

    rule: str
    scaled: bool
    rates: float
    memory: int

    @property
    def precision(self) -> str:
        return PLAIN if self.rule in (PLAIN, NONE) else "int8"

    def policy(self, args) -> Policy:
        if self.rule == NONE:
            return find_policy("none_lda")
        policy = policy_for(find_policy(args.policy), args.way).with_rates(args.rates * self.rates)

        def recipe(*arguments) -> Recipe:
            found = policy.recipe(*arguments)
            found = replace(found, optimizer=args.optimizer or found.optimizer)
            return found.in_precision("int8", self.rule, self.scaled) if self.rule in ROUNDINGS else found

        return replace(policy, recipe=recipe)


def form(name: str) -> Form:
    """The form of this name. Raises UsageError ``bad-form``."""
    rule, _, memory = name.partition("@")
    rule, _, rates = rule.partition("*")
    plain = rule.removesuffix(UNSCALED)
    known = plain in ROUNDINGS or rule in (NONE, PLAIN, "int8")
    try:
        found = Form(plain, plain == rule, float(rates or 1), parse_bytes(memory))
    except ValueError:
        known = False
    if not known:
        raise UsageError("bad-form", f"there is no form {name}; a form is such as carried*10@1MB")
    return found


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


def moved(report: Report) -> float | None:
    """Share of the trained int8 weights whose code is another one than before; None without any."""
    weights = [s for s in report.delta.slices if s.part == "weight" and s.values.dtype == np.int8]
    before, changed = working_copy(report.program) if weights else None, []
    for s in weights:
        whole = before.part(s.layer, "weight")
        rows = range(len(whole)) if s.inputs is None else s.inputs
        changed.append((whole[np.ix_(rows, s.channels)] != s.values).ravel())
    return float(np.concatenate(changed).mean()) if weights else None


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = decoded_episode(network, dataset, args, episode)
    found: dict = {}
    for name in args.forms.split(","):
        each, device = form(name), CountingDevice()
        budget = Budget(each.memory, args.macs, precision=each.precision)
        report = adapt(network, drawn, budget, each.policy(args), args.seed, device)
        facts = report.to_json()
        found[name] = {
            "accuracy": facts["accuracy"]["withheld" if not report.guard.accepted else "after"],
            "arena": facts["memory"]["arena"],
            "parameters": facts["memory"]["trained_numbers"],
            "moved": moved(report),
            "lost": device.lost / device.updates if device.updates else None,
            "refused": not report.guard.accepted,
        }
    return {"forms": found}


def summary(rows: list[dict], base: str | None = None) -> list[str]:
    """Per form: accuracy in per cent, and points above the form `base` with 95 % intervals, by pack."""
    packs, names = list(dict.fromkeys(row["pack"] for row in rows)), list(rows[0]["forms"])
    base = base or names[0]
    columns = ["form", *packs, "mean", f"above {base}", "parameters", "arena", "moved"]
    columns += ["lost", "refused", "episodes"]
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
    cells = [
        name, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.1f}",
        above, *sizes,
        _share(facts, "moved"), _share(facts, "lost"),
        str(sum(fact["refused"] for fact in facts)), str(len(rows)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _share(facts: list[dict], key: str) -> str:
    """In per cent, of the episodes that have it."""
    found = [fact[key] for fact in facts if fact.get(key) is not None]
    return f"{100 * np.mean(found):.0f} %" if found else "-"


def parser():
    p = study_parser("int8_training", __doc__.split("\n")[0], "tinytrain-small-2", DOMAINS)
    p.add_argument("--forms", default="none@1MB,float32@1MB,int8@256KB,int8@1MB", help="with commas")
    p.add_argument("--above", metavar="FORM", help="compare with it in the summary (default: the first)")
    p.add_argument("--policy", default="tinytrain")
    p.add_argument("--optimizer", choices=sorted(OPTIMIZER_STATES), help="default: that of the policy")
    p.add_argument("--macs", type=float, default=0.15, help="fraction (default: %(default)s)")
    p.add_argument("--rates", type=float, default=1.0, help="factor of learning rates (default: %(default)s)")
    add_episodes(p, 10)
    add_log(p, adapts=False)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("forms", "policy", "optimizer", "macs", "rates", *EPISODES)
    for name in args.forms.split(","):
        form(name)
    run_study(args, episode_jobs, settings, run_job, partial(summary, base=args.above))


if __name__ == "__main__":
    sys.exit(main())
