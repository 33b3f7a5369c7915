"""Kernel calls of a forward and a backward pass, emitted into a segment.

This is the project's automatic differentiation, and all of it happens before anything runs:
`forward` notes on a tape what the backward pass needs and nothing else; `backward` walks the tape
down to the shallowest trained layer. What is not selected is never computed.
"""

from collections.abc import Callable

from tinytrain.network.network import Network
from tinytrain.program.autodiff.activations import SMOOTH, activate, activation_grad, mask, smooth
from tinytrain.program.autodiff.fused_block import fused_block, is_fused
from tinytrain.program.autodiff.inner_channels import through_block
from tinytrain.program.autodiff.lite_residual import add_gradient, add_module, backward_module
from tinytrain.program.autodiff.ops import OPS, op_of, parameter_gradients
from tinytrain.program.autodiff.squeeze import scaled, scaled_grad
from tinytrain.program.autodiff.streamed import KINDS, streamed, streamed_layers
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Bias, LayerArray, Segment, View, Weight

# A row tile takes at most this many bytes in float32: small enough to stay in a first- or second-level cache
# and to bound the arena, large enough to keep the number of calls low.
ROW_TILE_BYTES = 56_000


class Emitter:
    """Emits passes of `network` in float32 for the `segment.n` images of a segment.

    `int8_emitter` has the one for int8. `row_tile` is the size of row
    tiles in bytes. Only passes that may take more bytes name one. They also take the fast paths, which need
    more memory.
    """

    ops = OPS
    streamed_kinds = KINDS  # of layers behind the first that `streamed` computes

    def __init__(self, segment: Segment, network: Network, row_tile: int | None = None):
        self.segment, self.network, self.n = segment, network, segment.n
        self.row_tile = row_tile or ROW_TILE_BYTES * segment.backend.itemsize // 4
        self.fast_path = row_tile is not None
        self.whole_tiles = True  # whether blocks with small inner values are computed in one row tile
        self.layers, self.modules = network.all_layers, {m.last: m for m in network.modules}
        self._constants: dict[tuple, Weight | Bias | LayerArray] = {}  # one object for all calls that name it

    @property
    def patch_bytes(self) -> int:
        """Bytes of the patches of a convolution at a time; the rest of a row tile is made of them."""
        return self.row_tile // 2 if self.fast_path else self.row_tile // 4

    def weight(self, i: int, transposed: bool = False, columns: tuple[int, int] | None = None) -> Weight:
        layer = self.layers[i]
        form = self.segment.backend.weight_form
        return self.once(Weight, i, (layer.fan_in, layer.cout), transposed, columns, False, form)

    def bias(self, i: int) -> Bias:
        return self.once(Bias, i, (self.layers[i].cout,))

    def once(self, kind: Callable, *fields) -> Weight | Bias | LayerArray:
        """``kind(*fields)``, the same object whenever it is asked for: thousands of calls name few arrays."""
        key = kind, *fields
        if key not in self._constants:
            self._constants[key] = kind(*fields)
        return self._constants[key]

    def copy(self, y: View, x: View) -> None:
        """y = x, which may overlap."""
        self.segment.call("copy", y, x)

    def add_fisher(self, i: int, total: View, a: View, g: View, first: int = 0) -> None:
        """Add to the Fisher information of layer i, from its output a and the gradient g of that.

        g may be that of some channels from `first` on, in int8.
        """
        dots = self.segment.new("fisher dots", g.shape[-1])
        self.segment.call("add_fisher", total, dots, a.matrix, g.matrix)

    # ---- forward -------------------------------------------------------------------------

    def forward(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        """Output of layers [first, last) from x (n, height, width, channels).

        Without a tape nothing is saved, and the blocks of a single image are fused.
        """
        if tape is not None:
            return self._whole(x, first, last, tape)
        i = self.streams(x, first, last)
        if i:
            x = streamed(self, x, i)
        else:
            i = first
        while i < last:
            end = self._group_end(i, last)
            fused = self.n == 1 and is_fused(self.layers, i, end)
            x = fused_block(self, x, i, end) if fused else self._whole(x, i, end)
            i = end
        return x

    def streams(self, x: View, first: int, last: int) -> int:
        """How many of the layers [first, last) are computed by `streamed`, beginning with an image x."""
        if self.fast_path or self.modules or first or self.n > 1:
            return 0
        row_tile = self.row_tile // self.segment.backend.itemsize
        return streamed_layers(self.layers, last, row_tile, self.streamed_kinds)

    def takes_block(self, i: int, tape: Tape) -> bool:
        """Whether the gradient goes through the block that layer i ends for some channels at a time."""
        return False

    def _group_end(self, first: int, last: int) -> int:
        """End of the layers computed together: a block, or a stem of one layer and the block fused to it."""
        layers = self.network.layers
        end = first + 1
        while end < last and layers[end].block == layers[first].block:
            end += 1
        if first == 0 and end == 1 and end < last:
            block_end = self._group_end(end, last)
            if is_fused(self.layers, first, block_end) and not layers[block_end - 1].residual:
                return block_end
        return end

    def _whole(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        skip = squeezed = x
        for i in range(first, last):
            layer = self.layers[i]
            if i == self.network.block_start(i):
                skip = x
            if layer.squeezes:
                squeezed = x
            source, added = (skip, x) if layer.shortcut else (x, skip if layer.residual else None)
            if tape is None:
                y = self._output(i)
                op_of(self, i).forward(self, i, y, source, added, layer.follows)
            else:
                y = self._taped_layer(source, i, added, tape)
            if i in self.modules:
                add_module(self, y, skip, self.modules[i], tape)
            x = self._after(y, i, squeezed, tape)
        return x

    def _output(self, i: int, what: str = "") -> View:
        """A new view for what the convolution of layer i gives."""
        layer = self.layers[i]
        return self.segment.activations(f"{layer.name}{what}", self.n, *layer.filter_hw, layer.cout)

    def _taped_layer(self, x: View, i: int, added: View | None, tape: Tape) -> View:
        layer, hooked, forward = self.layers[i], i in tape.hooked, op_of(self, i).forward
        y = self._output(i)
        plain = y
        if layer.follows in SMOOTH and (hooked or i >= tape.cut):
            plain = self._output(i, " before activation")
            forward(self, i, plain, x, added, None)
            smooth(self.segment, layer.follows, y, plain)
        elif hooked and (added is not None or i in self.modules):
            plain = self._output(i, " before addition")
            forward(self, i, plain, x, None, None)
            self.segment.call("copy", y.flat, plain.flat)
            if added is not None:
                self.segment.call("accumulate", y.flat, added.flat)
            activate(self.segment, layer.follows, y)
        else:
            forward(self, i, y, x, added, layer.follows)
        if hooked:
            tape.output[i] = plain
        if i >= tape.cut:
            self.save(tape, i, x, plain if layer.follows in SMOOTH else y)
        return y

    def _after(self, y: View, i: int, squeezed: View, tape: Tape | None) -> View:
        """What layer i makes of what its convolution and activation give."""
        layer, noted = self.layers[i], tape is not None and i >= tape.cut
        if layer.excites:
            x = self.segment.activations(f"{layer.name} scaled", *squeezed.shape)
            scaled(self, x, squeezed, y)
            if noted:
                tape.scaled[i] = squeezed, y
            return x
        if not layer.max_pool:
            return y
        x = self.segment.activations(f"{layer.name} pooled", self.n, *layer.out_hw, layer.cout)
        self.segment.call("max_pool", x, y)
        if noted:
            tape.taps[i] = self.segment.new(f"{layer.name} taps", *x.shape, dtype="uint8")
            self.segment.call("max_taps", tape.taps[i], y, x)
        return x

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        """Note on the tape what the backward pass of layer i needs of its input x and its output y.

        y is what the activation gives, or what it takes if that is one of `SMOOTH`.
        """
        layer, trained = self.layers[i], tape.trained.get(i)
        if layer.follows in SMOOTH:
            tape.kept[i] = y
        elif layer.follows:
            tape.kept[i] = mask(self.segment, layer.follows, y, f"{layer.name} mask")
        if trained is None or trained.weight is None:
            return
        # An external input stays alive anyway: the backward pass copies what it needs of it.
        kept = x.buffer in self.segment.external
        tape.saved_input[i] = x if kept else op_of(self, i).trained_input(self, i, x, trained)

    def pool(self, x: View) -> View:
        """Embeddings (n, channels) of the last layer's output."""
        embedding = self.segment.activations("embedding", self.n, x.shape[-1])
        self.segment.call("pool", embedding, x.reshape(self.n, -1, x.shape[-1]))
        return embedding

    # ---- backward ------------------------------------------------------------------------------

    def pool_grad(self, g: View) -> View:
        """Gradient of the last layer's output from that of the embeddings."""
        last = self.network.layers[-1]
        gx = self.segment.new("gradient after pooling", self.n, *last.out_hw, last.cout)
        self.segment.call("pool_grad", gx.reshape(self.n, -1, last.cout), g)
        return gx

    def _pooled_grad(self, g: View, i: int, tape: Tape) -> View:
        """Gradient of what layer i pools from that of its output."""
        layer = self.layers[i]
        gx = self.segment.new(f"{layer.name} gradient before pooling", self.n, *layer.filter_hw, layer.cout)
        self.segment.call("max_pool_grad", gx, g, tape.taps[i])
        return gx

    def _excited_grad(self, g: View, i: int, tape: Tape) -> tuple[View, View]:
        """Gradients of the factors of layer i, and of what it scales with them: this one overwrites g."""
        squeezed, factors = tape.scaled[i]
        found = scaled_grad(self, i, g, squeezed)
        if i - 1 > tape.cut:
            scaled(self, g, g, factors)
        return found, g

    def _convolution_grad(self, i: int, g: View, tape: Tape, skip_grads: dict[int, View]) -> View:
        """Gradient of what the convolution of layer i gives from that of its output; notes what is added."""
        layer = self.layers[i]
        if layer.follows:
            activation_grad(self.segment, layer.follows, g, tape.kept[i])
        if layer.residual:
            skip_grads[self.network.block_start(i)] = g
        return g

    def backward(
        self, g: View, first: int, last: int, tape: Tape, hook: Callable[[int, View, int], None] | None = None
    ) -> View | None:
        """Gradient of the input of layer `first` from that of the output of layer `last - 1`.

        Accumulates the gradients of the trained layers; stops at the tape's cut (then returns None).
        `hook(i, g, first)` is called with the gradient of each layer's convolution output while it is alive,
        of its channels from `first` on.
        """
        skip_grads: dict[int, View] = {}
        module_grads: dict[int, View | None] = {}
        scaled_grads: dict[int, View] = {}
        order = iter(range(last - 1, max(first, tape.cut) - 1, -1))
        for i in order:
            layer = self.layers[i]
            start = self.network.block_start(i)
            if layer.excites:
                g, scaled_grads[i - 1] = self._excited_grad(g, i, tape)
            elif layer.max_pool:
                g = self._pooled_grad(g, i, tape)
            g = self._convolution_grad(i, g, tape, skip_grads)
            if hook is not None:
                hook(i, g, 0)
            if i in self.modules:
                module_grads[start] = backward_module(self, g, self.modules[i], tape)
            if i in tape.trained:
                parameter_gradients(self, i, g, tape.trained[i], tape.saved_input.get(i))
            if i == tape.cut:
                return None
            if layer.shortcut:  # what the layer before gives was added: its gradient is g, too
                if start > tape.cut:
                    skip_grads[start] = op_of(self, i).grad_input(self, i, g)
                continue
            if self.takes_block(i, tape):
                g = through_block(self, i, g, tape, hook)
                next(order)
                i = next(order)  # the first layer of the block
                if g is None:
                    return None
            else:
                g = op_of(self, i).grad_input(self, i, g)
            if i in scaled_grads:
                self.segment.call("accumulate", g.flat, scaled_grads[i].flat)
            if i == start and start in skip_grads:
                self.segment.call("accumulate", g.flat, skip_grads[start].flat)
            if i == start and start in module_grads:
                add_gradient(self, g, module_grads[start])
        return g
