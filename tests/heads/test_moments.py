"""Sums of embeddings in whole numbers: exact, in any order and grouping; heads that follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted, in_form

from tinytrain import kernels
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import Delta
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads.lda import RIDGE
from tinytrain.heads.moments import MOST, NARROW, UNIT, Moments, dtype_for, on_grid, products_of, sums_of
from tinytrain.heads.registry import HEADS
from tinytrain.heads.scatter_head import ScatterHead

WAY, SIZE = 5, 24
SUMS = [name for name, method in HEADS.items() if issubclass(method.head, ScatterHead)]
KINDS = each("kind", SUMS)


def moments_of(x, labels, way=WAY):
    return Moments(np.bincount(labels, minlength=way), sums_of(x, labels, way), products_of(x))


def same(one: Moments, other: Moments) -> bool:
    return all(np.array_equal(vars(one)[name], vars(other)[name]) for name in vars(one))


@each("backend", ["auto", "numpy"])
@each("dtype", ["int32", "int64"])
def test_kernels_add_what_python_integers_add(backend, dtype):
    x, labels = embeddings(30, 7, way=3)
    x, table = np.ascontiguousarray(x, np.float32), kernels.load(backend)
    products, sums = np.ones(28, dtype), np.ones((3, 7), dtype)
    table.add_products(products, x)
    table.add_rounded(sums, x, labels)
    whole = [[int(np.trunc(abs(v) * UNIT + 0.5) * np.sign(v)) for v in row] for row in x.astype(float)]
    places = [(i, j) for i in range(7) for j in range(i + 1)]
    assert products.tolist() == [1 + sum((q[i] * q[j] + 2**19) // 2**20 for q in whole) for i, j in places]
    assert sums.tolist() == [
        [1 + sum(q[d] for q, label in zip(whole, labels, strict=True) if label == k) for d in range(7)]
        for k in range(3)
    ]
    assert products.tolist() == (products_of(x) + 1).tolist()
    assert sums.tolist() == (sums_of(x, labels, 3) + 1).tolist()


def test_numbers_that_are_none_and_out_of_reach_are_not_added():
    x = np.array([[np.nan, np.inf, 0.5]], np.float32)
    for backend in ("auto", "numpy"):
        products = np.zeros(6, np.int32)
        kernels.load(backend).add_products(products, x)
        assert products.tolist() == [0, 0, 0, 0, 0, UNIT // 4]


def test_int32_holds_all_that_it_is_said_to_hold():
    """Embeddings that all point one way, and are a bit too long by rounding."""
    x = np.array([[1 + 2e-6, 0]], np.float32)
    narrow, wide = np.zeros(3, np.int32), np.zeros(3, np.int64)
    for total in (narrow, wide):
        kernels.load().add_products(total, np.repeat(x, NARROW, axis=0))
    assert narrow.tolist() == wide.tolist() and narrow[0] > 0
    assert (dtype_for(NARROW), dtype_for(NARROW + 1)) == ("int32", "int64")
    assert MOST * (UNIT + 10) < 2**63


@each("seed", range(5))
def test_moments_add_to_the_same_bits_in_any_order_and_grouping(seed):
    x, labels = embeddings(60, SIZE, seed, WAY)
    draw = np.random.default_rng(seed)
    parts = [moments_of(x[part], labels[part]) for part in np.array_split(draw.permutation(60), 7)]
    whole, order = moments_of(x, labels), draw.permutation(7)
    forward, grouped = sum_of(parts), sum_of([sum_of(parts[:3]), sum_of(parts[3:])])
    assert same(forward, whole) and same(grouped, whole) and same(sum_of([parts[k] for k in order]), whole)
    assert same(whole - parts[0], sum_of(parts[1:])), "what was added can be taken out again"
    one = moments_of(x[labels == 2], labels[labels == 2])
    assert same(whole - one, moments_of(x[labels != 2], labels[labels != 2]))


def sum_of(parts):
    first, *rest = parts
    for part in rest:
        first = first + part
    return first


def test_more_than_can_be_counted_and_less_than_nothing_are_refused():
    x, labels = embeddings(5, SIZE, way=WAY)
    one = moments_of(x, labels)
    many = Moments(np.full(WAY, MOST), one.sums, one.products)
    with pytest.raises(InputError, match=f"a class would stand for {MOST + 1} embeddings"):
        many + one
    with pytest.raises(InputError, match="more embeddings are taken out than there are"):
        one - many
    head = fitted(HEADS["lda"], x, labels).extended(WAY)
    head.counts[:] = MOST
    with pytest.raises(InputError, match=r"bad-value: a class would stand"):
        head.update(kernels.load(), x.astype("f"), labels)


@KINDS
@each("n", [10, 200])
def test_a_head_knows_the_moments_of_what_it_is_fitted_to_and_updated_with(kind, n):
    """Whether it keeps few embeddings or their sums; to the last bit."""
    x, labels = embeddings(n + 30, SIZE, way=WAY)
    turns = np.argsort(np.argsort(labels, kind="stable") % (len(x) // WAY), kind="stable")
    x, labels = x[turns].astype(np.float32), labels[turns]
    head = fitted(HEADS[kind], x[:n], labels[:n])
    assert (head.embeddings is not None) == (n == 10)
    assert same(head.moments, moments_of(x[:n], labels[:n]))
    grown = head.extended(WAY)
    grown.update(kernels.load(), x[n:], labels[n:])
    assert same(grown.moments, moments_of(x, labels)) and grown.images.tolist() == grown.counts.tolist()
    small = grown.stored()
    assert grown.sums.dtype == np.int64 and small.sums.dtype == small.products.dtype == np.int32
    assert same(small.moments, grown.moments) and small.logits(x).tobytes() == grown.logits(x).tobytes()
    grown.counts[0] = NARROW + 1
    assert grown.stored() is grown


@KINDS
def test_the_sum_of_parts_gives_the_head_of_the_whole_byte_for_byte(kind):
    x, labels = embeddings(200, SIZE, way=WAY)
    x, method = x.astype(np.float32), HEADS[kind]
    whole = fitted(method, x, labels)
    # Each part knows one class: what a device of its own would have learnt.
    parts = [fitted(in_form(method, False), x[labels == k], labels[labels == k] * 0) for k in range(WAY)]
    total = sum_of([part.moments.at([k], WAY) for k, part in enumerate(parts)])
    found = method.of_moments(kernels.load(), total)
    for name, values in whole.tensors().items():
        assert found.tensors()[name].tobytes() == values.tobytes(), name


@KINDS
def test_without_a_class_few_embeddings_are_those_of_the_others_and_many_keep_their_covariance(kind):
    x, labels = embeddings(200, SIZE, way=WAY)
    rest = labels != 1
    kept = labels[rest] - (labels[rest] > 1)
    few = fitted(HEADS[kind], x[:12], labels[:12]).without_class(1, WAY)
    assert same(few.moments, moments_of(x[:12].astype("f")[rest[:12]], kept[: rest[:12].sum()], WAY - 1))
    many = fitted(HEADS[kind], x, labels)
    less = many.without_class(1, WAY)
    assert less.problem() is None and less.total == rest.sum()
    again = HEADS[kind].of_moments(kernels.load(), less.moments)
    if kind != "ridge":  # whose targets change with the number of images
        np.testing.assert_allclose(
            again.weights, less.weights, rtol=0, atol=1e-3 * np.abs(less.weights).max()
        )


def older(kind, head, x, labels):
    """Tensors of a delta as they were before there were sums, from float64."""
    means = np.stack([x[labels == k].mean(axis=0) for k in range(WAY)])
    centres = np.broadcast_to(x.mean(axis=0), x.shape) if kind == "ridge" else means[labels]
    rows, method = x - centres, HEADS[kind]
    tensors = {"weights": head.weights, "offsets": head.offsets, "counts": head.counts, "means": means}
    covariance = rows.T @ rows / len(x)
    if 2 * len(x) <= SIZE + 1:
        tensors["deviations"] = rows
    elif kind in ("slda", "ridge"):
        tensors["covariance"] = covariance[np.tril_indices(SIZE)]
    else:
        s = (1 - method.shrinkage) * covariance
        s += (method.shrinkage * np.trace(covariance) / SIZE + RIDGE) * np.eye(SIZE)
        tensors["factor"] = np.linalg.cholesky(s)[np.tril_indices(SIZE)]
    return {f"head.{name}": a if a.dtype == np.int32 else a.astype(np.float32) for name, a in tensors.items()}


@KINDS
@each("n", [10, 200])
def test_deltas_from_before_there_were_sums_are_read(kind, n):
    x, labels = embeddings(n, SIZE, way=WAY)
    head = fitted(HEADS[kind], x, labels)
    delta = Delta("0" * 64, "made up", (), head, tuple("abcde"), {})
    _, metadata = decode(encode_delta(delta))
    old = decode_delta(older(kind, head, x, labels), metadata).head
    assert np.array_equal(old.logits(x), head.logits(x))
    found, exact = old.moments, head.moments
    assert found.counts.tolist() == exact.counts.tolist()
    assert np.abs(found.sums - exact.sums).max() < 100 and np.abs(found.products - exact.products).max() < 100
    broken = older(kind, head, x, labels)
    broken["head.means"] = broken["head.means"] * 1000
    with pytest.raises(InputError, match=r"tensor head.* is missing"):
        decode_delta(broken, metadata)


def test_rounded_embeddings_stay_as_they_are():
    x = on_grid(embeddings(30)[0].astype(np.float32))
    assert x.dtype == np.float32 and np.array_equal(on_grid(x), x)
    labels = np.arange(10, dtype=np.int32) % 3
    for kind in SUMS:  # after they were deviations from means
        head = fitted(HEADS[kind], x[:10], labels)
        assert head.embeddings.tobytes() == x[:10].tobytes() and head.labels.tolist() == labels.tolist()


def test_embeddings_of_a_file_that_are_too_long_or_of_other_classes_are_refused():
    x, labels = embeddings(10)[0].astype(np.float32), np.arange(10, dtype=np.int32) % 3
    head = fitted(HEADS["lda"], x, labels)
    assert head.problem() is None
    assert "head.embeddings must" in replace(head, embeddings=head.embeddings * 8).problem()
    for wrong in (labels - 1, labels + 1, np.minimum(labels, 1)):
        assert "head.labels must" in replace(head, labels=wrong).problem()
