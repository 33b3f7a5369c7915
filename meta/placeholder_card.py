"""Judges the placeholder on classes it never saw, and writes its model card."""

import os

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena
from tinytrain.compile import compile_training
from tinytrain.datasets.packs import FOLDER_VARIABLE, load_pack
from tinytrain.datasets.samplers import sample_episode
from tinytrain.datasets.signs import signs
from tinytrain.engine import Trainer, WorkingCopy
from tinytrain.network import Network
from tinytrain.plan import Recipe, Resources, TaskShape

WAY, SHOTS, QUERIES, EPISODES = 5, 5, 10, 60
PACKS = ("gtsrb", "omniglot")


class Embedder:
    """Embeddings of pictures by a network that is not trained."""

    def __init__(self, network: Network):
        recipe = Recipe("none", (), (), steps=0, head="cosine")
        program = compile_training(network, recipe, Resources(0, 1, 1, 1, 1), TaskShape(1, 2))
        self.size = network.embedding_size
        self.pictures: list[np.ndarray] = []
        self.trainer = Trainer(
            program, Arena(program.nbytes), WorkingCopy(network), kernel_table.load(),
            lambda i: self.pictures[i], lambda view, i: None, np.zeros(1, np.int32),
        )  # fmt: skip

    def __call__(self, pictures: list[np.ndarray]) -> np.ndarray:
        """Embeddings (n, d) of uint8 pictures."""
        self.pictures = pictures
        out = np.empty((len(pictures), self.size), np.float32)
        self.trainer.embed([(0, i) for i in range(len(pictures))], out)
        return out


def raw_pixels(pictures: list[np.ndarray]) -> np.ndarray:
    """The pictures themselves as embeddings (n, d)."""
    return np.stack([p.reshape(-1).astype(np.float32) - 127.5 for p in pictures])


def prototype_accuracy(support, support_labels, query, query_labels) -> float:
    """Share of query embeddings (n, d) that lie nearest, by cosine, to the mean of their own class."""
    means = np.stack([support[support_labels == c].mean(axis=0) for c in np.unique(support_labels)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return float(((query @ means.T).argmax(axis=1) == query_labels).mean())


def compare(embedders: dict, dataset, size: int = 128, episodes: int = EPISODES) -> dict[str, tuple[float, float]]:
    """Mean accuracy and its 95 % half-width for every embedder, all on the same episodes."""
    rows = {name: [] for name in embedders}
    for index in range(episodes):
        episode = sample_episode(dataset, WAY, SHOTS, QUERIES, seed=0, index=index)
        sides = (episode.support, episode.query)
        support, query = ([side.read(i, size) for i in range(len(side))] for side in sides)
        for name, embed in embedders.items():
            rows[name].append(
                prototype_accuracy(embed(support), sides[0].labels, embed(query), sides[1].labels)
            )
    return {
        name: (float(np.mean(row)), float(1.96 * np.std(row, ddof=1) / np.sqrt(len(row)))) for name, row in rows.items()
    }
