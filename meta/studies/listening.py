"""Words in a stream of sound: how many are heard in time, and how many false ones in an hour of speech.

    python -m tinytrain.meta.studies.listening --packs wake_words --others other,digits --out listening.jsonl
    python -m tinytrain.meta.studies.listening --summary --out results/listening.jsonl

Packs are folders of clips of words, `--others` folders of speech without any of them. Of each word `--shots`
clips are learnt, and of the first folder of others `--background` clips as the background; the rest of the
others is divided at random. One half makes a stream of `--minutes` by which the threshold for one mistake an
hour is found, the other half one of as long in which mistakes are counted. Clips follow each other in random
order after pauses of 0.1 to 0.6 seconds of soft noise, and again in another order as often as it takes. The
words that were not learnt follow each a clip of the second half; one is a hit if it is named rightly no later
than 0.5 seconds after its end. "Limit" is what the head says, "hour" the threshold for one mistake an hour.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import folder_dataset
from tinytrain.episode.wav import parsed, resampled, samples_of
from tinytrain.meta.bench.statistics import mean_interval
from tinytrain.meta.studies.heads import embedded, head_of
from tinytrain.meta.studies.study import Study, episodes_option, grid, number, option, table
from tinytrain.runtime.embedder import Embedder
from tinytrain.stream.listening import Ear, Trigger, threshold_for

RATES = ("hits", "mistakes")
WAYS = ("limit", "hour")
LATEST, PAUSES, SOFT, WORDS = 0.5, (0.1, 0.6), 60, 10  # seconds, seconds, of 2**15, words of a class


def run_job(network, dataset, args) -> dict:
    """Fractions of hits, and mistakes an hour, for each way and each episode."""
    folders = [folder_dataset(name) for name in args.others.split(",")]
    every, strange = (embedded(network, d, np.arange(len(d))) for d in (dataset, folders[0]))
    embedder, found = Embedder(network), {f"{rate} {way}": [] for way in WAYS for rate in RATES}
    with np.errstate(all="ignore"):
        for episode in range(args.episodes):
            rng = rng_for(args.seed, "listening", episode)
            mine = [rng.permutation(c) for c in dataset.by_class]
            parts = slice(args.shots), slice(args.shots, args.shots + WORDS)
            support, words = (np.concatenate([c[part] for c in mine]) for part in parts)
            orders = [rng.permutation(len(folder)) for folder in folders]
            learnt, orders[0] = np.split(orders[0], [args.background])
            way = len(mine)
            labels = np.concatenate([dataset.labels[support], np.full(len(learnt), way)])
            x = np.concatenate([every[support], strange[learnt]])
            head = head_of("lda", x, labels, way)
            halves = [
                [samples(f, i) for f, order in zip(folders, orders, strict=True) for i in order[side::2]]
                for side in (0, 1)
            ]

            heard = partial(hops, network.input, embedder, head)
            least, minutes = head.limit.least, args.minutes
            ear = Ear(network.input, partial(logits_of, embedder, head), head.limit.score)
            strict, _ = threshold_for(ear, stream(rng, halves[0], minutes), least, 1.0)
            others = heard(stream(rng, halves[1], minutes))
            each = []
            for word in words:
                blocks = [*stream(rng, halves[1], 0.05), samples(dataset, word), pause(rng, 1.0, 1.0)]
                each.append((heard(blocks), sum(map(len, blocks[:-1])), dataset.labels[word]))
            for way_to, threshold in zip(WAYS, (least, strict), strict=True):
                waits = [wait(*word, threshold, ear.rest) for word in each]
                mistakes = sum(1 for _ in named(others, threshold, ear.rest))
                values = (np.array(waits) <= LATEST).mean(), 60 * mistakes / minutes
                for rate, value in zip(RATES, values, strict=True):
                    found[f"{rate} {way_to}"].append(round(float(value), 4))
    return found


def wait(row, end: int, label: int, threshold: float, rest: int) -> float:
    """Seconds from the `end` of a word, in samples, until it is named rightly; infinite if it never is."""
    places = (place for k, place in named(row, threshold, rest) if k == label)
    return (next(places, np.inf) - end) / 16_000


def logits_of(embedder: Embedder, head, item: np.ndarray) -> np.ndarray:
    return head.logits(embedder.embedding(item)[None])[0]


def hops(spec, embedder: Embedder, head, blocks) -> list[tuple[int, float, int]]:
    """The end and the score of each hop of a stream, and the class that the verdict names, -1 for none."""
    last = []

    def logits(item):
        last[:] = [logits_of(embedder, head, item)]
        return last[0]

    ear = Ear(spec, logits, head.limit.score)
    return [
        (end, score, int(last[0].argmax()) if head.limit.admits(last[0]) else -1)
        for block in blocks
        for end, score in ear.hear(block)
    ]


def named(row, threshold: float, rest: int) -> Iterator[tuple[int, int]]:
    """The class and the place, in samples, of each word of a row of `hops` that is given and named."""
    trigger = Trigger(threshold, rest)
    for end, score, label in row:
        if trigger.fires(end, score) and label >= 0:
            yield label, end


def stream(rng, clips: list[np.ndarray], minutes: float) -> Iterator[np.ndarray]:
    """Clips in random order, all before any comes again, each after a pause."""
    left = minutes * 60 * 16_000
    while True:
        for i in rng.permutation(len(clips)):
            if left <= 0:
                return
            block = np.concatenate([pause(rng, *PAUSES), clips[i]])
            left -= len(block)
            yield block


def pause(rng, least: float, most: float) -> np.ndarray:
    return (SOFT * rng.standard_normal(int(16_000 * rng.uniform(least, most)))).astype(np.int16)


def samples(dataset, i: int) -> np.ndarray:
    """(n,) int16 of clip i of a folder, 16,000 a second."""
    file = parsed((Path(dataset.provenance.folder) / dataset.names[i]).read_bytes())
    return np.rint(resampled(samples_of(file), file.rate, 16_000).clip(-1, 1) * 32767).astype(np.int16)


def summary(rows: list[dict]) -> list[str]:
    """A line for each way: hits in per cent, mistakes an hour, with their 95 % intervals."""
    found = []
    for row in rows:
        for way in WAYS:
            each = [[(1 if rate == "mistakes" else 100) * x for x in row[f"{rate} {way}"]] for rate in RATES]
            found.append((row["pack"], way, *(mean_interval(values).text() for values in each)))
    return table(("words", "threshold", *RATES), found)


OPTIONS = (
    option("--others", "other,digits", "folders of clips without any of the words, with commas"),
    number("--shots", 5, "clips of each word that are learnt"),
    number("--background", 40, "clips of the first folder of others that are learnt"),
    number("--minutes", 30, "of each stream of others"),
    number("--seed", 7, least=0),
    episodes_option(4),
)
SETTINGS = ("others", "shots", "background", "minutes", "episodes", "seed")
main = Study("listening", __doc__, "speech-embedding", "clips", run_job, summary, OPTIONS, SETTINGS, grid)


if __name__ == "__main__":
    sys.exit(main())
