"""Meta-training: few-shot episodes of many domains through the whole network, with the engine.

With ``head: cosine`` prototypes are class means of support embeddings, and the loss is the cross-entropy of
scaled cosines of the query embeddings (Snell et al. 2017; scale as in Hu et al. 2022). With ``head: lda`` it
is that of the head that the device uses (compare Bertinetto et al. 2019, R2-D2). The exact gradient goes
through support and queries.
"""

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.meta.training.adapted import MOST, Adaptation, with_factors
from tinytrain.meta.training.batches import Batch, episode_batch
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import Loss, cosine_loss, episode_loss, lda_loss
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
    """Weights, biases, logarithms of the layers' factors of learning rates, and the scale of the logits.

    There are factors only if some episodes are adapted to as on the device (see `adapted`).
    """

    def __init__(
        self,
        network: Network,
        recipe: MetaRecipe,
        sources: list[Source],
        validator: Validator,
        workers: int = 1,
    ):
        height, width, channels = network.input.shape
        if (height, channels) != (width, 3):
            raise InputError(
                "unsupported",
                f"{network.name} takes items of {height} x {width} x {channels}; episodes are of square RGB"
                " images, take another network",
            )
        for source in sources:
            source.check(recipe.episode)
        capacity, scale = capacity_of(recipe.episode), recipe.temperature
        whole = Whole(network, capacity, workers=workers)
        adapts = recipe.adaptation.fraction > 0
        factors = [np.log(layer.rate) for layer in network.layers] if adapts else []
        rates = [recipe.adaptation.rate] * len(factors) + [scale.rate]
        super().__init__(network, recipe, validator, whole, np.array([*factors, scale.start]), rates)
        self.sources = sources
        self.adaptation = Adaptation(network, whole.slots, recipe.adaptation, workers) if adapts else None
        self.start = Whole(network, capacity, workers=workers, trained=False) if recipe.distillation else None

    def close(self) -> None:
        super().close()
        if self.start:
            self.start.close()

    def batch(self, number: int) -> Batch:
        r, size = self.recipe, self.network.input.size
        return episode_batch(self.sources, r.episode, r.augmentation, size, r.seed, number)

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        drawn = rng_for(self.recipe.seed, "adapted", batch.number).random()
        if drawn < self.recipe.adaptation.fraction:
            return self._adapted(values, batch)
        loss, embeddings = self._loss(values[: self.size], batch, values[-1])
        value, gradient = loss.value, loss.gradient
        if self.start:
            near = cosine_loss(embeddings, self.start.embed(batch.images))
            value += self.recipe.distillation * near.value
            gradient = gradient + np.float32(self.recipe.distillation) * near.gradient
        self.whole.backward(gradient)
        nothing = np.zeros(len(values) - self.size - 1, np.float32)
        return value, loss.accuracy, np.concatenate([self.whole.gradient, nothing, loss.extra])

    def _adapted(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        """The loss behind an adaptation; of the gradient in the first weights, its first order."""
        first = values[: self.size]
        adapted = self.adaptation(first, np.exp(values[self.size : -1]), batch)
        loss, _ = self._loss(adapted, batch, values[-1])
        self.whole.backward(loss.gradient)
        in_factors = self.adaptation.in_factors(first, adapted, self.whole.gradient)
        return loss.value, loss.accuracy, np.concatenate([self.whole.gradient, in_factors, loss.extra])

    def _loss(self, weights: np.ndarray, batch: Batch, scale: float) -> tuple[Loss, np.ndarray]:
        self.whole.values = weights
        (embeddings,) = self.whole.forward(batch.images)
        return HEADS[self.recipe.head](embeddings, batch.labels, batch.n_support, float(scale)), embeddings

    def constrain(self, values: np.ndarray) -> dict:
        values[-1] = max(values[-1], LEAST_SCALE)
        factors = values[self.size : -1]
        np.clip(factors, -MOST, MOST, out=factors)
        return {"temperature": round(float(values[-1]), 4)}

    def result(self, values: np.ndarray) -> Network:
        network = super().result(values)
        return with_factors(network, np.exp(values[self.size : -1])) if self.adaptation else network
