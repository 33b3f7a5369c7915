"""One delta of what several devices learnt, with names and paths."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tinytrain import kernels
from tinytrain.api.opening import open_delta, open_images, open_network
from tinytrain.base.errors import UsageError
from tinytrain.base.progress import Progress, silent
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta import merge as merging
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.episode.input_facts import file_lines
from tinytrain.episode.kinds import kind_of
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.pipeline.merge import Judged, judge
from tinytrain.report import Report


@dataclass(frozen=True, eq=False)
class Merge:
    """`merged.delta` is the result; `judged` is how many local images are recognised, None without any.

    `images` are those of each class, by its name. `warnings` name files that were not used.
    """

    merged: merging.Merged
    images: dict[str, float]
    judged: Judged | None
    warnings: tuple[str, ...]

    @property
    def delta(self) -> Delta:
        return self.merged.delta

    def to_json(self) -> dict:
        """What ``tinytrain merge --json`` prints, without the file that was written."""
        found, judged = self.merged, self.judged
        rows = [{"name": name, "images": n} for name, n in zip(found.names, found.images, strict=True)]
        accuracy = judged and {"n": judged.n, "merged": judged.merged, "each": list(judged.each)}
        return {
            "backbone": found.delta.backbone,
            "classes": {name: round(n, 2) for name, n in self.images.items()},
            "merged": rows,
            "left_out": list(found.left_out),
            "outvoted": list(found.outvoted),
            "conflicts": [conflict._asdict() for conflict in found.conflicts],
            "layers": {"how": found.layers, "largest": found.largest},
            "replay_left_out": found.without_replay,
            "right": accuracy,
            "warnings": list(self.warnings),
        }


def merge(
    deltas: Sequence[str | os.PathLike | Delta | Report],
    check: str | os.PathLike | Dataset | Images | None = None,
    class_names: Sequence[str] | None = None,
    network: str | os.PathLike | Network | Committee | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = silent,
    robust: bool = False,
) -> Merge:
    """One delta of two or more `deltas` of the same network with the same head, which has sums.

    Sums of embeddings add exactly: without trained layers the head is that of all images together, the same
    bytes in any order and grouping. Classes are matched by name. Trained layers are averaged by numbers of
    images if all trained the same ones, otherwise those of the delta with most images are kept. `check` and
    `class_names` are images as in `add_classes`, on which the result and each of `deltas` is tried; `network`
    is as in `Predictor`. `names` of the deltas are for messages. If it is to be `robust`, each class must be
    held by three or more of `deltas`, and one whose class means most others contradict is left out. Raises
    InputError for other networks, and for a class that nobody can vouch for; UsageError for a head without
    sums, AdaptationRefusedError ``left-out`` if the best of `deltas` is better than all of them together
    beyond chance.
    """
    if len(deltas) < 2:
        raise UsageError("usage", f"of two or more deltas to merge {len(deltas)} is given; give more")
    opened = [open_delta(delta) for delta in deltas]
    names = names or [_name(given, k) for k, given in enumerate(deltas, 1)]
    found, judged, warnings = merging.merge(kernels.load(), opened, names, robust), None, []
    if check is not None:
        network = open_network(network, found.delta)
        images, known, _, facts = open_images(check, class_names, network.input, progress)
        warnings = map(kind_of(images.kind).words, file_lines(facts))
        judged = judge(network, opened, found.delta, images, known)
    return Merge(found, _images(found, opened, names), judged, tuple(warnings))


def _images(found: merging.Merged, opened: list[Delta], names: Sequence[str]) -> dict[str, float]:
    """Those of each class in what was merged, each of which may have another number of views."""
    left, images = Counter(found.names), dict.fromkeys(found.delta.class_names, 0.0)
    for name, delta in zip(names, opened, strict=True):
        left[name] -= 1
        if left[name] >= 0:
            for each, count in zip(delta.class_names, delta.head.images.tolist(), strict=True):
                images[each] += count
    return images


def _name(given, number: int) -> str:
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"delta {number}"
