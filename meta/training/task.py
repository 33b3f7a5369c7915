"""What both kinds of training share: a network and some more parameters as one vector that is trained."""

from abc import ABC, abstractmethod

import numpy as np

from tinytrain.meta.training.batches import Batch
from tinytrain.meta.training.full_network import Whole, network_of
from tinytrain.meta.training.optimizers import rates_of
from tinytrain.meta.training.validate import Validator, Verdict
from tinytrain.network.network import Network, int8_scales, quantised
from tinytrain.program.trained_arrays import Slot


class Task(ABC):
    """A network in training, as a vector (m,) float32: its weights and biases, then `more` numbers.

    `first` (m,) is where it starts, `rates` and `decays` (m,) what the optimizer does with each parameter;
    `more_rates` is one rate for all of `more`, or one for each.
    `recipe` needs `optimizer`, `weights` and `name`; `whole` computes passes of one step.
    """

    def __init__(
        self, network: Network, recipe, validator: Validator, whole: Whole, more: np.ndarray, more_rates
    ):
        self.network, self.recipe, self.validator, self.whole = network, recipe, validator, whole
        values, self.size = self.whole.values, self.whole.size
        rates, decays = rates_of(self.whole.slots, values, recipe.optimizer)
        self.first = np.concatenate([values, more.astype(np.float32)])
        self.rates = np.concatenate([rates, np.broadcast_to(np.float32(more_rates), len(more))])
        self.decays = np.concatenate([decays, np.zeros(len(more), np.float32)])

    def close(self) -> None:
        self.whole.close()

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """What step `number` (from 0) trains on: depends on the recipe and the number alone."""

    def phase(self, number: int) -> tuple[int, int]:
        """Place of step `number` in its schedule of rates, and the length of that."""
        return number, self.recipe.steps

    @abstractmethod
    def step(self, values: np.ndarray, batch: Batch) -> tuple[float, float, np.ndarray]:
        """Loss, accuracy and gradient (m,) at `values` (m,)."""

    def constrain(self, values: np.ndarray) -> dict:
        """Put `values` back into their range, in place; figures for the log."""
        return {}

    def validate(self, values: np.ndarray) -> Verdict:
        self.whole.values = values[: self.size]
        return self.validator(self.whole.embed)

    def selection_score(self, values: np.ndarray) -> float:
        """What checkpoints are chosen by: the held-out domains of `validate`."""
        self.whole.values = values[: self.size]
        return self.validator.selection_score(self.whole.embed)

    def fake_quantised(self, values: np.ndarray) -> np.ndarray:
        """`values` (m,) with every weight at its nearest int8 step: what an int8 network computes with."""
        return fake_quantised(self.whole.slots, values)

    def exported(self, values: np.ndarray) -> np.ndarray:
        return self.fake_quantised(values) if self.recipe.weights == "int8" else values

    def result(self, values: np.ndarray) -> Network:
        """The network of `values`, as the recipe wants its weights."""
        network = network_of(self.network, self.whole.slots, values, self.recipe.name)
        return quantised(network) if self.recipe.weights == "int8" else network


def fake_quantised(slots: tuple[Slot, ...], values: np.ndarray) -> np.ndarray:
    """A copy of `values` (m,) with the weights as they are after int8 with one scale per output channel."""
    values = values.copy()
    for slot in slots:
        if slot.part == "weight":
            weight = values[slot.start : slot.start + slot.size].reshape(slot.shape)
            scales = int8_scales(weight)
            weight[:] = np.rint(weight / scales) * scales
    return values
