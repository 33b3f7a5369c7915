"""Meta-training: few-shot episodes of many domains through the whole network, with the engine.

With ``head: cosine`` prototypes are class means of support embeddings, and the loss is the cross-entropy of
scaled cosines of the query embeddings (Snell et al. 2017; scale as in Hu et al. 2022). With ``head: lda`` it
is that of the head that the device uses (compare Bertinetto et al. 2019, R2-D2). The exact gradient goes
through support and queries.
"""

import numpy as np

from tinytrain.meta.training.batches import Batch, episode_batch
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import cosine_loss, episode_loss, lda_loss
from tinytrain.meta.training.recipe import EpisodeSettings, MetaRecipe
from tinytrain.meta.training.sources import Source
from tinytrain.meta.training.task import Task
from tinytrain.meta.training.validate import Validator
from tinytrain.network.network import Network

LEAST_SCALE = 1.0
HEADS = {"cosine": episode_loss, "lda": lda_loss}
MAX_WAYS, MAX_QUERIES = 50, 10  # of the Meta-Dataset sampler


def capacity_of(settings: EpisodeSettings) -> int:
    """The most images that an episode may have."""
    if settings.sampler == "fixed":
        return settings.way * (settings.shots + settings.queries)
    return settings.max_support + min(MAX_WAYS, settings.max_support) * MAX_QUERIES


class MetaTask(Task):
    """Weights, biases and the scale of the cosines, which is the last number."""

    def __init__(
        self,
        network: Network,
        recipe: MetaRecipe,
        sources: list[Source],
        validator: Validator,
        workers: int = 1,
    ):
        for source in sources:
            source.check(recipe.episode)
        capacity, scale = capacity_of(recipe.episode), recipe.temperature
        whole = Whole(network, capacity, workers=workers)
        super().__init__(network, recipe, validator, whole, np.array([scale.start]), scale.rate)
        self.sources = sources
        self.start = Whole(network, capacity, workers=workers, trained=False) if recipe.distillation else None

    def close(self) -> None:
        super().close()
        if self.start:
            self.start.close()

    def batch(self, number: int) -> Batch:
        r, size = self.recipe, self.network.input.size
        return episode_batch(self.sources, r.episode, r.augmentation, size, r.seed, number)

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        self.whole.values = values[: self.size]
        (embeddings,) = self.whole.forward(batch.images)
        loss = HEADS[self.recipe.head](embeddings, batch.labels, batch.n_support, float(values[-1]))
        value, gradient = loss.value, loss.gradient
        if self.start:
            near = cosine_loss(embeddings, self.start.embed(batch.images))
            value += self.recipe.distillation * near.value
            gradient = gradient + np.float32(self.recipe.distillation) * near.gradient
        self.whole.backward(gradient)
        return value, loss.accuracy, np.append(self.whole.gradient, loss.extra)

    def constrain(self, values: np.ndarray) -> dict:
        values[-1] = max(values[-1], LEAST_SCALE)
        return {"temperature": round(float(values[-1]), 4)}
