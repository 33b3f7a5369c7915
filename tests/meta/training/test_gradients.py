"""Losses of the offline stage against finite differences, and the whole gradient against the engine's own."""

import numpy as np
import pytest
import toynets
import toyruns
from oracle import Oracle

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.heads.head import Support
from tinytrain.heads.registry import HEADS
from tinytrain.meta.training import losses
from tinytrain.meta.training.full_network import Whole
from tinytrain.meta.training.pretrain import block_ends
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Resources, StepOptions
from tinytrain.program.compile import compile_training
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer

WAY, SHOTS, QUERIES, WIDTH = 3, 2, 2, 5
LABELS = np.concatenate([np.repeat(np.arange(WAY), n) for n in (SHOTS, QUERIES)])
N_SUPPORT = WAY * SHOTS


def embeddings(seed=0, count=WAY * (SHOTS + QUERIES), width=WIDTH):
    return toynets.rng("embeddings", seed).standard_normal((count, width))


def numerical(function, x, step=1e-5):
    """Gradient of `function` at x by central differences."""
    gradient = np.empty(x.size)
    for i in range(x.size):
        ends = []
        for sign in (1, -1):
            moved = x.copy().reshape(-1)
            moved[i] += sign * step
            ends.append(function(moved.reshape(x.shape)))
        gradient[i] = (ends[0] - ends[1]) / (2 * step)
    return gradient.reshape(x.shape)


def test_the_gradient_of_an_episode_goes_through_queries_and_prototypes():
    def loss(x):
        return losses.episode_loss(x, LABELS, N_SUPPORT, 4.0)

    x = embeddings()
    expected = numerical(lambda x: loss(x).value, x)
    np.testing.assert_allclose(loss(x).gradient, expected, rtol=1e-4, atol=1e-6)
    assert np.abs(expected[:N_SUPPORT]).max() > 1e-3


@pytest.mark.parametrize("n_support", [N_SUPPORT, N_SUPPORT - 1])  # the last class may have fewer images
def test_the_gradient_through_the_lda_head_goes_through_queries_means_and_covariance(n_support):
    def loss(x):
        return losses.lda_loss(x, LABELS, n_support, 4.0)

    x = embeddings(5)
    expected = numerical(lambda x: loss(x).value, x)
    np.testing.assert_allclose(loss(x).gradient, expected, rtol=1e-4, atol=1e-6)
    assert np.abs(expected[:n_support]).max() > 1e-3
    in_scale = numerical(lambda t: losses.lda_loss(x, LABELS, n_support, float(t[0])).value, np.array([4.0]))
    np.testing.assert_allclose(loss(x).extra, in_scale, rtol=1e-5)


def test_the_lda_loss_decides_as_the_head_of_the_device_does():
    way, shots, queries, width = 4, 5, 6, 12
    labels = np.concatenate([np.repeat(np.arange(way), n) for n in (shots, queries)])
    middles = toynets.rng("middles").standard_normal((way, width))
    x = (middles[labels] + 0.9 * embeddings(6, len(labels), width)).astype(np.float32)
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    support = units[: way * shots], labels[: way * shots].astype(np.int32)
    blank = {b.name: b.allocate(0xFF) for b in HEADS["lda"].buffers(way, width)}
    stream = lambda: iter([support])  # noqa: E731 - one batch of all
    head = HEADS["lda"].fit(kernels.load(), blank, Support(stream, stream, np.full(way, shots)))
    chosen = head.logits(units[way * shots :]).argmax(axis=1)
    found = losses.lda_loss(x, labels, way * shots, 10.0)
    assert found.accuracy == (chosen == labels[way * shots :]).mean()
    assert 0.3 < found.accuracy < 1


def test_unbalanced_support_counts_every_class_mean_the_same():
    labels = np.array([0, 0, 0, 1, 0, 1])
    x = embeddings(3, len(labels))
    expected = numerical(lambda x: losses.episode_loss(x, labels, 4, 4.0).value, x)
    np.testing.assert_allclose(
        losses.episode_loss(x, labels, 4, 4.0).gradient, expected, rtol=1e-4, atol=1e-6
    )


def test_the_gradient_of_the_temperature():
    x = embeddings(1)
    expected = numerical(
        lambda t: losses.episode_loss(x, LABELS, N_SUPPORT, float(t[0])).value, np.array([6.0])
    )
    np.testing.assert_allclose(losses.episode_loss(x, LABELS, N_SUPPORT, 6.0).extra, expected, rtol=1e-5)


def test_the_gradients_of_a_classifier_and_of_its_rows():
    x, head = embeddings(1), embeddings(2, 4)
    labels = np.arange(len(x)) % 4
    found = losses.class_loss(x, labels, head, 5.0)
    in_x = numerical(lambda x: losses.class_loss(x, labels, head, 5.0).value, x)
    in_head = numerical(lambda h: losses.class_loss(x, labels, h, 5.0).value, head)
    np.testing.assert_allclose(found.gradient, in_x, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.extra.reshape(head.shape), in_head, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("loss", "width"), [("cosine_loss", WIDTH), ("relational_loss", 9)])
def test_the_gradients_of_distillation(loss, width):
    x, wanted = embeddings(), embeddings(5, width=width)
    loss = getattr(losses, loss)
    expected = numerical(lambda x: loss(x, wanted).value, x)
    np.testing.assert_allclose(loss(x, wanted).gradient, expected, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_step_is_that_of_the_engine(tmp_path):
    """Including the temperature: mean over queries of the sum of residual times cosine."""
    network = toynets.toy()
    task, _ = toyruns.task(tmp_path, network=network, episode={"way": 3, "shots": 2, "queries": 2})
    batch = task.batch(0)
    _, _, gradient = task.step(task.first, batch)

    labels, n = batch.labels.astype(np.int32), batch.n_support
    options = StepOptions(temperature=float(task.first[-1]))
    recipe = toynets.recipe(toynets.everything(network), options=options)
    resources = Resources(sets=0, micro=1, step_support=n, step_queries=len(labels) - n)
    program = compile_training(network, recipe, resources, TaskShape(len(labels), 3))
    trainer = Trainer(
        program,
        Arena(program.nbytes),
        WorkingCopy(network),
        kernels.load(),
        Source(lambda i: batch.images[i], lambda view, i: None, labels),
    )
    trainer.run("start")
    trainer.class_sizes.fill(2)
    items = toynets.items(len(labels))
    trainer.compute_gradients(items[:n], items[n:])
    assert toynets.relative(gradient[:-1], trainer.gradients) < 1e-4
    temperature = (trainer.bind.array("residual") * trainer.bind.array("cosine")).sum(axis=1).mean()
    assert gradient[-1] == pytest.approx(temperature, rel=1e-3)


def test_a_step_along_the_gradient_changes_the_loss_by_it(tmp_path):
    task, _ = toyruns.task(tmp_path)
    batch = task.batch(1)
    _, _, gradient = task.step(task.first, batch)
    step = np.float32(1e-3 / np.linalg.norm(gradient))
    ends = [task.step(task.first + sign * step * gradient, batch)[0] for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * float(step))
    assert slope == pytest.approx(float(gradient @ gradient), rel=0.05)


def test_padding_to_whole_micro_batches_adds_nothing():
    network, images = toynets.toy(), toynets.images(7)
    wholes = [Whole(network, 7, micro=m) for m in (1, 5)]
    g = embeddings(8, 7, network.embedding_size)
    for whole in wholes:
        whole.forward(images)
        whole.backward(g)
    assert toynets.relative(*(w.gradient for w in wholes)) < 1e-5
    np.testing.assert_allclose(*(w.embed(images) for w in wholes), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*(w.forward(images)[0] for w in wholes), rtol=1e-4, atol=1e-5)


def test_the_gradients_of_inner_outputs_in_units_of_their_spread():
    y, t = (toynets.rng("inner", k).standard_normal((2, 3, 3, 4)) for k in range(2))
    scale = np.array([0.5, 1.0, 2.0, 3.0])

    def value(y):
        return losses.feature_loss([y.copy(), t.copy()], [t, t], [scale, scale], 0.7)[0]

    _, (found, nothing) = losses.feature_loss([y.copy(), t.copy()], [t, t], [scale, scale], 0.7)
    np.testing.assert_allclose(found, numerical(value, y), rtol=1e-5, atol=1e-8)
    assert not nothing.any()


@pytest.mark.parametrize("kind", ["blocks", "headed"])
def test_parts_apart_compute_from_their_own_inputs_and_keep_their_gradients(kind):
    network, images = toynets.toy(kind), toynets.images(4)
    hooks = block_ends(network.layers)
    together, apart = (Whole(network, 4, micro=3, hooks=hooks, block_wise=a) for a in (False, True))
    _, *between = together.outputs(images)
    inputs = [y + toynets.rng("moved", k).standard_normal(y.shape) for k, y in enumerate(between)]
    inputs = inputs[: len(apart.batches[0].inputs)]
    outputs = apart.forward(images, *inputs)
    for k, (a, b) in enumerate(zip([0, *(i + 1 for i in hooks)], [i + 1 for i in hooks], strict=False)):
        wanted = Oracle(network).forward(inputs[k - 1] if k else images, a, b).output
        np.testing.assert_allclose(outputs[1 + k], wanted, rtol=1e-3, atol=1e-3)
    for k in range(len(outputs)):
        only = [np.full(y.shape, float(j == k), np.float32) for j, y in enumerate(outputs)]
        apart.forward(images, *inputs)
        apart.backward(*only)
        moved = {s.layer for s in apart.slots if apart.gradient[s.start : s.start + s.size].any()}
        ends = [-1, *hooks, len(network.layers) - 1]
        part = range(ends[k - 1] + 1, ends[k] + 1) if k else range(ends[len(inputs)] + 1, len(network.layers))
        assert moved == set(part)


@pytest.mark.parametrize("kind", ["blocks", "headed"])
def test_inner_outputs_are_the_oracles_and_the_gradient_reaches_every_layer_below_them(kind):
    """The gradient of sum(c * y) over embeddings and feature maps, by differences along it."""
    network, images = toynets.toy(kind), toynets.images(4)
    hooks, oracle = block_ends(network.layers), Oracle(network)
    whole = Whole(network, 4, micro=2, hooks=hooks)
    outputs = whole.forward(images)
    assert len(outputs) == len(hooks) + 1 > 2
    for i, found in zip(hooks, outputs[1:], strict=True):
        wanted = oracle.forward(images, 0, i + 1).output
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    factors = [toynets.rng("factor", k).standard_normal(y.shape) for k, y in enumerate(outputs)]
    whole.backward(*factors)
    gradient, start = whole.gradient.copy(), whole.values
    ends = []
    for sign in (1, -1):
        whole.values = start + sign * np.float32(1e-3 / np.linalg.norm(gradient)) * gradient
        ends.append(sum(np.vdot(c, y) for c, y in zip(factors, whole.outputs(images), strict=True)))
    slope = (ends[0] - ends[1]) / 2e-3
    assert slope == pytest.approx(np.linalg.norm(gradient.astype(np.float64)), rel=0.03)


def test_lanes_do_not_change_a_bit():
    network, images = toynets.toy(), toynets.images(12)
    wholes = [Whole(network, 12, micro=2, workers=n) for n in (1, 2)]
    g = embeddings(9, 12, network.embedding_size)
    for whole in wholes:
        whole.forward(images)
        whole.backward(g)
    np.testing.assert_array_equal(*(w.gradient for w in wholes))
    for whole in wholes:
        whole.close()
