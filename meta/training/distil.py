"""Distillation: a trained network learns to embed images as several larger networks do, without labels.

The target of an image is the embedding of every teacher, each centred and of the same size on the average,
side by side, on those principal directions that the student has numbers for. Few-shot heads work with
distances between embeddings, and the principal directions keep these best. The last layer of the student
has no activation, so it starts as the linear map that fits the targets best; all layers then follow it.

The same views of the images come again and again: a teacher then computes each of them only once, which is
what most of the time would go to. (Several teachers and a fitted linear map: Li et al. 2021, URL.)
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.episode.decode import fit
from tinytrain.meta.training.batches import Batch, first_classes, mixed_batch
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import cosine_loss
from tinytrain.meta.training.recipe import DistilRecipe
from tinytrain.meta.training.sources import Source
from tinytrain.meta.training.task import Task
from tinytrain.meta.training.validate import Validator
from tinytrain.network.network import Network

SAMPLE = 2048  # images that means, sizes and principal directions are fitted to
RIDGE = 1e-3  # of the first last layer, as a fraction of the mean variance of its inputs' coordinates


def sized(images: np.ndarray, size: int) -> np.ndarray:
    """Images (n, side, side, 3) as a network of another `size` takes them."""
    return images if images.shape[1] == size else np.stack([fit(image, size) for image in images])


class Teachers:
    """Targets (n, width) float32 of images: all `networks` together, on `width` principal directions.

    `sample` (n, side, side, 3) uint8 is what means, sizes and directions are taken from. Raises InputError
    ``teacher-size`` if the teachers have fewer numbers than the student.
    """

    def __init__(
        self, networks: Sequence[Network], width: int, sample: np.ndarray, capacity: int, workers: int
    ):
        self.wholes = [Whole(net, capacity, workers=workers, trained=False) for net in networks]
        found = self._embedded(sample)
        count = sum(e.shape[1] for e in found)
        if count < width:
            raise InputError(
                "teacher-size",
                f"the teachers' embeddings have {count} values together, the network's has {width};"
                " give more or larger teachers",
            )
        self.means = [e.mean(axis=0, dtype=np.float64) for e in found]
        self.sizes = [
            np.sqrt(((e - mean) ** 2).sum(axis=1).mean()) for e, mean in zip(found, self.means, strict=True)
        ]
        joined = self._joined(found)
        _, vectors = np.linalg.eigh(joined.T @ joined)
        self.directions = np.ascontiguousarray(vectors[:, ::-1][:, :width])
        self.sample_targets = (joined @ self.directions).astype(np.float32)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return (self._joined(self._embedded(images)) @ self.directions).astype(np.float32)

    def _embedded(self, images: np.ndarray) -> list[np.ndarray]:
        return [whole.embed(sized(images, whole.network.input.size)) for whole in self.wholes]

    def _joined(self, embeddings: list[np.ndarray]) -> np.ndarray:
        parts = zip(embeddings, self.means, self.sizes, strict=True)
        return np.concatenate([(e - mean) / size for e, mean, size in parts], axis=1)

    def close(self) -> None:
        for whole in self.wholes:
            whole.close()


def aligned(network: Network, embeddings: np.ndarray, targets: np.ndarray) -> Network:
    """`network` in float32, its last layer followed by the affine map that fits `targets` (n, d) best.

    `embeddings` (n, d) are those of `network`. The map is found by ridge regression. The embedding is a mean
    of the last layer's outputs, so a map of it is a map of that layer.
    """
    x, y = embeddings.astype(np.float64), targets.astype(np.float64)
    middle, wanted = x.mean(axis=0), y.mean(axis=0)
    x, y = x - middle, y - wanted
    covariance = x.T @ x
    covariance[np.diag_indices_from(covariance)] += RIDGE * covariance.trace() / len(covariance)
    matrix = np.linalg.solve(covariance, x.T @ y)
    n = range(len(network.layers))
    weights, biases = [network.float_weight(i) for i in n], list(network.biases)
    weights[-1] = (weights[-1] @ matrix).astype(np.float32)
    biases[-1] = ((biases[-1] - middle) @ matrix + wanted).astype(np.float32)
    return replace(network, weights=tuple(weights), scales=(None,) * len(n), biases=tuple(biases))


class DistilTask(Task):
    """Weights and biases of a network that follows teachers."""

    def __init__(
        self,
        network: Network,
        recipe: DistilRecipe,
        sources: list[Source],
        validator: Validator,
        teachers: Sequence[Network],
        workers: int = 1,
    ):
        last = network.layers[-1]
        if last.residual or last.relu6:
            raise InputError(
                "student-end",
                f"{network.name}: the last layer {last.name} adds its block's input or has an activation,"
                " so it cannot start as a fitted map; take another network",
            )
        self.sources, self.firsts = sources, first_classes(sources)
        self.recipe, self.side = recipe, network.input.size
        self.count = max(1, recipe.views // recipe.batch)
        sample = self._views(SAMPLE, 0, recipe.seed + 1)
        self.teachers = Teachers(teachers, network.embedding_size, sample, recipe.batch, workers)
        start = Whole(network, recipe.batch, workers=workers, trained=False)
        network = aligned(network, start.embed(sample), self.teachers.sample_targets)
        start.close()
        whole = Whole(network, recipe.batch, workers=workers)
        super().__init__(network, recipe, validator, whole, np.empty(0), 0.0)
        self.targets: dict[int, np.ndarray] = {}

    def close(self) -> None:
        super().close()
        self.teachers.close()

    def _views(self, count: int, number: int, seed: int) -> np.ndarray:
        return self._drawn(count, number, seed).images

    def _drawn(self, count: int, number: int, seed: int) -> Batch:
        return mixed_batch(
            self.sources, self.firsts, self.recipe.augmentation, self.side, count, seed, number
        )

    def batch(self, number: int) -> Batch:
        """A batch of views; all of them come once, in another order each time, before one comes again."""
        epoch, place = divmod(number, self.count)
        order = rng_for(self.recipe.seed, "order of views", epoch).permutation(self.count)
        return self._drawn(self.recipe.batch, int(order[place]), self.recipe.seed)

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        if batch.number not in self.targets:
            self.targets[batch.number] = self.teachers(batch.images)
        self.whole.values = values
        (embeddings,) = self.whole.forward(batch.images)
        loss = cosine_loss(embeddings, self.targets[batch.number])
        self.whole.backward(loss.gradient)
        return loss.value, loss.accuracy, self.whole.gradient.copy()
