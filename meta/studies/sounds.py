"""What an encoder of sound sees in clips as it is, by a head that is fitted to a few of them.

    python -m tinytrain.meta.studies.sounds --packs digits --group '(s[0-9]+)_' --out sounds.jsonl
    python -m tinytrain.meta.studies.sounds \\
        --backbone yamnet --packs esc10 --group='-([0-9]+)-' --out sounds.jsonl
    python -m tinytrain.meta.studies.sounds --summary --out sounds.jsonl

Packs are folders of clips. `--group` is a pattern whose first bracket finds in the name of a file who speaks,
or which recording it is from: half of these, drawn for each episode, give the support, and the other half the
queries. Without it each clip stands for itself.

With `--others` a folder has clips of none of the classes; `--others other-classes` takes, for queries and
support alike, clips of those classes of the pack that an episode has not drawn. As many of them as
`--background` says are learnt as the background, and with `--as-class` as one more class. "Kept" are queries
that the verdict, of the head lda, names rightly and does not call unknown, "taken" the other clips that it
names as one of the classes. "At 5 %" are queries that are named rightly and whose logit is further above that
of the other clips than those of 95 % of the other clips that were not learnt.
"""

import re
import sys

import numpy as np

from tinytrain.base.console import at_least
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import folder_dataset
from tinytrain.heads.head import UNKNOWN
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.heads import accuracy, embedded, head_of
from tinytrain.meta.studies.study import Study, episodes_option, grid, option, table, task_options

HEADS = ("cosine", "lda")
RATES = ("kept", "taken", "at 5 %")
OTHER_CLASSES = "other-classes"
DRAWS = 1000  # of a half that leaves every class enough clips


def run_job(network, dataset, args) -> dict:
    """The accuracy in each episode, by head."""
    every = embedded(network, dataset, np.arange(len(dataset)))
    groups = groups_of(dataset.names, args.group)
    found = {head: [] for head in HEADS}
    among = args.others == OTHER_CLASSES
    others = folder_dataset(args.others) if args.others and not among else None
    strange = every if others is None else embedded(network, others, np.arange(len(others)))
    background = [at_least(0)(count) for count in args.background.split(",")] if args.others else []
    rates = {f"{name} {n}": [] for n in background for name in RATES}
    with np.errstate(all="ignore"):
        for episode in range(args.episodes):
            (support, labels), (queries, truth), rest = drawn(dataset, groups, args, episode)
            for name in HEADS:
                head = head_of(name, every[support], labels)
                found[name].append(round(accuracy(head, every[queries], truth), 4))
            rng = rng_for(args.seed, "others", episode)
            if among:
                learnt, left = (rng.permutation(side) for side in rest)
            else:
                learnt = rng.permutation(len(strange))
                left = learnt[max(background, default=0) :]
            judged = every[queries], strange[left]
            for count in background:
                more = np.concatenate([labels, np.full(count, args.way, np.int32)])
                beside = args.way if count and not args.as_class else None
                x = np.concatenate([every[support], strange[learnt[:count]]])
                head = head_of("lda", x, more, beside)
                sure, taken = (named(head, x, args.way) for x in judged)
                (own, best), (strangers, _) = (margins(head, x, args.way) for x in judged)
                far = (best == truth) & (own > np.quantile(strangers, 0.95))
                for name, right in zip(RATES, (sure == truth, taken >= 0, far), strict=True):
                    rates[f"{name} {count}"].append(round(float(right.mean()), 4))
    return found | rates


def named(head, embeddings: np.ndarray, way: int) -> np.ndarray:
    """The class (n,) that the verdict names, -1 if it names none or that of other clips."""
    verdicts = [head.verdict(embedding) for embedding in embeddings]
    return np.array([-1 if v.state == UNKNOWN or v.label == way else v.label for v in verdicts])


def groups_of(names, pattern: str) -> np.ndarray:
    """The group (n,) of each name. Raises InputError for one in which the pattern finds none."""
    if not pattern:
        return np.arange(len(names))
    found = [re.search(pattern, name) for name in names]
    if None in found:
        raise InputError("bad-value", f"--group {pattern!r} finds nothing in {names[found.index(None)]!r}")
    return np.unique([match[1] for match in found], return_inverse=True)[1]


def drawn(dataset, groups: np.ndarray, args, episode: int):
    """(indices, labels) of the support and of the queries, which share no group; and the indices of clips of
    other classes, of the groups of the support and of those of the queries.
    """
    rng = rng_for(args.seed, "sounds", dataset.name, episode)
    classes = rng.permutation(dataset.n_classes)[: args.way]
    mine = [dataset.by_class[c] for c in classes]
    for _ in range(DRAWS):
        half = np.isin(groups, rng.permutation(np.unique(groups))[::2])
        sides = [[rng.permutation(c[half[c] == side]) for c in mine] for side in (True, False)]
        sizes = (args.shots, args.queries)
        if all(len(c) >= size for side, size in zip(sides, sizes, strict=True) for c in side):
            labels = [np.repeat(np.arange(len(mine), dtype=np.int32), size) for size in sizes]
            found = [np.concatenate([c[:n] for c in side]) for side, n in zip(sides, sizes, strict=True)]
            away = ~np.isin(dataset.labels, classes)
            rest = [np.flatnonzero(away & (half == side)) for side in (True, False)]
            return *zip(found, labels, strict=True), rest
    raise InputError(
        "too-few-images", f"{dataset.name!r} has too few clips in half of its groups; ask for fewer"
    )


def margins(head, embeddings: np.ndarray, way: int) -> tuple[np.ndarray, np.ndarray]:
    """How far the largest logit of a class is above that of other clips (n,), and its class (n,)."""
    logits = head.logits(embeddings)
    others = logits[:, way] if logits.shape[1] > way else 0
    return logits[:, :way].max(axis=1) - others, logits[:, :way].argmax(axis=1)


def summary(rows: list[dict]) -> list[str]:
    """A line for each pack: the accuracy by head and the rates in per cent, with their 95 % intervals."""
    names = [name for name in rows[0] if name.startswith((*HEADS, *RATES))]
    return table(
        ("clips", *names),
        [
            (row["pack"], *(mean_interval([100 * x for x in row[name]]).text() for name in names))
            for row in rows
        ],
    )


OPTIONS = (
    option("--group", "", "pattern of what may not lie on both sides of an episode, in the names of files"),
    option("--others", None, f"folder of clips of none of the classes, or {OTHER_CLASSES}"),
    option("--background", "40", "how many of them are learnt, with commas"),
    option("--as-class", False, "learn them as a class that may be answered", action="store_true"),
    *task_options(),
    episodes_option(150),
)
SETTINGS = ("way", "shots", "queries", "episodes", "seed", "group", "others", "background", "as_class")
main = Study("sounds", __doc__, "speech-embedding", "clips", run_job, summary, OPTIONS, SETTINGS, grid)


if __name__ == "__main__":
    sys.exit(main())
