"""Episodes per second of a meta-training step against PyTorch eager: same episodes, same threads, in one run.

    python -m tinytrain.meta.pytorch.meta_train_speed --backbone mcunet-5fps.pkl [--threads 2] [--episodes 5]

A step is a forward pass of all images of an episode, the loss, its exact gradient through support and
queries, and AdamW on every weight and bias. Images are made beforehand for both. Losses and gradients must
agree before anything is timed. Without PyTorch this engine is timed alone, and that is said.
"""

import sys
import time

import numpy as np

from tinytrain.backbones.load import open_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.kernels.blas import one_thread
from tinytrain.meta.training.batches import Batch
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.losses import episode_loss
from tinytrain.meta.training.optimizers import AdamW
from tinytrain.network.network import Network

AGREE = 2e-2  # relative difference of gradients; ReLU6 makes float32 programs differ at its corners
SCALE, RATE, DECAY = 10.0, 1e-4, 0.01


def episodes(size: int, count: int, way: int, shots: int, queries: int) -> list[Batch]:
    """Episodes of the generated domain, as the engine's users see them."""
    from tinytrain.datasets import open_dataset, sample_episode

    made, dataset = [], open_dataset("signs")
    for k in range(count):
        drawn = sample_episode(dataset, way, shots, queries, 0, k)
        sides = (drawn.support, drawn.query)
        images = np.stack([s.read(i, size) for s in sides for i in range(len(s))])
        labels = np.concatenate([s.labels for s in sides]).astype(np.int64)
        made.append(Batch(images, labels, len(drawn.support)))
    return made


class Ours:
    """The step of `tinytrain.meta.training.metatrain`, without what makes its images."""

    def __init__(self, network: Network, capacity: int, threads: int):
        self.whole = Whole(network, capacity, workers=threads)
        self.values = self.whole.values
        self.optimizer, self.number = AdamW(len(self.values), (0.9, 0.999)), 0
        self.rates, self.decays = (np.full(len(self.values), x, np.float32) for x in (RATE, DECAY))

    def gradient(self, batch: Batch) -> tuple[float, np.ndarray]:
        self.whole.values = self.values
        loss = episode_loss(self.whole.forward(batch.images)[0], batch.labels, batch.n_support, SCALE)
        self.whole.backward(loss.gradient)
        return loss.value, self.whole.gradient

    def step(self, batch: Batch) -> float:
        value, gradient = self.gradient(batch)
        self.number += 1
        self.optimizer.step(self.values, gradient, self.rates, self.decays, 1.0, self.number)
        return value


class Theirs:
    """The same step as people write it in PyTorch, in one memory format."""

    def __init__(self, network: Network, memory_format: str):
        import torch

        from tinytrain.meta.pytorch import torch_reference

        self.torch, self.module = torch, torch_reference
        self.reference = torch_reference.TorchNetwork(network, memory_format)
        self.reference.train()
        parameters = [*self.reference.weights, *self.reference.biases]
        self.optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)

    def gradient(self, batch: Batch, slots=()) -> tuple[float, np.ndarray]:
        """Loss and, for `slots`, the gradient in the order of the flat vector."""
        torch, module, n = self.torch, self.module, batch.n_support
        self.optimizer.zero_grad(set_to_none=True)
        embeddings = self.reference.embed(self.reference.inputs(module.planes(batch.images)))
        labels = torch.from_numpy(batch.labels)
        means = module.prototypes(embeddings[:n], torch.nn.functional.one_hot(labels[:n]).float())
        loss = module.losses(embeddings[n:], means, labels[n:], SCALE).mean()
        loss.backward()
        parts = [self.reference.gradient(s).reshape(-1) for s in slots]
        return float(loss.detach()), np.concatenate(parts) if parts else np.empty(0)

    def step(self, batch: Batch) -> float:
        value, _ = self.gradient(batch)
        self.optimizer.step()
        return value


def seconds_per_step(step, batches: list[Batch]) -> float:
    """The fastest of the steps on `batches`: others use the machine, too."""
    times = []
    for batch in batches:
        start = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - start)
    return min(times)


def measure(network: Network, options, show) -> float | None:
    """PyTorch / ours in seconds per episode; None without PyTorch. Raises SystemExit if they disagree."""
    images = options.way * (options.shots + options.queries)
    batches = episodes(network.input.size, options.episodes, options.way, options.shots, options.queries)
    ours = Ours(network, images, options.threads)
    try:
        import torch
    except ModuleNotFoundError:
        show("PyTorch is not installed: this engine is timed alone")
        theirs = {}
    else:
        torch.set_num_threads(options.threads)
        theirs = {name: Theirs(network, name) for name in ("contiguous", "channels_last")}
    for name, side in theirs.items():
        mine, wanted = ours.gradient(batches[0]), side.gradient(batches[0], ours.whole.slots)
        difference = float(np.linalg.norm(mine[1] - wanted[1]) / np.linalg.norm(wanted[1]))
        if not (abs(mine[0] - wanted[0]) < 1e-3 and difference < AGREE):
            raise SystemExit(
                f"the sides disagree: losses {mine[0]} and {wanted[0]}, gradients by {difference:.1e}"
            )
        show(f"{name}: losses {mine[0]:.5f} and {wanted[0]:.5f}, gradients differ by {difference:.0e}")
    sides = {"ours": ours.step} | {f"PyTorch {name}": side.step for name, side in theirs.items()}
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(options.rounds):  # in turn: a busy moment then hits all of them
        for name, step in sides.items():
            best[name] = min(best[name], seconds_per_step(step, batches))
    for name, seconds in best.items():
        show(f"{name:<24}{1 / seconds:>8.2f} episodes/s  {1e3 * seconds:>8.1f} ms  {images} images each")
    ours.whole.close()
    if not theirs:
        return None
    ratio = min(s for name, s in best.items() if name != "ours") / best["ours"]
    show(f"ratio {ratio:.2f} on {options.threads} threads (wanted: 1.5)")
    return ratio


def parser() -> Parser:
    p = Parser(prog="python -m tinytrain.meta.pytorch.meta_train_speed", description=__doc__.split("\n")[0])
    p.add_argument("--backbone", default=None, help="network file or name (default: the one that ships)")
    for name, default in (
        ("threads", 2),
        ("way", 10),
        ("shots", 3),
        ("queries", 3),
        ("episodes", 4),
        ("rounds", 3),
    ):
        p.add_argument(f"--{name}", type=at_least(1), default=default, help="default: %(default)s")
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    options = parser().parse(arguments)
    with one_thread():
        measure(open_backbone(options.backbone), options, lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main())
