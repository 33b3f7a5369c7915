"""Training in PyTorch, eager: as people write it, and the way our engine does it. For comparison only."""

import time
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tinytrain.episode.augment import draw
from tinytrain.episode.episode import Episode
from tinytrain.meta.pytorch.our_side import schedule_of
from tinytrain.meta.pytorch.torch_reference import TorchNetwork, augmented, losses, planes, prototypes
from tinytrain.network.network import Network
from tinytrain.plan.costs import n_hard
from tinytrain.plan.recipe import Recipe
from tinytrain.program.program import Program
from tinytrain.program.trained_arrays import Slot, slots
from tinytrain.runtime.schedule import augmentation_of, dealt, rate_factor, reach

KNOWN = 9e5  # losses below it are known
OPTIMIZERS = {
    "adam": lambda groups: torch.optim.Adam(groups, fused=True),
    "momentum": lambda groups: torch.optim.SGD(groups, momentum=0.9, fused=True),
    "sgd": lambda groups: torch.optim.SGD(groups, fused=True),
}


class Masked:
    """The optimizer on whole weights of trained layers; gradients of what is not trained are set to 0."""

    def __init__(self, reference: TorchNetwork, recipe: Recipe, slots: Sequence[Slot]):
        weights = [s.layer for s in slots if s.part == "weight"]
        reference.train(weights, [s.layer for s in slots if s.part == "bias"])
        rates = dict(zip((u.layer for u in recipe.updates), recipe.rates, strict=True))
        groups: dict[float, list] = {}
        self.masks = []
        for slot in slots:
            tensor = (reference.weights if slot.part == "weight" else reference.biases)[slot.layer]
            groups.setdefault(rates[slot.layer][slot.part == "bias"], []).append(tensor)
            if slot.size < tensor.numel():
                mask = torch.zeros_like(tensor)
                inputs = slice(None) if slot.inputs is None else torch.tensor(slot.inputs)
                mask[(torch.tensor(slot.channels)[:, None], inputs)[: tensor.dim()]] = 1
                self.masks.append((tensor, mask))
        rows = [{"params": tensors, "lr": rate, "rate": rate} for rate, tensors in groups.items()]
        self.optimizer = OPTIMIZERS[recipe.optimizer](rows)

    def scale_rates(self, factor: float) -> None:
        """Learning rates of the next steps: `factor` times those of the recipe."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * factor

    def step(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        for tensor, mask in self.masks:
            tensor.grad.mul_(mask)
        self.optimizer.step()


def adapt_plainly(reference, recipe, slots, images, labels, draw) -> list[float]:
    """As people write it: every step runs all of the network over all support images and their copies.

    `draw()` returns a fresh augmentation; the gradient flows through prototypes and pseudo-queries.
    """
    support, target = planes(images), torch.from_numpy(labels).long()
    one_hot, trained = F.one_hot(target).float(), Masked(reference, recipe, slots)
    clean, found = reference.inputs(support), []
    for _ in range(recipe.steps):
        queries = reference.inputs(augmented(support, [draw() for _ in labels]))
        embeddings = reference.embed(torch.cat([clean, queries]))
        means = prototypes(embeddings[: len(labels)], one_hot)
        loss = losses(embeddings[len(labels) :], means, target, recipe.options.temperature).mean()
        trained.step(loss)
        found.append(loss.item())
    return found


@torch.inference_mode()
def features_of(reference, cut: int, support: torch.Tensor) -> torch.Tensor:
    """Inputs of layer `cut`."""
    return reference.layers(reference.inputs(support), 0, cut)


def moved(embeddings, one_hot, through: list[int]):
    """Zeros with the gradient of the prototypes: those at `through` stand for the others of their class.

    And for the classes that none of them is of.
    """
    if not through:
        return torch.zeros(())
    here = one_hot[through]
    counts = here.sum(dim=0)
    weight = len(counts) / torch.count_nonzero(counts) / counts.clamp(min=1)
    means = (here.T @ embeddings) * weight[:, None]
    return means - means.detach()


def adapt_cached(task: "Task", reference, clean: torch.Tensor) -> list[float]:
    """Our own algorithm: only the hardest pseudo-queries and some of the support in a step.

    `clean` are the cached features of the clean images. For recipes of a single pass with views that are new
    in every step.
    """
    recipe, cut, labels = task.program.recipe, task.program.purpose.start, task.labels
    support, target = planes(task.images), torch.from_numpy(labels).long()
    one_hot, trained, found = F.one_hot(target).float(), Masked(reference, recipe, task.slots), []
    sizes, hard = one_hot.sum(dim=0), n_hard(recipe.options.hard_fraction, len(labels))
    # Images whose loss is not known yet come first, in turn of classes.
    latest = 1e6 - torch.from_numpy(np.argsort(dealt(labels))).float()
    with torch.no_grad():
        means = prototypes(reference.embed(clean, cut), one_hot)
    for step, through in enumerate(task.schedule, 1):
        trained.scale_rates(rate_factor(recipe, 1, step))
        hardest = latest.topk(hard).indices
        queries = augmented(support[hardest], [task.drawn(step, int(i)) for i in hardest])
        chosen = torch.cat([features_of(reference, cut, queries), clean[through]])
        embeddings = reference.embed(chosen.contiguous(memory_format=reference.format), cut)
        moving = means + moved(embeddings[hard:], one_hot, through)
        loss = losses(embeddings[:hard], moving, target[hardest], recipe.options.temperature)
        trained.step(loss.mean())
        latest[hardest] = loss.detach()
        here = one_hot[through]
        sums = here.T @ embeddings[hard:].detach()
        means = means * (1 - here.sum(dim=0) / sizes)[:, None] + sums / sizes[:, None]
        found.append(latest[latest < KNOWN].mean().item())
    return found


class Task:
    """One adaptation as our engine planned it, ready to be done by PyTorch in a chosen memory format."""

    def __init__(self, network: Network, episode: Episode, images: np.ndarray, program: Program):
        self.network, self.program, self.images = network, program, images
        self.labels, self.may_flip = episode.support.labels, episode.may_flip
        self.slots = slots(network, program.recipe)
        self.drawn = augmentation_of(episode, network.input, 0, reach(program))
        self.schedule = schedule_of(program, self.labels)

    def plainly(self, memory_format: str) -> dict[str, float]:
        """The adaptation as people write it; its parts are not told apart."""
        rng, size = np.random.default_rng(0), self.network.input.size
        recipe = self.program.recipe
        reference = TorchNetwork(self.network, memory_format)
        adapt_plainly(
            reference, recipe, self.slots, self.images, self.labels, lambda: draw(rng, size, self.may_flip)
        )
        return {}

    def cached(self, memory_format: str) -> dict[str, float]:
        """Seconds of both stages."""
        start, reference = self.program.purpose.start, TorchNetwork(self.network, memory_format)
        begin = time.perf_counter()
        clean = features_of(reference, start, planes(self.images))
        middle = time.perf_counter()
        self.losses = adapt_cached(self, reference, clean)
        return {"features": middle - begin, "training": time.perf_counter() - middle}
