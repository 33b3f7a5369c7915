"""Made-up tasks for heads: images of classes that are far apart, and those where little is known."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.heads.head import Support
from tinytrain.pipeline.conformance import demand

LONG = 64  # values of an embedding of which a few are fewer numbers than half a square matrix
BATCH = 7  # embeddings handed to a head at a time


@dataclass(frozen=True)
class Task:
    """Unit embeddings (n, d) with labels (n,) of `way` classes, and how messages call it."""

    name: str
    embeddings: np.ndarray
    labels: np.ndarray
    way: int

    def part(self, chosen) -> "Task":
        return replace(self, embeddings=self.embeddings[chosen], labels=self.labels[chosen])

    def support(self, who: str) -> Support:
        """In batches that share their memory, as in an adaptation. `who` must not write to them."""

        def batches():
            room = np.empty((BATCH, self.embeddings.shape[1]), np.float32)
            for first in range(0, len(self.labels), BATCH):
                part = slice(first, first + BATCH)
                batch = room[: len(self.labels[part])]
                batch[:] = self.embeddings[part]
                yield batch, self.labels[part]
                untouched = np.array_equal(batch, self.embeddings[part])
                demand(untouched, who, "writes to the embeddings that it is fitted to")

        return Support(batches, batches, np.bincount(self.labels, minlength=self.way))


def made_up(way: int, size: int, shots: int, seed: int = 0, name: str = "an ordinary task") -> Task:
    """Images of classes that are far apart; `seed` draws other images of the same classes."""
    labels = np.tile(np.arange(way, dtype=np.int32), shots)
    centres = rng_for(0, "centres of classes").standard_normal((way, size))
    noise = rng_for(seed, "images of classes").standard_normal((len(labels), size))
    embeddings = 3 * centres[labels] + noise / 2
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return Task(name, embeddings.astype(np.float32), labels, way)


def degenerate() -> list[Task]:
    """Tasks that come up where little is known."""
    task = made_up(3, 6, 4)
    return [
        made_up(3, 6, 1, name="one image of each class"),
        replace(task, name="images that are all alike", embeddings=np.full((12, 6), 6**-0.5, np.float32)),
        replace(task, name="embeddings of zero", embeddings=np.zeros((12, 6), np.float32)),
        made_up(2, 3, 2, name="two classes"),
        made_up(200, 8, 2, name="200 classes"),
        made_up(3, LONG, 2, name="few images with long embeddings"),
    ]
