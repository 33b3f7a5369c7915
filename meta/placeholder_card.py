"""Judges the placeholder backbone on classes it never saw, and writes its model card."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena
from tinytrain.atomic import write_bytes
from tinytrain.compile import compile_training
from tinytrain.datasets import open_dataset
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.packs import FOLDER_VARIABLE
from tinytrain.datasets.samplers import sample_episode
from tinytrain.engine import Trainer, WorkingCopy
from tinytrain.network import Network
from tinytrain.plan import Recipe, Resources, TaskShape

WAY, SHOTS, QUERIES, EPISODES = 5, 5, 10, 60
PACKS = ("gtsrb", "omniglot")

Embed = Callable[[Sequence[np.ndarray]], np.ndarray]
Results = dict[str, dict[str, tuple[float, float]]]  # dataset -> embedder -> mean accuracy, half-width


@dataclass(frozen=True)
class Facts:
    """How a backbone was made, in `seconds`; `minutes` is None where the number of episodes was given."""

    seed: int
    episodes: int
    minutes: float | None
    way: int
    shots: int
    queries: int
    classes: range
    per_class: int
    seconds: float


class Embedder:
    """Embeddings of pictures by a network that is not trained."""

    def __init__(self, network: Network):
        recipe = Recipe("none", (), (), steps=0, head="cosine")
        program = compile_training(network, recipe, Resources(0, 1, 1, 1, 1), TaskShape(1, 2))
        self.size, self.pictures = network.embedding_size, []
        self.trainer = Trainer(
            program, Arena(program.nbytes), WorkingCopy(network), kernel_table.load(),
            lambda i: self.pictures[i], lambda view, i: None, np.zeros(1, np.int32),
        )  # fmt: skip

    def __call__(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        """Embeddings (n, d) of uint8 pictures."""
        self.pictures = pictures
        out = np.empty((len(pictures), self.size), np.float32)
        self.trainer.embed([(0, i) for i in range(len(pictures))], out)
        return out


def raw_pixels(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """The pictures themselves as embeddings (n, d)."""
    return np.stack([p.reshape(-1).astype(np.float32) - np.float32(127.5) for p in pictures])


def prototype_accuracy(support, support_labels, query, query_labels) -> float:
    """Share of the query embeddings (n, d) nearest, by cosine, to the class mean of their own class."""
    means = np.stack([support[support_labels == c].mean(axis=0) for c in range(support_labels.max() + 1)])
    means /= np.linalg.norm(means, axis=1, keepdims=True) + np.float32(1e-12)
    return float(((query @ means.T).argmax(axis=1) == query_labels).mean())


def compare(
    embedders: dict[str, Embed],
    dataset: Dataset,
    episodes: int = EPISODES,
    queries: int = QUERIES,
    size: int = 128,
) -> dict[str, tuple[float, float]]:
    """Mean accuracy and half its 95 % interval for every embedder, all on the same episodes."""
    rows = {name: [] for name in embedders}
    for index in range(episodes):
        episode = sample_episode(dataset, WAY, SHOTS, queries, seed=0, index=index)
        support, query = (
            [side.read(i, size) for i in range(len(side))] for side in (episode.support, episode.query)
        )
        for name, embed in embedders.items():
            found = prototype_accuracy(
                embed(support), episode.support.labels, embed(query), episode.query.labels
            )
            rows[name].append(found)
    return {
        name: (float(np.mean(row)), float(1.96 * np.std(row, ddof=1) / np.sqrt(len(row))))
        for name, row in rows.items()
    }


def compare_all(network: Network, first: Network) -> Results:
    """The trained network, its random initialisation and raw pixels on `signs` and, if there, packs."""
    embedders = {"trained": Embedder(network), "random": Embedder(first), "pixels": raw_pixels}
    names = ("signs", *PACKS) if os.environ.get(FOLDER_VARIABLE) else ("signs",)
    return {name: compare(embedders, open_dataset(name)) for name in names}


def card(file: bytes, network: Network, facts: Facts, results: Results) -> str:
    """The model card as Markdown."""
    length = f"--minutes {facts.minutes:g}" if facts.minutes else f"--episodes {facts.episodes}"
    command = f"python -m tinytrain.meta.placeholder {length} --seed {facts.seed}"
    rows = "\n".join(
        f"| {dataset} | "
        + " | ".join(
            f"{100 * row[k][0]:.1f} ± {100 * row[k][1]:.1f}" for k in ("trained", "random", "pixels")
        )
        + " |"
        for dataset, row in results.items()
    )
    return f"""# placeholder

**A placeholder.** A small backbone that makes every command work out of the box until a real one is
there. It was trained from random initialisation on generated pictures alone and has never seen a
photograph: for real work give another backbone with `--backbone`.

- {len(network.layers)} layers, {network.n_weights:,} int8 weights with one scale per output channel,
  {sum(layer.cout for layer in network.layers):,} float32 biases, {network.macs:,} MACs per picture,
  input {network.preprocessing.size} x {network.preprocessing.size} x 3, embedding {network.embedding_size}
- file: {len(file):,} bytes, sha256 `{hashlib.sha256(file).hexdigest()}`
- digest of the network: `{network.digest}`

## Training

`{command}`

{facts.episodes:,} episodes of {facts.way} classes (pictures per class: {facts.shots} support, {
        facts.queries
    } query);
prototype loss, everything trained, Adam. Pictures: the generated domain `signs`, classes
{facts.classes.start} to {facts.classes.stop - 1}, {
        facts.per_class
    } of each; the classes of the default domain (0 to 47) were
left out. Seed {facts.seed}; {
        facts.seconds / 60:.1f} minutes on one thread. The same command gives the same bytes
with the same versions of tinytrain, numpy and numba on the same kind of processor{
        "" if facts.minutes is None else "; this file was trained by the clock, so it does not"
    }.

## Accuracy

{WAY}-way {SHOTS}-shot, {QUERIES} queries per class, cosine prototypes without adaptation, mean of {
        EPISODES
    } episodes in
percent ± half the 95 % interval; no class of these was seen in training.

| data | this backbone | its random initialisation | raw pixels |
|---|---|---|---|
{rows}
"""


def write_card(path: Path, network: Network, facts: Facts, results: Results) -> None:
    """Write the card of the backbone file `path` beside it."""
    text = card(path.read_bytes(), network, facts, results)
    write_bytes(path.with_suffix(".md"), text.encode())
