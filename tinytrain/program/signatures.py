"""What every kernel reads, writes and updates: one table for the checker, the counts and the listing.

An argument is an array (with a mode, a shape and a dtype) or a value. In a shape, equal letters are equal
sizes within one call, and "*" is anything. Modes: `reads`; `writes` every element and reads none; `updates`
reads and writes; `scratch` is written before it is read, and means nothing afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

READS, WRITES, UPDATES, SCRATCH = "reads", "writes", "updates", "scratch"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Argument:
    """An array argument. Without a `shape` or a `dtype` it may have any."""

    mode: str
    shape: tuple[str, ...] | None
    dtype: str | None

    @property
    def is_read(self) -> bool:
        return self.mode in (READS, UPDATES)

    @property
    def is_written(self) -> bool:
        return self.mode != READS


def _no_macs(shapes: Sequence[Shape]) -> int:
    return 0


@dataclass(frozen=True)
class Signature:
    """Arrays of a kernel by name, in the order of its arguments; its values come after them.

    `macs(shapes)` and `head_macs(shapes)` are multiply-accumulates of one call from the shapes of its arrays:
    those of the network, which every budget counts, and those of loss and heads, which the field leaves out.
    `in_place`: the first array may share memory with the others.
    """

    arrays: Mapping[str, Argument]
    macs: Callable[[Sequence[Shape]], int] = _no_macs
    head_macs: Callable[[Sequence[Shape]], int] = _no_macs
    in_place: bool = False


def _argument(mode: str, text: str | None, dtype: str | None) -> Argument:
    return Argument(mode, None if text is None else tuple(text.split()), dtype)


def reads(shape: str | None = None, dtype: str | None = "float32") -> Argument:
    return _argument(READS, shape, dtype)


def writes(shape: str | None = None, dtype: str | None = "float32") -> Argument:
    return _argument(WRITES, shape, dtype)


def updates(shape: str | None = None, dtype: str | None = "float32") -> Argument:
    return _argument(UPDATES, shape, dtype)


def scratch(shape: str | None = None) -> Argument:
    return _argument(SCRATCH, shape, "float32")


def _of(macs=_no_macs, head_macs=_no_macs, in_place=False, **arrays: Argument) -> Signature:
    return Signature(arrays, macs, head_macs, in_place)


IMAGE, CODES, INDICES, MOMENTS = "uint8", "uint8", "int32", "uint16"
INT8, SUMS = "int8", "int32"
_RATES = {"starts": reads("*", INDICES), "rates": reads("*")}
_RESCALED = {"b": reads("n", SUMS), "factor": reads("n", SUMS), "shift": reads("n", SUMS)}


def _times(matrix: int, other: int, axis: int):
    return lambda shapes: math.prod(shapes[matrix]) * shapes[other][axis]


def _side(packed: int) -> int:
    """Rows of the matrix whose lower triangle has so many numbers."""
    return math.isqrt(2 * packed)


KERNELS: dict[str, Signature] = {
    # 0 for each row that has numbers, -1e30 for one of zeros.
    "absent": _of(p=writes("n"), x=reads("n *")),
    "accumulate": _of(total=updates("n"), x=reads("n")),
    "adam_step": _of(
        g=updates("n"), m=updates("n", MOMENTS), v=updates("n", MOMENTS), work=scratch("*"), **_RATES
    ),
    "add_bias": _of(y=updates("m n"), b=reads("n")),
    "add_bias_relu6": _of(y=updates("m n"), b=reads("n")),
    "add_bias_residual": _of(y=updates("m n"), b=reads("n"), skip=reads("m n")),
    "add_codes": _of(y=writes("m", INT8), x=reads("m", INT8), skip=reads("m", INT8), in_place=True),
    "add_column_sums": _of(total=updates("n"), x=reads("m n")),
    "add_fisher": _of(total=updates("n"), dots=scratch("n"), a=reads("m n"), g=reads("m n")),
    "add_fisher_columns": _of(total=updates("b"), dots=scratch("b"), a=reads("m *", INT8), g=reads("m b")),
    "add_outer": _of(
        a=updates("d d"), x=reads("n d"), head_macs=lambda s: s[1][0] * math.prod(s[0])
    ),
    "add_outer_packed": _of(a=updates("p"), x=reads("n d"), head_macs=lambda s: s[1][0] * s[0][0]),
    "add_products": _of(a=updates("p", SUMS), x=reads("n d"), head_macs=lambda s: s[1][0] * s[0][0]),
    "add_rounded": _of(sums=updates("k d", SUMS), x=reads("n d"), labels=reads("n", INDICES)),
    # It starts an image at zero with the first of its rows, and goes on with the others.
    "add_patches": _of(gx=writes("n h w c"), g=reads("r q p")),
    "add_matmul": _of(y=updates("m n"), x=reads("m k"), w=reads("k n"), macs=_times(0, 2, 0)),
    "apply_mask": _of(g=updates("n"), bits=reads("*", CODES)),
    "augment": _of(y=writes("h w c", IMAGE), x=reads("h w c", IMAGE)),
    "augment_rows": _of(y=writes("r w c", IMAGE), x=reads("h w c", IMAGE), total=reads("*", "int64")),
    "cholesky": _of(a=updates("d d"), head_macs=lambda s: s[0][0] ** 3 // 6),
    "cholesky_packed": _of(a=updates("p"), head_macs=lambda s: _side(s[0][0]) ** 3 // 6),
    "cholesky_solve_packed": _of(
        x=updates("n d"), factor=reads("p"), head_macs=lambda s: s[0][0] * s[0][1] ** 2
    ),
    "cholesky_solve": _of(
        x=updates("n d"), factor=reads("d d"), head_macs=lambda s: s[0][0] * math.prod(s[1])
    ),
    "class_sums": _of(
        sums=updates("k d"), counts=updates("k"), f=reads("n d"), labels=reads("n", INDICES)
    ),
    "clear_rows": _of(y=updates("m *"), x=reads("m *")),
    "copy": _of(y=writes(), x=reads(), in_place=True),
    "copy_codes": _of(y=writes(None, INT8), x=reads(None, INT8), in_place=True),
    "depthwise_codes": _of(
        y=writes("n * * c", INT8), x=reads("n * * c", INT8), w=reads("t c", INT8),
        b=reads("c", SUMS), factor=reads("c", SUMS), shift=reads("c", SUMS), macs=_times(0, 2, 0),
    ),
    "depthwise_forward": _of(
        y=writes("n * * c"), x=reads("n * * c"), w=reads("t c"), b=reads("c"), macs=_times(0, 2, 0)
    ),
    "depthwise_grad_in_place": _of(
        g=updates("n h w c"), work=scratch("* *"), w=reads("t c", INT8), s=reads("c"), macs=_times(0, 2, 0)
    ),
    "depthwise_grad_input": _of(
        gx=writes("n * * c"), zeros=scratch("c"), g=reads("n * * c"), w=reads("t c"),
        macs=_times(2, 3, 0),
    ),
    "depthwise_grad_input_codes": _of(
        gx=writes("n * * c"), work=scratch("t *"), g=reads("n * * c"), w=reads("t c", INT8), scale=reads("c"),
        macs=_times(2, 3, 0),
    ),
    "depthwise_grad_weight": _of(
        gw=updates("t c"), x=reads("n * * c"), g=reads("n * * c"), macs=_times(2, 0, 0)
    ),
    "depthwise_grad_weight_codes": _of(
        gw=updates("t c"), x=reads("n * * c", INT8), g=reads("n * * c"), macs=_times(2, 0, 0)
    ),
    "dequantize": _of(x=writes("n"), codes=reads("n", CODES), span=reads("*")),
    "embed": _of(y=writes("m c"), ids=reads("m", None), w=reads("* c"), b=reads("c")),
    "embed_grad": _of(gw=updates("v c"), ids=reads("m", None), g=reads("m c")),
    "enter": _of(y=writes("r q c"), image=reads("* * c", None)),
    "entropy": _of(loss=writes("n"), residual=writes("n k"), cosine=reads("n k")),
    "fold_bias": _of(y=writes("n", SUMS), b=reads("n"), unit=reads("n"), w=reads("* *", INT8)),
    "gather_codes": _of(y=writes("m k", INT8), x=reads("m n", INT8), columns=reads("k", INDICES)),
    # Some columns at a time, until all are written.
    "gather_some": _of(y=writes("m j"), x=reads("m *"), columns=reads("j", INDICES)),
    "gather_columns": _of(y=writes("m k"), x=reads("m n"), columns=reads("k", INDICES)),
    "gather_weights": _of(
        y=writes("i j", INT8), w=reads("* *", INT8), rows=reads("i", INDICES), columns=reads("j", INDICES)
    ),
    "grad_input_codes": _of(
        gx=writes("m k"), g=reads("m n"), w=reads("n k", INT8), scale=reads("n"), macs=_times(0, 1, 1)
    ),
    "grad_input_columns": _of(
        gx=writes("m b"), g=reads("m n"), w=reads("n *", INT8), scale=reads("n"), macs=_times(0, 1, 1)
    ),
    # It starts the result at zero with the first rows, and goes on with the others.
    "grad_input_rows": _of(
        gx=writes("m k"), g=reads("m *"), w=reads("n k", INT8), scale=reads("n"), macs=_times(0, 1, 1)
    ),
    "grad_weight_codes": _of(
        gw=updates("k j"), x=reads("m k", INT8), g=reads("m j"), macs=lambda s: math.prod(s[0]) * s[1][0]
    ),
    "grad_weight_image": _of(
        gw=updates("k j"), image=reads("h w c", IMAGE), g=reads("r q j"),
        macs=lambda s: math.prod(s[0]) * s[2][0] * s[2][1],
    ),
    "grad_weight_columns": _of(
        gw=updates("k *"), x=reads("m k", INT8), g=reads("m b"), macs=lambda s: math.prod(s[1]) * s[2][1]
    ),
    "gelu": _of(y=writes("m"), x=reads("m"), in_place=True),
    "gelu_grad": _of(g=updates("m"), x=reads("m")),
    "hard_sigmoid": _of(y=writes("m"), x=reads("m"), in_place=True),
    "hard_sigmoid_grad": _of(g=updates("m"), x=reads("m")),
    "hard_swish": _of(y=writes("m"), x=reads("m"), in_place=True),
    "hard_swish_grad": _of(g=updates("m"), x=reads("m")),
    "inverse_diagonal": _of(
        diagonal=writes("d"), factor=reads("d d"), head_macs=lambda s: s[1][0] ** 3 // 6
    ),
    "inverse_diagonal_packed": _of(
        diagonal=writes("d"), factor=reads("p"), head_macs=lambda s: s[0][0] ** 3 // 6
    ),
    "leaky_relu": _of(y=writes("m"), x=reads("m"), in_place=True),
    "leaky_relu_grad": _of(g=updates("m"), y=reads("m")),
    "mask_columns": _of(g=updates("m *"), bits=reads("*", CODES)),
    "matmul": _of(y=writes("m n"), x=reads("m k"), w=reads("k n"), macs=_times(0, 2, 0)),
    "max_pool": _of(y=writes("n * * c"), x=reads("n * * c")),
    "max_pool_grad": _of(gx=writes("n * * c"), g=reads("n i j c"), taps=reads("n i j c", CODES)),
    "max_taps": _of(taps=writes("n i j c", CODES), x=reads("n * * c"), y=reads("n i j c")),
    "momentum_step": _of(g=updates("n"), m=updates("n", MOMENTS), work=scratch("*"), **_RATES),
    "normalize_rows": _of(x=updates("n d")),
    "pack_inside": _of(bits=writes("*", CODES), y=reads("n", INT8)),
    "pack_mask": _of(bits=writes("*", CODES), y=reads("n")),
    "pack_positive": _of(bits=writes("*", CODES), y=reads("n")),
    "pool": _of(y=writes("n c"), x=reads("n p c")),
    "pool_codes": _of(y=writes("n c"), x=reads("n p c", INT8)),
    "pool2": _of(y=writes("n * * *"), x=reads("n * * *")),
    "pool2_grad": _of(gx=updates("n * * *"), g=reads("n * * *")),
    "pool_grad": _of(gx=writes("n p c"), g=reads("n c")),
    "product_codes": _of(
        y=writes("m n", INT8), x=reads("m k", INT8), w=reads("n k", INT8), **_RESCALED,
        macs=_times(0, 1, 1),
    ),
    "product_wide": _of(
        y=writes("m n", INT8), x=reads("m k", "int16"), w=reads("n k", INT8), **_RESCALED,
        macs=_times(0, 1, 1),
    ),
    "product": _of(
        y=updates("m n"), x=reads("* * * *"), w=reads("k n"), b=reads("*"), skip=reads("* *"),
        macs=_times(0, 2, 0),
    ),
    "prototype_loss": _of(
        loss=writes("n"), residual=writes("n k"), cosine=writes("n k"), f=reads("n d"),
        labels=reads("n", INDICES), p=reads("k d"), head_macs=lambda s: s[3][0] * math.prod(s[5]),
    ),
    "prototype_loss_grad": _of(
        gf=writes("n d"), residual=reads("n k"), cosine=reads("n k"), f=reads("n d"), p=reads("k d"),
        head_macs=lambda s: s[3][0] * math.prod(s[4]),
    ),
    # Some columns at a time, until all are written.
    "put_columns": _of(y=writes("m *"), x=reads("m *")),
    "quantize": _of(codes=writes("n", CODES), span=writes("*"), x=reads("n")),
    "round_codes": _of(
        w=updates("i j", INT8), rest=updates(None, INT8), steps=reads("i j"), lsb=reads("*"),
        columns=reads("j", INDICES), seed=reads("*", "uint32"),
    ),
    "round_masters": _of(
        w=writes("i j", INT8), masters=updates("i j"), steps=reads("i j"), lsb=reads("*"),
        columns=reads("j", INDICES),
    ),
    "relu": _of(y=updates("m")),
    "scale_channels": _of(y=writes("n p c"), x=reads("n p c"), s=reads("n c"), in_place=True),
    "scale_channels_grad": _of(gs=writes("n c"), g=reads("n p c"), x=reads("n p c")),
    "scatter_block": _of(
        y=updates("* *"), rows=reads("i", INDICES), columns=reads("j", INDICES), x=reads("i j")
    ),
    "scatter_weights": _of(
        w=updates("* *", INT8), rows=reads("i", INDICES), columns=reads("j", INDICES), x=reads("i j", INT8)
    ),
    "sgd_step": _of(g=updates("n"), **_RATES),
    "softmax": _of(y=updates("m n")),
    "softmax_grad": _of(g=updates("m n"), p=reads("m n")),
    "standardise": _of(y=writes("m c"), x=reads("m c"), in_place=True),
    "standardise_grad": _of(g=updates("m c"), x=reads("m c")),
    "sum_pixels": _of(y=writes("*", "int64"), x=reads("* * *", IMAGE)),
    "take_columns": _of(y=writes("m *"), x=reads("m *")),
    "take_step": _of(w=updates("n"), steps=reads("n")),
    "unfold_codes": _of(y=writes("r q p", "int16"), image=reads("h w c", IMAGE)),
    "unfold_plane": _of(y=writes("r q p"), x=reads("n h w c")),
    "unfold_plane_codes": _of(y=writes("r q p", INT8), x=reads("n h w c", INT8)),
    "upsample_add": _of(y=updates("n * * c"), x=reads("n * * c")),
    "upsample_grad": _of(gx=writes("n * * c"), g=reads("n * * c")),
    "widen_codes": _of(y=writes("m c"), x=reads("m c", INT8), scale=reads("c")),
    "widen_columns": _of(y=writes("t *"), w=reads("t c", INT8), scale=reads("c")),
}  # fmt: skip

# Steps of a Program that numpy does, or the runtime with the lists of a step (`runtime.host_calls`).
HOST: dict[str, Signature] = {
    "add_lengths": _of(
        lengths=updates("k", "float64"), f=reads("n d"), labels=reads("n", INDICES)
    ),
    "add_loss": _of(total=updates("*", "float64"), loss=reads("*")),
    "answer": _of(embedding=reads("n d")), "assign": _of(y=writes(), x=reads()),
    "clear": _of(y=writes(dtype=None)),
    "divide_rows": _of(y=writes("n d"), x=reads("n d"), divisors=reads("n"), in_place=True),
    "gather_block": _of(
        y=writes("i j"), x=reads("* *"), rows=reads("i", INDICES), columns=reads("j", INDICES)
    ),
    "hardest": _of(residual=updates("n k"), loss=reads("n")),
    "keep_changed": _of(result=writes("n")),
    "choose_kept": _of(embeddings=updates("n d")),
    "choose_queries": _of(losses=reads("m")), "remember_losses": _of(losses=updates("m"), loss=reads("n")),
    "keep_cached": _of(
        codes=writes("n h w c", CODES), ranges=writes("n r"), cached=reads("s m h w c", CODES),
        cached_ranges=reads("s m r"),
    ),
    "keep_codes": _of(codes=writes("n h w c", CODES), ranges=writes("n r"), features=reads("m h w c", INT8)),
    "keep_remembered": _of(
        codes=writes("n h w c", CODES), ranges=writes("n r"), remembered=reads("m h w c", CODES),
        remembered_ranges=reads("m r"),
    ),
    "labels_of": _of(labels=writes("n", INDICES)),
    "mix_prototypes": _of(prototypes=updates("k d"), sums=updates("k d"), counts=reads("k")),
    "recall": _of(codes=writes("n h w c", CODES), ranges=writes("n *")),
    "recall_codes": _of(codes=writes("n h w c", INT8)),
    "rows_of_images": _of(y=writes("m d"), embeddings=reads("n d")),
    "rows_of_labels": _of(y=writes("n d"), x=reads("k d"), labels=reads("n", INDICES)),
    "sampled_weights": _of(divisors=writes("k")), "start_losses": _of(losses=writes("m")),
    "show_rows": _of(y=writes("r w c", IMAGE)),
    "transposed": _of(y=writes("n m"), x=reads("m n")),
}  # fmt: skip

SIGNATURES = KERNELS | HOST
