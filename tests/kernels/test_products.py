"""Matrix products: every number is one chain of fused multiply-adds, whatever it is computed beside."""

import ctypes
import ctypes.util

import numpy as np
import pytest
from cases import each
from kernelarrays import layouts
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels.dispatch.direct import ADDS, BIAS, CLAMP, SKIP, windows
from tinytrain.kernels.dispatch.target import target

F = np.float32
WAYS = (0, ADDS, BIAS, BIAS + CLAMP, BIAS + SKIP, ADDS + BIAS + SKIP + CLAMP)
SHAPES = [(1, 1, 1), (5, 7, 3), (9, 70, 61), (16, 3, 48), (3, 130, 5), (8, 0, 6), (33, 17, 26)]


@pytest.fixture(scope="module")
def table():
    from tinytrain.kernels.fused import has_instruction

    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if not has_instruction(*target()):
        pytest.skip("this processor cannot fuse a product and a sum")
    return kernels.load("numba")


@pytest.fixture(scope="module")
def fma():
    """Of the C library: a * b + c, rounded once."""
    function = ctypes.CDLL(ctypes.util.find_library("m")).fmaf
    function.argtypes, function.restype = [ctypes.c_float] * 3, ctypes.c_float
    return function


def chains(fma, y, x, w, b, skip, how):
    """The definition: terms in ascending order, then what else is asked for, each rounded for itself."""
    found = y.copy() if how & ADDS else np.zeros_like(y)
    for i, j in np.ndindex(*y.shape):
        for k in range(len(w)):
            found[i, j] = fma(x[i, k], w[k, j], found[i, j])
    if how & BIAS:
        found += b + skip if how & SKIP else b
    return np.clip(found, F(0), F(6)) if how & CLAMP else found


def numbers(r, *shape):
    return r.standard_normal(shape).astype(F)


@each("shape", SHAPES)
def test_every_number_is_one_chain_of_fused_products_in_the_order_of_the_terms(table, fma, shape):
    m, k, n = shape
    r = rng("chains", *shape)
    x, w, before, b, skip = (numbers(r, *s) for s in ((m, k), (k, n), (m, n), (n,), (m, n)))
    for how in WAYS:
        want = chains(fma, before, x, w, b, skip, how)
        for x_laid, w_laid in zip(layouts(x), layouts(w)[::-1], strict=True):
            y = before.copy()
            table.product(y, windows(x_laid), w_laid, b, skip, how)
            assert y.tobytes() == want.tobytes()


def test_a_part_of_a_product_has_the_bits_of_the_whole(table):
    """Of some rows, of some columns, and of terms that come later: strips and batches change no bit."""
    r = rng("parts")
    x, w = numbers(r, 37, 90), numbers(r, 90, 75)
    whole, wide = np.empty((37, 75), F), np.empty((37, 75), F)
    table.matmul(whole, x, w)
    for start, end in ((0, 1), (1, 14), (14, 37)):
        table.matmul(wide[start:end], x[start:end], w)
    assert wide.tobytes() == whole.tobytes()
    for start, end in ((0, 3), (3, 44), (44, 75)):
        table.matmul(wide[:, start:end], x, w[:, start:end])
    assert wide.tobytes() == whole.tobytes()
    table.matmul(wide, x[:, :50], w[:50])
    table.add_matmul(wide, x[:, 50:], w[50:])
    assert wide.tobytes() == whole.tobytes()


@each("size, stride, channels", [((3, 3), 2, 3), ((1, 1), 1, 4), ((2, 5), 3, 1), ((4, 2), 1, 11)])
def test_windows_of_a_plane_give_the_bits_of_their_copies(table, size, stride, channels):
    """Forward with bias and clamp, and turned for the gradient of the weights; weights of every layout."""
    r = rng("windows", *size, stride, channels)
    lines = numbers(r, 14, 17 * channels)
    every = np.lib.stride_tricks.sliding_window_view(lines, (size[0], size[1] * channels))
    x = every[::stride, :: stride * channels]
    m, k = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
    copies, w, b, before = x.reshape(m, k), numbers(r, k, 27), numbers(r, 27), numbers(r, m, 27)
    turned, gradient = x.transpose(2, 3, 0, 1), numbers(r, k, 27)
    for laid, g in zip(layouts(w), layouts(before), strict=True):
        for how in WAYS:
            found, want = before.copy(), before.copy()
            table.product(found, x, laid, b, before, how)
            table.product(want, windows(copies), laid, b, before, how)
            assert found.tobytes() == want.tobytes()
        found, want = gradient.copy(), gradient.copy()
        table.add_matmul(found, turned, g)
        table.add_matmul(want, copies.T, g)
        assert found.tobytes() == want.tobytes()


def test_nan_and_infinity_pass_through_a_product(table):
    x, y = np.array([[np.nan, 0], [np.inf, 1]], F), np.empty((2, 1), F)
    table.product(y, windows(x), np.ones((2, 1), F), np.zeros(1, F), y, BIAS + CLAMP)
    assert np.isnan(y[0, 0]) and y[1, 0] == 6


def test_one_code_serves_matrices_of_every_layout(table):
    x, w = numbers(rng("kinds"), 4, 6), numbers(rng("kinds"), 6, 5)
    w.flags.writeable = False
    for x_laid, w_laid in zip(layouts(x), (*layouts(w)[:3], w), strict=True):
        table.matmul(np.empty((4, 5), F), x_laid, w_laid)
    assert len(table.product.signatures) == 1
