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

import numpy as np

from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.units import parse_bytes
from tinytrain.heads.registry import find_head
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.study import add_log, decoded_episode, run_study, study_parser
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,signs,glyphs,textures,leaves,fsdd_logmel"
MACS = (0.15, 0.3)
USUAL = (1.0, "lda")  # the extent and the head of the plans that are always the same
HARM = 0.3  # points below the best that count as a miss


def fixed(policy: Policy, extent: float, head: str) -> Policy:
    """`policy` with this fraction of the usual steps and this head, whatever the task."""

    def recipe(*arguments) -> Recipe:
        return replace(policy.recipe(*arguments), steps=round(extent * Recipe.steps), head=head)

    return replace(policy, recipe=recipe)


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
        row["policy"][f"{macs:g}"] = {
            "adapted": _accuracy(report),
            "with guard": facts["accuracy"]["before_cosine"] if _refused(report) else _accuracy(report),
            "steps": report.plan.recipe.steps,
            "head": report.plan.recipe.head,
            "measures": facts["guard"]["measures"],
        }
    before = usual.to_json()["accuracy"]
    unadapted = {"cosine": before["before_cosine"], "lda": before["before"]}
    return {**row, **unadapted, "similarity": usual.to_json()["similarity"]}


def _accuracy(report: Report) -> float:
    return report.to_json()["accuracy"]["after"]


def _refused(report: Report) -> bool:
    return report.guard.forced or not report.guard.accepted


def forms(args) -> list[tuple[float, str]]:
    """Extents and heads of the fixed forms; those of the usual plan are always among them."""
    asked = [(float(extent), head) for extent in args.extents.split(",") for head in args.heads.split(",")]
    return list(dict.fromkeys([USUAL, *asked]))


def name_of(macs: float, extent: float, head: str) -> str:
    return f"{macs:.0%}, {extent:g}, {head}"


def jobs(args) -> list[dict]:
    """Every pack gets as many episodes, in the order in which they are run."""
    return [{"pack": pack, "episode": k} for k in range(args.episodes) for pack in args.packs.split(",")]


def summary(rows: list[dict]) -> list[str]:
    """A table for each MAC budget, and one of the fixed forms if there are several."""
    packs = list(dict.fromkeys(row["pack"] for row in rows))
    lines = []
    for macs in MACS:
        table = Table(HEADER, tuple(_line([r for r in rows if r["pack"] == pack], macs) for pack in packs))
        lines += [f"With {macs:.0%} of the MACs:", "", table_lines(table), ""]
    if len(names := list(rows[0]["forms"])) > len(MACS):
        body = tuple((pack, *_means([r for r in rows if r["pack"] == pack], names)) for pack in packs)
        lines += [
            "Fixed forms (MACs, fraction of the steps, head):",
            "",
            table_lines(Table(("", *names), body)),
        ]
    return lines


HEADER = (
    "", "episodes", "similarity", "cosine", "LDA", "always 15 %", "always 30 %", "policy", "steps",
    "policy - always", "policy - best", "best", "with guard",
)  # fmt: skip


def _line(rows: list[dict], macs: float) -> tuple[str, ...]:
    """What the policy gets on one domain, against everything that its MACs allow."""
    others = {"cosine": _points(rows, "cosine"), "LDA": _points(rows, "lda")}
    always = {f"always {m:.0%}": _points(rows, "forms", name_of(m, *USUAL)) for m in MACS}
    allowed = others | {k: v for (k, v), m in zip(always.items(), MACS, strict=True) if m <= macs}
    best = max(allowed, key=lambda name: allowed[name].mean())
    chosen = [row["policy"][f"{macs:g}"] for row in rows]
    policy, kept = (100 * np.array([c[k] for c in chosen]) for k in ("adapted", "with guard"))
    behind = policy - allowed[best]
    return (
        rows[0]["pack"],
        str(len(rows)),
        f"{np.mean([row['similarity'] for row in rows]):.2f}",
        *(f"{v.mean():.1f}" for v in (others | always).values()),
        f"{policy.mean():.1f}",
        f"{np.mean([c['steps'] for c in chosen]):.0f}",
        _signed(policy - always[f"always {macs:.0%}"]),
        f"{_signed(behind)}{' miss' if behind.mean() < -HARM else ''}",
        best,
        f"{kept.mean():.1f}",
    )


def _points(rows: list[dict], *keys: str) -> np.ndarray:
    found = rows
    for key in keys:
        found = [row[key] for row in found]
    return 100 * np.array(found)


def _means(rows: list[dict], names: list[str]) -> list[str]:
    return [f"{_points(rows, 'forms', name).mean():.1f}" for name in names]


def _signed(differences: np.ndarray) -> str:
    found = mean_interval(differences)
    return f"{found.mean:+.1f}" + ("" if found.half is None else f" ±{found.half:.1f}")


def _known_heads(text: str) -> str:
    for head in text.split(","):
        find_head(head)
    return text


def parser() -> Parser:
    p = study_parser("how_much", __doc__.split("\n")[0], "mcunet-5fps", DOMAINS)
    add_log(p)
    p.add_argument("--episodes", type=at_least(1), default=20, help="per domain")
    p.add_argument("--extents", default="1", help="fractions of the usual steps of the fixed forms")
    p.add_argument("--heads", type=_known_heads, default="lda", help="heads of the fixed forms")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--shots", type=at_least(1), default=5)
    p.add_argument("--queries", type=at_least(1), default=15, help="per class")
    p.add_argument("--seed", type=at_least(0), default=2)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("policy", "way", "shots", "queries", "budget", "seed", "extents", "heads")
    run_study(args, jobs, settings, run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
