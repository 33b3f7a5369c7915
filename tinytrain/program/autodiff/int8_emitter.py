"""The emitter of int8 passes: codes between the layers, float32 embeddings and gradients."""

import numpy as np

from tinytrain.network.network import Network
from tinytrain.network.quantisation import Codes, input_codes
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.program.autodiff.inner_channels import has_inner_channels, through_block
from tinytrain.program.autodiff.int8_conv import DENSE
from tinytrain.program.autodiff.int8_ops import INT8_OPS, add, int8_weight
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import LayerArray, Segment, View, Weight

DTYPES = {"scale": "float32", "lsb": "float32", "unit": "float32", "bias": "float32"}  # others are int32


class Int8Emitter(Emitter):
    """As `Emitter`, for a network with codes."""

    ops = INT8_OPS | DENSE

    def __init__(self, segment: Segment, network: Network, row_tile: int | None = None):
        super().__init__(segment, network, row_tile)
        self.whole_tiles = self.fast_path  # otherwise bytes are few
        self.codes = network.quantisation
        self.pixels, step = input_codes(network.input.mean, network.input.scale)
        self.pixel_step = np.float32(step)

    # ---- constants --------------------------------------------------------------------------------

    def codes_of(self, i: int) -> Codes:
        """Codes of what the convolution of node i gives."""
        return self.codes.outputs[self.numbers[i]]

    def codes_read(self, i: int, position: int = 0) -> Codes:
        """Codes of the input of node i at `position`, which is no image."""
        return self.codes.given(self.numbers[self.sources[i][position]])

    def array(self, i: int, name: str) -> LayerArray:
        """An array (cout,) of layer i in the working copy."""
        shape = (self.nodes[i].cout,)
        return self.once(LayerArray, self.numbers[i], name, shape, DTYPES.get(name, "int32"))

    def rescaling(self, i: int) -> tuple[LayerArray, ...]:
        return tuple(self.array(i, name) for name in ("folded bias", "factor", "shift"))

    def weight(self, i: int, transposed: bool = False, columns=None) -> Weight:
        return self.once(int8_weight, self.network, self.numbers[i])

    # ---- passes -----------------------------------------------------------------------------------

    def through_block(self, i: int, g: View, tape: Tape, hook) -> list | None:
        if self.fast_path or not has_inner_channels(self, i, tape):
            return None
        return through_block(self, i, g, tape, hook)

    def copy(self, y: View, x: View) -> None:
        self.segment.call("copy_codes", y, x)

    def add_fisher(self, layer: int, total: View, a: View, g: View, first: int = 0) -> None:
        codes, count = self.codes.outputs[layer], g.shape[-1]
        dots, scale = self.segment.new("fisher dots", count), np.float32(codes.scale)
        total = total.rows(first, first + count)
        self.segment.call("add_fisher_columns", total, dots, a.matrix, g.matrix, scale, codes.zero, first)

    def noted(self, i: int, x: View, added: View | None, tape: Tape) -> View:
        y, hooked = self.output(i), self.numbers[i] in tape.hooked
        self.op(i).forward(self, i, y, x, None, None)
        if hooked:
            tape.output[self.numbers[i]] = y
        reached = i in self.reached(tape)
        if reached:
            self.save(tape, i, x, y)
        if added is None:
            return y
        total = self.output(i, " sum") if hooked else y
        add(self, i, total, y, added)
        if reached:
            tape.kept_sum[i] = self._inside(total, f"{self.nodes[i].name} sum mask")
        return total

    def _inside(self, y: View, name: str) -> View:
        """A bit for each code of y: whether it is neither the lowest nor the highest."""
        bits = self.segment.new(name, -(-y.size // 8), dtype="uint8")
        self.segment.call("pack_inside", bits, y.flat)
        return bits

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        tape.kept[i] = self._inside(y, f"{self.nodes[i].name} mask")
        self.save_input(tape, i, x)

    def pool(self, x: View) -> View:
        embedding = self.segment.new("embedding", self.n, x.shape[-1])
        codes, rows = self.codes.given(self.numbers[-1]), x.reshape(self.n, -1, x.shape[-1])
        scale = np.float32(codes.scale / rows.shape[1])
        self.segment.call("pool_codes", embedding, rows, scale, codes.zero)
        return embedding

    def before_activation(self, i: int, g: View, tape: Tape, is_shared: bool) -> View:
        if i in tape.kept_sum:
            self.segment.call("apply_mask", g.flat, tape.kept_sum[i])
        if is_shared:  # the mask of the convolution does not hold for what is added to it
            shared, g = g, self.segment.new(f"{self.nodes[i].name} output gradient", *g.shape)
            self.segment.call("copy", g.flat, shared.flat)
        self.segment.call("apply_mask", g.flat, tape.kept[i])
        return g
