"""The table of ops: how the kernel calls of each operation are emitted, forward and backward.

A new operation is a row here, a row of `tinytrain.network.node.OPS` and, as a rule, kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from tinytrain.program.autodiff import (
    concat,
    convolution,
    dense_conv,
    depthwise,
    grouped_conv,
    lite_residual,
    max_pool,
    pointwise,
    squeeze,
    transformer,
)
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import View

Found = list[tuple[int, "View | Callable[[View], None]"]]


@dataclass(frozen=True)
class Op:
    """Functions that emit calls for node i of a graph; the first argument is the `Emitter` of the pass.

    - `apply(emitter, i, inputs, tape)`: a view of what the node makes of views of its inputs. With a tape it
      notes there what its gradients need.
    - `gradients(emitter, i, g, tape, hook)`: from the gradient g of its output, which it may overwrite, those
      of the inputs that need one: (number of the node that gave the input, view with the gradient, or a
      function that adds it to a view). Adds to the gradients of what is trained of the node.

    A convolution has its own parts, which `convolution` makes these two of. x and y are its input and output,
    g is the gradient of what the convolution itself gives.

    - `forward(emitter, i, y, x, skip, activation)`: y = output from x with its bias. `skip` is what is added
      then, `activation` what follows that; both may be None.
    - `grad_input(emitter, i, g)`: a new view with the gradient of x. Images have none.
    - `grad_weight(emitter, i, gw, x, g)`: gw += gradient of the trained weights, from what `trained_input`
      returns and the trained channels of g.
    - `again(emitter, i, tape)`: its output once more, from what its gradients keep; see `Emitter.again`.
    - `trained_input(emitter, i, x, trained)`: what `grad_weight` reads of x: x itself or a copy of a part.

    If it is computed in row tiles (see `fused_block` and `streamed`), one of these:

    - `forward_rows(emitter, i, y, image, first)`: y = output rows from `first` on, for one image; row k is
      made of row k of the input, or of an image.
    - `forward_padded(emitter, i, y, x, top, activation)`: y = output rows, each made of some rows of the
      input; `top` rows of zeros lie above the input rows x that they read.
    """

    apply: Callable[..., View]
    gradients: Callable[..., Found]
    forward: Callable[..., None] | None = None
    grad_input: Callable[..., View] | None = None
    grad_weight: Callable[..., None] | None = None
    again: Callable[..., View] | None = None
    trained_input: Callable[[object, int, View, Trained], View] | None = None
    forward_rows: Callable[..., None] | None = None
    forward_padded: Callable[..., None] | None = None


def row(*modules, **functions) -> Op:
    """The row with the functions of the first of `modules` that has them."""
    named = {
        f.name: next((getattr(m, f.name) for m in modules if hasattr(m, f.name)), None) for f in fields(Op)
    }
    return Op(**named | functions)


IMAGE = "image"  # a dense convolution that reads the image
OPS: dict[str, Op] = {
    IMAGE: row(dense_conv, convolution),
    "attention": row(transformer.ATTENTION),
    "concat": row(concat),
    "conv": row(grouped_conv.DENSE, convolution),
    "depthwise": row(depthwise, convolution),
    "excite": row(squeeze.EXCITE, pointwise, forward_rows=None),
    "grouped": row(grouped_conv, convolution),
    "halve": row(lite_residual.HALVE),
    "layer-norm": row(transformer.LAYER_NORM, trained_input=depthwise.trained_input),
    "max-pool": row(max_pool),
    "pointwise": row(pointwise, convolution),
    "position": row(transformer.POSITION, convolution, trained_input=grouped_conv.trained_input),
    "sequence-pool": row(transformer.SEQUENCE_POOL),
    "squeeze": row(squeeze, convolution),
    "widen": row(lite_residual.WIDEN),
    "words": row(transformer.WORDS, convolution, trained_input=grouped_conv.trained_input),
}
