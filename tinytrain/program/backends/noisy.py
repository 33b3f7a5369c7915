"""Float32 on weights that are off, as those of an analog array are."""

import math
from collections.abc import Collection, Hashable

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.network.network import Network
from tinytrain.program.backends.float32 import Float32
from tinytrain.program.backends.working_copy import Part, WorkingCopy

STRENGTH = 0.03  # as is usual while networks are trained for analog arrays


class NoisyCopy(WorkingCopy):
    """As `WorkingCopy`, but every weight is off by an error of its own, that of the array of a `backend`.

    Errors stay while weights are trained. They are those of the backbone `base`, whatever a delta makes of
    it. Biases and lite residual modules are exact. Beside the arena it takes what the errors of a layer take.
    """

    def __init__(
        self,
        backend: "Noisy",
        network: Network,
        own: Collection[Part] | None = None,
        base: Network | None = None,
    ):
        self.backend = backend
        super().__init__(network, own, base)

    @property
    def kind(self) -> Hashable:
        return type(self), self.backend.name

    def part(self, layer: int, part: str) -> np.ndarray:
        """The values that weights are meant to have, (fan_in, cout), or biases (1, cout)."""
        values = super().part(layer, part)
        return values - self._errors(layer) if self._is_off(layer, part) else values

    def _fill(self, network: Network, i: int, part: str, out: np.ndarray) -> None:
        super()._fill(network, i, part, out)
        if self._is_off(i, part):
            out += self._errors(i)

    def _is_off(self, i: int, part: str) -> bool:
        return part == "weight" and i < len(self.base.layers) and self.backend.strength > 0

    def _errors(self, i: int) -> np.ndarray:
        """(fan_in, cout) float32."""
        weights = self.base.float_weight(i)
        largest = np.float32(self.backend.strength) * np.abs(weights).max()
        return rng_for(self.backend.seed, "noisy", i).standard_normal(weights.shape, np.float32) * largest


class Noisy(Float32):
    """Float32 with a normal error in each weight: `strength` is its deviation, relative to the largest weight
    of the layer. `seed` is the array: the same seed has the same errors.

    A delta stores the values that weights are meant to have, and the name: it predicts on the same array.
    With strength 0 all bits are those of float32.
    """

    kept_as = NoisyCopy

    def __init__(self, strength: float = STRENGTH, seed: int = 0):
        self.strength, self.seed = strength, seed
        self.name = f"{type(self).__name__.lower()}:{float(strength)!r}:{seed}"

    def with_options(self, text: str) -> "Noisy":
        strength, _, seed = text.partition(":")
        try:
            found = type(self)(float(strength), int(seed or 0))
        except ValueError:
            found = type(self)(math.nan)
        if not (0 <= found.strength <= 1 and 0 <= found.seed < 2**63):
            how = f"a share of the largest weight from 0 to 1 and a seed, such as noisy:{STRENGTH}:7"
            raise UsageError("usage", f"precision noisy takes {how}, not {text[:40]!r}; give these")
        return found

    def copy(self, network: Network, own=None, base: Network | None = None) -> NoisyCopy:
        return self.kept_as(self, network, own, base)

    def stored(self, network: Network) -> dict:
        return {"arithmetic": self.name}
