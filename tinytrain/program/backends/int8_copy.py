"""Int8 weights of a network that training may write to, and the constants of its integer arithmetic."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from tinytrain.kernels.reference_updates import fold_bias
from tinytrain.network.network import Network
from tinytrain.network.quantisation import factor_and_shift, given_scale, int8_ratios, int8_weights
from tinytrain.program.autodiff.int8_ops import is_turned
from tinytrain.program.backends.working_copy import Part, WorkingCopy


class Int8Copy(WorkingCopy):
    """Weights int8 (cout, fan_in), of depthwise layers (taps, channels), and arrays of each layer by name.

    "bias" (cout,) float32; "unit", the value of one of its sums; "folded bias", the int32 that sums start
    with: the bias, and what the zero of the inputs adds up to; "factor" and "shift" make a code of a sum;
    "scale" of the weights; "lsb", codes for each unit of a weight, 0 for channels that are dead. The network
    stays as it is; `own` and `base` as in `WorkingCopy`, "bias" in `own` meaning all arrays but the weights.
    """

    def _is_same(self, base: Network, i: int, part: str) -> bool:
        """Sums and codes of a layer depend on both its parts."""
        same = super()._is_same(base, i, "weight") and super()._is_same(base, i, "bias")
        return same and self.network.quantisation == base.quantisation

    def _made(
        self, network: Network, parts: Sequence[Part]
    ) -> dict[Part, np.ndarray | dict[str, np.ndarray]]:
        found = {}
        for i, some in groupby(parts, itemgetter(0)):
            made = _layer(network, i)
            found |= {(i, part): made[part] for _, part in some}
        return found

    def bias(self, layer: int) -> np.ndarray:
        return self.array(layer, "bias")

    def array(self, layer: int, name: str) -> np.ndarray:
        return self._parts[layer, "bias"][name]

    def part(self, layer: int, part: str) -> np.ndarray:
        """Weights (fan_in, cout) int8, or biases (1, cout) float32."""
        if part == "bias":
            return self.bias(layer)[None]
        return self.weight(layer).T if is_turned(self.network, layer) else self.weight(layer)

    def restore(self) -> None:
        """The network's own values again; nothing is allocated."""
        for i, part in self.own:
            arrays, values = self._parts[i, "bias"], self.part(i, part)
            if part == "weight":
                np.copyto(values, self.network.weights[i])
                for k, channel in enumerate(arrays["dead"]):
                    values[:, channel] = arrays["dead weights"][:, k]
            else:
                np.copyto(values[0], self.network.biases[i])
                np.copyto(arrays["folded bias"], arrays["folded bias before"])


def _layer(network: Network, i: int) -> dict[str, np.ndarray | dict[str, np.ndarray]]:
    """Both parts of layer i."""
    (weights, scale, dead), turned = int8_weights(network, i), is_turned(network, i)
    codes = np.ascontiguousarray(weights.T if turned else weights)
    unit = (given_scale(network, i) * scale.astype(np.float64)).astype(np.float32)
    factor, shift = factor_and_shift(int8_ratios(network, i, scale))
    folded, bias = np.empty(len(scale), np.int32), network.biases[i].copy()
    fold_bias(folded, bias, unit, codes, network.quantisation.given(i - 1).zero if i else 0, turned)
    lsb = np.where(dead, np.float32(0), np.float32(1) / scale).astype(np.float32)
    arrays = {
        "bias": bias, "unit": unit, "folded bias": folded, "folded bias before": folded.copy(),
        "factor": factor, "shift": shift, "scale": scale, "lsb": lsb,
        "dead": np.flatnonzero(dead), "dead weights": weights[:, dead],
    }  # fmt: skip
    return {"weight": codes, "bias": arrays}
