"""How much the default policy should train: what it chooses, against always the same, and against nothing.

    python -m tinytrain.meta.studies.how_much --backbone mcunet-5fps --out how_much.jsonl
    python -m tinytrain.meta.studies.how_much --summary --out results/how_much.jsonl

Every episode is a line of the log: the accuracy of the unadapted network with two heads, of plans for 15 %
and 30 % of the MACs that always train as long and fit the same head, and of the policy, whose steps and head
follow the task. "Best" is whatever is best on the domain in the mean, of all that the MACs of the policy
allow; with few episodes it is too good by chance. No domain is a target of the benchmarks. Constants of the
policy were chosen by other fixed forms (--extents, --heads) of other episodes. Adaptations that the guard
refused count as if they were kept, except under "with guard". A run that was stopped goes on where it
stopped; --summary prints the figures of a log.
"""

import sys
from dataclasses import replace
from itertools import product

import numpy as np

from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.heads.registry import find_head
from tinytrain.meta.studies.study import (
    ADAPTS,
    DOMAINS,
    TASK,
    Study,
    by_pack,
    decoded_episode,
    episodes_option,
    names_option,
    percent,
    signed,
    table,
    task_options,
    with_recipes,
)
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

MACS = (0.15, 0.3)
USUAL = (1.0, "lda")  # the extent and the head of the plans that are always the same
HARM = 0.3  # points below the best that count as a miss


def fixed(policy: Policy, extent: float, head: str) -> Policy:
    """`policy` with this fraction of the usual steps and this head, whatever the task."""
    return with_recipes(policy, lambda found: replace(found, steps=round(extent * Recipe.steps), head=head))


def run_job(network, dataset, args, episode: int) -> dict:
    """Accuracies of one episode by form, and what the choice was made by."""
    drawn = decoded_episode(network, dataset, args, episode)

    def adapted(macs: float, policy: Policy) -> Report:
        budget = Budget(parse_bytes(args.budget), macs)
        return adapt(network, drawn, budget, policy, episode, Device(threads=1), force=True)

    policy, row = find_policy(args.policy), {"forms": {}, "policy": {}}
    for macs in MACS:
        for extent, head in forms(args):
            report = adapted(macs, fixed(policy, extent, head))
            row["forms"][name_of(macs, extent, head)] = _accuracy(report)
            if (extent, head) == USUAL:
                usual = report
        recipe = policy.recipe(network, usual.scores, Budget(macs=macs), TaskShape.of(drawn), 1.0)
        follows = (recipe.steps, recipe.head) != (Recipe.steps, "lda")
        report = adapted(macs, policy) if follows else usual
        facts = report.to_json()
        codes = {reason.code for reason in report.guard.reasons}
        instead = "before_cosine" if codes & {"labels", "not-finite"} else "before"
        row["policy"][f"{macs:g}"] = {
            "adapted": _accuracy(report),
            "with guard": facts["accuracy"][instead] if codes else _accuracy(report),
            "steps": report.plan.recipe.steps,
            "head": report.plan.recipe.head,
            "measures": facts["guard"]["measures"],
        }
    facts = usual.to_json()
    unadapted = {"cosine": facts["accuracy"]["before_cosine"], "lda": facts["accuracy"]["before"]}
    return {**row, **unadapted, "similarity": facts["similarity"]}


def _accuracy(report: Report) -> float:
    return report.to_json()["accuracy"]["after"]


def forms(args) -> list[tuple[float, str]]:
    """Extents and heads of the fixed forms; those of the usual plan are always among them."""
    extents = map(parse_fraction, args.extents.split(","))
    return list(dict.fromkeys([USUAL, *product(extents, args.heads.split(","))]))


def name_of(macs: float, extent: float, head: str) -> str:
    return f"{macs:.0%}, {extent:g}, {head}"


def summary(rows: list[dict]) -> list[str]:
    """A table for each MAC budget, and one of the fixed forms if there are several."""
    packs, lines = by_pack(rows)[:-1], []
    for macs in MACS:
        body = [(pack, *_line(mine, macs)) for pack, mine in packs]
        lines += [f"With {macs:.0%} of the MACs:", "", *table(HEADER, body), ""]
    if len(names := list(rows[0]["forms"])) > len(MACS):
        body = [(pack, *(percent([r["forms"][n] for r in mine]) for n in names)) for pack, mine in packs]
        lines += ["Fixed forms (MACs, fraction of the steps, head):", "", *table(("", *names), body)]
    return lines


HEADER = (
    "", "episodes", "similarity", "cosine", "LDA", "always 15 %", "always 30 %", "policy", "steps",
    "policy - always", "policy - best", "best", "with guard",
)  # fmt: skip


def _line(rows: list[dict], macs: float) -> tuple[str, ...]:
    """What the policy gets on one domain, against everything that its MACs allow."""
    others = {name: _points([row[name.lower()] for row in rows]) for name in ("cosine", "LDA")}
    always = {m: _points([row["forms"][name_of(m, *USUAL)] for row in rows]) for m in MACS}
    allowed = others | {f"always {m:.0%}": points for m, points in always.items() if m <= macs}
    best = max(allowed, key=lambda name: allowed[name].mean())
    made = [row["policy"][f"{macs:g}"] for row in rows]
    policy = _points([m["adapted"] for m in made])
    behind = policy - allowed[best]
    return (
        str(len(rows)),
        f"{np.mean([row['similarity'] for row in rows]):.2f}",
        *(f"{v.mean():.1f}" for v in (*others.values(), *always.values(), policy)),
        f"{np.mean([m['steps'] for m in made]):.0f}",
        signed(policy - always[macs]),
        f"{signed(behind)}{' miss' if behind.mean() < -HARM else ''}",
        best,
        percent([m["with guard"] for m in made]),
    )


def _points(accuracies: list[float]) -> np.ndarray:
    return 100 * np.array(accuracies)


OPTIONS = (
    *ADAPTS,
    episodes_option(20, "per domain"),
    names_option("--extents", "1", "fractions of the usual steps of the fixed forms", parse_fraction),
    names_option("--heads", "lda", "heads of the fixed forms", find_head),
    *task_options(queries=15, seed=2),
)
SETTINGS = ("policy", "budget", *TASK, "extents", "heads")
main = Study("how_much", __doc__, "mcunet-5fps", DOMAINS, run_job, summary, OPTIONS, SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
