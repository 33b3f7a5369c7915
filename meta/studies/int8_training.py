"""Int8 training against float32 training: budgets, ways to round an update, and scaled or plain gradients.

Every form adapts to the same episodes. The published int8 training rounds float32 weights in the forward pass
("masters" here); the C code that was published with it truncates.

A form is a rule and a budget, such as "carried@1MB". Rules are "none" (not adapted, LDA head), "float32",
"int8" (as the policy has it) and those of ``recipe.ROUNDINGS``, also without quantisation-aware scaling
("masters-unscaled"); "*10" behind it makes the learning rates ten times as large ("carried*10@1MB").
"""

import sys
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes
from tinytrain.meta.studies.study import (
    ABOVE,
    TASK,
    Study,
    chosen,
    compared_with,
    each_form,
    form_options,
    form_table,
    option,
    points_above,
    table,
    values_of,
    with_recipes,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import ROUNDINGS, Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.program.backends.working_copy import working_copy
from tinytrain.program.trained_buffers import OPTIMIZER_STATES
from tinytrain.report import Report
from tinytrain.runtime.device import Device

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
        policy = policy_for(find_policy(args.policy), args.way).with_rates(self.rates)

        def changed(found: Recipe) -> Recipe:
            found = replace(found, optimizer=args.optimizer or found.optimizer)
            return found.in_precision("int8", self.rule, self.scaled) if self.rule in ROUNDINGS else found

        return with_recipes(policy, changed)


def form(name: str) -> Form:
    """The form of this name. Raises UsageError."""
    rule, _, memory = name.partition("@")
    rule, _, rates = rule.partition("*")
    plain = rule.removesuffix(UNSCALED)
    try:
        if plain not in ROUNDINGS and rule not in (NONE, PLAIN, "int8"):
            raise ValueError
        return Form(plain, plain == rule, float(rates or 1), parse_bytes(memory))
    except ValueError:
        text = f"there is no form {name}; a form is such as carried*10@1MB"
        raise UsageError("usage", text) from None


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


def facts_of(network: Network, drawn, args, form: Form, episode: int) -> dict:
    device, budget = CountingDevice(), Budget(form.memory, args.macs, precision=form.precision)
    report = adapt(network, drawn, budget, form.policy(args), args.seed, device, train=True)
    facts, refused = report.to_json(), report.guard.kept != "adapted"
    accuracy = facts["accuracy"]  # "withheld" is that of what was trained and not kept
    return {
        "accuracy": accuracy["after"] if accuracy["withheld"] is None else accuracy["withheld"],
        "arena": facts["memory"]["arena"],
        "parameters": facts["memory"]["trained_parameters"],
        "moved": moved(report),
        "lost": device.lost / device.updates if device.updates else None,
        "refused": refused,
    }


def summary(rows: list[dict], above: str | None = None) -> list[str]:
    """Per form: accuracy in per cent, and points above the form `above` with 95 % intervals, by pack."""
    packs, base = values_of(rows, "pack"), compared_with(rows, above)

    def values(name: str, key: str) -> list:
        return [row["forms"][name][key] for row in rows if row["forms"][name].get(key) is not None]

    def share(name: str, key: str) -> str:
        """In per cent, of the episodes that have it."""
        found = values(name, key)
        return f"{100 * np.mean(found):.0f} %" if found else "-"

    more = {
        "parameters": lambda name: f"{np.median(values(name, 'parameters')):,.0f}",
        "arena": lambda name: f"{np.median(values(name, 'arena')):,.0f}",
        "moved": lambda name: share(name, "moved"),
        "lost": lambda name: share(name, "lost"),
        "refused": lambda name: str(sum(values(name, "refused"))),
        "episodes": lambda name: str(len(rows)),
    }
    others = [name for name in rows[0]["forms"] if name != base]
    leads = [
        (name, *(points_above(chosen(rows, pack=p), name, base).text(2, signed=True) for p in packs))
        for name in others
    ]
    return [*form_table(rows, base, more), "", *table((f"above {base}", *packs), leads)]


OPTIONS = (
    *form_options("none@1MB,float32@1MB,int8@256KB,int8@1MB", "with commas", form),
    ABOVE,
    option("--policy", "tinytrain"),
    option("--optimizer", None, "default: that of the policy", choices=sorted(OPTIMIZER_STATES)),
    option("--macs", 0.15, "fraction (default: %(default)s)", type=float),
)
main = Study(
    "int8_training", __doc__, "tinytrain-small-2", DOMAINS, each_form(form, facts_of), summary, OPTIONS,
    ("forms", "policy", "optimizer", "macs", *TASK), shown=("above",),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
