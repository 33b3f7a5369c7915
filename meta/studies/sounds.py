"""What an encoder of sound sees in clips as it is, by a head that is fitted to a few of them.

    python -m tinytrain.meta.studies.sounds --packs digits --group '(s[0-9]+)_' --out sounds.jsonl
    python -m tinytrain.meta.studies.sounds \\
        --backbone yamnet --packs esc10 --group='-([0-9]+)-' --out sounds.jsonl
    python -m tinytrain.meta.studies.sounds --summary --out sounds.jsonl

Packs are folders of clips. `--group` is a pattern whose first bracket finds in the name of a file who speaks,
or which recording it is from: half of these, drawn for each episode, give the support, and the other half the
queries. Without it each clip stands for itself.
"""

import re
import sys

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.drift.refit import fitted
from tinytrain.heads.registry import find_head
from tinytrain.kernels.blas import one_thread
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.heads import embedded
from tinytrain.meta.studies.study import Study, episodes_option, grid, option, table, task_options

HEADS = ("cosine", "lda")
DRAWS = 1000  # of a half that leaves every class enough clips


def run_job(network, dataset, args) -> dict:
    """The accuracy in each episode, by head."""
    every = embedded(network, dataset, np.arange(len(dataset)))
    groups = groups_of(dataset.names, args.group)
    kernels, found = kernel_table.load(), {head: [] for head in HEADS}
    with one_thread(), np.errstate(all="ignore"):
        for episode in range(args.episodes):
            (support, labels), (queries, truth) = drawn(dataset, groups, args, episode)
            for name in HEADS:
                head = fitted(find_head(name), kernels, every[support], labels)
                right = head.logits(every[queries]).argmax(axis=1) == truth
                found[name].append(round(float(right.mean()), 4))
    return found


def groups_of(names, pattern: str) -> np.ndarray:
    """The group (n,) of each name. Raises InputError for one in which the pattern finds none."""
    if not pattern:
        return np.arange(len(names))
    found = [re.search(pattern, name) for name in names]
    if None in found:
        raise InputError("bad-value", f"--group {pattern!r} finds nothing in {names[found.index(None)]!r}")
    return np.unique([match[1] for match in found], return_inverse=True)[1]


def drawn(dataset, groups: np.ndarray, args, episode: int):
    """(indices, labels) of the support and of the queries, which share no group."""
    rng = rng_for(args.seed, "sounds", dataset.name, episode)
    classes = rng.permutation(dataset.n_classes)[: args.way]
    mine = [dataset.by_class[c] for c in classes]
    for _ in range(DRAWS):
        half = np.isin(groups, rng.permutation(np.unique(groups))[::2])
        sides = [[rng.permutation(c[half[c] == side]) for c in mine] for side in (True, False)]
        sizes = (args.shots, args.queries)
        if all(len(c) >= size for side, size in zip(sides, sizes, strict=True) for c in side):
            return tuple(
                (
                    np.concatenate([c[:size] for c in side]),
                    np.repeat(np.arange(len(side), dtype=np.int32), size),
                )
                for side, size in zip(sides, sizes, strict=True)
            )
    raise InputError(
        "too-few-images", f"{dataset.name!r} has too few clips in half of its groups; ask for fewer"
    )


def summary(rows: list[dict]) -> list[str]:
    """A line for each pack: the accuracy by head in per cent, with its 95 % interval."""
    return table(
        ("clips", *HEADS),
        [
            (row["pack"], *(mean_interval([100 * x for x in row[head]]).text() for head in HEADS))
            for row in rows
        ],
    )


OPTIONS = (
    option("--group", "", "pattern of what may not lie on both sides of an episode, in the names of files"),
    *task_options(),
    episodes_option(150),
)
SETTINGS = ("way", "shots", "queries", "episodes", "seed", "group")
main = Study(
    "sounds",
    __doc__,
    "speech-embedding",
    "clips",
    run_job,
    summary,
    OPTIONS,
    SETTINGS,
    lambda args: grid(args),
)


if __name__ == "__main__":
    sys.exit(main())
