"""The emitter of int8 passes: codes between the layers, float32 embeddings and gradients."""

import numpy as np

from tinytrain.network.network import Network
from tinytrain.network.quantisation import Codes, input_codes
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.program.autodiff.inner_channels import has_inner_channels
from tinytrain.program.autodiff.int8_conv import DENSE
from tinytrain.program.autodiff.int8_ops import INT8_OPS, add, int8_weight
from tinytrain.program.autodiff.ops import op_of
from tinytrain.program.autodiff.streamed import WITH_DENSE
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import LayerArray, Segment, View, Weight

DTYPES = {"scale": "float32", "lsb": "float32", "unit": "float32", "bias": "float32"}  # others are int32


class Int8Emitter(Emitter):
    """As `Emitter`, for a network with codes."""

    ops = INT8_OPS | DENSE
    streamed_kinds = WITH_DENSE

    def __init__(self, segment: Segment, network: Network, row_tile: int | None = None):
        super().__init__(segment, network, row_tile)
        self.whole_tiles = self.fast_path  # otherwise bytes are few
        self.codes = network.quantisation
        self.pixels, step = input_codes(network.input.mean, network.input.scale)
        self.pixel_step = np.float32(step)

    # ---- constants --------------------------------------------------------------------------------

    def codes_of(self, i: int) -> Codes:
        """Codes of what the convolution of layer i gives."""
        return self.codes.outputs[i]

    def codes_read(self, i: int) -> Codes:
        """Codes of the input of layer i, which is no image."""
        return self.codes.given(i - 1)

    def codes_before(self, i: int) -> Codes:
        """Codes of the input of the block of layer i."""
        return self.codes_read(self.network.block_start(i))

    def array(self, i: int, name: str) -> LayerArray:
        """An array (cout,) of layer i in the working copy."""
        return self.once(LayerArray, i, name, (self.layers[i].cout,), DTYPES.get(name, "int32"))

    def rescaling(self, i: int) -> tuple[LayerArray, ...]:
        return tuple(self.array(i, name) for name in ("folded bias", "factor", "shift"))

    def weight(self, i: int, transposed: bool = False, columns=None) -> Weight:
        return self.once(int8_weight, self.network, i)

    # ---- passes -----------------------------------------------------------------------------------

    def takes_block(self, i: int, tape: Tape) -> bool:
        return not self.fast_path and has_inner_channels(self, i, tape)

    def copy(self, y: View, x: View) -> None:
        self.segment.call("copy_codes", y, x)

    def add_fisher(self, i: int, total: View, a: View, g: View, first: int = 0) -> None:
        codes, count = self.codes_of(i), g.shape[-1]
        dots, scale = self.segment.new("fisher dots", count), np.float32(codes.scale)
        total = total.rows(first, first + count)
        self.segment.call("add_fisher_columns", total, dots, a.matrix, g.matrix, scale, codes.zero, first)

    def _taped_layer(self, x: View, i: int, added: View | None, tape: Tape) -> View:
        y = self._output(i)
        op_of(self, i).forward(self, i, y, x, None, None)
        if i in tape.hooked:
            tape.output[i] = y
        if i >= tape.cut:
            self.save(tape, i, x, y)
        if added is None:
            return y
        total = self._output(i, " sum") if i in tape.hooked else y
        add(self, i, total, y, added)
        if i >= tape.cut:
            tape.kept_sum[i] = self._inside(total, f"{self.layers[i].name} sum mask")
        return total

    def _inside(self, y: View, name: str) -> View:
        """A bit for each code of y: whether it is neither the lowest nor the highest."""
        bits = self.segment.new(name, -(-y.size // 8), dtype="uint8")
        self.segment.call("pack_inside", bits, y.flat)
        return bits

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        trained = tape.trained.get(i)
        tape.kept[i] = self._inside(y, f"{self.layers[i].name} mask")
        if trained is None or trained.weight is None:
            return
        kept = x.buffer in self.segment.external
        tape.saved_input[i] = x if kept else op_of(self, i).trained_input(self, i, x, trained)

    def pool(self, x: View) -> View:
        embedding = self.segment.new("embedding", self.n, x.shape[-1])
        codes, rows = self.codes.given(len(self.network.layers) - 1), x.reshape(self.n, -1, x.shape[-1])
        scale = np.float32(codes.scale / rows.shape[1])
        self.segment.call("pool_codes", embedding, rows, scale, codes.zero)
        return embedding

    def _convolution_grad(self, i: int, g: View, tape: Tape, skip_grads: dict[int, View]) -> View:
        if self.layers[i].residual:
            self.segment.call("apply_mask", g.flat, tape.kept_sum[i])
            start = self.network.block_start(i)
            if start > tape.cut:  # the mask of the convolution does not hold for what is added to it
                skip_grads[start] = g
                g = self.segment.new(f"{self.layers[i].name} output gradient", *g.shape)
                self.segment.call("copy", g.flat, skip_grads[start].flat)
        self.segment.call("apply_mask", g.flat, tape.kept[i])
        return g
