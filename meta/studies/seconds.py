"""Accuracy against the seconds that an adaptation was given, on domains that are no targets, paired episodes.

    python -m tinytrain.meta.studies.seconds --out seconds.jsonl
    python -m tinytrain.meta.studies.seconds --summary --out results/seconds.jsonl --plot seconds.svg

A form is a time: "2" leaves it to the adaptation how two seconds are spent, "2@30%" takes 30 % of the MACs
and as many steps as fit; "lda" is a head alone, without a limit. Seconds are those of the processor in one
thread, and so is the clock by which the adaptation keeps its time: other processes hardly change either. Wall
seconds are given beside them; they contain the prediction of the queries. Adaptations that the guard refused
count as if they were kept.
"""

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tinytrain.base.console import Parser, guarded
from tinytrain.base.files import write_bytes
from tinytrain.base.units import parse_bytes, parse_fraction, parse_seconds
from tinytrain.meta.bench.plots import Point, against_seconds
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.int8_training import DOMAINS
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
    """The form of this name; None for the head alone. Raises UsageError ``bad-seconds`` or ``bad-share``."""
    if name == HEAD:
        return None
    seconds, at, macs = name.partition("@")
    return Form(parse_seconds(seconds), parse_fraction(macs) if at else None)


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn, memory = decoded_episode(network, dataset, args, episode), parse_bytes(args.budget)
    policy, found = policy_for(find_policy(args.policy), args.way), {}
    for name in args.forms.split(","):
        each, device = form(name), Device(threads=1, now=time.process_time)
        budget, chosen = (each.budget(memory), each.policy(policy)) if each else (Budget(memory), "none_lda")
        start = time.perf_counter()
        report = adapt(network, drawn, budget, chosen, episode, device, force=True)
        wall, seconds = time.perf_counter() - start, report.ran.seconds
        used = report.ran.used if each else sum(seconds.values()) - seconds["queries"]
        found[name] = {
            "accuracy": report.to_json()["accuracy"]["after"],
            "used": used,
            "wall": wall,
            "macs": report.plan.budget.macs if report.plan.recipe.updates else None,
            "steps": report.plan.recipe.n_steps,
        }
    return {"forms": found}


def summary(rows: list[dict], plot: Path | None = None) -> list[str]:
    """Per form: accuracy in per cent, points above the head alone, seconds and what they were spent on."""
    packs, names = list(dict.fromkeys(row["pack"] for row in rows)), list(rows[0]["forms"])
    columns = ["seconds", *packs, "mean", "above LDA", "used", "most", "wall", "trained", "MACs", "steps"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [_line(rows, packs, name) for name in names]
    if plot:
        write_bytes(plot, _curve(rows, packs, names).encode())
    return [*lines, "", f"{len(rows)} episodes"]


def _values(rows: list[dict], pack: str, name: str, key: str) -> np.ndarray:
    return np.array([row["forms"][name][key] for row in rows if row["pack"] == pack])


def _above(rows: list[dict], packs: list[str], name: str):
    """Points of accuracy above the head alone, paired by episode."""
    pairs = ((_values(rows, p, name, "accuracy"), _values(rows, p, HEAD, "accuracy")) for p in packs)
    return stratified([100 * (mine - other) for mine, other in pairs])


def _mean(rows: list[dict], packs: list[str], name: str, key: str) -> float:
    return float(np.mean([_values(rows, p, name, key).mean() for p in packs]))


def _line(rows: list[dict], packs: list[str], name: str) -> str:
    facts, above = [row["forms"][name] for row in rows], _above(rows, packs, name)
    trained = [fact for fact in facts if fact["macs"] is not None]
    share = {m: sum(fact["macs"] == m for fact in trained) for m in sorted({f["macs"] for f in trained})}
    cells = [
        name, *(f"{100 * _values(rows, p, name, 'accuracy').mean():.1f}" for p in packs),
        f"{100 * _mean(rows, packs, name, 'accuracy'):.1f}",
        f"{above.mean:+.2f} ±" + ("-" if above.half is None else f"{above.half:.2f}"),
        f"{_mean(rows, packs, name, 'used'):.2f}", f"{max(fact['used'] for fact in facts):.2f}",
        f"{_mean(rows, packs, name, 'wall'):.2f}", f"{len(trained)} of {len(facts)}",
        ", ".join(f"{count} x {macs:.0%}" for macs, count in share.items()) or "-",
        f"{np.mean([fact['steps'] for fact in trained]):.0f}" if trained else "-",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _curve(rows: list[dict], packs: list[str], names: list[str]) -> str:
    """Points above the head alone, of the forms that are times, against the seconds that were used."""
    points = []
    for name in names:
        if name != HEAD and form(name).macs is None:
            above = _above(rows, packs, name)
            points.append(Point(f"{name} s", form(name).seconds, above.mean, above.half or 0.0))
    return against_seconds(points)


def parser() -> Parser:
    p = study_parser("seconds", __doc__.split("\n")[0], "mcunet-5fps", DOMAINS)
    p.add_argument("--forms", default=FORMS, help="with commas, the head alone first")
    p.add_argument("--plot", type=Path, metavar="FILE", help="also draw the curve (SVG)")
    add_episodes(p, 10)
    add_log(p)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    for name in args.forms.split(","):
        form(name)
    run_study(
        args,
        episode_jobs,
        ("forms", "policy", "budget", *EPISODES),
        run_job,
        partial(summary, plot=args.plot),
    )


if __name__ == "__main__":
    sys.exit(main())
