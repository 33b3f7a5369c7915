"""Weights, activations and cached features in 8 bits; sums are int32, gradients float32."""

from tinytrain.network.network import Network
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.network.replay import range_of, remembered_codes
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.program import int8_updates
from tinytrain.program.autodiff.int8_emitter import Int8Emitter
from tinytrain.program.backend import Backend
from tinytrain.program.backends.int8_copy import Int8Copy
from tinytrain.program.calls import AFTER, BACKWARD, EMBED, Role


class Int8(Backend):
    """A network with codes of its layers' outputs; a delta stores these codes and int8 weights."""

    name = "int8"
    dtype = weight_form = "int8"
    shows_rows = in_codes = is_tight = True
    parameter_bytes = 10  # beside the moments there is what rounding left
    emitter, updates, copy = Int8Emitter, int8_updates, Int8Copy

    def obstacle(self, network: Network, recipe: Recipe) -> str | None:
        if obstacle := int8_obstacle(network):
            return obstacle
        if any(u.layer >= len(network.layers) for u in recipe.updates):
            return "lite residual modules are to be trained, which int8 programs do not have"
        return None

    def add_buffers(self, table, job, trained: int) -> None:
        """Biases, and what the rule of rounding keeps beside the `trained` parameters."""
        if biases := sum(u.n_biases(job.network) for u in job.recipe.updates):  # int8 ones stay unused
            table.add("trained biases", (biases,), EMBED, AFTER, role=Role.BIASES)
        kept = {"carried": ("rests of weights", "int8"), "masters": ("master weights", "float32")}
        if extra := kept.get(job.recipe.options.arithmetic.rounding):
            table.add(extra[0], (trained,), EMBED, BACKWARD, extra[1], Role.ROUNDING)

    def written(self, update: Update) -> set[tuple[int, str]]:
        """Sums start with a bias that depends on the weights."""
        return super().written(update) | {(update.layer, "bias")}

    def copy_bytes(self, weights: int, channels: int) -> int:
        return weights + 4 * 7 * channels  # a channel has what rescales its sums

    def keep_features(self, kernels, network: Network, start: int, features, codes, ranges) -> None:
        remembered_codes(codes, features)
        ranges[:] = range_of(network.quantisation.given(start - 1))

    def stored(self, network: Network) -> dict:
        return {"codes": network.quantisation}
