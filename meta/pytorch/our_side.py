"""What is timed on our side: the engine with nothing frozen, and the default policy's adaptation."""

import numpy as np

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.sampler import decoded
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources, Update
from tinytrain.planner.candidates import WIDE_TILES
from tinytrain.program.compile import compile_training
from tinytrain.program.segments import SegmentBank
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.schedule import augmentation_of, sampled_items
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer

WAY, SHOTS = 5, 5
COUNT = WAY * SHOTS
MICRO = (1, 5, COUNT)


def support_episode(network: Network) -> Episode:
    """A 5-way 5-shot episode of the generated domain without queries, its images held in memory."""
    return decoded(sample_episode(open_dataset("signs"), WAY, SHOTS, 0, seed=0), network)


def images_of(network: Network, episode: Episode) -> np.ndarray:
    return np.stack([episode.support.image(i, network.input.shape) for i in range(COUNT)])


def everything(network: Network) -> Recipe:
    """A recipe that trains every weight and bias."""
    layers = enumerate(network.layers)
    updates = tuple(Update(i, tuple(range(layer.cout)), bias=True) for i, layer in layers)
    rates = ((0.0, 0.0),) * len(updates)
    return Recipe("speed", updates, rates, "sgd", "constant", head="cosine")


class Whole:
    """The engine with nothing frozen and nothing cached, `micro` images per call on `workers` workers."""

    def __init__(self, network: Network, episode: Episode, micro: int, workers: int):
        resources = Resources(0, micro, COUNT, COUNT, workers)
        recipe, task = everything(network), TaskShape(COUNT, WAY)
        bank = SegmentBank(network, recipe, WIDE_TILES[0])  # no limit of bytes here, as for PyTorch
        self.program = compile_training(network, recipe, resources, task, bank)
        spec, image = network.input, episode.support.image
        self.trainer = Trainer(
            self.program, Arena(self.program.nbytes), WorkingCopy(network), kernels.load(),
            Source(
                lambda i: image(i, spec.shape), augmentation_of(episode, spec, 0), episode.support.labels
            ),
            workers,
        )  # fmt: skip
        self.trainer.run("start")
        self.items = [(0, i) for i in range(COUNT)]
        self.out = np.empty((COUNT, network.embedding_size), np.float32)
        self.trainer.grad[:] = rng_for(0, "gradient").standard_normal(self.trainer.grad.shape)

    def forward(self, count: int = COUNT) -> np.ndarray:
        self.trainer.embed(self.items[:count], self.out[:count])
        return self.out

    def forward_backward(self) -> np.ndarray:
        """Gradients of all weights and biases for the embedding gradients in `trainer.grad`."""
        return self.backward(self.items, range(COUNT))

    def backward(self, items, rows) -> np.ndarray:
        """Gradients for `items`; row `rows[k]` of `trainer.grad` belongs to item k."""
        self.trainer.gradients.fill(0)
        taken = self.trainer.take(self.trainer.grad, lambda: rows)
        self.trainer.over_images((taken, self.trainer.segment("backward")), items, "backward")
        return self.trainer.gradients


def schedule_of(plan, labels: np.ndarray) -> list[list[int]]:
    """For each step of an adaptation by `plan` the support images that the gradient goes through.

    For supports that a step sees whole.
    """
    support = [(0, i) for i in range(len(labels))]
    return [sampled_items(plan.recipe, labels, support, 0, step) for step in range(1, plan.recipe.steps + 1)]


def variants(network: Network, episode: Episode, workers: int) -> dict[str, Whole]:
    return {f"{m} per call on {workers} workers": Whole(network, episode, m, workers) for m in MICRO}
