"""Wrong labels: what the guard refuses, which images `check` suspects, what that does to accuracy.

    python -m tinytrain.meta.studies.label_noise \\
        --packs gtsrb,flowers12,caltech101 --episodes 60 --out noise.jsonl
    python -m tinytrain.meta.studies.label_noise --summary --out results/suspects.jsonl

Every adaptation is a line of the log, with the options and the code that made it; a run that was stopped goes
on where it stopped, and --summary prints the figures of a log, those of every set of options apart. Labels
are wrong at several rates in the same episodes; a wrong one is any other class. The guard sees the support
alone; its verdict is compared with queries it never saw. The part "suspects" trains nothing: it counts the
images that `check` names, and how many of these have a wrong label.
"Unadapted" are cosine prototypes of the network as it is, to which the guard goes back if labels look wrong;
the policy's head is fitted to the same network, and kept if training did harm.
"""

import sys
from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import sample_episode
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.study import (
    ADAPTS,
    TASK,
    Study,
    adapted,
    by_pack,
    chosen,
    decoded_episode,
    episodes_option,
    grid,
    option,
    signed,
    table,
    task_options,
    values_of,
)
from tinytrain.pipeline.check import check

RATES = (0.0, 0.1, 0.2, 0.4)
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


def wrong_labels(labels: np.ndarray, way: int, rate: float, rng) -> np.ndarray:
    """A copy of `labels` with the fraction `rate` wrong; every class keeps an image that is its own."""
    count = round(rate * len(labels))
    while True:
        wrong, chosen = labels.copy(), rng.permutation(len(labels))[:count]
        wrong[chosen] = (wrong[chosen] + rng.integers(1, way, count)) % way
        if len(np.unique(labels[wrong == labels])) == way:
            return wrong


def mislabelled(episode: Episode, dataset, args, rate: float, index: int) -> tuple[Episode, np.ndarray]:
    """An episode with the fraction `rate` of its labels wrong, and of which images they are."""
    rng = rng_for(args.seed, "wrong labels", dataset.name, "symmetric", str(rate), index)
    right = episode.support.labels
    labels = wrong_labels(right, args.way, rate, rng)
    return replace(episode, support=replace(episode.support, labels=labels)), np.flatnonzero(labels != right)


def run_noise(network, dataset, args, rate: float, index: int) -> dict:
    """One adaptation with wrong labels: the verdict, and accuracies of what it chose between."""
    episode = decoded_episode(network, dataset, args, index)
    episode, _ = mislabelled(episode, dataset, args, rate, index)
    facts = adapted(network, episode, args, index, train=True).to_json()
    guard, a = facts["guard"], facts["accuracy"]
    return {
        "accepted": guard["accepted"],
        "kept": guard["kept"],
        "unadapted": a["before_cosine"],
        "before": a["before"],
        "adapted": a["after"] if guard["kept"] == "adapted" else a["withheld"],
        "result": a["after"],
    }


def run_suspects(network, dataset, args, rate: float, index: int) -> dict:
    """How many images `check` names as suspects, and how many labels are wrong."""
    episode = sample_episode(dataset, args.way, args.shots, 0, args.seed, index)
    episode, wrong = mislabelled(episode, dataset, args, rate, index)
    named = [s.index for s in check(network, episode).suspects]
    right, images = len(np.intersect1d(wrong, named)), len(episode.support)
    return {"images": images, "suspects": len(named), "wrong": len(wrong), "wrong_suspects": right}


def jobs(args) -> list[dict]:
    """All cases of an episode follow each other."""
    cases = [f"symmetric {rate}" for rate in RATES] if "noise" in args.parts else []
    cases += [f"{NAMED}{rate}" for rate in NAMED_RATES] if "suspects" in args.parts else []
    return [job | {"case": case} for job in grid(args, episode=range(args.episodes)) for case in cases]


def run_job(network, dataset, args, case: str, episode: int) -> dict:
    if case.startswith(NAMED):
        return run_suspects(network, dataset, args, float(case.removeprefix(NAMED)), episode)
    return run_noise(network, dataset, args, float(case.split()[1]), episode)


SUSPECTS = ("pack", "wrong labels", "episodes", "named", "wrong of these", "wrong labels found")


def summary(rows: list[dict]) -> list[str]:
    """Lines of figures: by pack and case, and over all packs."""
    noisy, named = [], []
    for pack, mine in by_pack(rows):
        for case in values_of(mine, "case"):
            some = chosen(mine, case=case)
            if case.startswith(NAMED):
                named.append((pack, f"{float(case.removeprefix(NAMED)):.0%}", *_suspects(some)))
            else:
                noisy.append((pack, case, *_noise(some)))
    header = ("pack", "wrong labels", "episodes", "refused", *ACCURACIES.values(), *CHANGES.values())
    return [*table(header, noisy), "", *table(SUSPECTS, named)]


def _suspects(rows: list[dict]) -> list[str]:
    keys = ("images", "suspects", "wrong", "wrong_suspects")
    images, named, wrong, both = (sum(r[key] for r in rows) for key in keys)
    shares = ((named, images), (both, named), (both, wrong))
    return [str(len(rows)), *(f"{a / b:.1%}" if b else "-" for a, b in shares)]


def _noise(rows: list[dict]) -> list[str]:
    # Where training broke off there is no adapted network: what is left is the unadapted one.
    points = {
        key: 100 * np.array([r["unadapted"] if r[key] is None else r[key] for r in rows])
        for key in ACCURACIES
    }
    changes = [points[key] - points[base] for key, base in CHANGES]
    return [
        str(len(rows)),
        f"{np.mean([not r['accepted'] for r in rows]):.1%}",
        *(f"{values.mean():.1f}" for values in points.values()),
        *(f"{signed(change)}, {np.percentile(change, WORST):+.1f}" for change in changes),
    ]


PACKS = "gtsrb,flowers12,caltech101"
OPTIONS = (
    *ADAPTS,
    episodes_option(60, "per pack and case"),
    option(
        "--parts", "noise", "noise, suspects (which trains nothing), or noise,suspects",
        choices=("noise", "suspects", "noise,suspects"), metavar="PARTS",
    ),
    *task_options(queries=15, seed=1),
)  # fmt: skip
SETTINGS = ("policy", "budget", *TASK)
main = Study("label_noise", __doc__, "mcunet-5fps", PACKS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
