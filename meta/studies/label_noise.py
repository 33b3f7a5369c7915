"""Wrong labels and planted outliers: what the guard refuses, whom it suspects, what that does to accuracy.

    python -m tinytrain.meta.studies.label_noise \\
        --packs gtsrb,flowers12,caltech101 --episodes 60 --out noise.jsonl
    python -m tinytrain.meta.studies.label_noise --summary --out results/suspects.jsonl

Every adaptation is a line of the log, with the options and the code that made it; a run that was stopped goes
on where it stopped, and --summary prints the figures of a log, those of every set of options apart. Labels
are wrong at several rates in the same episodes ("symmetric": any other class, "pairs": the next class); an
outlier is one support image with another class's label, or one of a class that is not in the episode. The
guard sees the support alone; its verdict is compared with queries it never saw. The part "suspects" trains
nothing: it counts the images that `check` names, and how many of these have a wrong label.
"Unadapted" are cosine prototypes of the network as it is, which the guard goes back to; the policy's head is
fitted to the same network.
"""

import sys
from dataclasses import replace

import numpy as np

from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import sample_episode
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.study import add_log, run_study, study_parser
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.check import check
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device

RATES = (0.0, 0.1, 0.2, 0.4)
OUTLIERS = ("mislabelled", "off-topic")
NAMED = "suspects "  # the case of a rate of wrong labels in the part of that name
NAMED_RATES = (0.0, 0.05, 0.2)
WORST = 5  # the percentile that a promise is about
# Accuracies of a row and their headings; what is compared with what, as mean and worst percentile.
ACCURACIES = {
    "unadapted": "unadapted",
    "before": "policy's head",
    "adapted": "adapted",
    "result": "with guard",
}
CHANGES = {
    ("result", "unadapted"): "with guard - unadapted",
    ("adapted", "unadapted"): "adapted - unadapted",
    ("result", "before"): "with guard - policy's head",
}


def wrong_labels(labels: np.ndarray, way: int, rate: float, pattern: str, rng) -> np.ndarray:
    """A copy of `labels` with the fraction `rate` wrong; every class keeps an image that is its own."""
    count = round(rate * len(labels))
    while True:
        wrong, chosen = labels.copy(), rng.permutation(len(labels))[:count]
        step = rng.integers(1, way, count) if pattern == "symmetric" else 1
        wrong[chosen] = (wrong[chosen] + step) % way
        if len(np.unique(labels[wrong == labels])) == way:
            return wrong


def with_outlier(dataset, args, kind: str, index: int) -> tuple[Episode, int]:
    """An episode without queries in which one support image is wrong, and which."""
    rng = rng_for(args.seed, "outlier", dataset.name, kind, index)
    drawn = sample_episode(dataset, args.way + 1, args.shots, 0, args.seed, index)
    support, way = drawn.support, args.way
    chosen = np.flatnonzero(support.labels < way)
    planted = int(rng.integers(len(chosen)))
    labels = support.labels[chosen]
    if kind == "off-topic":
        chosen[planted] = rng.choice(np.flatnonzero(support.labels == way))
    else:
        labels[planted] = (labels[planted] + rng.integers(1, way)) % way
    support = replace(support.take(chosen), labels=labels)
    return replace(
        drawn, support=support, query=support.take([]), class_names=drawn.class_names[:way]
    ), planted


def run_noise(network, dataset, args, rate: float, index: int) -> dict:
    """One adaptation with wrong labels: the verdict, and accuracies of what it chose between."""
    episode = sample_episode(dataset, args.way, args.shots, args.queries, args.seed, index)
    rng = rng_for(args.seed, "wrong labels", dataset.name, args.pattern, str(rate), index)
    labels = wrong_labels(episode.support.labels, args.way, rate, args.pattern, rng)
    wrong = np.flatnonzero(labels != episode.support.labels)
    shape = network.input.shape
    support = replace(episode.support.held(shape), labels=labels)
    episode = replace(episode, support=support, query=episode.query.held(shape))
    report = adapt(network, episode, Budget(parse_bytes(args.budget)), args.policy, index, Device(threads=1))
    facts = report.to_json()
    guard, a = facts["guard"], facts["accuracy"]
    suspects = [s["index"] for s in guard["suspects"]]
    return {
        "accepted": guard["accepted"],
        "reasons": [r["code"] for r in guard["reasons"]],
        "unadapted": a["before_cosine"],
        "before": a["before"],
        "adapted": a["after"] if guard["accepted"] else a["withheld"],
        "result": a["after"],
        "suspects": len(suspects),
        "wrong": len(wrong),
        "wrong_suspects": len(np.intersect1d(wrong, suspects)),
        "measures": guard["measures"],
    }


def run_outlier(network, dataset, args, kind: str, index: int) -> dict:
    """Whether one wrong image is among the suspects, and at which place of the list."""
    episode, planted = with_outlier(dataset, args, kind, index)
    episode = replace(episode, support=episode.support.held(network.input.shape))
    report = adapt(network, episode, Budget(parse_bytes(args.budget)), "none", index, Device(threads=1))
    found = [s.index for s in report.guard.suspects]
    place = found.index(planted) if planted in found else None
    return {"place": place, "suspects": len(found)}


def run_suspects(network, dataset, args, rate: float, index: int) -> dict:
    """How many images `check` names as suspects, and how many labels are wrong."""
    episode = sample_episode(dataset, args.way, args.shots, 0, args.seed, index)
    rng = rng_for(args.seed, "wrong labels", dataset.name, args.pattern, str(rate), index)
    labels = wrong_labels(episode.support.labels, args.way, rate, args.pattern, rng)
    wrong = np.flatnonzero(labels != episode.support.labels)
    found = check(network, replace(episode, support=replace(episode.support, labels=labels)))
    named = [s.index for s in found.suspects]
    right = len(np.intersect1d(wrong, named))
    return {"images": len(labels), "suspects": len(named), "wrong": len(wrong), "wrong_suspects": right}


def jobs(args) -> list[dict]:
    """Packs, cases and episodes in the order in which they are run: every pack gets as many episodes."""
    cases = [f"{args.pattern} {rate}" for rate in RATES] if "noise" in args.parts else []
    cases += OUTLIERS if "outliers" in args.parts else ()
    cases += [f"{NAMED}{rate}" for rate in NAMED_RATES] if "suspects" in args.parts else []
    return [
        {"pack": pack, "case": case, "episode": k}
        for k in range(args.episodes)
        for pack in args.packs.split(",")
        for case in cases
    ]


def run_job(network, dataset, args, case: str, episode: int) -> dict:
    if case in OUTLIERS:
        return run_outlier(network, dataset, args, case, episode)
    if case.startswith(NAMED):
        return run_suspects(network, dataset, args, float(case.removeprefix(NAMED)), episode)
    return run_noise(network, dataset, args, float(case.split()[1]), episode)


def summary(rows: list[dict]) -> list[str]:
    """Lines of figures: by pack and case, and over all packs."""
    columns = ["pack", "wrong labels", "episodes", "refused", *ACCURACIES.values(), *CHANGES.values()]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    packs = list(dict.fromkeys(r["pack"] for r in rows))
    for pack in [*packs, "all"]:
        mine = [r for r in rows if pack in (r["pack"], "all")]
        for case in dict.fromkeys(r["case"] for r in mine if "accepted" in r):
            lines.append(_noise_line(pack, case, [r for r in mine if r["case"] == case]))
    lines += [
        "",
        "| pack | planted | episodes | among the suspects | first | among the first 3 | others |",
        "|---" * 7 + "|",
    ]
    for pack in [*packs, "all"]:
        for case in OUTLIERS:
            found = [r for r in rows if pack in (r["pack"], "all") and r["case"] == case]
            if found:
                lines.append(_outlier_line(pack, case, found))
    lines += [
        "",
        "| pack | wrong labels | episodes | named | wrong of these | wrong labels found |",
        "|---" * 6 + "|",
    ]
    for pack in [*packs, "all"]:
        mine = [r for r in rows if pack in (r["pack"], "all") and r["case"].startswith(NAMED)]
        for case in dict.fromkeys(r["case"] for r in mine):
            lines.append(_suspects_line(pack, case, [r for r in mine if r["case"] == case]))
    return lines


def _suspects_line(pack: str, case: str, rows: list[dict]) -> str:
    images, named, wrong, both = (
        sum(r[key] for r in rows) for key in ("images", "suspects", "wrong", "wrong_suspects")
    )
    shares = [f"{a / b:.1%}" if b else "-" for a, b in ((named, images), (both, named), (both, wrong))]
    return f"| {pack} | {float(case.removeprefix(NAMED)):.0%} | {len(rows)} | {' | '.join(shares)} |"


def _noise_line(pack: str, case: str, rows: list[dict]) -> str:
    def points(key: str) -> np.ndarray:
        # Where training broke off there is no adapted network: what is left is the unadapted one.
        return 100 * np.array([r["unadapted"] if r[key] is None else r[key] for r in rows])

    def change(key: str, base: str) -> str:
        difference = points(key) - points(base)
        found = mean_interval(difference)
        interval = "" if found.half is None else f" ±{found.half:.1f}"
        return f"{found.mean:+.1f}{interval}, {np.percentile(difference, WORST):+.1f}"

    refused = np.mean([not r["accepted"] for r in rows])
    means = [f"{points(key).mean():.1f}" for key in ACCURACIES]
    cells = [pack, case, str(len(rows)), f"{refused:.1%}", *means, *(change(*pair) for pair in CHANGES)]
    return f"| {' | '.join(cells)} |"


def _outlier_line(pack: str, case: str, rows: list[dict]) -> str:
    places = [r["place"] for r in rows]
    fractions = [np.mean([p is not None and p < limit for p in places]) for limit in (np.inf, 1, 3)]
    others = np.mean([r["suspects"] - (r["place"] is not None) for r in rows])
    shown = " | ".join(f"{fraction:.1%}" for fraction in fractions)
    return f"| {pack} | {case} | {len(rows)} | {shown} | {others:.1f} |"


def parser() -> Parser:
    p = study_parser("label_noise", __doc__.split("\n")[0], "mcunet-5fps", "gtsrb,flowers12,caltech101")
    add_log(p)
    p.add_argument("--episodes", type=at_least(1), default=60, help="per pack and case")
    p.add_argument("--pattern", choices=("symmetric", "pairs"), default="symmetric")
    p.add_argument("--parts", default="noise,outliers", help="outliers and suspects need no training")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--shots", type=at_least(1), default=5)
    p.add_argument("--queries", type=at_least(1), default=15, help="per class")
    p.add_argument("--seed", type=at_least(0), default=1)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    settings = ("policy", "way", "shots", "queries", "budget", "seed")
    run_study(args, jobs, settings, run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
