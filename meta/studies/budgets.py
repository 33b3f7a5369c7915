"""What the three budgets that `plan` advises are good for: accuracy and seconds at each of them.

    python -m tinytrain.meta.studies.budgets --data leaves,gtsrb,flowers12 --way 5,8,12 --shots 5,3,10 \\
        --backbone tinytrain-small,mcunet-5fps --episodes 5

For each backbone, task and budget: bytes, trained parameters, cached sets of features, accuracy before and
after, and the seconds of an adaptation, in the mean of the episodes. Adaptations that the guard refused count
as if they were forced, because what memory does to training is the question.
"""

import itertools
import json
import sys
from collections.abc import Iterator

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.progress import ProgressLine
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.meta.studies.study import (
    episodes_option,
    number,
    numbers,
    option,
    parser_of,
    percent,
    table,
)
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device

HEADINGS = ("backbone", "task", "budget", "bytes", "parameters", "cached sets", "before", "after", "seconds")


def words(text: str) -> list[str]:
    return text.split(",")


def parser():
    return parser_of(
        "budgets",
        __doc__,
        option("--data", "leaves,textures,signs", type=words, metavar="NAMES"),
        option("--way", "5,8,10", "one for each of --data", type=numbers, metavar="N,..."),
        option("--shots", "5,3,10", type=numbers, metavar="N,..."),
        option("--backbone", "tinytrain-small", type=words, metavar="NETS"),
        option("--policy", "tinytrain"),
        number("--queries", 10),
        episodes_option(5),
        option("--json", False, "print one JSON object instead of a table", action="store_true"),
    )


def adaptations(network, episode, policy: str) -> Iterator[dict]:
    """One adaptation to `episode` for each budget that is advised for it."""
    planner = Planner(network, TaskShape.of(episode), policy, Budget())
    with Device().open(network, episode) as run:
        advice = planner.advice(run.measure_fisher(planner.probe()))
    for name, memory in advice.items():
        report = adapt(network, episode, Budget(memory), policy, device=Device(threads=1), force=True)
        facts = report.to_json()
        yield {
            "budget": name,
            "bytes": memory,
            "parameters": facts["memory"]["trained_parameters"],
            "sets": facts["resources"]["cached_sets"],
            "before": facts["accuracy"]["before"],
            "after": facts["accuracy"]["after"],
            "seconds": facts["seconds"]["total"],
        }


def averaged(rows: list[dict]) -> dict:
    """The mean of each figure over the episodes of one backbone, task and budget."""
    names = ("backbone", "task", "budget")
    return {key: v if key in names else float(np.mean([r[key] for r in rows])) for key, v in rows[0].items()}


def cells(row: dict) -> tuple[str, ...]:
    return (
        row["backbone"], row["task"], row["budget"], f"{row['bytes']:,.0f}", f"{row['parameters']:,.0f}",
        f"{row['sets']:.1f}", f"{percent(row['before'])}%", f"{percent(row['after'])}%",
        f"{row['seconds']:.1f}",
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    if not len(args.data) == len(args.way) == len(args.shots):
        raise UsageError("usage", "--data, --way and --shots differ in length; give one value for each task")
    tasks = list(zip(args.data, args.way, args.shots, strict=True))
    total, done, rows = len(args.backbone) * len(tasks) * args.episodes, 0, []
    with ProgressLine() as progress:
        for backbone, (data, way, shots) in itertools.product(args.backbone, tasks):
            network, dataset = load_backbone(backbone), open_dataset(data)
            named = {"backbone": network.name, "task": f"{data}, {way} x {shots}"}
            found: dict[str, list[dict]] = {}
            for index in range(args.episodes):
                episode = sample_episode(dataset, way, shots, args.queries, 0, index)
                for row in adaptations(network, episode, args.policy):
                    found.setdefault(row["budget"], []).append({**named, **row})
                done += 1
                progress("episodes", done, total, None)
            rows += map(averaged, found.values())
    print(json.dumps({"rows": rows}, indent=2) if args.json else "\n".join(table(HEADINGS, map(cells, rows))))


if __name__ == "__main__":
    sys.exit(main())
