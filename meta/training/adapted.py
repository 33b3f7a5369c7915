"""Meta-training that knows what comes after it: the loss of an episode behind the device's own adaptation.

The support images of an episode are given to the very code that adapts on a device, inside a budget, with the
network as it now is. The gradient of the queries' loss at the adapted weights then moves the first weights:
first-order MAML (Finn et al. 2017; Nichol et al. 2018), which leaves out how the adaptation itself depends on
where it starts.

What an adaptation adds to a layer is nearly proportional to the layer's learning rate, so the product of that
change and the gradient behind it is the derivative of the loss in the logarithm of the rate. From it each
layer learns a factor of its rate (compare Li et al. 2017, Meta-SGD; Baik et al. 2020, ALFA).
"""

from dataclasses import replace

import numpy as np

from tinytrain.episode.episode import Episode, Images
from tinytrain.meta.training.batches import Batch
from tinytrain.meta.training.full_network import network_of
from tinytrain.meta.training.recipe import AdaptationSettings
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.program.trained_arrays import Slot
from tinytrain.runtime.device import Device

MOST = np.log(8.0)  # of the logarithm of a factor, either way


def episode_of(batch: Batch) -> Episode:
    """The support of a training episode as a device gets it."""
    labels = batch.labels[: batch.n_support].astype(np.int32)
    names = tuple(map(str, range(len(labels))))
    support = Images(labels, names, lambda i, _size: batch.images[i])
    none = Images(np.zeros(0, np.int32), (), lambda i, _size: batch.images[i])
    classes = tuple(f"class {c}" for c in range(int(labels.max()) + 1))
    return Episode(support, none, classes, source=batch.source)


def with_factors(network: Network, factors: np.ndarray) -> Network:
    """`network` whose layers have these factors (layers,) of their learning rates."""
    rounded = (round(float(factor), 4) for factor in factors)
    rates = dict(zip((layer.name for layer in network.layers), rounded, strict=True))
    return replace(network, nodes=tuple(replace(x, rate=rates.get(x.name, x.rate)) for x in network.nodes))


class Adaptation:
    """The device's adaptation of a network given as a flat vector of `slots` (see `Whole`)."""

    def __init__(self, network: Network, slots: tuple[Slot, ...], settings: AdaptationSettings, workers: int):
        self.network, self.slots = network, slots
        self.budget = Budget(memory=settings.memory, macs=settings.macs)
        self.device = Device(threads=workers)
        self.places = {(s.layer, s.part): s for s in slots}

    def __call__(self, values: np.ndarray, factors: np.ndarray, batch: Batch) -> np.ndarray:
        """`values` (m,) after adapting to the support of `batch`, with `factors` (layers,) of the rates.

        Raises what `adapt` raises.
        """
        network = with_factors(network_of(self.network, self.slots, values, "in training"), factors)
        report = adapt(network, episode_of(batch), self.budget, "tinytrain", batch.number, self.device, True)
        adapted = values.copy()
        for changed in report.delta.slices:
            slot = self.places[changed.layer, changed.part]
            part = adapted[slot.start : slot.start + slot.size].reshape(slot.shape)
            if changed.inputs is None:
                part[..., changed.channels] = changed.values
            else:
                part[np.ix_(changed.inputs, changed.channels)] = changed.values
        return adapted

    def in_factors(self, values: np.ndarray, adapted: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Derivative (layers,) of the loss in the factors' logarithms, from its `gradient` at `adapted`."""
        found, product = np.zeros(len(self.network.layers), np.float32), gradient * (adapted - values)
        for slot in self.slots:
            found[slot.layer] += product[slot.start : slot.start + slot.size].sum(dtype=np.float64)
        return found
