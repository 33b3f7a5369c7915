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
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.random_streams import rng_for
from tinytrain.drift.cusum import Cusum
from tinytrain.drift.detector import DRIFT
from tinytrain.drift.recent import Recent, fitted, refitted
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.heads.registry import find_head
from tinytrain.kernels.blas import one_thread
from tinytrain.meta.bench.document import Table, table_lines
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.streams import CHANGES, CLEAN, Task, pool, task
from tinytrain.meta.studies.study import add_log, run_study, study_parser

DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,fsdd_logmel,signs,leaves,glyphs"
LENGTH, BURST, MIXED = 1000, 50, 150  # images of a stream without a change
BEFORE, SOON = 100, 30  # images before a change of an unlabelled stream, and those in which it should be seen
LABELLED_BEFORE, AFTER = 300, 200  # and of a labelled stream
STEADY = ("no change", "bursts", "bursts later")
WORLDS = ("permuted labels", "noisy", "blurred", "rotated")
WAYS = ("static", "passive", "hybrid")


def run_job(network, dataset, args, episode: int, labels: str) -> dict:
    """What is found in the streams of one episode: without labels, or with those and the head `labels`."""
    drawn = task(pool(network, dataset), args, episode)
    with one_thread(), np.errstate(all="ignore"):
        if labels == "none":
            return {"found": unlabelled(drawn, args.seed, episode)}
        return {"found": {world: labelled(drawn, labels, world, args.seed, episode) for world in WORLDS}}


def unlabelled(drawn: Task, seed: int, episode: int) -> dict:
    """Places of the alarms in streams without labels, by stream; in the others counted from the change."""
    rng, found = rng_for(seed, "unlabelled streams", drawn.pool.images.name, episode), {}
    clean = drawn.pool.embeddings[CLEAN]
    for kind in STEADY:
        classes = rng.integers(drawn.way, size=LENGTH)
        first = {"no change": LENGTH, "bursts": 0, "bursts later": MIXED}[kind]
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
    learner = fitted(find_head(head), kernels, drawn.support, drawn.labels).extended(drawn.way)
    detector, recent, right, places = Cusum(), Recent(stream.shape[1]), [], []
    for place, (e, label) in enumerate(zip(stream, truth.tolist(), strict=True)):
        right.append(int(learner.logits(e[None])[0].argmax()) == label)
        if way == "static":
            continue
        learner.update(kernels, e[None], np.array([label], np.int32))
        recent.add(e, label)
        if way == "hybrid" and detector.update(not right[-1]) == DRIFT:
            places.append(place)
            learner = refitted(learner, kernels, recent, detector.since, drawn.way) or learner
    return right, places


def jobs(args) -> list[dict]:
    """All of a pack first, as its embeddings are at hand. Labelled streams take longer, and are fewer."""
    found = []
    for pack in args.packs.split(","):
        found += [{"pack": pack, "episode": k, "labels": "none"} for k in range(args.episodes)]
        heads = [head for head in args.heads.split(",") if head != "none"]
        found += [{"pack": pack, "episode": k, "labels": h} for h in heads for k in range(args.labelled)]
    return found


def summary(rows: list[dict]) -> list[str]:
    """Without labels a row for each pack, with labels a row for each head and change."""
    free = [row for row in rows if row["labels"] == "none"]
    packs = list(dict.fromkeys(row["pack"] for row in rows))
    lines = []
    if free:
        parts = [(pack, [r for r in free if r["pack"] == pack]) for pack in packs] + [("all", free)]
        lines += ["Without labels, streams with an alarm although nothing changed:", ""]
        body = tuple((name, str(len(some)), *(_false(some, k) for k in STEADY)) for name, some in parts)
        lines += [table_lines(Table(("", "streams of each kind", *STEADY), body)), ""]
        lines += [f"Without labels, alarms in the {SOON} images after a change:", ""]
        body = tuple(
            (kind, *_seen(free, kind), *(_soon(some, kind) for _, some in parts)) for kind in CHANGES
        )
        header = ("", "accuracy lost", "median delay", *packs, "all")
        lines += [table_lines(Table(header, body)), ""]
    heads = list(dict.fromkeys(row["labels"] for row in rows if row["labels"] != "none"))
    body = tuple(_labelled_line([r for r in rows if r["labels"] == h], w) for h in heads for w in WORLDS)
    lines += ["With labels:", "", table_lines(Table(LABELLED_HEADER, body)), ""] if body else []
    return lines


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
    loss, delays = np.mean([row["found"][kind]["lost"] for row in rows]), _delays(rows, kind)
    return f"{100 * loss:.1f}", _median(delays)


def _median(delays: list[int]) -> str:
    return f"{np.median(delays):.0f}" if delays else "never"


def _labelled_line(rows: list[dict], world: str) -> tuple[str, ...]:
    found = [row["found"][world] for row in rows]
    points = {way: 100 * np.array([one[way] for one in found]) for way in WAYS}
    early = sum(any(place < 0 for place in one["alarms"]) for one in found)
    delays = _delays(rows, world)
    return (
        rows[0]["labels"],
        world,
        str(len(rows)),
        *(f"{points[way].mean():.1f}" for way in WAYS),
        _signed(points["hybrid"] - points["passive"]),
        _signed(points["passive"] - points["static"]),
        str(early),
        str(len(delays)),
        _median(delays),
    )


def _signed(differences: np.ndarray) -> str:
    found = mean_interval(differences)
    return f"{found.mean:+.1f}" + ("" if found.half is None else f" ±{found.half:.1f}")


def _known_heads(text: str) -> str:
    for head in text.split(","):
        if head != "none":
            find_head(head)
    return text


def parser() -> Parser:
    p = study_parser("drift", __doc__.split("\n")[0], "mcunet-5fps", DOMAINS)
    add_log(p)
    p.add_argument("--episodes", type=at_least(1), default=10, help="unlabelled ones of a pack")
    p.add_argument("--labelled", type=at_least(1), default=3, help="labelled ones of a pack and head")
    p.add_argument("--heads", type=_known_heads, default="cosine,lda,knn", help="none: no labelled streams")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--shots", type=at_least(1), default=5)
    p.add_argument(
        "--queries", type=at_least(1), default=15, help="images of a class that a stream draws from"
    )
    p.add_argument("--seed", type=at_least(0), default=0)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    run_study(args, jobs, ("way", "shots", "queries", "seed"), run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
