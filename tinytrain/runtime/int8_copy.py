"""Int8 weights of a network that training may write to, and the constants of its integer arithmetic."""

import numpy as np

from tinytrain.kernels.reference_updates import fold_bias
from tinytrain.network.network import Network
from tinytrain.network.quantisation import factor_and_shift, given_scale, int8_ratios, int8_weights
from tinytrain.program.autodiff.int8_ops import is_turned
from tinytrain.program.program import Program
from tinytrain.runtime.bind import WorkingCopy


def working_copy(program: Program) -> "WorkingCopy | Int8Copy":
    """A working copy of the network of `program`, in its precision."""
    kind = Int8Copy if program.precision == "int8" else WorkingCopy
    return kind(program.network)


class Int8Copy:
    """Weights int8 (cout, fan_in), of depthwise layers (taps, channels), and arrays of each layer by name.

    "bias" (cout,) float32; "unit", the value of one of its sums; "folded bias", the int32 that sums start
    with: the bias, and what the zero of the inputs adds up to; "factor" and "shift" make a code of a sum;
    "scale" of the weights; "lsb", codes for each unit of a weight, 0 for channels that are dead. The network
    stays as it is.
    """

    def __init__(self, network: Network):
        self.network = network
        self.weights: list[np.ndarray] = []
        self.arrays: list[dict[str, np.ndarray]] = []
        self._own: list[tuple] = []  # dead channels, their weights, and folded biases as they were
        for i in range(len(network.layers)):
            self._add_layer(i)
        self.restore()

    def _add_layer(self, i: int) -> None:
        network, codes = self.network, self.network.quantisation
        weights, scale, dead = int8_weights(network, i)
        unit = given_scale(network, i) * scale.astype(np.float64)
        factor, shift = factor_and_shift(int8_ratios(network, i, scale))
        turned = is_turned(network, i)
        self.weights.append(np.ascontiguousarray(weights.T if turned else weights))
        self.arrays.append(
            {
                "bias": network.biases[i].copy(),
                "unit": unit.astype(np.float32),
                "folded bias": np.empty(len(scale), np.int32),
                "factor": factor,
                "shift": shift,
                "scale": scale,
                "lsb": np.where(dead, np.float32(0), np.float32(1) / scale).astype(np.float32),
            }
        )
        arrays, zero = self.arrays[i], codes.given(i - 1).zero if i else 0
        fold_bias(arrays["folded bias"], arrays["bias"], arrays["unit"], self.weights[i], zero, turned)
        channels = np.flatnonzero(dead)
        self._own.append((channels, weights[:, channels], arrays["folded bias"].copy()))

    def weight(self, layer: int) -> np.ndarray:
        return self.weights[layer]

    def bias(self, layer: int) -> np.ndarray:
        return self.arrays[layer]["bias"]

    def array(self, layer: int, name: str) -> np.ndarray:
        return self.arrays[layer][name]

    def part(self, layer: int, part: str) -> np.ndarray:
        """Weights (fan_in, cout) int8, or biases (1, cout) float32."""
        if part == "bias":
            return self.bias(layer)[None]
        return self.weight(layer).T if is_turned(self.network, layer) else self.weight(layer)

    def restore(self) -> None:
        """The network's own values again; nothing is allocated."""
        for i, (channels, weights, folded) in enumerate(self._own):
            part = self.part(i, "weight")
            np.copyto(part, self.network.weights[i])
            for k, channel in enumerate(channels):
                part[:, channel] = weights[:, k]
            np.copyto(self.bias(i), self.network.biases[i])
            np.copyto(self.arrays[i]["folded bias"], folded)
