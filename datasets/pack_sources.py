"""What packs are made of: any dataset, and Omniglot with both of its parts."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tinytrain.datasets import open_dataset
from tinytrain.datasets.dataset import Dataset, subset
from tinytrain.datasets.meta_dataset import TARGETS
from tinytrain.datasets.meta_dataset.drawings import BACKGROUND, EVALUATION, omniglot
from tinytrain.datasets.meta_dataset.listing import names_in
from tinytrain.datasets.meta_dataset.opening import find_root, whole


def open_source(name: str, classes: int | None = None) -> tuple[Dataset, dict[str, np.ndarray]]:
    """The dataset of that name, only its first `classes` if given, and further arrays of its pack.

    ``omniglot:DIR`` with both unpacked archives gives both parts, told apart by ``class_split``.
    Raises InputError as `open_dataset`.
    """
    target, _, folder = name.partition(":")
    root = find_root(TARGETS[target], Path(folder)) if target == "omniglot" else None
    dataset = open_dataset(name) if root is None else _both_parts(root)
    if classes is not None and classes < dataset.n_classes:
        dataset = subset(dataset, range(classes))
    if root is None:
        return dataset, {}
    evaluated = set(names_in(root / EVALUATION))
    split = [int(name.partition("/")[0] in evaluated) for name in dataset.class_names]
    return dataset, {"class_split": np.array(split, dtype=np.int32)}


def _both_parts(root: Path) -> Dataset:
    """Drawings of one person are not kept together here, as in the pack of RESULTS.md."""
    return replace(
        whole("omniglot", TARGETS["omniglot"], omniglot(root, (BACKGROUND, EVALUATION))), groups=None
    )
