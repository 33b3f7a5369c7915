"""Episodes drawn from a dataset: N-way K-shot, and Meta-Dataset's variable ways and shots.

The same (dataset, seed, index) is the same list of images in every process. Images are
always shuffled inside their class, because neighbours in a file are often near-duplicates,
and images of one group never lie on both sides of an episode: the support is drawn from all images
of a class alike, the queries from groups that it left.
"""

from collections.abc import Sequence

import numpy as np

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode

MIN_WAYS, MAX_WAYS = 5, 50
MAX_QUERIES = 10
MAX_CONTRIBUTION = 100  # images of one class that count towards the size of the support set
MAX_SUPPORT = 500
DRAWS = 64  # tries to keep the groups of all classes apart before giving up


def sample_episode(
    dataset: Dataset, way: int, shots: int, queries: int, seed: int, index: int = 0
) -> Episode:
    """Episode `index` of stream `seed`: `way` classes, `shots` support and `queries` query images each.

    Classes with fewer than `shots` + `queries` images are not drawn. Raises UsageError for
    numbers that mean nothing and InputError when the dataset is too small for them.
    """
    if way < 2 or shots < 1 or queries < 0:
        numbers = f"{way} ways, {shots} shots, {queries} queries"
        raise UsageError("usage", f"{numbers} given; needed are at least 2, 1 and 0")
    counts = np.array([len(members) for members in dataset.by_class])
    eligible = np.flatnonzero(counts >= shots + queries)
    if len(eligible) < way:
        raise InputError(
            "too-few-images",
            f"{dataset.name!r} has {len(eligible)} of {dataset.n_classes} classes with {shots} + {queries} "
            f"images, {way} are needed; ask for fewer ways, shots or queries",
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
            f"{dataset.name!r} has {len(candidates)} classes with images and the support may hold "
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
    """Support images per class, (n_way,), and query images of every class, given all `counts` (n_way,).

    Raises InputError when a class has fewer than two images.
    """
    if counts.min() < 2:
        raise InputError("too-few-images", f"a class has {counts.min()} image; this sampler needs 2 of each")
    queries = int(min(MAX_QUERIES, counts.min() // 2))
    left = counts - queries
    beta = rng.random()
    total = min(max_support, int(np.floor(beta * np.minimum(MAX_CONTRIBUTION, left) + 1).sum()))
    weights = counts * np.exp(rng.uniform(np.log(0.5), np.log(2), len(counts)))
    wanted = weights / weights.sum() * (total - len(counts))
    return np.minimum(np.floor(wanted).astype(int) + 1, left), queries


def shuffled(items: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A new array with `items` in random order."""
    return rng.permutation(items)


def _one_family(dataset: Dataset, rng) -> np.ndarray:
    """Classes that have images: all of them, or those of one family large enough, drawn uniformly."""
    classes = np.array([c for c, members in enumerate(dataset.by_class) if len(members)], dtype=int)
    if dataset.families is None:
        return classes
    families, sizes = np.unique(dataset.families[classes], return_counts=True)
    families = families[sizes >= MIN_WAYS]
    if not len(families):
        return classes[:0]
    return classes[dataset.families[classes] == rng.choice(families)]


def _draw(dataset: Dataset, classes, shots: np.ndarray, queries: int, at_least: np.ndarray, rng):
    """Support and query indices per class. `shots` (n_way,) is a maximum, `at_least` what must be reached.

    Every class has `queries` images beside its `shots`.
    """
    if dataset.groups is None:  # what `_split` gives where every image is a group of its own
        drawn = [
            np.split(shuffled(dataset.by_class[c], rng)[: shot + queries], [shot])
            for c, shot in zip(classes, shots, strict=True)
        ]
        return tuple(zip(*drawn, strict=True))
    groups = dataset.groups
    for _ in range(DRAWS):
        sides: dict[int, bool] = {}
        drawn = [
            _split(shuffled(dataset.by_class[c], rng).tolist(), groups, shot, queries, sides)
            for c, shot in zip(classes, shots, strict=True)
        ]
        short = [
            c
            for c, (support, query), least in zip(classes, drawn, at_least, strict=True)
            if len(support) < least or len(query) < queries
        ]
        if not short:
            return tuple(zip(*drawn, strict=True))
    raise InputError(
        "too-few-images",
        f"class {dataset.class_names[short[0]]!r} of {dataset.name!r} has "
        f"{len(np.unique(groups[dataset.by_class[short[0]]]))} groups, too few to keep support and "
        f"{queries} query images apart; ask for fewer shots or queries",
    )


def _split(members: list[int], groups: np.ndarray, shots: int, queries: int, in_query: dict[int, bool]):
    """Support: the first `shots` of `members`; query: the next ones of groups that the support does not have.

    A group goes to the support only if the class then still has `queries` images elsewhere.
    `in_query` holds the side of every group used so far, and is added to: a group met again in a
    later class (the same speaker) stays on its side.
    """
    of_group: dict[int, int] = {}
    for i in members:
        of_group[int(groups[i])] = of_group.get(int(groups[i]), 0) + 1
    elsewhere = sum(n for group, n in of_group.items() if in_query.get(group, True))
    support: list[int] = []
    for i in members:
        if len(support) == shots:
            break
        group = int(groups[i])
        if group not in in_query:
            in_query[group] = elsewhere - of_group[group] < queries
            elsewhere -= 0 if in_query[group] else of_group[group]
        if not in_query[group]:
            support.append(i)
    query = [i for i in members if in_query.get(int(groups[i]), True)][:queries]
    in_query.update((int(groups[i]), True) for i in query)
    return support, query


def _episode(dataset: Dataset, classes, support: Sequence, query: Sequence, source: str) -> Episode:
    return Episode(
        support=dataset.images(support),
        query=dataset.images(query),
        class_names=tuple(dataset.class_names[c] for c in classes),
        may_flip=dataset.may_flip,
        source=source,
        generated=dataset.provenance.generated,
    )
