"""Kernel calls of a forward and a backward pass, emitted into a segment.

This is the project's automatic differentiation, and all of it happens before anything runs:
`forward` notes on a tape what the backward pass needs and nothing else; `backward` walks the tape
down to the shallowest trained layer. What is not selected is never computed.
"""

from collections.abc import Callable

from tinytrain.network.network import Network
from tinytrain.network.node import reached
from tinytrain.program.autodiff.activations import INPUT, OUTPUT, activate, activation_grad, keeps_of, kept
from tinytrain.program.autodiff.fused_block import end_of_fused, fused_block
from tinytrain.program.autodiff.ops import IMAGE, OPS, Op
from tinytrain.program.autodiff.streamed import streamed, streamed_nodes
from tinytrain.program.autodiff.tape import Tape, Trained
from tinytrain.program.calls import Bias, LayerArray, Segment, View, Weight

# A row tile takes at most this many bytes in float32: small enough to stay in a first- or second-level cache
# and to bound the arena, large enough to keep the number of calls low.
ROW_TILE_BYTES = 56_000


class Emitter:
    """Emits passes of `network` in float32 for the `segment.n` images of a segment.

    `int8_emitter` has the one for int8. `row_tile` is the size of row tiles in bytes. Only passes that may
    take more bytes name one. They also take the fast paths, which need more memory.

    `nodes` are those of `Network.graph`, which i counts; `sources` and `numbers` are as there.
    """

    ops = OPS

    def __init__(self, segment: Segment, network: Network, row_tile: int | None = None):
        self.segment, self.network, self.n = segment, network, segment.n
        self.row_tile = row_tile or ROW_TILE_BYTES * segment.backend.itemsize // 4
        self.fast_path = row_tile is not None
        self.whole_tiles = True  # whether blocks with small inner values are computed in one row tile
        self.nodes, self.sources, self.numbers = network.graph, network.sources, network.numbers
        self._constants: dict[tuple, Weight | Bias | LayerArray] = {}  # one object for all calls that name it

    @property
    def patch_bytes(self) -> int:
        """Bytes of the patches of a convolution at a time; the rest of a row tile is made of them."""
        return self.row_tile // 2 if self.fast_path else self.row_tile // 4

    def weight(self, i: int, transposed: bool = False, columns: tuple[int, int] | None = None) -> Weight:
        node, form = self.nodes[i], self.segment.backend.weight_form
        return self.once(Weight, self.numbers[i], (node.fan_in, node.cout), transposed, columns, False, form)

    def bias(self, i: int) -> Bias:
        return self.once(Bias, self.numbers[i], (self.nodes[i].cout,))

    def op(self, i: int) -> Op:
        """The row of node i in the table of ops."""
        of_image = self.sources[i] == (-1,) and self.nodes[i].row.is_dense
        return self.ops[IMAGE if of_image else self.nodes[i].op]

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
        """Output of what lies from layer `first` to before layer `last`, from x (n, height, width, channels).

        Without a tape nothing is saved, and the blocks of a single image are fused.
        """
        i, end = self.network.position(first), self.network.position(last)
        if tape is not None:
            return self._whole({i - 1: x}, i, end, tape)
        if many := self.streams(x, i, end):
            x, i = streamed(self, x, many), many
        while i < end:
            group_end = self._group_end(i, end)
            x, i = self._group(x, i, group_end), group_end
        return x

    def streams(self, x: View, first: int, last: int) -> int:
        """How many of nodes [first, last) are computed by `streamed`, beginning with an image x."""
        if self.fast_path or self.network.added or first or self.n > 1:
            return 0
        return streamed_nodes(self, last, self.row_tile // self.segment.backend.itemsize)

    def through_block(self, i: int, g: View, tape: Tape, hook: Callable | None) -> list | None:
        """Gradients through the block that node i ends, if they are found for some channels at a time."""
        return None

    def _group_end(self, first: int, last: int) -> int:
        """End of the nodes computed together: a block, or a stem of one layer and the block fused to it."""
        nodes = self.nodes
        end = first + 1
        while end < last and nodes[end].block == nodes[first].block:
            end += 1
        if first == 0 and end == 1 and end < last:
            block_end = self._group_end(end, last)
            if end_of_fused(self, first, block_end) == block_end:
                return block_end
        return end

    def _group(self, x: View, first: int, last: int) -> View:
        end = end_of_fused(self, first, last) if self.n == 1 else first
        made = {first - 1: x}
        if end > first:
            made[end - 1] = fused_block(self, x, first, end)
        return self._whole(made, end, last)

    def _whole(self, made: dict[int, View], first: int, last: int, tape: Tape | None = None) -> View:
        """Output of node `last` - 1, from outputs that are `made` of nodes before `first`."""
        for i in range(first, last):
            inputs = [made[k] for k in self.sources[i]]
            made[i] = self.op(i).apply(self, i, inputs, tape)
        return made[last - 1]

    def output(self, i: int, what: str = "") -> View:
        """A new view for what the convolution of node i gives, or the node itself if it has none."""
        node = self.nodes[i]
        return self.segment.activations(f"{node.name}{what}", self.n, *node.filter_hw, node.cout)

    def reached(self, tape: Tape) -> frozenset[int]:
        """The nodes of whose output a gradient is needed."""
        if tape.reached is None:
            asked = (i for i, k in enumerate(self.numbers) if k in tape.trained or k in tape.hooked)
            tape.reached = reached(self.sources, self.network.position(tape.cut), asked)
        return tape.reached

    def noted(self, i: int, x: View, added: View | None, tape: Tape) -> View:
        """Output of the convolution of node i; the tape gets what its gradients need."""
        follows, hooked = self.nodes[i].activation, self.numbers[i] in tape.hooked
        forward, is_reached = self.op(i).forward, i in self.reached(tape)
        y, keeps = self.output(i), keeps_of(follows)
        apart = (keeps == INPUT and (hooked or is_reached)) or (keeps == OUTPUT and hooked)
        plain = total = self.output(i, " before activation") if apart else y
        if sums := hooked and added is not None:
            plain = self.output(i, " before addition")
            forward(self, i, plain, x, None, None)
            self.segment.call("copy", total.flat, plain.flat)
            self.segment.call("accumulate", total.flat, added.flat)
        else:
            forward(self, i, total, x, added, None if apart else follows)
        if sums or apart:
            activate(self, i, follows, y, total)
        if hooked:
            tape.output[self.numbers[i]] = plain
        if is_reached:
            self.save(tape, i, x, total if keeps == INPUT else y)
        return y

    def save(self, tape: Tape, i: int, x: View, y: View) -> None:
        """Note on the tape what the gradients of layer i need of its input x and its output y.

        y is what the activation gives, or what it takes if its gradient needs that.
        """
        if self.nodes[i].activation:
            tape.kept[i] = kept(self, i, y)
        self.save_input(tape, i, x)

    def save_input(self, tape: Tape, i: int, x: View) -> None:
        trained = tape.trained.get(self.numbers[i])
        if trained is None or trained.weight is None or self.made_again(tape, i, trained):
            return
        # An external input stays alive anyway: the backward pass copies what it needs of it.
        kept = x.buffer in self.segment.external
        tape.saved_input[i] = x if kept else self.op(i).trained_input(self, i, x, trained)

    def made_again(self, tape: Tape, i: int, trained: Trained) -> bool:
        """Whether the gradient of the weights of node i makes its input once more, which saves a whole map.

        That is cheap in a transformer, where the gradients of a norm or of GELU keep what it is made of.
        """
        k = self.sources[i][0]
        if not self.network.attends or k not in self.reached(tape) or trained.inputs is not None:
            return False
        return self.op(k).again is not None or keeps_of(self.nodes[k].activation) == INPUT

    def again(self, tape: Tape, i: int) -> View:
        """The output of node i once more, from what its gradients keep."""
        if again := self.op(i).again:
            return again(self, i, tape)
        y = self.output(i, " again")
        activate(self, i, self.nodes[i].activation, y, tape.kept[i])
        return y

    def pool(self, x: View) -> View:
        """Embeddings (n, channels) of the last layer's output."""
        embedding = self.segment.activations("embedding", self.n, x.shape[-1])
        self.segment.call("pool", embedding, x.reshape(self.n, -1, x.shape[-1]))
        return embedding

    # ---- backward ------------------------------------------------------------------------------

    def pool_grad(self, g: View) -> View:
        """Gradient of the last layer's output from that of the embeddings."""
        last = self.nodes[-1]
        gx = self.segment.new("gradient after pooling", self.n, *last.out_hw, last.cout)
        self.segment.call("pool_grad", gx.reshape(self.n, -1, last.cout), g)
        return gx

    def before_activation(self, i: int, g: View, tape: Tape, is_shared: bool) -> View:
        """Gradient of what the convolution of node i gives from that of its output g, which it may overwrite.

        `is_shared`: g is also the gradient of what is added.
        """
        if self.nodes[i].activation:
            activation_grad(self, i, g, tape.kept[i])
        return g

    def backward(
        self, g: View, first: int, last: int, tape: Tape, hook: Callable[[int, View, int], None] | None = None
    ) -> View | None:
        """Gradient of what layer `first` reads from that of what lies before layer `last`.

        Accumulates the gradients of the trained layers; stops at the tape's cut (then returns None).
        `hook(layer, g, first)` is called with the gradient of each layer's convolution output while it is
        alive, of its channels from `first` on.
        """
        start, end = self.network.position(first), self.network.position(last)
        found: dict[int, list] = {end - 1: [g]}
        for i in range(end - 1, start - 1, -1):
            if i in found and i in self.reached(tape):
                total = self._total(found.pop(i))
                for k, part in self.op(i).gradients(self, i, total, tape, hook):
                    found.setdefault(k, []).append(part)
        return self._total(found[start - 1]) if start - 1 in found else None

    def _total(self, parts: list) -> View:
        """The sum of gradients of one output, in the view of the last of them."""
        *others, total = (part for part in parts if isinstance(part, View))
        for other in others:
            self.segment.call("accumulate", total.flat, other.flat)
        for add in parts:
            if not isinstance(add, View):
                add(total)
        return total
