"""How many strangers a delta refuses, and how many images of its own classes it loses by that.

    python -m tinytrain.meta.studies.strangers --backbone tinytrain-small --out strangers.jsonl
    python -m tinytrain.meta.studies.strangers --summary --out results/strangers.jsonl
    python -m tinytrain.meta.studies.strangers --burst 5 --policy none --budget 8MB --out bursts.jsonl

Every episode is adapted to, and its delta gives a verdict on images that it never saw: of its classes, of
other classes of the same pack ("same"), and of the other packs ("other"). An image is refused if the verdict
is "unknown". For each kind of stranger the table has the area under the ROC curve of the energy that the
verdict goes by, the fraction refused, the fraction that a limit would refuse which loses just a tenth of the
images of that episode (nobody knows that limit beforehand), and what answers below a confidence of 60 %
would refuse. "Error" is the expected calibration error in ten bins (mean distance of confidence and accuracy,
weighted by predictions; Guo et al., ICML 2017) over all episodes. Adaptations that the guard refused count
with the head that stands. A run that was stopped goes on where it stopped; --summary prints the figures of a
log.

With --burst N, each episode is adapted to twice with each of the --heads: to its support images, and to N
frames of each of these, which are shifted by up to two pixels and have some noise. The table has what the
second loses or refuses more, in points.
"""

import sys
from dataclasses import replace
from itertools import product

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.datasets.corruptions import noisy
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.heads.head import UNKNOWN
from tinytrain.heads.out_of_distribution import LOST, energy
from tinytrain.heads.registry import find_head
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.study import (
    ADAPTS,
    TARGETS,
    Study,
    adapted,
    by_pack,
    chosen,
    episodes_option,
    grid,
    names_option,
    number,
    numbers,
    option,
    percent,
    strata,
    table,
    task_options,
    values_of,
)
from tinytrain.policies.own import given_policy
from tinytrain.runtime.predict import Predictor

OUTSIDE = 2  # classes of a pack that are not in the episode
BINS = 10
REJECT = 0.6
KINDS = ("same", "other")
SHIFT, NOISE = 2, 4  # of a frame: pixels each way at most, and the deviation of its noise in grey levels


def area_under_roc(own: np.ndarray, strangers: np.ndarray) -> float:
    """Probability that an image of the classes scores higher than a stranger; a tie counts half."""
    above = (own[:, None] > strangers).mean()
    return float(above + (own[:, None] == strangers).mean() / 2)


def run_job(
    network, dataset: Dataset, args, shots: int, episode: int, head: str = "", frames: int = 1
) -> dict:
    """What one delta says of images of its classes and of strangers.

    Without `head` it is the policy's, and each support image comes as so many `frames`.
    """
    drawn = sample_episode(dataset, args.way + OUTSIDE, shots, args.queries, args.seed, episode)
    sides = (drawn.support, drawn.query)
    support, query = (s.take(np.flatnonzero(s.labels < args.way)) for s in sides)
    outside = drawn.query.take(np.flatnonzero(drawn.query.labels >= args.way))
    support = in_frames(support, frames, args.seed) if frames > 1 else support
    known = replace(drawn, support=support, query=query, class_names=drawn.class_names[: args.way])
    policy = given_policy(f"{args.policy}+{head}") if head else None
    report = adapted(network, known, args, episode, policy, train=True)
    delta, predictor = report.delta, Predictor(network, report.delta)
    embedded = {"own": predictor.embed(query), "same": predictor.embed(outside)}
    embedded["other"] = np.concatenate([predictor.embed(i) for i in others(dataset, args, episode)])
    scores = {kind: energies(delta, x) for kind, x in embedded.items()}
    row = {kind: counts(delta, x) for kind, x in embedded.items()}
    tenth = np.quantile(scores["own"], LOST)
    for kind in KINDS:
        row[kind]["area"] = round(area_under_roc(scores["own"], scores[kind]), 4)
        row[kind]["at a tenth"] = round(float((scores[kind] < tenth).mean()), 4)
    facts = {"accepted": report.guard.accepted, "steps": report.plan.recipe.steps}
    row |= facts if head else {"head": delta.head.kind, **facts}
    return {**row, "bins": bins(delta.head.probabilities(embedded["own"]), query.labels)}


def in_frames(images: Images, frames: int, seed: int) -> Images:
    """Each of the images as so many `frames` of a burst, which follow each other."""

    def read(i: int, size) -> np.ndarray:
        image = images.read(i // frames, size)
        rng = rng_for(seed, "frame", images.names[i // frames], i % frames)
        wider = np.pad(image, ((SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), "edge")
        top, left = rng.integers(2 * SHIFT + 1, size=2)
        return noisy(wider[top : top + image.shape[0], left : left + image.shape[1]], rng, NOISE)

    names = tuple(f"{name}, frame {k}" for name in images.names for k in range(frames))
    return Images(np.repeat(images.labels, frames), names, read)


def others(dataset: Dataset, args, episode: int):
    """Images of the other packs, twice as many as a class has queries, of all packs about as many."""
    packs = [open_dataset(name, args.data) for name in args.packs.split(",")]
    packs = [pack for pack in packs if pack.name != dataset.name]
    rng = rng_for(args.seed, "strangers", dataset.name, episode)
    for k, pack in enumerate(packs):
        few = -(-(2 * args.queries - k) // len(packs))
        yield pack.images([rng.choice(len(pack.labels), few, replace=False).tolist()])


def energies(delta: Delta, embeddings: np.ndarray) -> np.ndarray:
    """(n,) energies by the scale of the limit, or largest logits if the head has none."""
    limit, logits = delta.head.limit, delta.head.logits(embeddings)
    return logits.max(axis=1) if limit is None else np.array([energy(row, limit.scale) for row in logits])


def counts(delta: Delta, embeddings: np.ndarray) -> dict:
    """How many of the images there are, how many are refused, and below REJECT."""
    verdicts = [delta.head.verdict(embedding, REJECT) for embedding in embeddings]
    return {
        "n": len(verdicts),
        "refused": sum(verdict.state == UNKNOWN for verdict in verdicts),
        "below": sum(verdict.rejected for verdict in verdicts),
    }


def bins(probabilities: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """Predictions, the sum of their confidence, and how many are right, by confidence in BINS bins."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = [which == b for b in range(BINS)]
    return [[int(p.sum()), round(float(confidence[p].sum()), 4), int(right[p].sum())] for p in parts]


def calibration_error(rows: list[dict]) -> tuple[float, float, float]:
    """Expected calibration error, mean confidence and accuracy over the bins of all `rows`."""
    n, confidence, right = np.sum([row["bins"] for row in rows], axis=0).T
    total = n.sum()
    return float(np.abs(confidence - right).sum() / total), confidence.sum() / total, right.sum() / total


def jobs(args) -> list[dict]:
    """Every pack gets as many episodes with each number of shots, in the order in which they are run."""
    bursts = [{"head": h, "frames": n} for h in args.heads.split(",") for n in (1, args.burst)]
    every = grid(args, episode=range(args.episodes), shots=args.shots)
    return [job | more for job in every for more in (bursts if args.burst else [{}])]


HEADER = (
    "shots", "pack", "episodes", "accuracy", "confidence", "error", "own lost", "strangers",
    "area", "refused", "if a tenth is lost", "by 60 %", "own below 60 %",
)  # fmt: skip
BURSTS = ("head", "shots", "frames", "episodes", "own lost", "own lost by bursts", "same", "other")


def summary(rows: list[dict]) -> list[str]:
    """A line for each number of shots, pack and kind of stranger, and for all packs together.

    Of bursts a line for each head, number of shots and number of frames.
    """
    if "frames" in rows[0]:
        lines = product(*(values_of(rows, key) for key in ("head", "shots", "frames")))
        return table(BURSTS, [_burst_line(rows, *of) for of in lines if of[-1] > 1])
    lines = []
    for shots in sorted({row["shots"] for row in rows}, reverse=True):
        for pack, mine in by_pack(chosen(rows, shots=shots)):
            kinds = [(kind,) for kind in KINDS] + ([KINDS] if pack == "all" else [])
            lines += [(str(shots), pack, *_line(mine, some)) for some in kinds]
    return table(HEADER, lines)


def _burst_line(rows: list[dict], head: str, shots: int, frames: int) -> tuple[str, ...]:
    """Percentage of own images lost with photographs, and how many points more are refused with bursts."""
    mine = chosen(rows, head=head, shots=shots)
    bursts = {(row["pack"], row["episode"]): row for row in chosen(mine, frames=frames)}
    pairs = [
        {"pack": row["pack"], "single": row, "burst": bursts[row["pack"], row["episode"]]}
        for row in chosen(mine, frames=1)
        if (row["pack"], row["episode"]) in bursts
    ]

    def refused(pair: dict, frames: str, kind: str) -> float:
        return 100 * pair[frames][kind]["refused"] / pair[frames][kind]["n"]

    lost = stratified(strata(pairs, lambda pair: refused(pair, "single", "own")))
    more = (
        stratified(strata(pairs, lambda p, k=kind: refused(p, "burst", k) - refused(p, "single", k)))
        for kind in ("own", *KINDS)
    )
    of = (head, str(shots), str(frames), str(len(pairs)))
    return *of, lost.text(), *(interval.text(signed=True) for interval in more)


def _line(rows: list[dict], kinds: tuple[str, ...]) -> tuple[str, ...]:
    error, confidence, accuracy = calibration_error(rows)

    def fraction(kinds, what: str) -> str:
        parts = [[sum(r[kind][key] for r in rows) for key in (what, "n")] for kind in kinds]
        return percent([found / n for found, n in parts])

    def mean(what: str) -> str:
        return percent([row[kind][what] for row in rows for kind in kinds])

    own = ("own",)
    return (
        str(len(rows)), percent(accuracy), percent(confidence), percent(error), fraction(own, "refused"),
        " and ".join(kinds), mean("area"), fraction(kinds, "refused"),
        mean("at a tenth"), fraction(kinds, "below"), fraction(own, "below"),
    )  # fmt: skip


OPTIONS = (
    *ADAPTS,
    number("--burst", None, "frames of each support image, beside its photograph", least=2),
    names_option("--heads", "lda,cosine,knn,oselm-ae", "with --burst, with commas", find_head),
    episodes_option(24, "per pack and number of shots"),
    option("--shots", "5,1", "comma-separated", type=numbers),
    *(o for o in task_options(queries=8, seed=27) if o[0] != "--shots"),
)
SETTINGS = ("policy", "way", "queries", "budget", "seed", "packs", "burst")
main = Study("strangers", __doc__, "tinytrain-small", TARGETS, run_job, summary, OPTIONS, SETTINGS, jobs)


if __name__ == "__main__":
    sys.exit(main())
