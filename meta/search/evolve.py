"""Evolutionary search for the configuration with the largest sum of contributions within a memory budget.

Lin et al., NeurIPS 2022, section 3.2: maximise the gain of the last k biases plus that of the chosen weights,
subject to memory; a layer whose weights are trained lies within the last k.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import BudgetError
from tinytrain.base.random_streams import rng_for
from tinytrain.meta.search.space import Contributions, Space
from tinytrain.policies.sparse_update import Configuration

POPULATION = 100
PARENTS = 25
MUTATION = 0.1  # of each layer's choice and of the number of biases, in a mutated copy
SAMPLES = 20_000  # configurations looked at, as many as the authors plot


@dataclass(frozen=True)
class Found:
    """The best configuration, its objective, its bytes, and the best objective after each generation."""

    configuration: Configuration
    gain: float
    memory: float
    history: tuple[float, ...]


def check_limit(space: Space, limit: float) -> None:
    """Raise BudgetError where not even the configuration that trains nothing fits."""
    empty = space.memory(Configuration(0, {}))
    if empty > limit:
        raise BudgetError(
            "budget-too-small",
            f"{empty:.0f} bytes are counted with nothing trained, the budget is {limit:.0f}; give more",
            math.ceil(empty),
        )


class Genes:
    """Populations as arrays: `biases` (p,) and `choices` (p, layers), 0 for nothing, else 1 + ratio index."""

    def __init__(self, table: Contributions, limit: float):
        self.table, self.limit = table, limit
        space = table.space
        self.count = len(space.layers)
        empty = space.memory(Configuration(0, {}))
        self.bias_cost = np.array([space.memory(Configuration(k, {})) for k in range(self.count + 1)])
        self.weight_cost = np.zeros_like(table.of_weights)
        for row, layer in enumerate(space.layers):
            for column, ratio in enumerate(space.ratios, 1):
                self.weight_cost[row, column] = space.memory(Configuration(0, {layer: ratio})) - empty
        self._rows = np.arange(self.count)

    def gain(self, biases: np.ndarray, choices: np.ndarray) -> np.ndarray:
        return self.table.of_biases[biases] + self.table.of_weights[self._rows, choices].sum(axis=1)

    def cost(self, biases: np.ndarray, choices: np.ndarray) -> np.ndarray:
        return self.bias_cost[biases] + self.weight_cost[self._rows, choices].sum(axis=1)

    def repair(self, biases: np.ndarray, choices: np.ndarray, rng: np.random.Generator) -> None:
        """Make a population obey, in place: weights within the last biases, memory within the limit."""
        while True:
            choices[self._rows[None, :] < self.count - biases[:, None]] = 0
            over = np.flatnonzero(self.cost(biases, choices) > self.limit)
            if not len(over):
                return
            for p in over:
                # Drop one thing at random: a layer's weights, or the shallowest bias.
                used = np.flatnonzero(choices[p])
                pick = rng.integers(len(used) + 1)
                if pick == len(used):
                    biases[p] = max(biases[p] - 1, 0)
                else:
                    choices[p, used[pick]] = 0

    def configuration(self, biases: int, choices: np.ndarray) -> Configuration:
        space = self.table.space
        fractions = {space.first + i: space.ratios[c - 1] for i, c in enumerate(choices.tolist()) if c}
        return Configuration(int(biases), fractions)


def evolve(table: Contributions, limit: float, seed: int, samples: int = SAMPLES) -> Found:
    """The best of about `samples` configurations within `limit` bytes. Raises BudgetError.

    The better quarter of a population survives; copies of it are mutated or crossed at random.
    """
    check_limit(table.space, limit)
    genes, rng = Genes(table, limit), rng_for(seed, "evolution")
    options = table.of_weights.shape[1]
    biases = rng.integers(0, genes.count + 1, POPULATION)
    # Sparse at first: of a dense choice the repair would leave a random remainder.
    choices = rng.integers(0, options, (POPULATION, genes.count)) * (
        rng.random((POPULATION, genes.count)) < 0.3
    )
    genes.repair(biases, choices, rng)
    history = []
    generations = max(1, round((samples - POPULATION) / (POPULATION - PARENTS)))
    for generation in range(generations + 1):
        order = np.argsort(-genes.gain(biases, choices), kind="stable")
        biases, choices = biases[order], choices[order]
        history.append(float(genes.gain(biases[:1], choices[:1])[0]))
        if generation == generations:
            break
        children = _children(biases[:PARENTS], choices[:PARENTS], options, rng)
        genes.repair(*children, rng)
        biases = np.concatenate([biases[:PARENTS], children[0]])
        choices = np.concatenate([choices[:PARENTS], children[1]])
    best = genes.configuration(biases[0], choices[0])
    return Found(best, table.objective(best), table.space.memory(best), tuple(history))


def _children(biases, choices, options: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Two thirds mutated copies of the parents, one third crossings of two of them, slightly mutated too."""
    count = POPULATION - PARENTS
    one, other = rng.integers(0, PARENTS, (2, count))
    crossed = rng.random(count) < 1 / 3
    from_other = crossed[:, None] & (rng.random((count, choices.shape[1])) < 0.5)
    new = np.where(from_other, choices[other], choices[one])
    new = np.where(rng.random(new.shape) < MUTATION, rng.integers(0, options, new.shape), new)
    most = choices.shape[1]
    counts = np.where(crossed & (rng.random(count) < 0.5), biases[other], biases[one])
    moved = np.clip(counts + rng.integers(-3, 4, count), 0, most)
    return np.where(rng.random(count) < 0.5, moved, counts), new
