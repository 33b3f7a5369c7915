"""Runs every kernel once, on tiny adaptations, so that numba compiles it and keeps the result."""

from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.network.network import Network
from tinytrain.network.node import ACTIVATIONS
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy
from tinytrain.policies.tinytl import modules_from
from tinytrain.program.autodiff import activations
from tinytrain.program.backends.registry import INT8

# Between them these pass through every kernel. (First trained layer, optimizer, rounding), and in float32
# (first trained layer, optimizer, kind of step, head).
INT8_RUNS = ((1, "adam", "carried"), (1, "momentum", "masters"), (0, "sgd", "nearest"))
RUNS = ((0, "momentum", "both", "cosine"), (1, "sgd", "constant", "lda"), (4, "adam", "constant", "lda"))


def warm_up() -> list[str]:
    """Names of the compiled kernels that are now ready; none without numba."""
    network, episode = toy_network(), toy_episode(way=2, shots=2, queries=1)
    for run in RUNS:
        adapt(network, episode, Budget(memory=2**24), _policy(*run))
    in_codes = replace(network, quantisation=_codes_of(network))
    for run in INT8_RUNS:
        adapt(in_codes, episode, Budget(memory=2**24, precision=INT8.name), _int8_policy(*run))
    table = kernel_table.load()
    _layers_of_other_networks(table)
    _tokens(table)
    _in_little_memory(table)
    _matrices(table)
    return sorted(name for name, kernel in vars(table).items() if _is_compiled(kernel))


def _layers_of_other_networks(table) -> None:
    """The kernels of layers that the toy network does not have, on zeros."""
    for name, row in activations.ROWS.items():
        flat, numbers = np.zeros(8, np.float32), (np.float32(0.2),) * len(ACTIVATIONS[name])
        if row.kernel:
            getattr(table, row.kernel)(flat, *(() if row.in_place else (flat.copy(),)), *numbers)
        kept = flat.copy()
        if row.keeps not in (activations.INPUT, activations.OUTPUT):
            kept = np.zeros(1, np.uint8)
            getattr(table, row.keeps)(kept, flat)
        getattr(table, row.gradient)(flat, kept, *numbers)
    x, y = np.zeros((1, 2, 2, 4), np.float32), np.zeros((1, 1, 1, 4), np.float32)
    taps = np.zeros(y.shape, np.uint8)
    window = 3, 3, 2, 2, 1, 1
    table.max_pool(y, x, *window)
    table.max_taps(taps, x, y, *window)
    table.max_pool_grad(x, y, taps, *window)
    # Of convolutions in groups; elsewhere a product does this too.
    table.add_bias(x[0, 0], y[0, 0, 0])
    table.add_bias_relu6(x[0, 0], y[0, 0, 0])
    table.add_bias_residual(x[0, 0], y[0, 0, 0], x[0, 0].copy())
    for name in ("put_columns", "take_columns"):
        getattr(table, name)(x.reshape(-1, 4), x.reshape(-1, 4).copy(), 0)
    # Of items of float32.
    table.enter(y[0], x[0], 0, 0, False, x[0, 0].reshape(-1), x[0, 0].reshape(-1))
    rows, factors = x.reshape(1, 4, 4), y.reshape(1, 4)
    table.scale_channels(rows, rows.copy(), factors)
    table.scale_channels_grad(factors, rows, rows.copy())


def _tokens(table) -> None:
    """The kernels of transformers, on zeros."""
    rows, one = np.zeros((2, 4), np.float32), np.float32(1)
    table.absent(rows[0, :2].copy(), rows)
    table.clear_rows(rows.copy(), rows)
    for name in ("softmax_grad", "standardise", "standardise_grad"):
        getattr(table, name)(rows.copy(), rows, one)
    table.softmax(rows.copy(), one)
    for dtype in (np.uint8, np.float32):
        table.embed(rows.copy(), np.zeros(2, dtype), rows, rows[0])
        table.embed_grad(rows.copy(), np.zeros(2, dtype), rows)


def _in_little_memory(table) -> None:
    """What an int8 program calls only if memory is short, on zeros."""
    planes, work = np.zeros((1, 2, 2, 4), np.float32), np.empty((9, 16), np.float32)
    weights, scale = np.zeros((9, 4), np.int8), np.ones(4, np.float32)
    table.copy_codes(weights[0], weights[1])
    _inner_channels(table, planes, weights, scale)
    table.depthwise_grad_in_place(planes.copy(), np.empty((13, 16), np.float32), weights, scale, 3)
    table.depthwise_grad_input_codes(planes.copy(), work, planes, weights, scale, 3, 1)


def _inner_channels(table, planes, weights, scale) -> None:
    rows, bits, some = planes.reshape(4, 4), np.zeros(2, np.uint8), np.zeros(1, np.int32)
    table.grad_input_columns(rows.copy(), np.zeros((4, 9), np.float32), weights, np.zeros(9, np.float32), 0)
    table.mask_columns(rows, bits, 0, 4)
    table.widen_columns(np.zeros((9, 4), np.float32), weights, scale, 0)
    table.gather_some(np.zeros((4, 1), np.float32), rows, some, 0)
    codes = np.zeros((4, 4), np.int8)
    table.unfold_plane_codes(np.zeros((1, 2, 36), np.int8), codes.reshape(1, 2, 2, 4), 3, 1, 0, 2, 1, 0)
    table.grad_weight_columns(rows.copy(), codes, rows, np.float32(1), 0, 0)
    table.grad_input_rows(rows.copy(), rows, codes, scale, 0)


def _matrices(table) -> None:
    """What heads ask for, by the number of images: of matrices, whole and packed, and of sums."""
    whole, row = np.eye(2, dtype=np.float32), np.zeros((1, 2), np.float32)
    table.add_outer(whole, row, np.float32(1))
    table.cholesky(whole)
    table.cholesky_solve(row, whole)
    table.inverse_diagonal(row[0], whole)
    triangle = np.array([1, 0, 1], np.float32)
    for dtype in (np.int32, np.int64):
        table.add_products(np.zeros(3, dtype), row)
        table.add_rounded(np.zeros((1, 2), dtype), row, np.zeros(1, np.int32))
    table.add_outer_packed(triangle, row, np.float32(1))
    table.cholesky_packed(triangle)
    table.cholesky_solve_packed(row, triangle)
    table.inverse_diagonal_packed(row[0], triangle)


def _codes_of(network: Network) -> Quantisation:
    """Some codes: what they are does not matter here."""
    outputs = tuple(Codes(6 / 255, -128) if layer.activation else Codes(0.05, 0) for layer in network.layers)
    return Quantisation(outputs, tuple(Codes(0.05, 0) if layer.adds else None for layer in network.layers))


def _int8_policy(first: int, optimizer: str, rounding: str) -> Policy:
    def recipe(network: Network, *_) -> Recipe:
        updates = tuple(_update(network, i) for i in range(first, len(network.layers)))
        plain = Recipe("warmup", updates, ((1e-4, 1e-4),) * len(updates), optimizer, "both", steps=2, views=3)
        return plain.in_precision(INT8.name, rounding)

    return replace(_policy(first, optimizer, "both", "lda"), recipe=recipe)


def _is_compiled(kernel) -> bool:
    return bool(getattr(getattr(kernel, "compiled", None), "signatures", ()))


def _policy(first: int, optimizer: str, step: str, head: str) -> Policy:
    def recipe(network: Network, *_) -> Recipe:
        layers = range(first, len(network.layers))
        updates = (*(_update(network, i) for i in layers), *modules_from(network, first))
        rates, options = ((1e-4, 1e-4),) * len(updates), StepOptions(0.6, entropy=float(step == "both"))
        return Recipe("warmup", updates, rates, optimizer, step, options, steps=2, head=head, views=3)

    def inspected(network: Network) -> tuple[int, ...]:
        return tuple(range(1, len(network.layers)))

    return Policy("warmup", recipe, "no method", inspects=inspected, macs_limited=False)


def _update(network: Network, layer: int) -> Update:
    """Every other layer whole, the others partly: both ways to write back are taken."""
    count = network.layers[layer].cout
    return Update(layer, tuple(range(count if layer % 2 else count // 2)), bias=True)
