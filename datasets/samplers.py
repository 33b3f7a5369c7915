"""Episodes drawn from a dataset: N-way K-shot, and Meta-Dataset's variable ways and shots.

The same (dataset, seed, index) is the same list of pictures in every process. Pictures are
always shuffled inside their class, because neighbours in a file are often near-duplicates,
and pictures of one group never lie on both sides of an episode.
"""

from collections.abc import Sequence

import numpy as np

from tinytrain.datasets.dataset import Dataset
from tinytrain.episode import Episode
from tinytrain.errors import InputError, UsageError
from tinytrain.seeds import rng_for

MIN_WAYS, MAX_WAYS = 5, 50
MAX_QUERIES = 10
MAX_CONTRIBUTION = 100  # pictures of one class that count towards the size of the support set
MAX_SUPPORT = 500
DEALS = 64  # random ways to split the groups before giving up


def sample_episode(
    dataset: Dataset, way: int, shots: int, queries: int, seed: int, index: int = 0
) -> Episode:
    """Episode `index` of stream `seed`: `way` classes, `shots` support and `queries` query pictures each.

    Classes with fewer than `shots` + `queries` pictures are not drawn. Raises UsageError for
    numbers that mean nothing and InputError when the dataset is too small for them.
    """
    if way < 2 or shots < 1 or queries < 0:
        numbers = f"{way} ways, {shots} shots, {queries} queries"
        raise UsageError("bad-episode", f"{numbers} given; needed are at least 2, 1 and 0")
    counts = np.array([len(members) for members in dataset.by_class])
    eligible = np.flatnonzero(counts >= shots + queries)
    if len(eligible) < way:
        raise InputError(
            "too-few-pictures",
            f"{dataset.name!r} has {len(eligible)} of {dataset.n_classes} classes with {shots} + {queries} "
            f"pictures, {way} are needed; ask for fewer ways, shots or queries",
        )
    rng = rng_for(seed, "episode", dataset.name, index)
    classes = shuffled(eligible, rng)[:way]
    sizes = np.full(way, shots)
    support, query = _draw(dataset, classes, sizes, queries, sizes, rng)
    source = f"{dataset.name}: {way}-way {shots}-shot, {queries} queries, seed {seed}, episode {index}"
    return _episode(dataset, classes, support, query, source)


def sample_meta_dataset_episode(
    dataset: Dataset, seed: int, index: int = 0, max_support: int = MAX_SUPPORT
) -> Episode:
    """Episode `index` of stream `seed` with ways and shots drawn as in Meta-Dataset.

    The procedure is that of Triantafillou et al. 2020: 5 to 50 ways, balanced queries, unbalanced
    support. A dataset with families (alphabets) draws one family, then classes inside it. Where groups
    leave less support than the formula asks for, a class gets what is left, at least one.
    Raises InputError when the dataset or `max_support` is too small.
    """
    rng = rng_for(seed, "meta-dataset", dataset.name, index)
    candidates = _one_family(dataset, rng)
    most = min(MAX_WAYS, len(candidates), max_support)
    if most < MIN_WAYS:
        raise InputError(
            "too-few-classes",
            f"{dataset.name!r} has {len(candidates)} classes with pictures and the support may hold "
            f"{max_support}; this sampler needs {MIN_WAYS} of both",
        )
    classes = shuffled(candidates, rng)[: rng.integers(MIN_WAYS, most + 1)]
    counts = np.array([len(dataset.by_class[c]) for c in classes])
    shots, queries = meta_dataset_sizes(counts, max_support, rng)
    support, query = _draw(dataset, classes, shots, queries, np.ones_like(shots), rng)
    source = f"{dataset.name}: meta-dataset sampler, seed {seed}, episode {index}"
    return _episode(dataset, classes, support, query, source)


def meta_dataset_sizes(
    counts: np.ndarray, max_support: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Support pictures per class, (n_way,), and query pictures of every class, given all `counts` (n_way,).

    Raises InputError when a class has fewer than two pictures.
    """
    if counts.min() < 2:
        raise InputError(
            "too-few-pictures", f"a class has {counts.min()} picture; this sampler needs 2 of each"
        )
    queries = int(min(MAX_QUERIES, counts.min() // 2))
    left = counts - queries
    beta = rng.random()
    total = min(max_support, int(np.floor(beta * np.minimum(MAX_CONTRIBUTION, left) + 1).sum()))
    weights = counts * np.exp(rng.uniform(np.log(0.5), np.log(2), len(counts)))
    shares = weights / weights.sum() * (total - len(counts))
    return np.minimum(np.floor(shares).astype(int) + 1, left), queries


def shuffled(items: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A new array with `items` in random order."""
    return rng.permutation(items)


def _one_family(dataset: Dataset, rng) -> np.ndarray:
    """Classes that have pictures: all of them, or those of one family large enough, drawn uniformly."""
    classes = np.array([c for c, members in enumerate(dataset.by_class) if len(members)], dtype=int)
    if dataset.families is None:
        return classes
    families, sizes = np.unique(dataset.families[classes], return_counts=True)
    families = families[sizes >= MIN_WAYS]
    if not len(families):
        return classes[:0]
    return classes[dataset.families[classes] == rng.choice(families)]


def _draw(dataset: Dataset, classes, shots: np.ndarray, queries: int, at_least: np.ndarray, rng):
    """Support and query indices per class. `shots` (n_way,) is a maximum, `at_least` what must be reached."""
    for _ in range(DEALS):
        sides = _deal(dataset, classes, shots, queries, rng)
        support, query = [], []
        for members, in_query, shot in zip((dataset.by_class[c] for c in classes), sides, shots, strict=True):
            pool = shuffled(np.arange(len(members)), rng)
            if in_query is None:
                support.append(members[pool[:shot]])
                query.append(members[pool[shot : shot + queries]])
            else:
                support.append(members[pool[~in_query[pool]]][:shot])
                query.append(members[pool[in_query[pool]]][:queries])
        short = [
            c
            for c, s, q, least in zip(classes, support, query, at_least, strict=True)
            if len(s) < least or len(q) < queries
        ]
        if not short:
            return support, query
    raise InputError(
        "too-few-groups",
        f"class {dataset.class_names[short[0]]!r} of {dataset.name!r} has "
        f"{len(np.unique(dataset.groups[dataset.by_class[short[0]]]))} groups, too few to keep support and "
        f"{queries} query pictures apart; ask for fewer shots or queries",
    )


def _deal(dataset: Dataset, classes, shots, queries: int, rng) -> list[np.ndarray | None]:
    """Per class a mask of the pictures whose group may only be query, or None without groups.

    Every group goes whole to the side that is worse supplied; a group met again in a later class
    (the same speaker) stays on its side.
    """
    if dataset.groups is None:
        return [None] * len(classes)
    side_of: dict[int, bool] = {}
    masks = []
    for c, shot in zip(classes, shots, strict=True):
        of_picture = dataset.groups[dataset.by_class[c]]
        groups, counts = np.unique(of_picture, return_counts=True)
        size = dict(zip(groups.tolist(), counts.tolist(), strict=True))
        have = [0, 0]
        # Known groups first: what they supply is fixed, the rest makes up for it.
        for group in sorted(shuffled(groups, rng).tolist(), key=lambda g: g not in side_of):
            to_query = bool(queries > 0 and have[1] / queries < have[0] / shot)
            side = side_of.setdefault(group, to_query)
            have[side] += size[group]
        masks.append(np.array([side_of[g] for g in of_picture.tolist()]))
    return masks


def _episode(dataset: Dataset, classes, support: Sequence, query: Sequence, source: str) -> Episode:
    return Episode(
        support=dataset.pictures(support),
        query=dataset.pictures(query),
        class_names=tuple(dataset.class_names[c] for c in classes),
        may_flip=dataset.may_flip,
        source=source,
    )
