"""What a folder holds of the target sets, and what is missing: names and counts, nothing is decoded."""

import os
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.datasets.meta_dataset.opening import contents, find_root
from tinytrain.datasets.meta_dataset.registry import TARGETS

NAMED = 5  # missing files that are named one by one


def check_target(name: str, folder: str | os.PathLike) -> dict:
    """Facts about the test classes of set `name` in `folder`.

    `state` is ``complete``, ``incomplete`` (`lacks` says of what), ``broken`` (`reason`) or ``absent``.
    """
    target = TARGETS[name]
    facts = {
        "name": name,
        "state": "absent",
        "root": None,
        "classes": 0,
        "classes_expected": target.test[0],
        "images": 0,
        "images_expected": target.test[1],
        "lacks": [],
        "files": list(target.download.files),
        "address": target.download.address,
        "size": target.download.size,
        "licence": target.download.licence,
    }
    root = find_root(target, Path(folder))
    if root is None:
        return facts
    facts["root"] = str(root)
    try:
        dataset, absent = contents(name, root, "test")
    except InputError as error:
        return facts | {"state": "broken", "reason": str(error)}
    facts |= {"classes": dataset.n_classes, "images": len(dataset)}
    facts["lacks"] = _lacks(absent, [row.file for row in dataset.provenance.skipped], facts)
    return facts | {"state": "incomplete" if facts["lacks"] else "complete"}


def _lacks(absent: list[str], missing: list[str], facts: dict) -> list[str]:
    """What a set is short of, in words; a count is named only if no list of names says more."""
    lacks = [f"class {name}" for name in absent]
    lacks += [f"file {path}" for path in missing[:NAMED]]
    if len(missing) > NAMED:
        lacks.append(f"{len(missing) - NAMED:,} more files")
    if not lacks and facts["classes"] < facts["classes_expected"]:
        lacks.append(f"{facts['classes_expected'] - facts['classes']:,} classes")
    if not lacks and facts["images"] < facts["images_expected"]:
        lacks.append(f"{facts['images_expected'] - facts['images']:,} images")
    return lacks
