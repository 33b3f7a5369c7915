"""The same wrong alarm again and again: how many corrections end it, and what they cost.

    python -m tinytrain.meta.studies.repeats --packs someone/ --watched person --way 2 --queries 20 \\
        --out repeats.jsonl
    python -m tinytrain.meta.studies.repeats --summary --out repeats.jsonl

A head is fitted to the support of an episode, on embeddings of the network as it is. Every query of another
class that it surely takes for the class --watched stands before the camera: 24 frames of it, each a little
darker, turned and noisy. A frame that is taken for the watched class again is corrected, as `watch` does it.
"Corrections" are those until the last frame; if there are more than two, an alarm is there "still after two".
"Recall" are queries of the watched class that are taken for it, by the head before and after. Each alarm is
put before a head of its own.
"""

import sys

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.corruptions import darkened, noisy, rotated
from tinytrain.episode.sources import images_of
from tinytrain.heads.head import IDENTIFIED
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.heads import head_of
from tinytrain.meta.studies.study import (
    Study,
    by_pack,
    decoded_episode,
    episodes_option,
    option,
    table,
    task_options,
)
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device

FRAMES = 24
FEW = 2  # corrections that a person makes gladly


def run_job(network, dataset, args, episode: int) -> dict:
    """Recall before, and for each wrong alarm recall after it, and its corrections."""
    drawn = decoded_episode(network, dataset, args, episode)
    if args.watched not in drawn.class_names:
        known = ", ".join(drawn.class_names)
        raise UsageError("usage", f"--watched {args.watched!r} is no class of episode {episode}: {known}")
    watched, kernels, device = drawn.class_names.index(args.watched), kernel_table.load(), Device(threads=1)
    support, queries = (embed(network, side, device) for side in (drawn.support, drawn.query))
    labels, size = drawn.query.labels, network.input.shape
    head = head_of("lda", support, drawn.support.labels)
    alarms = np.flatnonzero(raised(head, queries, watched) & (labels != watched))
    own = queries[labels == watched]
    found = {"recall": raised(head, own, watched).mean(), "after": [], "corrections": []}
    for i in alarms:
        image = drawn.query.read(int(i), size)
        draws = (rng_for(args.seed, "frame", episode, int(i), k) for k in range(FRAMES))
        shown = images_of([seen_again(image, rng) for rng in draws])
        learnt, corrections = head.extended(args.way), 0
        for embedding in embed(network, shown, device):
            if raised(learnt, embedding[None], watched)[0]:
                corrections += 1
                learnt.update(kernels, embedding[None], labels[i : i + 1])
        found["after"].append(raised(learnt, own, watched).mean())
        found["corrections"].append(corrections)
    return found


def seen_again(image: np.ndarray, rng) -> np.ndarray:
    """The uint8 image (h, w, 3) as a camera that does not move sees it another time."""
    changed = darkened(image, rng, factor=rng.uniform(0.8, 1))
    return noisy(rotated(changed, rng, degrees=rng.uniform(-3, 3)), rng, deviation=6)


def raised(head, embeddings: np.ndarray, watched: int) -> np.ndarray:
    """Whether each of the embeddings (n, d) is surely taken for class `watched`."""
    verdicts = [head.verdict(embedding) for embedding in embeddings]
    return np.array([v.state == IDENTIFIED and v.label == watched for v in verdicts])


def summary(rows: list[dict]) -> list[str]:
    """A line for each pack: recall before in per cent and what is lost, corrections of an alarm."""
    lines = []
    for pack, mine in by_pack(rows)[:-1]:
        corrections = np.array([x for row in mine for x in row["corrections"]])
        lost = [100 * (x - row["recall"]) for row in mine for x in row["after"]]
        cells = [mean_interval([100 * row["recall"] for row in mine]).text()]
        if lost:
            cells += [mean_interval(lost).text(signed=True), f"{corrections.mean():.2f}"]
            cells.append(f"{(corrections > FEW).mean():.0%}")
        lines.append((pack, str(len(lost)), *cells, *["-"] * (4 - len(cells))))
    return table(("images", "wrong alarms", "recall", "lost", "corrections", "still after two"), lines)


OPTIONS = (
    option("--watched", "person", "the class whose alarms count"),
    *task_options(),
    episodes_option(30),
)
SETTINGS = ("way", "shots", "queries", "seed", "watched")
main = Study("repeats", __doc__, "small", "someone", run_job, summary, OPTIONS, SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
