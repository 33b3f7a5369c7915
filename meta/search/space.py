"""What a search chooses from: biases of the last k layers, and fractions of input channels of some layers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.network.network import Network
from tinytrain.policies.sparse_update import Configuration, extra_memory

RATIOS = (1.0, 1 / 2, 1 / 4, 1 / 8)
EARLY = 0.4  # of the layers is left out by default: the authors' analysis finds that early ones gain nothing


def default_first(network: Network) -> int:
    """The layer that opens the block in which the first layer behind the early ones lies."""
    return network.block_start(int(EARLY * len(network.layers)))


@dataclass(frozen=True, order=True)
class Part:
    """Something whose gain is measured alone: a fraction of a layer's weights, or the last `biases`."""

    biases: int = 0
    layer: int = -1
    ratio: float = 0.0

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.biases, {self.layer: self.ratio} if self.ratio else {})

    @property
    def name(self) -> str:
        return f"biases {self.biases}" if self.biases else f"layer {self.layer} x {self.ratio:g}"


@dataclass(frozen=True, eq=False)
class Space:
    """Layers from `first` on, each with one of `ratios` of its input channels or none of them."""

    network: Network
    first: int
    ratios: tuple[float, ...] = RATIOS

    def __post_init__(self):
        count = len(self.network.layers)
        if not 0 <= self.first < count:
            raise UsageError("usage", f"layer {self.first} given; {self.network.name} has 0 to {count - 1}")

    @property
    def layers(self) -> range:
        return range(self.first, len(self.network.layers))

    @cached_property
    def bias_counts(self) -> tuple[int, ...]:
        """Numbers of last biases that are measured: to the start of each block; others are interpolated."""
        starts = {self.first} | {i for i in self.layers if self.network.block_start(i) == i}
        return tuple(sorted(len(self.network.layers) - i for i in starts))

    def parts(self) -> list[Part]:
        """All that is measured, cheapest backward pass first."""
        weights = [
            Part(layer=i, ratio=ratio)
            for i in reversed(self.layers)
            for ratio in self.ratios
            if int(self.network.layers[i].cin * ratio)
        ]
        return [Part(biases=k) for k in self.bias_counts] + weights

    def memory(self, configuration: Configuration) -> float:
        """Bytes beside inference, by the authors' formula."""
        return 1024 * extra_memory(self.network.layers, configuration)


@dataclass(frozen=True, eq=False)
class Contributions:
    """Mean accuracy gain of every part of a space, in points of 1; what is not in it gains nothing."""

    space: Space
    gains: dict[Part, float]

    @cached_property
    def of_biases(self) -> np.ndarray:
        """(n_biases + 1,) gain of the last k biases, linear between the measured ones."""
        measured = {0: 0.0} | {part.biases: gain for part, gain in self.gains.items() if part.biases}
        counts = sorted(measured)
        return np.interp(np.arange(len(self.space.layers) + 1), counts, [measured[k] for k in counts])

    @cached_property
    def of_weights(self) -> np.ndarray:
        """(layers of the space, 1 + ratios) gain of each choice for a layer, the first being nothing."""
        table = np.zeros((len(self.space.layers), 1 + len(self.space.ratios)))
        for part, gain in self.gains.items():
            if not part.biases:
                table[part.layer - self.space.first, 1 + self.space.ratios.index(part.ratio)] = gain
        return table

    def objective(self, configuration: Configuration) -> float:
        """Sum of the contributions of its parts: what the search maximises.

        Lin et al., NeurIPS 2022, section 3.2: gain of the last k biases plus that of each layer's weights.
        Raises UsageError for a configuration outside the space.
        """
        chosen = {self.space.first + i for i in range(len(self.of_weights))}
        fractions = {i: fraction for i, fraction in configuration.shares.items() if fraction}
        outside = configuration.biases > len(chosen) or any(
            i not in chosen or fraction not in self.space.ratios for i, fraction in fractions.items()
        )
        if outside:
            raise UsageError("usage", f"{configuration} is not in the space that was measured")
        weights = (
            self.of_weights[i - self.space.first, 1 + self.space.ratios.index(fraction)]
            for i, fraction in fractions.items()
        )
        return float(self.of_biases[configuration.biases] + sum(weights))
