"""Kernel calls of a forward and a backward pass, emitted into a segment.

This is the project's automatic differentiation, and all of it happens before anything runs:
`forward` notes on a tape what the backward pass needs and nothing else; `backward` walks the tape
down to the shallowest trained layer. What is not selected is never computed.
"""

from collections.abc import Iterator

import numpy as np

from tinytrain.network.network import Network
from tinytrain.program.autodiff.gradients import grad_input, parameter_gradients, trained_input
from tinytrain.program.autodiff.lite_residual import add_gradient, add_module, backward_module
from tinytrain.program.autodiff.row_streaming import STREAMED, streamed
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Bias, Segment, View, Weight

# What is computed in bands takes at most this many bytes at once: small enough to stay in a first- or
# second-level cache and to bound the arena, large enough to keep the number of calls low.
BAND_BYTES = 56_000


class Emitter:
    """Emits passes of `network` for the `segment.n` images of a segment.

    With a `band` of their own, which only passes have that may take more bytes, other ways are taken as well
    that are faster and take more.
    """

    def __init__(self, segment: Segment, network: Network, band: int | None = None):
        self.segment, self.network, self.n, self.band = segment, network, segment.n, band or BAND_BYTES
        self.roomy = band is not None
        self.layers, self.modules = network.all_layers, {m.last: m for m in network.modules}

    def weight(self, i: int, transposed: bool = False, columns: tuple[int, int] | None = None) -> Weight:
        layer = self.layers[i]
        return Weight(i, (layer.fan_in, layer.cout), transposed, columns)

    def bias(self, i: int) -> Bias:
        return Bias(i, (self.layers[i].cout,))

    # ---- forward -------------------------------------------------------------------------

    def forward(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        """Output of layers [first, last) from x (n, height, width, channels).

        Without a tape nothing is saved, and the blocks of a single image stream by rows.
        """
        if tape is not None:
            return self._whole(x, first, last, tape)
        i = first
        while i < last:
            end = self._group_end(i, last)
            streams = self.n == 1 and tuple(k.kind for k in self.layers[i:end]) in STREAMED
            x = streamed(self, x, i, end) if streams else self._whole(x, i, end)
            i = end
        return x

    def _group_end(self, first: int, last: int) -> int:
        """End of the layers computed together: a block, or the stem with a block that does not expand."""
        layers = self.network.layers
        end = first + 1
        while end < last and layers[end].block == layers[first].block:
            end += 1
        lone_stem = end == first + 1 and layers[first].kind == "conv"
        if lone_stem and end < last and layers[end].kind == "depthwise":
            block_end = self._group_end(end, last)
            return end if layers[block_end - 1].residual else block_end
        return end

    def _whole(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        skip = x
        for i in range(first, last):
            if i == self.network.block_start(i):
                skip = x
            if tape is not None and i in tape.tapped:
                y = self._tapped_layer(x, i, skip, tape)
            else:
                y = self._layer(x, i, skip)
            if tape is not None and i >= tape.cut:
                self.save(tape, i, x, y)
            if i in self.modules:
                add_module(self, y, skip, self.modules[i], tape)
            x = y
        return x

    def _tapped_layer(self, x: View, i: int, skip: View, tape: Tape) -> View:
        layer = self.layers[i]
        if not layer.residual and i not in self.modules:
            tape.output[i] = self._layer(x, i, skip)
            return tape.output[i]
        plain = self.segment.new(f"{layer.name} before addition", self.n, *layer.out_hw, layer.cout)
        y = self.segment.new(layer.name, *plain.shape)
        self.pointwise(plain, x, i, None)
        self.segment.call("copy", y.flat, plain.flat)
        if layer.residual:
            self.segment.call("accumulate", y.flat, skip.flat)
        tape.output[i] = plain
        return y

    def _layer(self, x: View, i: int, skip: View) -> View:
        layer = self.layers[i]
        y = self.segment.new(layer.name, self.n, *layer.out_hw, layer.cout)
        if layer.kind == "depthwise":
            self.depthwise(y, x, i, layer.pad)
        elif layer.kind == "pointwise":
            self.pointwise(y, x, i, skip if layer.residual else None)
        else:
            for k in range(self.n):
                self.dense_conv(y.rows(k, k + 1).reshape(*y.shape[1:]), x.rows(k, k + 1), i, 0)
        return y

    def depthwise(self, y: View, x: View, i: int, top: int) -> None:
        """y = output of depthwise layer i; `top` rows of zeros lie above its input rows x."""
        layer = self.layers[i]
        self.segment.call(
            "depthwise_forward", y, x, self.weight(i), self.bias(i),
            layer.kernel, layer.stride, top, layer.relu6,
        )  # fmt: skip

    def pointwise(self, y: View, x: View, i: int, skip: View | None) -> None:
        """y = output of pointwise layer i from its input x, of any rows of any images.

        `skip` is the residual addition, None where there is none or where it is left to the caller.
        """
        layer, rows = self.layers[i], y.matrix
        self.segment.call("matmul", rows, x.matrix, self.weight(i))
        if layer.relu6:
            self.segment.call("add_bias_relu6", rows, self.bias(i))
        elif skip is not None:
            self.segment.call("add_bias_residual", rows, self.bias(i), skip.matrix)
        else:
            self.segment.call("add_bias", rows, self.bias(i))

    def dense_conv(self, y: View, image: View, i: int, first: int) -> None:
        """y = output rows of dense convolution i of one image, from row `first` on, by bands."""
        layer, last = self.layers[i], first + y.shape[0]
        patches = self.patches(i, layer.out_hw[0])
        for a, b, part in self.unfolded(patches, image, i, first, last):
            rows = y.rows(a - first, b - first).matrix
            self.segment.call("matmul", rows, part.matrix, self.weight(i))
            self.segment.call("add_bias_relu6" if layer.relu6 else "add_bias", rows, self.bias(i))

    def patches(self, i: int, count: int) -> View:
        """Room for what convolution i reads for some of `count` output rows: (rows, width, fan_in).

        Half of a band: the other half is for what is made of them.
        """
        layer = self.layers[i]
        rows = min(count, self.band // 2 // (4 * layer.out_hw[1] * layer.fan_in))
        return self.segment.new(f"{layer.name} patches", max(1, rows), layer.out_hw[1], layer.fan_in)

    def unfolded(
        self, patches: View, image: View, i: int, first: int, last: int
    ) -> Iterator[tuple[int, int, View]]:
        """Output rows [first, last) by bands: (their first, their last, `patches` filled for them)."""
        layer, spec = self.layers[i], self.network.input
        norm = [np.tile(np.array(values, np.float32), layer.kernel) for values in (spec.mean, spec.scale)]
        for a in range(first, last, patches.shape[0]):
            b = min(a + patches.shape[0], last)
            part = patches.rows(0, b - a)
            self.segment.call(
                "unfold", part, image.reshape(*spec.shape), layer.kernel, layer.stride, a, *norm
            )
            yield a, b, part

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        """Note on the tape what the backward pass of layer i needs of its input x and output y."""
        layer, trained = self.layers[i], tape.trained.get(i)
        if layer.relu6:
            bits = self.segment.new(f"{layer.name} mask", -(-y.size // 8), dtype="uint8")
            self.segment.call("pack_mask", bits, y.flat)
            tape.mask[i] = bits
        if trained is None or trained.weight is None:
            return
        # What others keep alive anyway is not copied before it is needed.
        kept = x.buffer in self.segment.external
        tape.saved_input[i] = x if kept else trained_input(self, i, x, trained)

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

    def backward(self, g: View, first: int, last: int, tape: Tape, tap=None) -> View | None:
        """Gradient of the input of layer `first` from that of the output of layer `last - 1`.

        Accumulates the gradients of the trained layers; stops at the tape's cut (then returns None).
        `tap(i, g)` is called with the gradient of each layer's convolution output while it is alive.
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
            if tap is not None:
                tap(i, g)
            if i in self.modules:
                module_grads[start] = backward_module(self, g, self.modules[i], tape)
            if i in tape.trained:
                parameter_gradients(self, i, g, tape.trained[i], tape.saved_input.get(i))
            if i == tape.cut:
                return None
            g = grad_input(self, i, g)
            if i == start and start in skip_grads:
                self.segment.call("accumulate", g.flat, skip_grads[start].flat)
            if i == start and start in module_grads:
                add_gradient(self, g, module_grads[start])
        return g
