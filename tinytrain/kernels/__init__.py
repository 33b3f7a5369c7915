"""Kernels by name. `load` hands out the compiled ones, or their numpy twins where numba cannot work.

Conventions: outputs first, then inputs, then scalars; float32 and C-contiguous; a kernel
allocates nothing, raises nothing and keeps nothing.
"""

from types import SimpleNamespace

from tinytrain.base.errors import UsageError

BACKENDS = ("auto", "numba", "numpy")

NAMES = (
    "accumulate",
    "adam",
    "add_bias",
    "add_bias_relu6",
    "add_bias_residual",
    "add_column_sums",
    "add_fisher",
    "add_outer",
    "add_patches",
    "apply_mask",
    "augment",
    "cholesky",
    "cholesky_solve",
    "class_sums",
    "copy",
    "depthwise_forward",
    "depthwise_grad_input",
    "depthwise_grad_weight",
    "dequantize",
    "entropy",
    "gather_columns",
    "inverse_diagonal",
    "matmul",
    "momentum",
    "normalize_rows",
    "pack_mask",
    "pool",
    "pool2",
    "pool2_grad",
    "pool_grad",
    "prototype_loss",
    "prototype_loss_grad",
    "quantize",
    "scatter_block",
    "sgd",
    "transpose",
    "unfold",
    "unfold_plane",
    "upsample_add",
    "upsample_grad",
)


class Kernels(SimpleNamespace):
    """All kernels as attributes; `taken` is their backend, and `twins` names those that gave way to numpy."""

    @property
    def backend(self) -> str:
        """What has run: the backend that was taken, and what numpy did in its place."""
        return f"{self.taken} except {', '.join(sorted(self.twins))} (numpy)" if self.twins else self.taken


def load(backend: str = "auto") -> Kernels:
    """All kernels as attributes. `backend` is "numba", "numpy", or "auto": numba where it works.

    Their own `backend` is the one that was taken; "portable" for numba's with the same bits on every
    processor, which ``TINYTRAIN_PORTABLE=1`` asks for. "auto" raises nothing: it says in one line why numba
    was not taken, and goes over to the twin of any kernel that cannot be compiled.
    "numba" raises what numba raises. Raises UsageError for any other.
    """
    if backend not in BACKENDS:
        raise UsageError("unknown-backend", f"no backend {backend!r}; known: {', '.join(BACKENDS)}")
    if backend == "numba":
        return _compiled()
    from tinytrain.kernels import reference

    if backend == "auto":
        try:
            return _guarded(_compiled(), reference)
        except Exception as error:  # a broken installation raises anything, not only ImportError
            _warn_without_numba(error)
    return _namespace((reference,), "numpy")


def _compiled():
    modules = _compiled_modules()
    from tinytrain.kernels.jit import PORTABLE

    return _namespace(modules, "portable" if PORTABLE else "numba")


def _compiled_modules() -> tuple:
    from tinytrain.kernels import dense, depthwise, depthwise_weight, head, optimizer
    from tinytrain.kernels import image as image
    from tinytrain.kernels import lite_residual as lite

    return dense, depthwise, depthwise_weight, head, lite, optimizer, image


def _namespace(modules, backend):
    found = {name: getattr(m, name) for m in modules for name in NAMES if hasattr(m, name)}
    return Kernels(taken=backend, twins=set(), **found)


def _guarded(table, reference):
    """`table` with twins at hand. Raises StorageError where every run would have to compile anew."""
    from tinytrain.base.errors import StorageError
    from tinytrain.kernels.fallback import guarded
    from tinytrain.kernels.jit import CACHE

    if CACHE.folder is None:
        raise StorageError(*CACHE.warning.split(": ", 1))
    for name, kernel in vars(table).items():
        if hasattr(kernel, "signatures"):
            setattr(table, name, guarded(name, kernel, getattr(reference, name), table.twins))
    return table


def _warn_without_numba(error: Exception) -> None:
    from tinytrain.base.errors import TinytrainError, one_line
    from tinytrain.kernels.fallback import not_portable, warn_once

    reason = one_line(error, 250) if isinstance(error, TinytrainError) else None
    if reason is None:
        reason = f"numba-unusable: {one_line(f'{type(error).__name__}: {error}', 160)}"
        reason += "; install numba again, or run tinytrain doctor"
    warn_once(f"{reason}; kernels run in plain numpy, several times slower{not_portable()}")
