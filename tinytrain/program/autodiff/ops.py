"""The table of ops: how the kernel calls of each kind of layer are emitted, forward and backward.

A new kind of layer is a new file with these functions, and a row here.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from tinytrain.program.autodiff import dense_conv, depthwise, grouped_conv, pointwise, squeeze
from tinytrain.program.autodiff.matrix_products import some_channels
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View


@dataclass(frozen=True)
class Op:
    """Functions that emit calls for layer i of one kind; the first argument is the `Emitter` of the pass.

    x and y are the layer's input and output, g is the gradient of its convolution's output.

    - `forward(emitter, i, y, x, skip, activation)`: y = output from x with its bias. `skip` is what is added
      then, `activation` what follows that; both may be None.
    - `grad_input(emitter, i, g)`: a new view with the gradient of x. Images have none.
    - `grad_weight(emitter, i, gw, x, g)`: gw += gradient of the trained weights, from what `trained_input`
      returns and the trained channels of g.
    - `trained_input(emitter, i, x, trained)`: what `grad_weight` reads of x: x itself or a copy of a part.

    For blocks that are computed in row tiles (see `fused_block`):

    - `forward_rows(emitter, i, y, image, first)`: y = output rows from `first` on, of a layer that begins its
      block, for one image.
    - `forward_padded(emitter, i, y, x, top, activation)`: y = output rows of a depthwise layer; `top` rows of
      zeros lie above the input rows x that they read.
    """

    forward: Callable[..., None]
    grad_input: Callable[..., View]
    grad_weight: Callable[..., None]
    trained_input: Callable[[object, int, View, Trained], View]
    forward_rows: Callable[..., None] | None = None
    forward_padded: Callable[..., None] | None = None


OPS: dict[str, Op] = {
    kind: Op(**{field.name: getattr(module, field.name, None) for field in fields(Op)})
    for kind, module in {
        "conv": dense_conv,
        "depthwise": depthwise,
        "excite": pointwise,
        "grouped": grouped_conv,
        "pointwise": pointwise,
        "squeeze": squeeze,
    }.items()
}


def op_of(emitter, i: int) -> Op:
    """The op of layer i."""
    return emitter.ops[emitter.layers[i].kind]


def parameter_gradients(emitter, i: int, g: View, trained: Trained, x: View | None) -> None:
    """Add to the gradients of layer i, from its input x and its convolution's output gradient g."""
    op, segment = op_of(emitter, i), emitter.segment
    if trained.bias is not None:
        segment.call("add_column_sums", trained.bias, g.matrix)
    if trained.weight is None:
        return
    x = op.trained_input(emitter, i, x, trained)
    if trained.channels is not None:
        name = f"{emitter.layers[i].name} selected gradient"
        g = some_channels(emitter, g, name, Columns(i, trained.channels))
    op.grad_weight(emitter, i, trained.weight, x, g)
