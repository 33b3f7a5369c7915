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

from tinytrain.base import schema
from tinytrain.base.class_names import MAX_CLASSES, wrong_class_names
from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.delta.delta import NAMED, Changes, Delta, Slice
from tinytrain.delta.file import MAX_VIEWS
from tinytrain.delta.vouching import LEAST, Votes, votes_on
from tinytrain.heads.by_means import calibrated_by_means, warmth_of
from tinytrain.heads.moments import MOST, UNIT, Moments
from tinytrain.heads.scatter_head import ScatterHead, ScatterMethod
from tinytrain.heads.triangle import diagonal_places
from tinytrain.network.codes_json import written_codes

# Of a source: the digest of its sums, how many images, and how sure it was. Of a merged delta: all of them.
WARMTH = schema.optional(schema.number(1e-300, MOST))
SOURCE = schema.holding({"sums": schema.text, "images": schema.count(1, MOST), "warmth": WARMTH})
MERGED = schema.holding({"sums": schema.text, "sources": schema.list_of(SOURCE, most=MOST)})
# What became of trained layers:
UNTRAINED, SAME, AVERAGED, KEPT = "untrained", "same", "averaged", "kept"
ROUNDING = 1e-3  # of what is compared with a length of 1
# Kinds of conflicts:
SAME_IMAGES, SAME_NAME = "same-images", "same-name"


class Conflict(NamedTuple):
    """Something to look at: one of SAME_IMAGES and SAME_NAME, and a sentence."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Merged:
    """The `delta` of all, and what happened: `names` are those that were merged, with `images` of each.

    `left_out` are names of those whose images are all in others, `outvoted` of those that most others
    contradict. `layers` is one of UNTRAINED, SAME, AVERAGED and KEPT, those of the one with most images,
    `largest`. `without_replay`: a replay memory was left out.
    """

    delta: Delta
    names: tuple[str, ...]
    images: tuple[int, ...]
    left_out: tuple[str, ...]
    outvoted: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    layers: str
    largest: str
    without_replay: bool


class _Input(NamedTuple):
    """A delta that is merged: its `name`, its `moments`, their `digest`, and those that they were made of."""

    name: str
    delta: Delta
    moments: Moments
    digest: str
    sources: dict[str, dict]

    @property
    def images(self) -> int:
        return _images(self.sources.values())

    def at(self, classes: Sequence[str]) -> Moments:
        """The moments, with these classes of all."""
        return self.moments.at([classes.index(name) for name in self.delta.class_names], len(classes))

    def named(self) -> dict[str, bytes]:
        """The sums of each class."""
        return dict(zip(self.delta.class_names, map(bytes, self.moments.sums), strict=True))


def merge(kernels, deltas: Sequence[Delta], names: Sequence[str], robust: bool = False) -> Merged:
    """One delta of several for the same network, which messages call `names`.

    If it is to be `robust`, who is outvoted in a class (`delta.vouching`) is left out, and every class must
    be held by three or more. Raises InputError ``backbone-mismatch``, ``class-names`` or ``bad-value``,
    UsageError ``unsupported``.
    """
    inputs = [_input(*pair) for pair in zip(names, deltas, strict=True)]
    _check(inputs)
    inputs, left_out = _once(inputs, robust)
    classes = classes_of_all(one.delta.class_names for one in inputs)
    outvoted = ()
    if robust:
        kept = _vouched(inputs, classes)
        outvoted = tuple(one.name for one in inputs if one not in kept)
        inputs, more = _once(kept)
        left_out += more
    total = functools.reduce(operator.add, (one.at(classes) for one in inputs))
    sources = dict(sorted(item for one in inputs for item in one.sources.items()))
    head = head_of(kernels, inputs[0].delta.head.method, total, sources.values())
    # In an order of their own: floats are added.
    ordered = sorted(inputs, key=lambda one: (-one.images, min(one.sources)))
    layers, parts = _layers(ordered)
    first = ordered[0].delta
    report = report_of(total, sources.values()) | first.report_of_kind
    forgotten = [one.delta.report["forgotten"] for one in inputs if "forgotten" in one.delta.report]
    if forgotten:
        left = sorted({place for facts in forgotten for place in facts["traces"]})
        report["forgotten"] = {"classes": sum(facts["classes"] for facts in forgotten), "traces": left}
    whole = parts[0] if not first.members else Changes(first.backbone, "", ())
    delta = Delta(
        first.backbone, min(one.delta.backbone_name for one in inputs), whole.slices, head, classes, report,
        members=parts if first.members else (), **whole.backend_fields,
    )  # fmt: skip
    conflicts = *_other_names(inputs, left_out), *_same_rows(inputs), *_same_names(inputs, classes)
    names, images = zip(*((one.name, one.images) for one in inputs), strict=True)
    without = tuple(one.name for one in left_out), outvoted
    replay = any(part.replay for one in inputs for part in one.delta.parts)
    return Merged(delta, names, images, *without, conflicts, layers, ordered[0].name, replay)


def without(kernels, whole: Delta, part: Delta, names: Sequence[str]) -> Delta:
    """The merged delta `whole` as if `part` had not been among its parts; `names` of both are for messages.

    The head is that of the others merged, byte for byte. Layers stay those of `whole`. Raises InputError
    ``bad-value`` if `part` is none of what `whole` was made of, or all of it, and what `merge` raises.
    """
    one, other = (_input(*pair) for pair in zip(names, (whole, part), strict=True))
    _check([one, other])
    sources = {name: row for name, row in one.sources.items() if name not in other.sources}
    if len(sources) != len(one.sources) - len(other.sources) or not sources:
        text = "all" if not sources else "none"
        raise InputError("bad-value", f"{other.name} is {text} of what {one.name} was made of; name one part")
    places = [whole.label_of(name) for name in part.class_names]
    rest = one.moments - other.moments.at(places, len(whole.class_names))
    left = np.flatnonzero(rest.counts)
    rest = Moments(rest.counts[left], rest.sums[left], rest.products)
    head = head_of(kernels, whole.head.method, rest, sources.values())
    names, report = tuple(whole.class_names[k] for k in left), report_of(rest, sources.values())
    return replace(whole, head=head, class_names=names, report=whole.report | report)


def classes_of_all(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The classes of several deltas, sorted. Raises InputError ``class-names`` if they do not go together."""
    classes = tuple(sorted({name for each in names for name in each}))
    if wrong := wrong_class_names(classes):
        raise InputError("class-names", f"{wrong}; give every class a name of its own")
    if len(classes) > MAX_CLASSES:
        text = f"{len(classes)} classes, at most {MAX_CLASSES} fit; merge fewer deltas"
        raise InputError("class-names", text)
    return classes


def sources_of(delta: Delta) -> list[dict]:
    """What a merged delta was made of: the digest of the sums of each part, its images, and its warmth."""
    return list(_sources(delta.report.get("merged"))[0].values())


def digest_of(moments: Moments) -> str:
    """What the sums of these embeddings are called, whatever their classes are: 16 letters."""
    found = hashlib.sha256(moments.products.astype("<i8").tobytes())
    for row in sorted(row.astype("<i8").tobytes() for row in np.column_stack((moments.counts, moments.sums))):
        found.update(row)
    return found.hexdigest()[:16]


def _input(name: str, delta: Delta) -> _Input:
    head = delta.head
    if not isinstance(head, ScatterHead):
        text = f"the head {head.kind}, which has no sums; adapt with --head lda, slda or ridge"
        raise UsageError("unsupported", f"{name} has {text}")
    if head.limit and head.limit.background is not None:
        text = "a background, whose limit sums do not give; merge, then adapt with it"
        raise UsageError("unsupported", f"{name} has {text}")
    moments = head.moments
    check_lengths(name, moments, len(delta.parts))
    digest = digest_of(moments)
    sources, sums = _sources(delta.report.get("merged"))
    if not sources or sums != digest:  # it is no merged one, or has learnt or forgotten since
        images = max(1, round(head.total / head.views) - _images(sources.values()))
        sources[digest] = {"sums": digest, "images": images, "warmth": warmth_of(head)}
    return _Input(name, delta, moments, digest, sources)


def check_lengths(name: str, moments: Moments, networks: int = 1) -> None:
    """Raise InputError unless embeddings of length 1, or of one for each network, may have these sums."""
    longest = networks**0.5 * UNIT * moments.counts
    ratios = np.linalg.norm(moments.sums.astype(float), axis=1) / np.maximum(longest, 1)
    trace = float(moments.products[diagonal_places(moments.sums.shape[1])].sum())
    # Of classes that were forgotten their share of the products goes, which is that of an average class.
    times = max(ratios.max(), trace / (2 * networks * UNIT * moments.counts.sum()))
    if times > 1 + ROUNDING:
        text = f"{name}: its sums are {times:.2g} times as large as those of so many images can be"
        raise InputError("bad-value", f"{text}; make the delta again, or leave it out")


def _images(sources: Iterable[dict]) -> int:
    return sum(row["images"] for row in sources)


def _sources(merged) -> tuple[dict[str, dict], str | None]:
    """What a delta was merged of, and how its sums were called then, if a report says so in `merged`."""
    try:
        found = MERGED(merged, "")
    except schema.WrongError:
        return {}, None
    return {row["sums"]: row for row in found["sources"]}, found["sums"]


def _check(inputs: list[_Input]) -> None:
    first = inputs[0]
    for one in inputs[1:]:
        a, b = first.delta, one.delta
        if b.backbone != a.backbone:
            text = f"{first.name} belongs to {a.backbone_name} ({a.backbone[:12]}), {one.name} to"
            text += f" {b.backbone_name} ({b.backbone[:12]}); merge those of one"
            raise InputError("backbone-mismatch", text)
        if b.head.kind != a.head.kind:
            text = f"{first.name} has head {a.head.kind}, {one.name} has {b.head.kind}"
            raise UsageError("unsupported", f"{text}; merge deltas with one head")


def _once(inputs: list[_Input], robust: bool = False) -> tuple[list[_Input], list[_Input]]:
    """Those that are not a part of another one, and the others.

    Of two that have the same under different names one is a liar: if it is to be `robust`, both stay.

    Raises InputError ``bad-value`` if two overlap: what they share is there in sums alone.
    """
    kept: list[_Input] = []
    left_out = []
    for one in sorted(inputs, key=lambda one: (-len(one.sources), one.delta.class_names)):
        shared = [(other, one.sources.keys() & other.sources.keys()) for other in kept]
        part_of = [other for other, both in shared if len(both) == len(one.sources)]
        if part_of and not (robust and all(_renamed(one, other) for other in part_of)):
            left_out.append(one)
            continue
        for other, both in shared:
            if both and other not in part_of:
                text = f"{other.name} and {one.name} share {len(both)} of what they were made of, which would"
                raise InputError("bad-value", f"{text} count twice; merge what these were made of")
        kept.append(one)
    return [one for one in inputs if one in kept], left_out


def head_of(kernels, method: ScatterMethod, moments: Moments, sources: Iterable[dict]) -> ScatterHead:
    """The head of all embeddings: as sure as those of the `sources` are on average."""
    views = min(MAX_VIEWS, max(1, round(int(moments.counts.sum()) / _images(sources))))
    return calibrated_by_means(method.of_moments(kernels, moments, views=views), _warmth(sources))


def report_of(moments: Moments, sources: Iterable[dict]) -> dict:
    """What the report of a delta says that has these sums of these `sources`."""
    return {"merged": {"sums": digest_of(moments), "sources": list(sources)}}


def source_of(delta: Delta, name: str = "the delta") -> dict:
    """All of `delta` as one source. Raises what `merge` does."""
    one = _input(name, delta)
    return {"sums": one.digest, "images": one.images, "warmth": _warmth(one.sources.values())}


def _warmth(sources: Iterable[dict]) -> float | None:
    """That of all `sources`, by images; None if one is not known."""
    if any(row["warmth"] is None for row in sources):
        return None
    return math.fsum(row["warmth"] * row["images"] for row in sources) / _images(sources)


def _layers(inputs: list[_Input]) -> tuple[str, tuple[Changes, ...]]:
    """What became of trained layers, and the changes of each network; the first of `inputs` is largest."""
    every = [one.delta.parts for one in inputs]
    first = tuple(Changes(p.backbone, p.backbone_name, p.slices, **p.backend_fields) for p in every[0])
    plans = [[_plan(part) for part in parts] for parts in every]
    if any(plan != plans[0] for plan in plans):
        return KEPT, first
    if not any(part.slices for part in first):
        return UNTRAINED, first
    weights = [one.images for one in inputs]
    places = ([part.slices for part in parts] for parts in zip(*every, strict=True))
    means = (tuple(_mean(same, weights) for same in zip(*slices, strict=True)) for slices in places)
    found = tuple(replace(part, slices=mean) for part, mean in zip(first, means, strict=True))
    values = [b"".join(s.values.tobytes() for part in parts for s in part.slices) for parts in every]
    return (SAME, first) if len({*values}) == 1 else (AVERAGED, found)


def _plan(part: Changes) -> tuple:
    """In what it is computed, and where it was trained."""
    places = ((a.tolist() if a is not None else None for a in (s.channels, s.inputs)) for s in part.slices)
    rows = ((s.layer, s.part, s.values.dtype, *at) for s, at in zip(part.slices, places, strict=True))
    return part.precision, part.codes and written_codes(part.codes), *rows


def _mean(slices: Sequence[Slice], weights: Sequence[int]) -> Slice:
    """The mean by weights; int8 values are whole steps of a scale that all of them share."""
    total = sum(s.values.astype(float) * w for s, w in zip(slices, weights, strict=True)) / sum(weights)
    dtype = slices[0].values.dtype
    return replace(slices[0], values=(np.rint(total) if dtype == np.int8 else total).astype(dtype))


def _renamed(one: _Input, other: _Input) -> bool:
    """Whether they have the same sums, under other names."""
    return one.sources.keys() == other.sources.keys() and one.named() != other.named()


def _other_names(inputs: list[_Input], left_out: list[_Input]) -> Iterator[Conflict]:
    """Deltas with the images of another one, which call them otherwise."""
    for one, other in itertools.product(left_out, inputs):
        if _renamed(one, other):
            text = f"{one.name} has the images of {other.name} under other names, which are not used"
            yield Conflict(SAME_IMAGES, text)


def _same_rows(inputs: list[_Input]) -> Iterator[Conflict]:
    """Pairs that have embeddings of the same images, or the same sums of a class; others nobody can tell."""
    heads = [one.delta.head for one in inputs]
    rows = [set() if head.embeddings is None else {*map(bytes, head.embeddings)} for head in heads]
    for (a, mine), (b, theirs) in itertools.combinations(zip(inputs, rows, strict=True), 2):
        if both := len(mine & theirs):
            what = f"{-(-both // a.delta.head.views)} images are"
        elif both := len({*a.named().values()} & {*b.named().values()}):
            what = f"the sums of {both} classes are"
        else:
            continue
        yield Conflict(SAME_IMAGES, f"{what} in {a.name} and in {b.name}, and count twice")


def _same_names(inputs: list[_Input], classes: Sequence[str]) -> Iterator[Conflict]:
    """What two deltas mean by a class, or one of several, is as different as different classes are."""
    votes = _votes(inputs, classes)
    for name, (held, far) in zip(classes, votes, strict=True):
        if len(held) < LEAST and far.any():
            one, other = (inputs[i].name for i in held)
            text = f"{one_line(name, 100)!r} looks like two things in {one} and {other}"
            yield Conflict(SAME_NAME, f"{text}: rename it in one of them if so")
    for i, lost in _outvoted(votes).items():
        names = ", ".join(one_line(classes[k], 100) for k in lost[:NAMED])
        text = f"what most others call {names}{' and so on' * (len(lost) > NAMED)} looks otherwise in"
        yield Conflict(SAME_NAME, f"{text} {inputs[i].name}: rename it there, or leave that out (--robust)")


def _votes(inputs: list[_Input], classes: Sequence[str]) -> list[Votes]:
    """Of each class, by all who hold it."""
    return votes_on([one.at(classes) for one in inputs], [one.delta.head.views for one in inputs])


def _outvoted(votes: list[Votes]) -> dict[int, list[int]]:
    """Numbers of deltas, and in which classes most of the others say otherwise."""
    pairs = sorted((i, k) for k, vote in enumerate(votes) for i in vote.outvoted.tolist())
    return {i: [k for _, k in of] for i, of in itertools.groupby(pairs, key=operator.itemgetter(0))}


def _vouched(inputs: list[_Input], classes: Sequence[str]) -> list[_Input]:
    """Those that are outvoted in no class; who is outvoted in most classes goes first, and all vote again.

    Raises InputError ``bad-value`` for a class that fewer than LEAST hold, or of which not most agree.
    """
    kept, votes = list(inputs), _votes(inputs, classes)
    whole = [(name, len(vote.held)) for name, vote in zip(classes, votes, strict=True)]
    for name, number in whole:
        if number < LEAST:
            text = f"class {one_line(name, 100)!r} is held by {number} of {len(inputs)} deltas, and nobody"
            text += f" can vouch for it unless {LEAST} hold it; merge more, or without --robust"
            raise InputError("bad-value", text)
    while lost := _outvoted(votes):
        kept.pop(max(lost, key=lambda i: (len(lost[i]), kept[i].digest)))
        votes = _votes(kept, classes)
        for (name, number), vote in zip(whole, votes, strict=True):
            if 2 * len(vote.held) <= number:
                text = f"{number - len(vote.held)} of {number} deltas mean something else by"
                text += f" {one_line(name, 100)!r} than the others, and nobody can tell who is right; look at"
                raise InputError("bad-value", f"{text} them with --check, and leave out the wrong ones")
    return kept
