"""Kernels by name. `load` returns the compiled kernels, or the numpy reference if numba does not work.

Conventions: outputs first, then inputs, then scalars; float32 and C-contiguous; a kernel does not
allocate, does not raise and has no state.
"""

from types import SimpleNamespace

from tinytrain.base.errors import UsageError

BACKENDS = ("auto", "numba", "numpy")

NAMES = (
    "accumulate",
    "adam",
    "adam_step",
    "add_bias",
    "add_bias_relu6",
    "add_bias_residual",
    "add_codes",
    "add_column_sums",
    "add_fisher",
    "add_fisher_columns",
    "add_outer",
    "add_outer_packed",
    "add_patches",
    "apply_mask",
    "augment",
    "augment_rows",
    "cholesky",
    "cholesky_packed",
    "cholesky_solve",
    "cholesky_solve_packed",
    "class_sums",
    "copy",
    "copy_codes",
    "depthwise_codes",
    "depthwise_forward",
    "depthwise_grad_in_place",
    "depthwise_grad_input",
    "depthwise_grad_input_codes",
    "depthwise_grad_weight",
    "depthwise_grad_weight_codes",
    "dequantize",
    "entropy",
    "fold_bias",
    "gather_codes",
    "gather_columns",
    "gather_some",
    "gather_weights",
    "grad_input_codes",
    "grad_input_columns",
    "grad_input_rows",
    "grad_weight_codes",
    "grad_weight_columns",
    "grad_weight_image",
    "hard_sigmoid",
    "hard_sigmoid_grad",
    "hard_swish",
    "hard_swish_grad",
    "inverse_diagonal",
    "inverse_diagonal_packed",
    "mask_columns",
    "matmul",
    "max_pool",
    "max_pool_grad",
    "max_taps",
    "momentum",
    "momentum_step",
    "normalize_rows",
    "pack_inside",
    "pack_mask",
    "pack_positive",
    "pool",
    "pool2",
    "pool2_grad",
    "pool_codes",
    "pool_grad",
    "product_codes",
    "product_wide",
    "prototype_loss",
    "prototype_loss_grad",
    "quantize",
    "relu",
    "round_codes",
    "round_masters",
    "scale_channels",
    "scale_channels_grad",
    "scatter_block",
    "scatter_weights",
    "sgd",
    "sgd_step",
    "step_codes",
    "step_masters",
    "sum_pixels",
    "take_step",
    "transpose",
    "unfold",
    "unfold_codes",
    "unfold_plane",
    "upsample_add",
    "upsample_grad",
    "widen_codes",
    "widen_columns",
)


class Kernels(SimpleNamespace):
    """All kernels as attributes; `chosen` is their backend, `replaced` names those that numpy replaced."""

    @property
    def backend(self) -> str:
        """The backend that has run, with the kernels that numpy replaced."""
        names = ", ".join(sorted(self.replaced))
        return f"{self.chosen} except {names} (numpy)" if names else self.chosen


def load(backend: str = "auto") -> Kernels:
    """All kernels as attributes. `backend` is "numba", "numpy", or "auto": numba if it works.

    "auto" does not raise: if numba does not work it logs one line and uses numpy, and it replaces a kernel
    that cannot be compiled by its numpy reference. "numba" raises the errors of numba. The attribute
    `backend` of the result names the choice; with ``TINYTRAIN_PORTABLE=1``, "portable" stands for numba
    kernels that give the same bits on every processor. Raises UsageError for another `backend`.
    """
    if backend not in BACKENDS:
        raise UsageError("unknown-backend", f"no backend {backend!r}; known: {', '.join(BACKENDS)}")
    if backend == "numba":
        return _compiled()
    from tinytrain.kernels import reference, reference_int8, reference_updates

    numpy_table = _namespace((reference, reference_int8, reference_updates), "numpy")
    if backend == "auto":
        try:
            return _guarded(_compiled(), numpy_table)
        except Exception as error:  # a broken installation raises anything, not only ImportError
            _warn_without_numba(error)
    return numpy_table


def _compiled():
    modules = _compiled_modules()
    from tinytrain.kernels.jit import PORTABLE, expect

    table = _namespace(modules, "portable" if PORTABLE else "numba")
    expect(vars(table).values())
    return table


def _compiled_modules() -> tuple:
    from tinytrain.kernels import (
        activation,
        dense,
        depthwise,
        depthwise_weight,
        head,
        int8_columns,
        int8_dense,
        int8_depthwise,
        int8_gradients,
        int8_image_gradient,
        int8_in_place,
        int8_unfold,
        int8_updates,
        int8_weights,
        optimizer,
        pooling,
        triangles,
    )
    from tinytrain.kernels import depthwise_codes_grad as codes_grad
    from tinytrain.kernels import depthwise_codes_weight as codes_weight
    from tinytrain.kernels import depthwise_grad_in_place as in_place
    from tinytrain.kernels import image as image
    from tinytrain.kernels import lite_residual as lite

    float32 = activation, dense, depthwise, depthwise_weight, head, lite, optimizer, image, pooling, triangles
    forward = int8_dense, int8_depthwise, int8_unfold
    gradients = codes_grad, codes_weight, in_place, int8_columns, int8_gradients, int8_image_gradient
    return *float32, *forward, *gradients, int8_in_place, int8_updates, int8_weights


def _namespace(modules, backend):
    found = {name: getattr(m, name) for m in modules for name in NAMES if hasattr(m, name)}
    return Kernels(chosen=backend, replaced=set(), **found)


def _guarded(table, reference):
    """`table`, whose kernels fall back to `reference`. Raises StorageError without a cache folder, because
    every run would have to compile all kernels.
    """
    from tinytrain.base.errors import StorageError
    from tinytrain.kernels.fallback import guarded
    from tinytrain.kernels.jit import CACHE

    if CACHE.folder is None:
        raise StorageError(*CACHE.warning.split(": ", 1))
    for name, kernel in vars(table).items():
        if hasattr(kernel, "signatures"):
            setattr(table, name, guarded(name, kernel, getattr(reference, name), table.replaced))
    return table


def _warn_without_numba(error: Exception) -> None:
    from tinytrain.base.errors import TinytrainError, one_line
    from tinytrain.kernels.fallback import not_portable, warn_once

    reason = one_line(error, 250) if isinstance(error, TinytrainError) else None
    if reason is None:
        reason = f"numba-unusable: {one_line(f'{type(error).__name__}: {error}', 160)}"
        reason += "; install numba again, or run tinytrain doctor"
    warn_once(f"{reason}; kernels run in plain numpy, several times slower{not_portable()}")
