"""Recordings of motion: what the features are worth, what adaptation adds, and what is noticed as not normal.

    python -m tinytrain.meta.studies.motion --packs wrist,fan --out motion.jsonl
    python -m tinytrain.meta.studies.motion --summary --out results/motion.jsonl

Packs are folders with a folder of recordings per class. Files called v03_... are of volunteer 3: in an
episode half of the volunteers, drawn anew, give the support, the others the queries. Of other folders the
first half of each class, by name, is for the support, the second for queries, as recordings that were made
one after another are alike.

The forms are a head "lda" on all features, on those without the means of the axes, which tell how a sensor is
held, on the means alone, on states of an echo state network alone, and on features and states; and the
network adapted by each of the --policies, what the guard keeps. "Above" is paired with the features.
"Normal" is the area under the ROC curve of the head "oselm-ae", fitted to 30 recordings of one class from
the side of the support: queries of that class against queries of the other classes. "Own" is for one
volunteer: a head on recordings of others alone, and with one of each class of the volunteer's own.
"""

import re
import sys
from functools import cache

import numpy as np

from tinytrain.backbones.motion import motion_network
from tinytrain.base.random_streams import rng_for
from tinytrain.episode.episode import Episode
from tinytrain.episode.motion_features import names_of
from tinytrain.episode.sources import images_of
from tinytrain.heads.head import unit
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.heads import accuracy, head_of
from tinytrain.meta.studies.normal import scores
from tinytrain.meta.studies.strangers import area_under_roc
from tinytrain.meta.studies.study import (
    Study,
    episode_jobs,
    episodes_option,
    fact,
    option,
    points_above,
    strata,
    table,
    task_options,
    values_of,
)
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device

FEATURES, STATES = motion_network("motion-3"), motion_network("motion-3-esn")
NAMES = np.array(names_of(3, 100))
FORMS = {
    "features": NAMES != "state",
    "without means": ~np.isin(NAMES, ("state", "mean")),
    "means alone": NAMES == "mean",
    "states alone": NAMES == "state",
    "features and states": NAMES != "",
}
NORMAL = 30  # recordings of the normal class
VOLUNTEER = re.compile(r"v(\d+)_")


@cache
def items_of(dataset) -> np.ndarray:
    """The items (n, 1, 1, D) of a whole dataset, features and states."""
    return np.stack([dataset.read(i, STATES.input) for i in range(len(dataset))])


def people_of(dataset) -> np.ndarray | None:
    """The volunteers (n,) whose recordings these are, None if names do not say."""
    found = [VOLUNTEER.match(name.rpartition("/")[2]) for name in dataset.names]
    return np.array([int(match[1]) for match in found]) if all(found) else None


def support_side(dataset, rng) -> np.ndarray:
    """Which recordings (n,) may be in the support; the others may be queries."""
    people = people_of(dataset)
    if people is not None:
        every = rng.permutation(np.unique(people))
        return np.isin(people, every[: len(every) // 2])
    side = np.zeros(len(dataset), bool)
    for members in dataset.by_class:
        side[np.sort(members)[: len(members) // 2]] = True
    return side


def drawn(dataset, args, episode: int) -> tuple[np.ndarray, ...]:
    """Numbers and labels of the support and of the queries, `shots` recordings of each class or more."""
    rng = rng_for(args.seed, "motion", dataset.name, episode)
    while True:
        side, found = support_side(dataset, rng), []
        for members in dataset.by_class:
            parts = members[side[members]], members[~side[members]]
            if min(map(len, parts)) >= args.shots:
                found.append([rng.permutation(part) for part in parts])
        if len(found) >= args.way:
            break
    classes = [found[k] for k in rng.permutation(len(found))[: args.way]]
    support = [first[: args.shots] for first, _ in classes]
    query = [second[: args.queries] for _, second in classes]
    labels = [np.repeat(np.arange(args.way, dtype=np.int32), list(map(len, s))) for s in (support, query)]
    return np.concatenate(support), labels[0], np.concatenate(query), labels[1]


def run_job(network, dataset, args, episode: int) -> dict:
    items, spec = items_of(dataset), STATES.input
    support, labels, query, truth = drawn(dataset, args, episode)
    values = ((items - np.float32(spec.mean)) * np.float32(spec.scale)).reshape(len(items), -1)
    found = {}
    for form, columns in FORMS.items():
        right = judged(unit(values[:, columns]), support, labels, query, truth)
        found[form] = {"accuracy": round(right, 4)}
    plain = items[..., FORMS["features"]]
    sides = (images_of(list(plain[n]), y, kind="motion") for n, y in ((support, labels), (query, truth)))
    task = Episode(*sides, tuple(f"class {k}" for k in range(args.way)))
    for policy in filter(None, args.policies.split(",")):
        report = adapt(FEATURES, task, Budget(1_000_000), policy, episode, Device(threads=1))
        right = float((report.answers.after == truth).mean())
        found[policy] = {"accuracy": round(right, 4), "kept": report.guard.kept}
    x = unit(values[:, FORMS["features"]])
    more = {"normal": noticed(dataset, x, args, episode), "own": with_own(dataset, x, args, episode)}
    return {"forms": found, **more}


def judged(x: np.ndarray, support, labels, query, truth) -> float:
    """The accuracy of a head "lda" on embeddings `x`, by the numbers of recordings and their labels."""
    return accuracy(head_of("lda", x[support], labels), x[query], truth)


def noticed(dataset, x: np.ndarray, args, episode: int) -> float | None:
    """The area for one class as the normal one, the classes in turn; None if it has too few recordings."""
    rng = rng_for(args.seed, "motion, normal", dataset.name, episode)
    side, label = support_side(dataset, rng), episode % dataset.n_classes
    own = dataset.labels == label
    learnt = rng.permutation(np.flatnonzero(own & side))[:NORMAL]
    if len(learnt) < NORMAL or not (own & ~side).any():
        return None
    score = scores(head_of("oselm-ae", x[learnt], np.zeros(NORMAL)))
    return round(area_under_roc(score(x[~own & ~side]), score(x[own & ~side])), 5)


def with_own(dataset, x: np.ndarray, args, episode: int) -> list[float] | None:
    """Accuracy on recordings of one volunteer before and after one of each class is learnt; None without."""
    rng, people = rng_for(args.seed, "motion, own", dataset.name, episode), people_of(dataset)
    if people is None:
        return None
    able = {}
    for person in np.unique(people):
        counts = [((people[c] == person).sum(), (people[c] != person).sum()) for c in dataset.by_class]
        classes = [k for k, (own, others) in enumerate(counts) if own >= 3 and others >= args.shots]
        if len(classes) >= args.way:
            able[person] = classes
    if not able:
        return None
    person = sorted(able)[rng.integers(len(able))]
    support, own, query, truth = [], [], [], []
    for label, c in enumerate(rng.permutation(able[person])[: args.way]):
        members = rng.permutation(dataset.by_class[c])
        support += members[people[members] != person][: args.shots].tolist()
        first, *rest = members[people[members] == person][: args.queries + 1].tolist()
        own, query, truth = [*own, first], query + rest, truth + [label] * len(rest)
    labels = np.repeat(np.arange(args.way), args.shots)
    both = support + own, np.append(labels, np.arange(args.way))
    return [round(judged(x, *given, query, truth), 4) for given in ((support, labels), both)]


def summary(rows: list[dict]) -> list[str]:
    packs = values_of(rows, "pack")
    lines = []
    for form in rows[0]["forms"]:
        means = [mean_interval(100 * values).text() for values in strata(rows, fact(form, "accuracy"))]
        above = (points_above([r for r in rows if r["pack"] == p], form, "features") for p in packs)
        lines.append((form, *means, *(interval.text(2, signed=True) for interval in above)))
    areas = []
    for pack in packs:
        values = [row["normal"] for row in rows if row["pack"] == pack and row["normal"] is not None]
        few = f"{pack} {np.mean(values):.4f}, the least {min(values):.4f}" if values else f"{pack} too few"
        areas.append(few)
    for pack in packs:
        if pairs := [row["own"] for row in rows if row["pack"] == pack and row["own"]]:
            before, after = 100 * np.array(pairs).T
            gain = mean_interval(after - before).text(2, signed=True)
            areas.append(f"own, {pack}: {before.mean():.1f}, then {after.mean():.1f}, {gain}")
    header = ("form", *packs, *(f"above, {pack}" for pack in packs))
    return [*table(header, lines), "", f"Normal, area under the curve: {'; '.join(areas)}."]


OPTIONS = (
    option("--policies", "tinytrain", "policies to adapt with, comma-separated; empty: none"),
    *task_options(),
    episodes_option(150),
)
SETTINGS = ("way", "shots", "queries", "seed", "policies")
main = Study("motion", __doc__, "motion-3", "wrist,fan", run_job, summary, OPTIONS, SETTINGS, episode_jobs)


if __name__ == "__main__":
    sys.exit(main())
