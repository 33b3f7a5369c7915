"""How soon a change of a stream is seen, how often one is seen that is none, and what adapting to it gains.

    python -m tinytrain.meta.studies.drift --out drift.jsonl
    python -m tinytrain.meta.studies.drift \\
        --packs gtsrb,omniglot,flowers12,dtd10,pacs_sketch --out drift.jsonl
    python -m tinytrain.meta.studies.drift --summary --out results/drift.jsonl

The network is not adapted. Without labels, the detector sees embeddings and the class means of the support:
in streams of 1,000 images that do not change, in streams that come in bursts of 50 images of one class, from
the start or after 150 mixed images, and in streams whose images from the 101st on are darkened, blurred,
rotated or noisy. With labels, every answer is followed by its label, and the 301st image brings the change:
the labels are permuted, or the images are another world. "Static" learns nothing, "passive" learns every
label, "hybrid" does that and starts from the images since the change when CUSUM finds one in the errors; they
see the same 20 streams or more, and accuracy is that of the 200 images after the change. By default the packs
are the domains on which the constants were settled; the second command is for the targets.
"""

import sys

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.random_streams import rng_for
from tinytrain.drift.detector import DRIFT, Cusum
from tinytrain.drift.refit import refitted
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.meta.studies.heads import DOMAINS, head_of
from tinytrain.meta.studies.streams import CHANGES, CLEAN, Task, pool, task
from tinytrain.meta.studies.study import (
    TASK,
    Study,
    by_pack,
    chosen,
    number,
    percent,
    signed,
    table,
    task_options,
    values_of,
)
from tinytrain.stream.learner import FOLD_ENTRIES

LENGTH, BURST, MIXED = 1000, 50, 150  # images of a stream without a change
BEFORE, SOON = 100, 30  # images before a change of an unlabelled stream, and those in which it should be seen
LABELLED_BEFORE, AFTER = 300, 200  # and of a labelled stream
STEADY = {"no change": LENGTH, "bursts": 0, "bursts later": MIXED}  # the first image that is in a burst
WORLDS = ("permuted labels", "noisy", "blurred", "rotated")
WAYS = ("static", "passive", "hybrid")
HEADS = ("cosine", "lda", "knn")  # of the labelled streams


def run_job(network, dataset, args, episode: int, labels: str) -> dict:
    """What is found in the streams of one episode: without labels, or with those and the head `labels`."""
    drawn = task(pool(network, dataset), args, episode)
    with np.errstate(all="ignore"):
        if labels == "none":
            return {"found": unlabelled(drawn, args.seed, episode)}
        return {"found": {world: labelled(drawn, labels, world, args.seed, episode) for world in WORLDS}}


def unlabelled(drawn: Task, seed: int, episode: int) -> dict:
    """Places of the alarms in streams without labels, by stream; in the others counted from the change."""
    rng, found = rng_for(seed, "unlabelled streams", drawn.pool.images.name, episode), {}
    clean = drawn.pool.embeddings[CLEAN]
    for kind, first in STEADY.items():
        classes = rng.integers(drawn.way, size=LENGTH)
        classes[first:] = np.repeat(rng.integers(drawn.way, size=LENGTH // BURST), BURST)[first:]
        found[kind] = {"alarms": alarms(clean[drawn.drawn(classes, rng)], drawn.centres)}
    for kind in CHANGES:
        before, after = (drawn.drawn(rng.integers(drawn.way, size=n), rng) for n in (BEFORE, AFTER))
        stream = np.concatenate([clean[before], drawn.pool.embeddings[kind][after]])
        places = [place - BEFORE for place in alarms(stream, drawn.centres)]
        found[kind] = {"alarms": places, "lost": lost(drawn, kind)}
    return found


def alarms(stream: np.ndarray, centres: np.ndarray) -> list[int]:
    detector = UnlabelledDrift(stream.shape[1])
    return [place for place, e in enumerate(stream) if detector.update(e, centres) == DRIFT]


def lost(drawn: Task, kind: str) -> float:
    """The fraction of all query images by which a change lowers the accuracy of cosine prototypes."""
    centres, truth = drawn.centres, np.repeat(np.arange(drawn.way), [len(q) for q in drawn.queries])
    unit = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    shown = (drawn.pool.embeddings[name][np.concatenate(drawn.queries)] for name in (CLEAN, kind))
    right = [float(((embeddings @ unit.T).argmax(axis=1) == truth).mean()) for embeddings in shown]
    return right[0] - right[1]


def labelled(drawn: Task, head: str, world: str, seed: int, episode: int) -> dict:
    """Accuracy after a change of each way to deal with it, and the alarms of the hybrid one."""
    rng = rng_for(seed, "labelled streams", drawn.pool.images.name, world, episode)
    classes = rng.integers(drawn.way, size=LABELLED_BEFORE + AFTER)
    chosen, truth = drawn.drawn(classes, rng), classes.astype(np.int32)
    stream = drawn.pool.embeddings[CLEAN][chosen].copy()
    if world in CHANGES:
        stream[LABELLED_BEFORE:] = drawn.pool.embeddings[world][chosen[LABELLED_BEFORE:]]
    else:  # a permutation that leaves no label as it was
        truth[LABELLED_BEFORE:] = (truth[LABELLED_BEFORE:] + rng.integers(1, drawn.way)) % drawn.way
    found = {way: run_stream(drawn, head, stream, truth, way) for way in WAYS}
    accuracy = {way: float(np.mean(right[LABELLED_BEFORE:])) for way, (right, _) in found.items()}
    return {**accuracy, "alarms": [place - LABELLED_BEFORE for place in found["hybrid"][1]]}


def run_stream(drawn: Task, head: str, stream: np.ndarray, truth: np.ndarray, way: str):
    """Whether each answer was right, and where the hybrid way found a change."""
    kernels = kernel_table.load()
    learner = head_of(head, drawn.support, drawn.labels).extended(drawn.way)
    detector, right, places = Cusum(), [], []
    for place, (e, label) in enumerate(zip(stream, truth.tolist(), strict=True)):
        right.append(int(learner.logits(e[None])[0].argmax()) == label)
        if way == "static":
            continue
        learner.update(kernels, e[None], np.array([label], np.int32))
        if way == "hybrid" and detector.update(not right[-1]) == DRIFT:
            places.append(place)
            learnt = slice(max(0, place + 1 - FOLD_ENTRIES), place + 1)  # what a journal holds
            since = stream[learnt], truth[learnt], detector.since
            learner = refitted(learner, kernels, *since, drawn.way) or learner
    return right, places


def jobs(args) -> list[dict]:
    """All of a pack first, as its embeddings are at hand. Labelled streams take longer, and are fewer."""
    found = []
    for pack in args.packs.split(","):
        found += [{"pack": pack, "episode": k, "labels": "none"} for k in range(args.episodes)]
        found += [{"pack": pack, "episode": k, "labels": h} for h in HEADS for k in range(args.labelled)]
    return found


def summary(rows: list[dict]) -> list[str]:
    """Without labels a row for each pack, with labels a row for each head and change."""
    free, lines = chosen(rows, labels="none"), []
    if free:
        parts = by_pack(free)
        lines += ["Without labels, streams with an alarm although nothing changed:", ""]
        body = [(name, str(len(some)), *(_false(some, k) for k in STEADY)) for name, some in parts]
        lines += [*table(("", "streams of each kind", *STEADY), body), ""]
        lines += [f"Without labels, alarms in the {SOON} images after a change:", ""]
        body = [(kind, *_seen(free, kind), *(_soon(some, kind) for _, some in parts)) for kind in CHANGES]
        lines += [*table(("", "accuracy lost", "median delay", *(name for name, _ in parts)), body), ""]
    heads = [head for head in values_of(rows, "labels") if head != "none"]
    body = [_labelled_line(chosen(rows, labels=h), w) for h in heads for w in WORLDS]
    return [*lines, "With labels:", "", *table(LABELLED_HEADER, body), ""] if body else lines


LABELLED_HEADER = (
    "head", "change", "streams", *WAYS, "hybrid - passive", "passive - static", "alarms before", "found",
    "median delay",
)  # fmt: skip


def _false(rows: list[dict], kind: str) -> str:
    return str(sum(bool(row["found"][kind]["alarms"]) for row in rows))


def _delays(rows: list[dict], kind: str) -> list[int]:
    """Images up to and with the first alarm after a change."""
    places = ([p for p in row["found"][kind]["alarms"] if p >= 0] for row in rows)
    return [1 + min(after) for after in places if after]


def _soon(rows: list[dict], kind: str) -> str:
    return f"{100 * sum(delay <= SOON for delay in _delays(rows, kind)) / len(rows):.0f} %"


def _seen(rows: list[dict], kind: str) -> tuple[str, str]:
    return percent([row["found"][kind]["lost"] for row in rows]), _median(_delays(rows, kind))


def _median(delays: list[int]) -> str:
    return f"{np.median(delays):.0f}" if delays else "never"


def _labelled_line(rows: list[dict], world: str) -> tuple[str, ...]:
    found = [row["found"][world] for row in rows]
    points = {way: 100 * np.array([one[way] for one in found]) for way in WAYS}
    early = sum(any(place < 0 for place in one["alarms"]) for one in found)
    delays = _delays(rows, world)
    return (
        rows[0]["labels"], world, str(len(rows)), *(f"{points[way].mean():.1f}" for way in WAYS),
        signed(points["hybrid"] - points["passive"]), signed(points["passive"] - points["static"]),
        str(early), str(len(delays)), _median(delays),
    )  # fmt: skip


OPTIONS = (
    number("--episodes", 10, "unlabelled ones of a pack"),
    number("--labelled", 3, "labelled ones of a pack and head"),
    *task_options(queries=15, seed=0),
)  # fmt: skip
main = Study("drift", __doc__, "mcunet-5fps", DOMAINS, run_job, summary, OPTIONS, TASK, jobs)


if __name__ == "__main__":
    sys.exit(main())
