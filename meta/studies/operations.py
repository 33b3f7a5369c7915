"""What a training step may leave out: accuracy against executed MACs and seconds, paired episodes.

    python -m tinytrain.meta.studies.operations --backbone mcunet-5fps --out operations.jsonl
    python -m tinytrain.meta.studies.operations --summary --out results/operations.jsonl
    python -m tinytrain.meta.studies.operations --summary --out new.jsonl --before old.jsonl

A form such as "single40@15%" makes 40 steps and has 15 % of the MACs. A step of "single" computes the images
that it back-propagates and no others, each of them once; one of "double" computes all images first, and then
back-propagates the hardest. "policy@15%" leaves all of it to --policy, and "sparse_update/1.6MB@15%" to
another one, with that memory. Adaptations that the guard refused count as if they were kept. Seconds are
those of the processor. --before names a log that another version made of the same episodes: its forms are
compared with, too.
"""

import re
import sys
import time
from dataclasses import dataclass, replace

from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.meta.studies.study import (
    ABOVE,
    ADAPTS,
    DOMAINS,
    TASK,
    Study,
    compared_with,
    each_form,
    fact,
    form_options,
    form_table,
    mean_of_packs,
    option,
    read_study,
    with_recipes,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.runtime.device import Device

FORMS = "double40@15%,single40@15%,double40@30%,single40@30%"
PASSES = {"single": True, "double": False}
PATTERN = re.compile(r"(?:(single|double)(\d+)|([a-z]\w*)(?:/([\w.]+))?)@(.+)")


@dataclass(frozen=True)
class Form:
    """`single_pass` is None if the policy decides on it, and on the steps.

    `named` and `memory` are the policy and its bytes; None for those of the options.
    """

    macs: float
    single_pass: bool | None = None
    steps: int = 0
    named: str | None = None
    memory: int | None = None

    def policy(self, policy: Policy) -> Policy:
        if self.single_pass is None:
            return policy

        def changed(found: Recipe) -> Recipe:
            options = replace(found.options, single_pass=self.single_pass)
            return replace(found, options=options, steps=self.steps)

        return with_recipes(policy, changed)


def form(name: str) -> Form:
    """The form of this name. Raises UsageError."""
    try:
        passes, steps, named, memory, macs = PATTERN.fullmatch(name).groups()
        other = find_policy(named).name if named not in (None, "policy") else None
        how = PASSES.get(passes), int(steps or 0), other
        found = Form(parse_fraction(macs), *how, parse_bytes(memory) if memory else None)
        if passes and not found.steps:
            raise ValueError
    except (AttributeError, ValueError, UsageError):
        text = f"there is no form {name}; a form is such as single40@15% or policy@15%"
        raise UsageError("usage", text) from None
    return found


def facts_of(network: Network, drawn, args, form: Form, episode: int) -> dict:
    policy = form.policy(policy_for(find_policy(form.named or args.policy), args.way))
    budget, start = Budget(form.memory or parse_bytes(args.budget), form.macs), time.process_time()
    report = adapt(network, drawn, budget, policy, episode, Device(threads=1), force=True)
    seconds, facts = time.process_time() - start, report.to_json()
    return {
        "accuracy": facts["accuracy"]["after"],
        "before": facts["accuracy"]["before"],
        "executed": facts["macs"]["total"],
        "arena": facts["memory"]["arena"],
        "seconds": seconds,
    }


def beside(rows: list[dict], others: list[dict]) -> list[dict]:
    """Those of `rows` whose episode is among `others`, with their forms as well, which come first."""

    def episode(row: dict) -> tuple:
        same = (row["settings"][name] for name in (*TASK, "policy", "budget", "backbone"))
        return (row["pack"], row["episode"], *same)

    older: dict[tuple, dict] = {}
    for row in others:
        older.setdefault(episode(row), {}).update({f"{n} before": v for n, v in row["forms"].items()})
    return [row | {"forms": older[episode(row)] | row["forms"]} for row in rows if episode(row) in older]


def summary(rows: list[dict], above: str | None = None, before: list[dict] | None = None) -> list[str]:
    """Per form: accuracy in per cent, points above the form `above` with 95 % intervals, MACs and seconds."""
    rows = rows if before is None else beside(rows, before)
    if not rows:
        return ["no episode is in both logs"]
    base = compared_with(rows, above)

    def mean(name: str, key: str) -> float:
        return mean_of_packs(rows, fact(name, key))

    more = {
        "executed, G": lambda name: f"{mean(name, 'executed') / 1e9:.1f}",
        f"of {base}": lambda name: f"{mean(name, 'executed') / mean(base, 'executed'):.0%}",
        "seconds": lambda name: f"{mean(name, 'seconds'):.2f}",
        "episodes": lambda name: str(len(rows)),
    }
    return form_table(rows, base, more)


OPTIONS = (
    *ADAPTS,
    *form_options(FORMS, "with commas", form),
    ABOVE,
    option("--before", None, "log of another version, for the summary", type=read_study, metavar="LOG"),
)
main = Study(
    "operations", __doc__, "tinytrain-small-2", DOMAINS, each_form(form, facts_of), summary, OPTIONS,
    ("forms", "policy", "budget", *TASK), shown=("above", "before"),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
