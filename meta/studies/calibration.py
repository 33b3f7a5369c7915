"""How sure predictions are and how often they are right, on images that an adaptation never saw.

    python -m tinytrain.meta.studies.calibration \\
        --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --episodes 10

For each policy and number of shots: accuracy, mean confidence, the expected calibration error (mean distance
of the two in ten bins of equal width, weighted by their predictions; Guo et al., ICML 2017), and what is left
by rejecting answers below a confidence, which out-of-distribution images should be too: those of a class that
is not in the episode. Adaptations that the guard refused count with the head that stands.
"""

import itertools
import json
import sys
from dataclasses import replace

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.console import confidence as at_most_all
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.episode.episode import Episode, Images
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.studies.study import study_parser
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

BINS = 10
HEADINGS = ("policy", "shots", "predictions", "accuracy", "confidence", "calibration error", "answered",
            "right of these", "right of the others", "strangers rejected")  # fmt: skip


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error of predictions with `confidence` (n,) that are `right` (n,) or not."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    distances = [confidence[bins == b].sum() - right[bins == b].sum() for b in range(BINS)]
    return float(np.abs(distances).sum() / len(confidence))


def with_outside(dataset, args, shots: int, index: int) -> tuple[Episode, Images]:
    """An episode, and query images of a class that is not in it."""
    drawn = sample_episode(dataset, args.way + 1, shots, args.queries, args.seed, index)
    support, known = (p.take(np.flatnonzero(p.labels < args.way)) for p in (drawn.support, drawn.query))
    outside = drawn.query.take(np.flatnonzero(drawn.query.labels == args.way))
    names = drawn.class_names[: args.way]
    return replace(drawn, support=support, query=known, class_names=names), outside


def predictions(network, dataset, args, policy: str, shots: int, index: int) -> tuple[np.ndarray, ...]:
    """Confidence for queries (n,), whether these are right (n,), confidence for the images outside (m,)."""
    episode, outside = with_outside(dataset, args, shots, index)
    report = adapt(network, episode, Budget(args.budget), policy, index, Device(threads=1))
    predictor = Predictor(network, report.delta)
    probabilities = predictor.probabilities(episode.query)
    right = probabilities.argmax(axis=1) == episode.query.labels
    return probabilities.max(axis=1), right, predictor.probabilities(outside).max(axis=1)


def figures(policy: str, shots: int, confidence, right, outside, reject: float) -> dict:
    """One row of the table; None for the accuracy of no predictions."""
    sure = confidence >= reject
    accuracies = [right[part].mean() if part.any() else None for part in (sure, ~sure)]
    error = calibration_error(confidence, right)
    fractions = (right.mean(), confidence.mean(), error, sure.mean(), *accuracies, (outside < reject).mean())
    values = (None if fraction is None else float(fraction) for fraction in fractions)
    return dict(zip(HEADINGS, (policy, shots, len(right), *values), strict=True))


def table(rows: list[dict]) -> str:
    def cell(value) -> str:
        return f"{100 * value:.1f} %" if isinstance(value, float) else "" if value is None else str(value)

    return table_lines(Table(HEADINGS, tuple(tuple(cell(row[h]) for h in HEADINGS) for row in rows)))


def parser() -> Parser:
    packs = "gtsrb,omniglot,flowers12,dtd10,pacs_sketch"
    p = study_parser("calibration", __doc__.split("\n")[0], "mcunet-5fps", packs)
    p.add_argument("--policies", default="none,tinytrain", help="comma-separated")
    p.add_argument("--shots", default="1,5", help="comma-separated")
    p.add_argument("--episodes", type=at_least(1), default=10, help="per pack, policy and number of shots")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--queries", type=at_least(1), default=10, help="per class")
    p.add_argument("--budget", type=parse_bytes, default="1MB")
    p.add_argument(
        "--reject", type=at_most_all, default="60%", help="the confidence below which no answer is given"
    )
    p.add_argument("--seed", type=at_least(0), default=3)
    p.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    cells = list(itertools.product(args.policies.split(","), map(at_least(1), args.shots.split(","))))
    network = load_backbone(args.backbone)
    datasets = [open_dataset(pack, args.data) for pack in args.packs.split(",")]
    total, done, rows = len(cells) * len(datasets) * args.episodes, 0, []
    for policy, shots in cells:
        parts = []
        for dataset, index in itertools.product(datasets, range(args.episodes)):
            parts.append(predictions(network, dataset, args, policy, shots, index))
            done += 1
            print(f"\r{done}/{total} adaptations", end="", file=sys.stderr, flush=True)
        rows.append(figures(policy, shots, *map(np.concatenate, zip(*parts, strict=True)), args.reject))
    print(file=sys.stderr)
    print(json.dumps({"reject": args.reject, "rows": rows}) if args.json else table(rows))


if __name__ == "__main__":
    sys.exit(main())
