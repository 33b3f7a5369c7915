"""Pre-training from random weights: classes, or what a teacher computes.

A teacher's embeddings alone leave the first layers of a deep network without a clear task: with feature
distillation (`inner`) every block also follows the output of the teacher's block of the same number (Romero
et al. 2015, FitNets). A gradient that comes through all later blocks drowns that task, so the first `apart`
steps are block-wise distillation: each block learns by itself, from the teacher's own input of that block.

No normalisation layer and no batch statistics: the data-dependent first weights (every channel has mean 0
and variance 1 once, on a sample) do what normalisation would do in the first step, and rates relative to a
layer's weights do what it would do later. The network is plain and folded at every moment, so nothing has to
be converted at the end. Scaled weight standardisation would add a second set of weights and a chain rule
for the same effect.
"""

from collections.abc import Sequence

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.meta.training.architecture import architecture, initial_network
from tinytrain.meta.training.batches import Batch, first_classes, mixed_batch, sized
from tinytrain.meta.training.compact_transformer import compact_transformer, initial_transformer
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import class_loss, cosine_loss, feature_loss, relational_loss
from tinytrain.meta.training.recipe import PretrainRecipe
from tinytrain.meta.training.sources import Source
from tinytrain.meta.training.task import Task
from tinytrain.meta.training.validate import Validator
from tinytrain.network.input_spec import IMAGE
from tinytrain.network.network import Network
from tinytrain.network.node import Node
from tinytrain.network.validation import check_nodes

SAMPLE = 48  # images that first weights are fitted to
CENTRED = 512  # images that the teacher's mean embedding is taken over
LEAST = 0.1
LOSSES = {"cosine": cosine_loss, "relational": relational_loss}


def sample_batch(recipe: PretrainRecipe, sources: list[Source], count: int, number: int) -> np.ndarray:
    """`count` augmented images of the mix, from a stream that training does not use."""
    firsts = first_classes(sources)
    looks, spec = recipe.looks, recipe.architecture.spec
    return mixed_batch(sources, firsts, looks, spec, count, recipe.seed + 1, number).images


def block_ends(layers) -> tuple[int, ...]:
    """The last layer of every inverted bottleneck, in order."""
    n = range(1, len(layers))
    return tuple(i for i in n if i + 1 == len(layers) or layers[i + 1].block != layers[i].block)


def followed_blocks(layers: Sequence[Node], teacher: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """Last layers of the blocks of a student of `layers` and of its teacher.

    Raises InputError ``unsupported`` if they do not match one to one in number and shape.
    """
    both = layers, teacher
    ends = tuple(block_ends(side) for side in both)
    shapes = [
        [(*side[i].out_hw, side[i].cout) for i in found] for side, found in zip(both, ends, strict=True)
    ]
    if shapes[0] != shapes[1]:
        raise InputError(
            "unsupported",
            f"the blocks put out {shapes[0]}, the teacher's {shapes[1]}; make them equal or set inner: 0",
        )
    return ends


class Teacher:
    """Embeddings of a published network, less their mean over a sample if they are centred.

    `spreads` are mean and standard deviation (channels,) of each feature map over that sample; channels
    that hardly move count as moving by LEAST of the mean channel.
    """

    def __init__(
        self, network: Network, recipe: PretrainRecipe, sources: list[Source], workers: int = 1,
        hooks: tuple[int, ...] = (),
    ):  # fmt: skip
        self.size = network.input.size
        self.whole = Whole(network, recipe.batch, workers=workers, trained=False, hooks=hooks)
        embeddings, *found = self.whole.outputs(sized(sample_batch(recipe, sources, CENTRED, 1), self.size))
        self.mean = embeddings.mean(axis=0) if recipe.centre else np.float32(0)
        self.spreads = [_spread(y) for y in found]

    def __call__(self, images: np.ndarray) -> list[np.ndarray]:
        """Embeddings (n, d), then feature maps, of the very images that the student sees."""
        embeddings, *features = self.whole.outputs(sized(images, self.size))
        return [embeddings - self.mean, *features]


def _spread(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = y.mean(axis=(0, 1, 2)), y.std(axis=(0, 1, 2))
    return mean, np.maximum(deviation, np.float32(LEAST) * deviation.mean())


class PretrainTask(Task):
    """Weights and biases, and without a teacher the rows of a cosine classifier."""

    def __init__(
        self, recipe: PretrainRecipe, sources: list[Source], validator: Validator,
        teacher: Network | None = None, workers: int = 1,
    ):  # fmt: skip
        shape = recipe.architecture
        if shape.tokens:
            layers = compact_transformer(shape.spec.shape, shape.tokens, shape.attention)
        else:
            layers = architecture(shape.spec.shape, shape.stem, shape.blocks)
        check_nodes(layers)
        if teacher and (teacher.input.kind, shape.input) != (IMAGE, IMAGE):
            raise InputError("unsupported", "a teacher shows what it sees in images alone; leave it out")
        hooks, taught = followed_blocks(layers, teacher.layers) if teacher and recipe.inner else ((), ())
        self.teacher = Teacher(teacher, recipe, sources, workers, taught) if teacher else None
        spreads = dict(zip(hooks, self.teacher.spreads, strict=True)) if hooks else {}
        if shape.tokens:
            network = initial_transformer(recipe.seed, layers, shape.spec)
        else:
            sample = sample_batch(recipe, sources, SAMPLE, 0)
            network = initial_network(recipe.seed, sample, layers, spreads, shape.spec)
        width = network.embedding_size
        if teacher and recipe.loss == "cosine" and teacher.embedding_size != width:
            raise InputError(
                "unsupported",
                f"the teacher's embedding has {teacher.embedding_size} values, the network's {width};"
                " make them equal or use loss: relational",
            )
        self.head = (0 if teacher else sum(s.train.n_classes for s in sources), width)
        head = rng_for(recipe.seed, "head").standard_normal(self.head[0] * width, np.float32)
        whole = Whole(network, recipe.batch, workers=workers, hooks=hooks)
        super().__init__(network, recipe, validator, whole, head, recipe.head_rate)
        alone = {"workers": workers, "hooks": hooks, "block_wise": True}
        self.block_wise = Whole(network, recipe.batch, **alone) if recipe.apart else None
        self.sources, self.firsts = sources, first_classes(sources)

    def close(self) -> None:
        super().close()
        for whole in (self.block_wise, self.teacher and self.teacher.whole):
            if whole:
                whole.close()

    def phase(self, number: int) -> tuple[int, int]:
        first = self.recipe.apart
        return (number, first) if number < first else (number - first, self.recipe.steps - first)

    def batch(self, number: int) -> Batch:
        r, spec = self.recipe, self.network.input
        return mixed_batch(self.sources, self.firsts, r.looks, spec, r.batch, r.seed, number)

    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        if not self.teacher:
            return self._classify(values, batch)
        wanted, *blocks = self.teacher(batch.images)
        alone = batch.number < self.recipe.apart
        whole, inputs = (self.block_wise, blocks[:-1]) if alone else (self.whole, ())
        whole.values = values
        embeddings, *features = whole.forward(batch.images, *inputs)
        loss = LOSSES[self.recipe.loss](embeddings, wanted)
        scales = [spread for _, spread in self.teacher.spreads]
        value, gradients = feature_loss(features, blocks, scales, self.recipe.inner)
        whole.backward(loss.gradient, *gradients)
        return loss.value + value, loss.accuracy, whole.gradient.copy()

    def _classify(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        self.whole.values = values[: self.size]
        (embeddings,) = self.whole.forward(batch.images)
        head = values[self.size :].reshape(self.head)
        loss = class_loss(embeddings, batch.labels, head, self.recipe.temperature.start)
        self.whole.backward(loss.gradient)
        return loss.value, loss.accuracy, np.concatenate([self.whole.gradient, loss.extra])
