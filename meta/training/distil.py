"""Distillation: a trained network learns to embed images as several larger networks do, without labels.

What is followed is which images of a batch lie near to which, by the embeddings of all teachers side by side,
each centred and of the same size on the average: few-shot heads work with distances, and the axes are the
student's own. All images of a batch are of one domain. Otherwise the distances between drawings and
photographs, which no task asks for, would hide all others. (Several teachers and kernel alignment: Li et
al. 2021, URL.)

The same batches of views come again and again: a teacher then computes each of them only once, which is what
most of the time would go to.
"""

from collections.abc import Sequence

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.meta.training.batches import Batch, domain_batch, first_classes, mixed_batch, sized
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import alignment_loss, centred_gram
from tinytrain.meta.training.recipe import DistilRecipe
from tinytrain.meta.training.sources import Source
from tinytrain.meta.training.task import Task
from tinytrain.meta.training.validate import Validator
from tinytrain.network.network import Network

SAMPLE = 512  # images that means and sizes of the teachers' embeddings are taken from


class Teachers:
    """Gram matrices (n, n) of images (n, side, side, 3) uint8, by all `networks` together.

    `sample` are images that means and sizes are taken from.
    """

    def __init__(self, networks: Sequence[Network], sample: np.ndarray, capacity: int, workers: int):
        self.wholes = [Whole(net, capacity, workers=workers, trained=False) for net in networks]
        found = self._embedded(sample)
        self.means = [e.mean(axis=0, dtype=np.float64) for e in found]
        self.sizes = [
            np.sqrt(((e - mean) ** 2).sum(axis=1).mean()) for e, mean in zip(found, self.means, strict=True)
        ]

    def __call__(self, images: np.ndarray) -> np.ndarray:
        parts = zip(self._embedded(images), self.means, self.sizes, strict=True)
        return centred_gram(np.concatenate([(e - mean) / size for e, mean, size in parts], axis=1))

    def _embedded(self, images: np.ndarray) -> list[np.ndarray]:
        return [whole.embed(sized(images, whole.network.input.size)) for whole in self.wholes]

    def close(self) -> None:
        for whole in self.wholes:
            whole.close()


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
        self.sources, self.side = sources, network.input.size
        self.count = max(1, recipe.views // recipe.batch)
        looks = recipe.augmentation
        sample = mixed_batch(sources, first_classes(sources), looks, self.side, SAMPLE, recipe.seed + 1, 0)
        self.teachers = Teachers(teachers, sample.images, recipe.batch, workers)
        whole = Whole(network, recipe.batch, workers=workers)
        super().__init__(network, recipe, validator, whole, np.empty(0), 0.0)
        self.targets: dict[int, np.ndarray] = {}

    def close(self) -> None:
        super().close()
        self.teachers.close()

    def batch(self, number: int) -> Batch:
        """A batch of views; all of them come once, in another order each time, before one comes again."""
        epoch, place = divmod(number, self.count)
        order = rng_for(self.recipe.seed, "order of views", epoch).permutation(self.count)
        r = self.recipe
        return domain_batch(self.sources, r.augmentation, self.side, r.batch, r.seed, int(order[place]))

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        if batch.number not in self.targets:
            self.targets[batch.number] = self.teachers(batch.images)
        self.whole.values = values
        (embeddings,) = self.whole.forward(batch.images)
        loss = alignment_loss(embeddings, self.targets[batch.number])
        self.whole.backward(loss.gradient)
        return loss.value, loss.accuracy, self.whole.gradient.copy()
