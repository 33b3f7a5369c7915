"""Kernel calls of a forward and a backward pass, emitted into a segment.

This is the project's automatic differentiation, and all of it happens before anything runs:
`forward` notes on a tape what the backward pass needs and nothing else; `backward` walks the tape
down to the shallowest trained layer. What is not selected is never computed.
"""

from collections.abc import Callable

from tinytrain.network.network import Network
from tinytrain.program.autodiff.fused_block import FUSED, fused_block
from tinytrain.program.autodiff.gradients import parameter_gradients
from tinytrain.program.autodiff.lite_residual import add_gradient, add_module, backward_module
from tinytrain.program.autodiff.ops import op_of
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Bias, Segment, View, Weight

# A row tile takes at most this many bytes: small enough to stay in a first- or second-level cache and to
# bound the arena, large enough to keep the number of calls low.
ROW_TILE_BYTES = 56_000


class Emitter:
    """Emits passes of `network` for the `segment.n` images of a segment.

    Kernels and the dtype of new buffers are those of the segment's backend. `row_tile` is the size of row
    tiles in bytes. Only passes that may take more bytes name one. They also take the fast paths, which need
    more memory.
    """

    def __init__(self, segment: Segment, network: Network, row_tile: int | None = None):
        self.segment, self.network, self.n = segment, network, segment.n
        self.row_tile, self.fast_path = row_tile or ROW_TILE_BYTES, row_tile is not None
        self.layers, self.modules = network.all_layers, {m.last: m for m in network.modules}

    def weight(self, i: int, transposed: bool = False, columns: tuple[int, int] | None = None) -> Weight:
        layer = self.layers[i]
        form = self.segment.backend.weight_form
        return Weight(i, (layer.fan_in, layer.cout), transposed, columns, dtype=form)

    def bias(self, i: int) -> Bias:
        return Bias(i, (self.layers[i].cout,))

    # ---- forward -------------------------------------------------------------------------

    def forward(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        """Output of layers [first, last) from x (n, height, width, channels).

        Without a tape nothing is saved, and the blocks of a single image are fused.
        """
        if tape is not None:
            return self._whole(x, first, last, tape)
        i = first
        while i < last:
            end = self._group_end(i, last)
            fused = self.n == 1 and self._is_fused(i, end)
            x = fused_block(self, x, i, end) if fused else self._whole(x, i, end)
            i = end
        return x

    def _group_end(self, first: int, last: int) -> int:
        """End of the layers computed together: a block, or a stem of one layer and the block fused to it."""
        layers = self.network.layers
        end = first + 1
        while end < last and layers[end].block == layers[first].block:
            end += 1
        if first == 0 and end == 1 and end < last:
            block_end = self._group_end(end, last)
            if self._is_fused(first, block_end) and not layers[block_end - 1].residual:
                return block_end
        return end

    def _is_fused(self, first: int, last: int) -> bool:
        return tuple(layer.kind for layer in self.layers[first:last]) in FUSED

    def _whole(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        skip = x
        for i in range(first, last):
            if i == self.network.block_start(i):
                skip = x
            if tape is not None and i in tape.hooked:
                y = self._hooked_layer(x, i, skip, tape)
            else:
                y = self._layer(x, i, skip)
            if tape is not None and i >= tape.cut:
                self.save(tape, i, x, y)
            if i in self.modules:
                add_module(self, y, skip, self.modules[i], tape)
            x = y
        return x

    def _hooked_layer(self, x: View, i: int, skip: View, tape: Tape) -> View:
        layer = self.layers[i]
        if not layer.residual and i not in self.modules:
            tape.output[i] = self._layer(x, i, skip)
            return tape.output[i]
        plain = self.segment.new(f"{layer.name} before addition", self.n, *layer.out_hw, layer.cout)
        y = self.segment.new(layer.name, *plain.shape)
        op_of(self, i).forward(self, i, plain, x, None)
        self.segment.call("copy", y.flat, plain.flat)
        if layer.residual:
            self.segment.call("accumulate", y.flat, skip.flat)
        tape.output[i] = plain
        return y

    def _layer(self, x: View, i: int, skip: View) -> View:
        layer = self.layers[i]
        y = self.segment.new(layer.name, self.n, *layer.out_hw, layer.cout)
        op_of(self, i).forward(self, i, y, x, skip if layer.residual else None)
        return y

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        """Note on the tape what the backward pass of layer i needs of its input x and output y."""
        layer, trained = self.layers[i], tape.trained.get(i)
        if layer.relu6:
            bits = self.segment.new(f"{layer.name} mask", -(-y.size // 8), dtype="uint8")
            self.segment.call("pack_mask", bits, y.flat)
            tape.mask[i] = bits
        if trained is None or trained.weight is None:
            return
        # An external input stays alive anyway: the backward pass copies what it needs of it.
        kept = x.buffer in self.segment.external
        tape.saved_input[i] = x if kept else op_of(self, i).trained_input(self, i, x, trained)

    def pool(self, x: View) -> View:
        """Embeddings (n, channels) of the last layer's output."""
        embedding = self.segment.new("embedding", self.n, x.shape[-1])
        self.segment.call("pool", embedding, x.reshape(self.n, -1, x.shape[-1]))
        return embedding

    # ---- backward ------------------------------------------------------------------------------

    def pool_grad(self, g: View) -> View:
        """Gradient of the last layer's output from that of the embeddings."""
        last = self.network.layers[-1]
        gx = self.segment.new("gradient after pooling", self.n, *last.out_hw, last.cout)
        self.segment.call("pool_grad", gx.reshape(self.n, -1, last.cout), g)
        return gx

    def backward(
        self, g: View, first: int, last: int, tape: Tape, hook: Callable[[int, View], None] | None = None
    ) -> View | None:
        """Gradient of the input of layer `first` from that of the output of layer `last - 1`.

        Accumulates the gradients of the trained layers; stops at the tape's cut (then returns None).
        `hook(i, g)` is called with the gradient of each layer's convolution output while it is alive.
        """
        skip_grads: dict[int, View] = {}
        module_grads: dict[int, View | None] = {}
        for i in range(last - 1, max(first, tape.cut) - 1, -1):
            layer = self.layers[i]
            start = self.network.block_start(i)
            if layer.residual:
                skip_grads[start] = g
            if layer.relu6:
                self.segment.call("apply_mask", g.flat, tape.mask[i])
            if hook is not None:
                hook(i, g)
            if i in self.modules:
                module_grads[start] = backward_module(self, g, self.modules[i], tape)
            if i in tape.trained:
                parameter_gradients(self, i, g, tape.trained[i], tape.saved_input.get(i))
            if i == tape.cut:
                return None
            g = op_of(self, i).grad_input(self, i, g)
            if i == start and start in skip_grads:
                self.segment.call("accumulate", g.flat, skip_grads[start].flat)
            if i == start and start in module_grads:
                add_gradient(self, g, module_grads[start])
        return g
