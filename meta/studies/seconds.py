"""Accuracy against the seconds that an adaptation was given, on domains that are no targets, paired episodes.

    python -m tinytrain.meta.studies.seconds --out seconds.jsonl
    python -m tinytrain.meta.studies.seconds --summary --out results/seconds.jsonl --plot seconds.svg

A form is a time: "2" leaves it to the adaptation how two seconds are spent, "2@30%" takes 30 % of the MACs
and as many steps as fit; "lda" is a head alone, without a limit. Seconds are those of the processor in one
thread, and so is the clock by which the adaptation keeps its time: other processes hardly change either.
Adaptations that the guard refused count as if they were kept.
"""

import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinytrain.base.files import write_bytes
from tinytrain.base.units import parse_bytes, parse_fraction, parse_seconds
from tinytrain.meta.bench.plots import Point, against_seconds
from tinytrain.meta.studies.int8_training import DOMAINS
from tinytrain.meta.studies.study import (
    ADAPTS,
    TASK,
    Study,
    each_form,
    fact,
    form_options,
    form_table,
    mean_of_packs,
    plot_option,
    points_above,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.runtime.device import Device

HEAD = "lda"
FORMS = "lda,0.1,0.2,0.5,1,2,5,10,0.5@30%,1@30%,2@15%,5@15%"


@dataclass(frozen=True)
class Form:
    """`macs` is None if they follow from the time."""

    seconds: float
    macs: float | None

    def budget(self, memory: int) -> Budget:
        return Budget(memory, self.macs, seconds=self.seconds)

    def policy(self, policy: Policy) -> Policy:
        return policy if self.macs is None else replace(policy, fewer_macs=())


def form(name: str) -> Form | None:
    """The form of this name; None for the head alone. Raises UsageError."""
    if name == HEAD:
        return None
    seconds, at, macs = name.partition("@")
    return Form(parse_seconds(seconds), parse_fraction(macs) if at else None)


def facts_of(network: Network, drawn, args, form: Form | None, episode: int) -> dict:
    memory, device = parse_bytes(args.budget), Device(threads=1, now=time.process_time)
    policy, budget = "none_lda", Budget(memory)
    if form:
        policy, budget = form.policy(policy_for(find_policy(args.policy), args.way)), form.budget(memory)
    report = adapt(network, drawn, budget, policy, episode, device, force=True)
    seconds = report.ran.seconds
    return {
        "accuracy": report.to_json()["accuracy"]["after"],
        "used": report.ran.used if form else sum(seconds.values()) - seconds["queries"],
        "macs": report.plan.budget.macs if report.plan.recipe.updates else None,
        "steps": report.plan.recipe.n_steps,
    }


def summary(rows: list[dict], plot: Path | None = None) -> list[str]:
    """Per form: accuracy in per cent, points above the head alone, seconds and what they were spent on."""

    def trained(name: str) -> list[dict]:
        return [row["forms"][name] for row in rows if row["forms"][name]["macs"] is not None]

    def macs(name: str) -> str:
        counts = Counter(found["macs"] for found in trained(name))
        return ", ".join(f"{counts[macs]} x {macs:.0%}" for macs in sorted(counts)) or "-"

    def steps(name: str) -> str:
        found = [each["steps"] for each in trained(name)]
        return f"{np.mean(found):.0f}" if found else "-"

    more = {
        "used": lambda name: f"{mean_of_packs(rows, fact(name, 'used')):.2f}",
        "most": lambda name: f"{max(row['forms'][name]['used'] for row in rows):.2f}",
        "trained": lambda name: f"{len(trained(name))} of {len(rows)}",
        "MACs": macs,
        "steps": steps,
    }
    if plot:
        write_bytes(plot, _curve(rows).encode())
    return [*form_table(rows, HEAD, more, "seconds", "LDA"), "", f"{len(rows)} episodes"]


def _curve(rows: list[dict]) -> str:
    """Points above the head alone, of the forms that are times, against the seconds that were used."""
    points = []
    for name in rows[0]["forms"]:
        if name != HEAD and form(name).macs is None:
            lead = points_above(rows, name, HEAD)
            points.append(Point(f"{name} s", form(name).seconds, lead.mean, lead.half or 0.0))
    return against_seconds(points)


OPTIONS = (
    *ADAPTS,
    *form_options(FORMS, "with commas, the head alone first", form),
    plot_option("also draw the curve (.svg)"),
)
main = Study(
    "seconds", __doc__, "mcunet-5fps", DOMAINS, each_form(form, facts_of), summary, OPTIONS,
    ("forms", "policy", "budget", *TASK), shown=("plot",),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
