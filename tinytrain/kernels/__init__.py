"""Kernels by name. `load` hands out the compiled ones, or their numpy twins where numba is missing.

Conventions: outputs first, then inputs, then scalars; float32 and C-contiguous; a kernel
allocates nothing, raises nothing and keeps nothing.
"""

from types import SimpleNamespace

NAMES = (
    "accumulate",
    "adam",
    "add_bias",
    "add_bias_relu6",
    "add_bias_residual",
    "add_column_sums",
    "add_fisher",
    "add_outer",
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
    "gather_columns",
    "matmul",
    "momentum",
    "normalize_rows",
    "pack_mask",
    "pool",
    "pool_grad",
    "prototype_loss",
    "prototype_loss_grad",
    "quantize",
    "scatter_columns",
    "sgd",
    "unfold",
)


def load(backend: str = "auto") -> SimpleNamespace:
    """All kernels as attributes. `backend` is "numba", "numpy", or "auto": numba if it can be imported.

    The namespace also carries `backend`, the one that was taken.
    """
    if backend != "numpy":
        try:
            from tinytrain.kernels import dense, depthwise, depthwise_weight, head, optimizer, picture
        except ImportError:
            if backend == "numba":
                raise
        else:
            modules = (dense, depthwise, depthwise_weight, head, optimizer, picture)
            return _namespace(modules, "numba")
    from tinytrain.kernels import reference

    return _namespace((reference,), "numpy")


def _namespace(modules, backend):
    found = {name: getattr(m, name) for m in modules for name in NAMES if hasattr(m, name)}
    return SimpleNamespace(backend=backend, **found)
