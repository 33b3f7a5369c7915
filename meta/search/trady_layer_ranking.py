"""Layers by reweighted gradient norm, as TraDy ranks them before it goes to the device.

    python -m tinytrain.meta.search.trady_layer_ranking --backbone mcunet-5fps --data textures --episodes 8

Quelennec et al., "Study of Training Dynamics for Memory-Constrained Fine-Tuning" (TraDy), ICLR 2026 (arXiv
2510.19675): of input channel c of a layer ``RGN_c = ||dW_c||_2 / (C' D D + H W)``, the numbers that
training it takes being C' D D weights and H W saved inputs. A layer's rank is the sum over its input
channels; kept are the highest-ranked layers that hold 97 % of the total.
"""

import sys

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Layer, Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources, Update
from tinytrain.policies.common import all_channels
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.session import augmentation_of
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer

FRACTION = 0.97


def channel_norms(layer: Layer, gradient: np.ndarray) -> np.ndarray:
    """RGN of every input channel, from the gradient (fan_in, cout) of a layer's weight."""
    if layer.kind == "depthwise":
        squares, weights = (gradient**2).sum(axis=0), layer.kernel**2
    else:  # rows run over kernel positions, then input channels
        squares = (gradient.reshape(-1, layer.cin, layer.cout) ** 2).sum(axis=(0, 2))
        weights = layer.kernel**2 * layer.cout
    return np.sqrt(squares) / (weights + layer.in_hw[0] * layer.in_hw[1])


def layer_ranks(network: Network, episode: Episode, seed: int = 0) -> np.ndarray:
    """RGN of every layer for one episode, at the network's own weights."""
    updates = tuple(Update(i, all_channels(network, i)) for i in range(len(network.layers)))
    recipe = Recipe("rank", updates, ((1.0, 1.0),) * len(updates), "sgd", "both", head="cosine")
    labels, spec = episode.support.labels, network.input
    task = TaskShape(len(labels), episode.n_way)
    program = compile_training(network, recipe, Resources(0, 1, 1, len(labels), len(labels)), task)
    trainer = Trainer(
        program, Arena(program.nbytes), WorkingCopy(network), kernel_table.load(),
        Source(
            lambda i: episode.support.image(i, spec.shape), augmentation_of(episode, spec.size, seed), labels
        ),
    )  # fmt: skip
    trainer.start()
    images = range(len(labels))
    trainer.compute_gradients([(0, i) for i in images], [(1, i) for i in images])
    flat = trainer.gradients[0]
    parts = [flat[s.start : s.start + s.size].reshape(s.shape) for s in trainer.slots]
    return np.array([channel_norms(x, g).sum() for x, g in zip(network.layers, parts, strict=True)])


def highest(ranks: np.ndarray, fraction: float = FRACTION) -> tuple[int, ...]:
    """The fewest layers that hold `fraction` of the sum of all ranks, in layer order."""
    order = np.argsort(-ranks, kind="stable")
    held = np.cumsum(ranks[order]) / ranks.sum()
    return tuple(sorted(int(i) for i in order[: int(np.searchsorted(held, fraction)) + 1]))


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    p = Parser(prog="python -m tinytrain.meta.search.trady_layer_ranking", description=__doc__.split("\n")[0])
    p.add_argument("--backbone", required=True, help="model file, published checkpoint or name")
    p.add_argument("--data", default="textures", help="pack, generated domain or folder")
    p.add_argument("--episodes", type=at_least(1), default=8, help="5-way 5-shot episodes to average over")
    p.add_argument("--seed", type=at_least(0), default=1)
    args = p.parse(arguments)
    network, dataset = load_backbone(args.backbone), open_dataset(args.data, None)
    total = np.zeros(len(network.layers))
    for k in range(args.episodes):
        ranks = layer_ranks(network, sample_episode(dataset, 5, 5, 1, args.seed, k), k)
        total += ranks / ranks.sum()
    for i in np.argsort(-total, kind="stable"):
        print(f"{i:>3} {network.layers[i].name:<24} {total[i] / args.episodes:.4f}")
    kept = highest(total)
    print(f"{len(kept)} of {len(network.layers)} layers hold {FRACTION:.0%}: {', '.join(map(str, kept))}")


if __name__ == "__main__":
    sys.exit(main())
