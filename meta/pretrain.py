"""Pre-training from random weights: classes, or the embeddings of a teacher.

No normalisation layer and no batch statistics: the data-dependent first weights (every channel has mean 0
and variance 1 once, on a sample) do what normalisation would do in the first step, and rates relative to a
layer's weights do what it would do later. The network is plain and folded at every moment, so nothing has to
be converted at the end. Scaled weight standardisation would add a second set of weights and a chain rule
for the same effect.
"""

import numpy as np

from tinytrain.errors import InputError
from tinytrain.meta.architecture import architecture, initial_network
from tinytrain.meta.batches import Batch, mixed_batch
from tinytrain.meta.losses import class_loss, cosine_loss, relational_loss
from tinytrain.meta.recipe import PretrainRecipe
from tinytrain.meta.sources import Source
from tinytrain.meta.task import Task
from tinytrain.meta.validate import Validator
from tinytrain.meta.whole import Whole
from tinytrain.network import Network
from tinytrain.pictures import fit
from tinytrain.seeds import rng_for
from tinytrain.topology import check_layers

SAMPLE = 48  # pictures that first weights are fitted to
CENTRED = 512  # pictures that the teacher's mean embedding is taken over
LOSSES = {"cosine": cosine_loss, "relational": relational_loss}


def sample_batch(recipe: PretrainRecipe, sources: list[Source], count: int, number: int) -> np.ndarray:
    """`count` augmented pictures of the mix, from a stream that training does not use."""
    firsts = first_classes(sources)
    looks, size = recipe.augmentation, recipe.architecture.size
    return mixed_batch(sources, firsts, looks, size, count, recipe.seed + 1, number).pictures


def first_classes(sources: list[Source]) -> list[int]:
    """Number of the first class of each source among the classes of all."""
    counts = [s.train.n_classes for s in sources]
    return [sum(counts[:k]) for k in range(len(counts))]


class Teacher:
    """Embeddings of a published network, less their mean over a sample where they are centred."""

    def __init__(self, network: Network, recipe: PretrainRecipe, sources: list[Source], lanes: int = 1):
        self.size = network.preprocessing.size
        self.whole = Whole(network, recipe.batch, lanes=lanes, trained=False)
        self.mean = np.float32(0)
        if recipe.centre:
            pictures = sample_batch(recipe, sources, CENTRED, 1)
            self.mean = self(pictures).mean(axis=0)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """Embeddings (n, d) of the very pictures that the student sees."""
        if pictures.shape[1] != self.size:
            pictures = np.stack([fit(p, self.size) for p in pictures])
        return self.whole.embed(pictures) - self.mean


class PretrainTask(Task):
    """Weights and biases, and without a teacher the rows of a cosine classifier."""

    def __init__(
        self, recipe: PretrainRecipe, sources: list[Source], validator: Validator,
        teacher: Network | None = None, lanes: int = 1,
    ):  # fmt: skip
        shape = recipe.architecture
        check_layers(architecture(shape.size, shape.stem, shape.blocks))
        sample = sample_batch(recipe, sources, SAMPLE, 0)
        network = initial_network(recipe.seed, sample, shape.stem, shape.blocks)
        width = network.embedding_size
        if teacher and recipe.loss == "cosine" and teacher.embedding_size != width:
            raise InputError(
                "teacher-size",
                f"the teacher's embedding has {teacher.embedding_size} values, the network's {width};"
                " make them equal or use loss: relational",
            )
        self.head = (0 if teacher else sum(s.train.n_classes for s in sources), width)
        head = rng_for(recipe.seed, "head").standard_normal(self.head[0] * width, np.float32)
        super().__init__(network, recipe, validator, recipe.batch, lanes, head, recipe.head_rate)
        self.sources, self.firsts = sources, first_classes(sources)
        self.teacher = Teacher(teacher, recipe, sources, lanes) if teacher else None

    def close(self) -> None:
        super().close()
        if self.teacher:
            self.teacher.whole.close()

    def batch(self, number: int) -> Batch:
        r, size = self.recipe, self.network.preprocessing.size
        return mixed_batch(self.sources, self.firsts, r.augmentation, size, r.batch, r.seed, number)

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        self.whole.values = values[: self.size]
        embeddings = self.whole.forward(batch.pictures)
        if self.teacher:
            loss = LOSSES[self.recipe.loss](embeddings, self.teacher(batch.pictures))
        else:
            head = values[self.size :].reshape(self.head)
            loss = class_loss(embeddings, batch.labels, head, self.recipe.temperature.start)
        self.whole.backward(loss.gradient)
        return loss.value, loss.accuracy, np.concatenate([self.whole.gradient, loss.extra])
