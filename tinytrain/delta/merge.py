"""What several devices learnt as one delta: sums of embeddings add exactly, trained layers are averaged.

Everything in the head of the result follows from the sums, and from the list of what they were made of
(`sources`). So the order in which deltas are given, and whether some of them were merged before, changes no
bit of it. Classes are matched by their names, and sorted by them. Trained layers are averaged by numbers of
images if all deltas trained the same channels of the same layers; otherwise those of the delta with most
images are kept. An average of averages is one only up to rounding.
"""

import functools
import hashlib
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, wrong_class_names
from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.delta.delta import Changes, Delta, Slice
from tinytrain.delta.file import MAX_VIEWS
from tinytrain.heads.by_means import calibrated_by_means, warmth_of
from tinytrain.heads.moments import MOST, UNIT, Moments
from tinytrain.heads.scatter_head import ScatterHead, ScatterMethod
from tinytrain.network.codes_json import written_codes

SOURCE = {"sums", "images", "warmth"}  # the digest of its sums, how many images, and how sure it was
# What became of trained layers:
UNTRAINED, SAME, AVERAGED, KEPT = "untrained", "same", "averaged", "kept"
# Kinds of conflicts:
SAME_IMAGES, SAME_NAME = "same-images", "same-name"


class Conflict(NamedTuple):
    """Something to look at: one of SAME_IMAGES and SAME_NAME, and a sentence."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Merged:
    """The `delta` of all, and what happened: `names` are those that were merged, with `images` of each.

    `left_out` are names of those whose images are all in others. `layers` is one of UNTRAINED, SAME, AVERAGED
    and KEPT, those of the one with most images, `largest`. `without_replay`: a replay memory was left out.
    """

    delta: Delta
    names: tuple[str, ...]
    images: tuple[int, ...]
    left_out: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    layers: str
    largest: str
    without_replay: bool


class _Input(NamedTuple):
    """A delta that is merged: its `name`, its `moments`, and what they were made of, by digest."""

    name: str
    delta: Delta
    moments: Moments
    sources: dict[str, dict]

    @property
    def images(self) -> int:
        return _images(self.sources.values())

    def named(self) -> dict[str, bytes]:
        """The sums of each class."""
        return {
            name: row.tobytes() for name, row in zip(self.delta.class_names, self.moments.sums, strict=True)
        }


def merge(kernels, deltas: Sequence[Delta], names: Sequence[str]) -> Merged:
    """One delta of several for the same network, which messages call `names`.

    Raises InputError ``backbone-mismatch``, ``class-names`` or ``bad-value``, UsageError ``unsupported``.
    """
    inputs = [_input(*pair) for pair in zip(names, deltas, strict=True)]
    _check(inputs)
    inputs, left_out = _once(inputs)
    classes = tuple(sorted({name for one in inputs for name in one.delta.class_names}))
    if wrong := wrong_class_names(classes):
        raise InputError("class-names", f"{wrong}; give every class a name of its own")
    if len(classes) > MAX_CLASSES:
        raise InputError(
            "class-names", f"{len(classes)} classes, at most {MAX_CLASSES} fit; merge fewer deltas"
        )
    placed = [
        one.moments.at([classes.index(name) for name in one.delta.class_names], len(classes))
        for one in inputs
    ]
    total = functools.reduce(operator.add, placed)
    sources = dict(sorted(item for one in inputs for item in one.sources.items()))
    head = _head(kernels, inputs[0].delta.head.method, total, sources.values())
    # In an order of their own: floats are added.
    ordered = sorted(inputs, key=lambda one: (-one.images, min(one.sources)))
    layers, parts = _layers(ordered)
    first = ordered[0].delta
    report = {"merged": {"sums": digest_of(total), "sources": list(sources.values())}}
    if kind := first.report.get("episode", {}).get("kind"):
        report["episode"] = {"kind": kind}
    forgotten = [one.delta.report["forgotten"] for one in inputs if "forgotten" in one.delta.report]
    if forgotten:
        left = sorted({place for facts in forgotten for place in facts["traces"]})
        report["forgotten"] = {"classes": sum(facts["classes"] for facts in forgotten), "traces": left}
    whole = parts[0] if not first.members else Changes(first.backbone, "", ())
    delta = Delta(
        first.backbone, min(one.delta.backbone_name for one in inputs), whole.slices, head, classes, report,
        members=parts if first.members else (), **whole.backend_fields,
    )  # fmt: skip
    conflicts = *_other_names(inputs, left_out), *_same_rows(inputs), *_same_names(inputs, placed, classes)
    return Merged(
        delta,
        tuple(one.name for one in inputs),
        tuple(one.images for one in inputs),
        tuple(one.name for one in left_out),
        conflicts,
        layers,
        ordered[0].name,
        any(part.replay for one in inputs for part in one.delta.parts),
    )


def digest_of(moments: Moments) -> str:
    """What the sums of these embeddings are called, whatever their classes are: 16 letters."""
    found = hashlib.sha256(moments.products.astype("<i8").tobytes())
    for row in sorted(row.astype("<i8").tobytes() for row in np.column_stack((moments.counts, moments.sums))):
        found.update(row)
    return found.hexdigest()[:16]


def _input(name: str, delta: Delta) -> _Input:
    head = delta.head
    if not isinstance(head, ScatterHead):
        raise UsageError(
            "unsupported",
            f"{name} has the head {head.kind}, which has no sums; adapt with --head lda, slda or ridge",
        )
    moments = head.moments
    digest = digest_of(moments)
    sources, sums = _sources(delta.report.get("merged"))
    if not sources or sums != digest:  # it is no merged one, or has learnt or forgotten since
        images = max(1, round(head.total / head.views) - _images(sources.values()))
        sources[digest] = {"sums": digest, "images": images, "warmth": warmth_of(head)}
    return _Input(name, delta, moments, sources)


def _images(sources: Iterable[dict]) -> int:
    return sum(row["images"] for row in sources)


def _sources(merged) -> tuple[dict[str, dict], str | None]:
    """What a delta was merged of, and how its sums were called then, if a report says so in `merged`."""
    rows = merged.get("sources") if isinstance(merged, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.keys() == SOURCE for row in rows):
        return {}, None
    fit = all(
        isinstance(row["sums"], str)
        and type(row["images"]) is int
        and 1 <= row["images"] <= MOST
        and (row["warmth"] is None or (isinstance(row["warmth"], float) and 0 < row["warmth"] < MOST))
        for row in rows
    )
    return ({row["sums"]: row for row in rows}, merged.get("sums")) if fit else ({}, None)


def _check(inputs: list[_Input]) -> None:
    first = inputs[0]
    for one in inputs[1:]:
        if one.delta.backbone != first.delta.backbone:
            raise InputError(
                "backbone-mismatch",
                f"{first.name} belongs to {first.delta.backbone_name} ({first.delta.backbone[:12]}),"
                f" {one.name} to {one.delta.backbone_name} ({one.delta.backbone[:12]}); merge those of one",
            )
        kinds = first.delta.head.kind, one.delta.head.kind
        if kinds[0] != kinds[1]:
            raise UsageError(
                "unsupported",
                f"{first.name} has head {kinds[0]}, {one.name} has {kinds[1]}; merge deltas with one head",
            )


def _once(inputs: list[_Input]) -> tuple[list[_Input], list[_Input]]:
    """Those that are not a part of another one, and the others.

    Raises InputError ``bad-value`` if two overlap: what they share is there in sums alone.
    """
    kept: list[_Input] = []
    left_out = []
    for one in sorted(inputs, key=lambda one: (-len(one.sources), one.delta.class_names)):
        shared = [(other, one.sources.keys() & other.sources.keys()) for other in kept]
        if any(len(both) == len(one.sources) for _, both in shared):
            left_out.append(one)
            continue
        for other, both in shared:
            if both:
                raise InputError(
                    "bad-value",
                    f"{other.name} and {one.name} share {len(both)} of what they were made of, which would"
                    " count twice; merge what these were made of",
                )
        kept.append(one)
    return [one for one in inputs if one in kept], left_out


def _head(kernels, method: ScatterMethod, moments: Moments, sources: Iterable[dict]) -> ScatterHead:
    """The head of all embeddings: as sure as those of the `sources` are on average."""
    images = _images(sources)
    views = min(MAX_VIEWS, max(1, round(int(moments.counts.sum()) / images)))
    head, warmth = method.of_moments(kernels, moments, views=views), None
    if all(row["warmth"] is not None for row in sources):
        warmth = math.fsum(row["warmth"] * row["images"] for row in sources) / images
    return calibrated_by_means(head, warmth)


def _layers(inputs: list[_Input]) -> tuple[str, tuple[Changes, ...]]:
    """What became of trained layers, and the changes of each network; the first of `inputs` is largest."""
    every = [one.delta.parts for one in inputs]
    first = tuple(Changes(p.backbone, p.backbone_name, p.slices, **p.backend_fields) for p in every[0])
    plans = [[(*_how(p), *map(_place, p.slices)) for p in parts] for parts in every]
    if any(plan != plans[0] for plan in plans):
        return KEPT, first
    if not any(part.slices for part in first):
        return UNTRAINED, first
    weights = [one.images for one in inputs]
    found = tuple(
        replace(
            part, slices=tuple(_mean(same, weights) for same in zip(*(p.slices for p in parts), strict=True))
        )
        for part, *parts in zip(first, *every, strict=True)
    )
    values = [b"".join(s.values.tobytes() for part in parts for s in part.slices) for parts in every]
    return (SAME, first) if len({*values}) == 1 else (AVERAGED, found)


def _how(part: Changes) -> tuple:
    """In what it is computed."""
    return part.precision, part.codes and written_codes(part.codes)


def _place(s: Slice) -> tuple:
    inputs = None if s.inputs is None else s.inputs.tolist()
    return s.layer, s.part, s.channels.tolist(), inputs, s.values.dtype.str


def _mean(slices: Sequence[Slice], weights: Sequence[int]) -> Slice:
    """The mean by weights; int8 values are whole steps of a scale that all of them share."""
    total = sum(s.values.astype(float) * w for s, w in zip(slices, weights, strict=True)) / sum(weights)
    dtype = slices[0].values.dtype
    return replace(slices[0], values=(np.rint(total) if dtype == np.int8 else total).astype(dtype))


def _other_names(inputs: list[_Input], left_out: list[_Input]) -> Iterator[Conflict]:
    """Deltas with the images of another one, which call them otherwise."""
    for one, other in itertools.product(left_out, inputs):
        if one.sources.keys() == other.sources.keys() and one.named() != other.named():
            text = f"{one.name} has the images of {other.name} under other names, which are not used"
            yield Conflict(SAME_IMAGES, text)


def _same_rows(inputs: list[_Input]) -> list[Conflict]:
    """Pairs that have the embeddings of the same images; where there are only sums, nobody can tell."""
    rows = [
        set() if one.delta.head.embeddings is None else {row.tobytes() for row in one.delta.head.embeddings}
        for one in inputs
    ]
    found = []
    for (a, mine), (b, theirs) in itertools.combinations(zip(inputs, rows, strict=True), 2):
        if both := len(mine & theirs):
            views = a.delta.head.views
            found.append(
                Conflict(
                    SAME_IMAGES,
                    f"{-(-both // views)} images are in {a.name} and in {b.name}, and count twice",
                )
            )
    return found


def _same_names(inputs: list[_Input], placed: list[Moments], classes: Sequence[str]) -> list[Conflict]:
    """Classes whose means in two deltas are as far apart as those of different classes.

    That is more than half of what lies between two classes of one delta, in the median, and what chance adds:
    the variance of an image divided by the number of images.
    """
    means = [m.sums / (np.maximum(m.counts, 1)[:, None] * UNIT) for m in placed]
    known = [np.flatnonzero(m.counts).tolist() for m in placed]
    apart = [
        float(np.square(means[i][k] - means[i][other]).sum())
        for i, own in enumerate(known)
        for k, other in itertools.combinations(own, 2)
    ]
    inside = sum(
        m.counts.sum() - float(m.counts @ np.square(x).sum(axis=1))
        for m, x in zip(placed, means, strict=True)
    )
    variance, usual, found = inside / sum(m.counts.sum() for m in placed), float(np.median(apart)), []
    for k, name in enumerate(classes):
        for i, j in itertools.combinations([i for i, own in enumerate(known) if k in own], 2):
            chance = variance * sum(inputs[x].delta.head.views / placed[x].counts[k] for x in (i, j))
            if np.square(means[i][k] - means[j][k]).sum() > usual / 2 + chance:
                text = (
                    f"{one_line(name, 100)!r} looks like two things in {inputs[i].name} and {inputs[j].name}"
                )
                found.append(Conflict(SAME_NAME, f"{text}: rename it in one of them if so"))
    return found
