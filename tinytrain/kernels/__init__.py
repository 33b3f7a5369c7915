"""Kernels by name. `load` returns the compiled kernels, or the numpy reference if numba does not work.

Conventions: outputs first, then inputs, then scalars; float32 and, but for products, C-contiguous; a kernel
does not allocate, does not raise and has no state.
"""

import itertools
from importlib import import_module
from types import SimpleNamespace

from tinytrain.base.errors import UsageError

BACKENDS = ("auto", "numba", "numpy")

# The kernels of each module, which is imported only if one of them must be compiled.
MODULES = {
    "activation": (
        "gelu", "gelu_grad", "hard_sigmoid", "hard_sigmoid_grad", "hard_swish", "hard_swish_grad",
        "leaky_relu", "leaky_relu_grad", "pack_positive", "relu",
    ),
    "dense": (
        "accumulate", "add_bias", "add_bias_relu6", "add_bias_residual", "add_column_sums", "add_fisher",
        "apply_mask", "copy", "enter", "gather_columns", "pack_mask", "pool", "pool_grad", "scatter_block",
    ),
    "depthwise": ("depthwise_forward", "depthwise_grad_input"),
    "depthwise_weight": ("depthwise_grad_weight",),
    "head": ("class_sums", "entropy", "normalize_rows", "prototype_loss", "prototype_loss_grad"),
    "image": ("augment", "augment_rows", "dequantize", "quantize", "sum_pixels"),
    "int8_dense": ("add_codes", "copy_codes", "gather_codes", "pool_codes", "product_codes", "product_wide"),
    "int8_depthwise": ("depthwise_codes",),
    "int8_depthwise_grad": (
        "depthwise_grad_in_place", "depthwise_grad_input_codes", "depthwise_grad_weight_codes",
    ),
    "int8_gradients": (
        "add_fisher_columns", "gather_some", "grad_input_codes", "grad_input_columns", "grad_input_rows",
        "grad_weight_codes", "grad_weight_columns", "mask_columns", "pack_inside", "widen_codes",
        "widen_columns",
    ),
    "int8_unfold": ("grad_weight_image", "unfold_codes", "unfold_plane_codes"),
    "int8_updates": (
        "fold_bias", "gather_weights", "round_codes", "round_masters", "scatter_weights",
    ),
    "lite_residual": ("add_patches", "pool2", "pool2_grad", "unfold_plane", "upsample_add", "upsample_grad"),
    "optimizer": ("adam_step", "momentum_step", "sgd_step", "take_step"),
    "pooling": (
        "max_pool", "max_pool_grad", "max_taps", "put_columns", "scale_channels", "scale_channels_grad",
        "take_columns",
    ),
    "products": ("product",),
    "transformer": (
        "absent", "clear_rows", "embed", "embed_grad", "softmax", "softmax_grad", "standardise",
        "standardise_grad",
    ),
    "triangles": (
        "add_outer", "add_outer_packed", "add_products", "add_rounded", "cholesky", "cholesky_packed",
        "cholesky_solve", "cholesky_solve_packed", "inverse_diagonal", "inverse_diagonal_packed",
    ),
}  # fmt: skip
NAMES = ("matmul", "add_matmul", *itertools.chain.from_iterable(MODULES.values()))


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
    `backend` of the result names the choice. Raises UsageError for another `backend`.
    """
    if backend not in BACKENDS:
        raise UsageError("unknown-name", f"no backend {backend!r}; known: {', '.join(BACKENDS)}")
    if backend == "numba":
        return _multiplying(_compiled())
    numpy_table = _in_numpy()
    if backend == "auto":
        try:
            return _multiplying(_guarded(_compiled(), numpy_table))
        except Exception as error:  # a broken installation raises anything, not only ImportError
            _warn_without_numba(error)
    return numpy_table


def _compiled() -> Kernels:
    """Kernels that load their machine code or are compiled at their first call."""
    from tinytrain.kernels.dispatch.machine_code import LOCK, check_executable
    from tinytrain.kernels.kernel import CACHE, expect, kernel_of

    check_executable()  # once for all kernels, so that one line says why
    if not (CACHE.verified or CACHE.packaged):
        with LOCK:
            import_module(f"{__name__}.compiler")  # it will be needed, and numba may be broken
    names = {name: f"{__name__}.{module}.{name}" for module, names in MODULES.items() for name in names}
    found = {name: kernel_of(full) for name, full in names.items()}
    expect(found.values())
    return Kernels(chosen="numba", replaced=set(), **found)


def _multiplying(table: Kernels) -> Kernels:
    """`table`, with products that do nothing else or that are added to what is there."""
    from tinytrain.kernels.dispatch.direct import ADDS, products

    table.matmul, table.add_matmul = products(table.product, 0), products(table.product, ADDS)
    return table


def _in_numpy() -> Kernels:
    from tinytrain.kernels import reference, reference_int8, reference_updates

    modules = reference, reference_int8, reference_updates
    found = {name: getattr(m, name) for m in modules for name in NAMES if hasattr(m, name)}
    return Kernels(chosen="numpy", replaced=set(), **found)


def _guarded(table, reference):
    """`table`, whose kernels fall back to `reference`. Raises StorageError without a cache folder, because
    every run would have to compile all kernels.
    """
    from tinytrain.base.errors import StorageError
    from tinytrain.kernels.fallback import guarded
    from tinytrain.kernels.kernel import CACHE

    if CACHE.warning and CACHE.folder is None:
        raise StorageError(*CACHE.warning.split(": ", 1))
    for name, kernel in vars(table).items():
        if hasattr(kernel, "signatures"):
            setattr(table, name, guarded(name, kernel, getattr(reference, name), table.replaced))
    return table


def _warn_without_numba(error: Exception) -> None:
    from tinytrain.base.errors import TinytrainError, one_line
    from tinytrain.kernels.fallback import warn_once

    reason = one_line(error, 250) if isinstance(error, TinytrainError) else None
    if reason is None:
        reason = f"numba-unusable: {one_line(f'{type(error).__name__}: {error}', 160)}"
        reason += "; install numba again, or run tinytrain doctor"
    warn_once(f"{reason}; kernels run in plain numpy, several times slower and with other last bits")
