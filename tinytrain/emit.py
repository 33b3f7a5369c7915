"""Kernel calls of a forward and a backward pass, emitted into a segment.

This is the project's automatic differentiation, and all of it happens before anything runs:
`forward` notes on a tape what the backward pass needs and nothing else; `backward` walks the tape
down to the shallowest trained layer. What is not selected is never computed.
"""

from dataclasses import dataclass, field

import numpy as np

from tinytrain.emitmodule import add_module, backward_module
from tinytrain.network import Layer, Network
from tinytrain.program import Bias, Columns, Segment, View, Weight

# A block whose inner values take more than WHOLE_BYTES streams in bands of at most BAND_BYTES: small
# enough to stay in a first- or second-level cache and to bound the arena, large enough to keep the
# number of calls low.
WHOLE_BYTES = 140_000
BAND_BYTES = 56_000
# Weight gradients of a pointwise layer pass through a scratch of at most this many bytes.
SCRATCH_BYTES = 16_384
# Kinds of layers that are streamed together, a few rows at a time; other blocks are computed whole.
STREAMED = {("depthwise", "pointwise"), *((k, "depthwise", "pointwise") for k in ("conv", "pointwise"))}


@dataclass(frozen=True)
class Trained:
    """Where the gradient of one layer accumulates: weight (rows, k) and bias (cout,) views, or None.

    `channels` is the number k of trained output channels, `inputs` that of the input channels whose
    weights are trained (pointwise layers only: rows = inputs); None stands for all of them.
    """

    weight: View | None
    bias: View | None
    channels: int | None
    inputs: int | None = None


@dataclass
class Tape:
    """What a forward pass leaves for the backward pass that follows it, by layer index.

    Layers from `cut` on leave their masks, the `trained` ones their inputs, and those in `tapped`
    the output of their convolution (after the bias, before the residual addition).
    """

    cut: int
    trained: dict[int, Trained] = field(default_factory=dict)
    tapped: frozenset[int] = frozenset()
    mask: dict[int, View] = field(default_factory=dict)
    saved_input: dict[int, View] = field(default_factory=dict)
    output: dict[int, View] = field(default_factory=dict)


def _matrix(view: View, channels: int) -> View:
    return view.reshape(-1, channels)


class Emitter:
    """Emits passes of `network` for the `segment.n` pictures of a segment."""

    def __init__(self, segment: Segment, network: Network, band: int | None = None):
        self.segment, self.network, self.n, self.band = segment, network, segment.n, band or BAND_BYTES
        self.layers, self.modules = network.all_layers, {m.last: m for m in network.modules}

    # ---- forward -------------------------------------------------------------------------

    def forward(self, x: View, first: int, last: int, tape: Tape | None = None) -> View:
        """Output of layers [first, last) from x (n, height, width, channels).

        Without a tape nothing is saved, and the blocks of a single picture stream by rows.
        """
        if tape is not None:
            return self._whole(x, first, last, tape)
        i = first
        while i < last:
            end = self._group_end(i, last)
            streams = self.n == 1 and tuple(k.kind for k in self.layers[i:end]) in STREAMED
            x = self._streamed(x, i, end) if streams else self._whole(x, i, end)
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
        rows = _matrix(plain, layer.cout)
        self.segment.call("matmul", rows, _matrix(x, layer.cin), Weight(i), macs=y.size * layer.fan_in)
        self.segment.call("add_bias", rows, Bias(i))
        self.segment.call("copy", y.flat, plain.flat)
        if layer.residual:
            self.segment.call("accumulate", y.flat, skip.flat)
        tape.output[i] = plain
        return y

    def _layer(self, x: View, i: int, skip: View) -> View:
        layer = self.layers[i]
        y = self.segment.new(layer.name, self.n, *layer.out_hw, layer.cout)
        if layer.kind == "depthwise":
            self._depthwise(y, x, i, layer.pad)
        elif layer.kind == "pointwise":
            self.pointwise(y, x, i, skip)
        else:
            for k in range(self.n):
                self._dense_conv(y.rows(k, k + 1).reshape(*y.shape[1:]), x.rows(k, k + 1), i)
        return y

    def _depthwise(self, y: View, x: View, i: int, top: int) -> None:
        layer = self.layers[i]
        self.segment.call(
            "depthwise_forward", y, x, Weight(i), Bias(i), layer.kernel, layer.stride, top, layer.relu6,
            macs=y.size * layer.fan_in,
        )  # fmt: skip

    def pointwise(self, y: View, x: View, i: int, skip: View | None) -> None:
        """y = output of pointwise layer i from its input x, of any rows of any pictures."""
        layer = self.layers[i]
        rows = _matrix(y, layer.cout)
        self.segment.call("matmul", rows, _matrix(x, layer.cin), Weight(i), macs=y.size * layer.fan_in)
        if layer.relu6:
            self.segment.call("add_bias_relu6", rows, Bias(i))
        elif layer.residual:
            self.segment.call("add_bias_residual", rows, Bias(i), _matrix(skip, layer.cout))
        else:
            self.segment.call("add_bias", rows, Bias(i))

    def _dense_conv(self, y: View, picture: View, i: int) -> None:
        """Rows of one picture by bands: unfold some rows, multiply, next band."""
        layer = self.layers[i]
        rows = self._dense_rows(layer)
        patches = self.segment.new(f"{layer.name} patches", rows, layer.out_hw[1], layer.fan_in)
        for first in range(0, layer.out_hw[0], rows):
            last = min(first + rows, layer.out_hw[0])
            self._dense_band(y.rows(first, last), patches.rows(0, last - first), picture, i, first)

    def _dense_band(self, y: View, patches: View, picture: View, i: int, first: int) -> None:
        layer = self.layers[i]
        self._unfold(patches, picture, layer, first)
        rows = _matrix(y, layer.cout)
        self.segment.call(
            "matmul", rows, _matrix(patches, layer.fan_in), Weight(i), macs=y.size * layer.fan_in
        )
        self.segment.call("add_bias_relu6" if layer.relu6 else "add_bias", rows, Bias(i))

    def _unfold(self, patches: View, picture: View, layer: Layer, first: int) -> None:
        contract = self.network.preprocessing
        self.segment.call(
            "unfold", patches, picture.reshape(*layer.in_hw, 3), layer.kernel, layer.stride, first,
            np.float32(contract.mean), np.float32(contract.scale),
        )  # fmt: skip

    @staticmethod
    def _dense_rows(layer: Layer) -> int:
        per_row = 4 * layer.out_hw[1] * layer.fan_in
        return max(1, min(layer.out_hw[0], BAND_BYTES // 2 // per_row))

    def _streamed(self, x: View, first: int, last: int) -> View:
        """[producer,] depthwise, pointwise of one picture, a few output rows at a time.

        Only the rows of the producer that the depthwise filter still needs are alive: the rows
        two bands share move to the front of the buffer, the rest is computed once.
        """
        depthwise = next(k for k in range(first, last) if self.layers[k].kind == "depthwise")
        dw, out = self.layers[depthwise], self.layers[last - 1]
        y = self.segment.new(out.name, 1, *out.out_hw, out.cout)
        bands = self._bands(first, depthwise)
        held = max(high - low for _, _, low, high in bands)
        width, channels = dw.in_hw[1], dw.cin
        mid = self.segment.new(f"{dw.name} input rows", held, width, channels) if depthwise > first else None
        rows = max(b - a for a, b, _, _ in bands)
        filtered = self.segment.new(f"{dw.name} rows", rows, dw.out_hw[1], dw.cout)
        picture_rows = x.reshape(*self.layers[first].in_hw, self.layers[first].cin)
        before = (0, 0)
        for a, b, low, high in bands:
            if mid is None:
                source = picture_rows.rows(low, high)
            else:
                self._produce(mid, picture_rows, first, before, low, high)
                source = mid.rows(0, high - low)
                before = (low, high)
            part = filtered.rows(0, b - a)
            top = low - (a * dw.stride - dw.pad)
            self._depthwise(part.reshape(1, *part.shape), source.reshape(1, *source.shape), depthwise, top)
            skip = picture_rows.rows(a, b) if out.residual else None
            self.pointwise(y.reshape(*y.shape[1:]).rows(a, b), part, last - 1, skip)
        if last - 1 in self.modules:
            add_module(self, y, x, self.modules[last - 1], None)
        return y

    def _bands(self, first: int, depthwise: int) -> list[tuple[int, int, int, int]]:
        """(first, last) output rows and the (first, last) input rows of the depthwise layer they need."""
        dw = self.layers[depthwise]
        count, height = dw.out_hw[0], dw.in_hw[0]
        in_row = 4 * dw.in_hw[1] * dw.cin if depthwise > first else 0
        out_row = 4 * dw.out_hw[1] * dw.cout
        rows = count
        while rows > 1:
            held = min(height, (rows - 1) * dw.stride + dw.kernel)
            limit = max(WHOLE_BYTES, self.band) if rows == count else self.band
            if held * in_row + rows * out_row <= limit:
                break
            rows = (rows + 1) // 2
        bands = []
        for a in range(0, count, rows):
            b = min(a + rows, count)
            low = max(0, a * dw.stride - dw.pad)
            high = min(height, (b - 1) * dw.stride - dw.pad + dw.kernel)
            bands.append((a, b, low, high))
        return bands

    def _produce(self, mid: View, x: View, i: int, before: tuple[int, int], low: int, high: int) -> None:
        """Rows [low, high) of layer i's output into the front of `mid`, which holds rows `before`."""
        kept = max(0, before[1] - low)
        moved = low - before[0]
        if kept and moved:
            self.segment.call("copy", mid.rows(0, kept).flat, mid.rows(moved, moved + kept).flat)
        new = mid.rows(kept, high - low)
        layer = self.layers[i]
        if layer.kind == "conv":
            step = self._dense_rows(layer)
            patches = self.segment.new(f"{layer.name} patches", step, layer.out_hw[1], layer.fan_in)
            for start in range(0, new.shape[0], step):
                part = new.rows(start, min(start + step, new.shape[0]))
                self._dense_band(part, patches.rows(0, part.shape[0]), x, i, low + kept + start)
        else:
            self.pointwise(new, x.rows(low + kept, high), i, None)

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
        tape.saved_input[i] = x if kept else self._trained_input(i, x, trained)

    def _trained_input(self, i: int, x: View, trained: Trained) -> View:
        """The channels of layer i's input that its weight gradient reads: a copy where they are some."""
        if self.layers[i].kind == "depthwise":
            count, columns = trained.channels, Columns(i)
        else:
            count, columns = trained.inputs, Columns(i, "inputs")
        if count is None or count == x.shape[-1]:
            return x
        return self._some_channels(x, f"{self.layers[i].name} saved input", count, columns)

    def _some_channels(self, x: View, name: str, count: int, columns: Columns) -> View:
        """A copy of the `count` channels of x that `columns` names."""
        part = self.segment.new(name, *x.shape[:3], count)
        self.segment.call("gather_columns", _matrix(part, count), _matrix(x, x.shape[-1]), columns)
        return part

    # ---- backward ------------------------------------------------------------------------------

    def pool(self, x: View) -> View:
        """Embeddings (n, channels) of the last layer's output."""
        embedding = self.segment.new("embedding", self.n, x.shape[-1])
        self.segment.call("pool", embedding, x.reshape(self.n, -1, x.shape[-1]))
        return embedding

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
                self.parameter_gradients(i, g, tape.trained[i], tape.saved_input.get(i))
            if i == tape.cut:
                return None
            g = self.grad_input(i, g)
            if i == start and start in skip_grads:
                self.segment.call("accumulate", g.flat, skip_grads[start].flat)
            if i == start and start in module_grads:
                self.segment.call("pool2_grad", g, module_grads[start])
        return g

    def grad_input(self, i: int, g: View) -> View:
        """Gradient of the input of layer i from that of its convolution's output."""
        layer = self.layers[i]
        gx = self.segment.new(f"{layer.name} gradient", self.n, *layer.in_hw, layer.cin)
        macs = self.n * layer.macs
        if layer.kind == "depthwise":
            zeros = self.segment.new(f"{layer.name} zeros", layer.cout)
            self.segment.call(
                "depthwise_grad_input", gx, zeros, g, Weight(i), layer.kernel, layer.stride,
                macs=macs, part="grad_input",
            )  # fmt: skip
        elif layer.kind == "grouped":
            self.segment.call(
                "grouped_grad_input", gx, g, Weight(i), layer.kernel, layer.stride, layer.groups,
                macs=macs, part="grad_input",
            )  # fmt: skip
        else:
            self.segment.call(
                "matmul", _matrix(gx, layer.cin), _matrix(g, layer.cout), Weight(i, transposed=True),
                macs=macs, part="grad_input",
            )  # fmt: skip
        return gx

    def parameter_gradients(self, i: int, g: View, trained: Trained, x: View | None) -> None:
        """Add to the gradients of layer i, from its input x and its convolution's output gradient g."""
        layer = self.layers[i]
        if trained.bias is not None:
            self.segment.call("add_column_sums", trained.bias, _matrix(g, layer.cout))
        if trained.weight is None:
            return
        x = self._trained_input(i, x, trained)
        if trained.channels is not None:
            g = self._some_channels(g, f"{layer.name} selected gradient", trained.channels, Columns(i))
        if layer.kind == "depthwise":
            self.segment.call(
                "depthwise_grad_weight", trained.weight, x, g, layer.kernel, layer.stride,
                macs=g.size * layer.fan_in, part="grad_weight",
            )  # fmt: skip
        elif layer.kind == "grouped":
            self.segment.call(
                "grouped_grad_weight", trained.weight, x, g, layer.kernel, layer.stride, layer.groups,
                macs=self.n * layer.macs, part="grad_weight",
            )  # fmt: skip
        elif layer.kind == "pointwise":
            self._grad_matrix(trained.weight, _matrix(x, x.shape[-1]), _matrix(g, g.shape[-1]))
        else:
            self._grad_dense(i, trained.weight, x, g)

    def _grad_matrix(self, gw: View, x: View, g: View) -> None:
        """gw += x^T g, some rows at a time through a scratch: numpy's BLAS does not accumulate."""
        fan_in, count = gw.shape
        rows = max(1, min(fan_in, SCRATCH_BYTES // (4 * count)))
        scratch = self.segment.new("weight gradient scratch", rows, count)
        for first in range(0, fan_in, rows):
            last = min(first + rows, fan_in)
            part = scratch.rows(0, last - first)
            self.segment.call(
                "matmul", part, x.columns(first, last).T, g,
                macs=x.shape[0] * part.size, part="grad_weight",
            )  # fmt: skip
            self.segment.call("accumulate", gw.rows(first, last).flat, part.flat)

    def _grad_dense(self, i: int, gw: View, x: View, g: View) -> None:
        layer = self.layers[i]
        rows = self._dense_rows(layer)
        patches = self.segment.new(f"{layer.name} patches", rows, layer.out_hw[1], layer.fan_in)
        for k in range(self.n):
            picture, gk = x.rows(k, k + 1), g.rows(k, k + 1).reshape(*g.shape[1:])
            for first in range(0, layer.out_hw[0], rows):
                last = min(first + rows, layer.out_hw[0])
                part = patches.rows(0, last - first)
                self._unfold(part, picture, layer, first)
                self._grad_matrix(gw, _matrix(part, layer.fan_in), _matrix(gk.rows(first, last), gw.shape[1]))
