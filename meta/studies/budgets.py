"""What the three budgets that `plan` advises are good for: accuracy and seconds at each of them.

    python -m tinytrain.meta.studies.budgets --packs leaves,gtsrb,flowers12 --way 5,8,12 --shots 5,3,10 \\
        --episodes 5 --out budgets.jsonl

For each task and budget: bytes, trained parameters, cached sets of features, accuracy before and after, and
the seconds of an adaptation, in the mean of the episodes. Adaptations that the guard refused count as if they
were forced, because what memory does to training is the question.
"""

import sys

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies.study import (
    Study,
    chosen,
    decoded_episode,
    episodes_option,
    number,
    numbers,
    option,
    percent,
    table,
)
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device

HEADINGS = ("task", "budget", "bytes", "parameters", "cached sets", "before", "after", "seconds")


def tasks(args) -> list[tuple[str, int, int]]:
    """Pack, classes and shots of each task. Raises UsageError."""
    packs = args.packs.split(",")
    if not len(packs) == len(args.way) == len(args.shots):
        raise UsageError("usage", "--packs, --way and --shots differ in length; give one value for each task")
    return list(zip(packs, args.way, args.shots, strict=True))


def jobs(args) -> list[dict]:
    return [
        {"pack": pack, "way": way, "shots": shots, "episode": k}
        for pack, way, shots in tasks(args)
        for k in range(args.episodes)
    ]


def run_job(network, dataset, args, way: int, shots: int, episode: int) -> dict:
    """One adaptation for each budget that is advised for the episode."""
    drawn = decoded_episode(network, dataset, args, episode, way=way, shots=shots)
    planner = Planner(network, TaskShape.of(drawn), args.policy, Budget())
    with Device().open(network, drawn) as run:
        advice = planner.advice(run.measure_fisher(planner.probe()))
    found = {}
    for name, memory in advice.items():
        report = adapt(network, drawn, Budget(memory), args.policy, device=Device(threads=1), force=True)
        facts = report.to_json()
        found[name] = {
            "bytes": memory,
            "parameters": facts["memory"]["trained_parameters"],
            "sets": facts["resources"]["cached_sets"],
            "before": facts["accuracy"]["before"],
            "after": facts["accuracy"]["after"],
            "seconds": facts["seconds"]["total"],
        }
    return {"budgets": found}


def summary(rows: list[dict]) -> list[str]:
    """A line for each task and budget."""
    body = []
    for pack, way, shots in dict.fromkeys((row["pack"], row["way"], row["shots"]) for row in rows):
        mine = chosen(rows, pack=pack, way=way, shots=shots)
        for name, facts in mine[0]["budgets"].items():
            means = {key: float(np.mean([row["budgets"][name][key] for row in mine])) for key in facts}
            body.append((f"{pack}, {way} x {shots}", name, *cells(**means)))
    return table(HEADINGS, body)


def cells(bytes, parameters, sets, before, after, seconds) -> tuple[str, ...]:
    accuracies = (f"{percent(accuracy)}%" for accuracy in (before, after))
    return f"{bytes:,.0f}", f"{parameters:,.0f}", f"{sets:.1f}", *accuracies, f"{seconds:.1f}"


OPTIONS = (
    option("--way", "5,8,10", "one for each pack", type=numbers, metavar="N,..."),
    option("--shots", "5,3,10", "one for each pack", type=numbers, metavar="N,..."),
    option("--policy", "tinytrain"),
    number("--queries", 10),
    episodes_option(5),
    number("--seed", 0, least=0),
)
SETTINGS = ("policy", "queries", "seed")
main = Study(
    "budgets", __doc__, "tinytrain-small", "leaves,textures,signs", run_job, summary, OPTIONS, SETTINGS, jobs
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
