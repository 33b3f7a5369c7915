"""The entropy of unlabelled queries in the loss: exact gradients, and no use of the query labels."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import Oracle
from toynets import everything, images, items, recipe, toy, trainer
from toysteps import IMAGES, LABELS, assert_equals_oracle, augmentation, augmented

from tinytrain import kernels
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import backward_macs_per_query, image_macs, n_unlabelled
from tinytrain.plan.recipe import Resources, StepOptions
from tinytrain.policies import baselines
from tinytrain.policies.registry import POLICIES
from tinytrain.runtime.trainer import Trainer

QUERIES = images(5, seed=9)
ALL = np.concatenate([IMAGES, QUERIES])
N, U = len(LABELS), len(QUERIES)
WEIGHT = 0.7


def softmax(cosine, temperature=10):
    e = np.exp(temperature * (cosine - cosine.max(axis=1, keepdims=True)))
    return e / e.sum(axis=1, keepdims=True)


def value(support, shown):
    """The loss by its definition, for embeddings of support (first) and queries."""
    means = np.stack([support[k == LABELS].mean(axis=0) for k in range(3)])
    cosine = shown @ means.T / np.linalg.norm(shown, axis=1)[:, None] / np.linalg.norm(means, axis=1)
    p = softmax(cosine)
    cross = -np.log(p[np.arange(N), LABELS]).mean()
    return cross - WEIGHT * (p[N:] * np.log(p[N:])).sum(axis=1).mean()


def slopes(function, x, size=1e-6):
    """Gradient of function(x) by central differences."""
    g = np.zeros_like(x)
    for k in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[k] = size
        g[k] = (function(x + step) - function(x - step)) / (2 * size)
    return g


def step(network, how="both", **more):
    plan = recipe(everything(network), step=how, options=StepOptions(entropy=WEIGHT))
    made = trainer(network, plan, ALL, LABELS, augmentation=augmentation, queries=U, **more)
    made.run("start")
    made.run("cache")
    unlabelled = [(0, N + k) for k in range(U)]
    loss = made.compute_gradients(items(N), items(N, 1), unlabelled)
    made.close()
    return made, loss


@pytest.mark.parametrize("how, more", [("both", {"micro": 4}), ("constant", {}), ("both", {"sets": 2})])
def test_the_gradient_with_entropy_equals_finite_differences_through_the_oracle(how, more):
    """This holds also if every view of the support is cached; query images never are."""
    network = toy("blocks")
    made, loss = step(network, how, **more)
    oracle = Oracle(network)
    run = oracle.forward(np.concatenate([IMAGES, augmented(1), QUERIES]))
    support, shown = run.embeddings[:N], run.embeddings[N:]
    assert loss == pytest.approx(value(support, shown), rel=1e-5)
    through = slopes(lambda x: value(x, shown), support) if how == "both" else np.zeros_like(support)
    want = oracle.backward(run, np.concatenate([through, slopes(lambda x: value(support, x), shown)]))
    assert_equals_oracle(made, want, 3e-5)


def test_the_entropy_kernel_agrees_with_the_reference_and_with_finite_differences():
    r = np.random.default_rng(0)
    cosine = r.uniform(-1, 1, (6, 4))
    out = [(np.zeros(6, d), np.zeros((6, 4), d)) for d in ("f4", "f8")]
    kernels.load("numba").entropy(*out[0], cosine.astype("f"), np.float32(10), np.float32(0.3))
    kernels.load("numpy").entropy(*out[1], cosine, 10.0, 0.3)
    for fast, slow in zip(*out, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-6)

    def total(x):
        p = softmax(x)
        return -(p * np.log(p)).sum()

    np.testing.assert_allclose(10 * out[1][1] / 0.3, slopes(total, cosine), rtol=1e-5, atol=1e-7)
    assert out[1][0].sum() == pytest.approx(total(cosine))


def test_a_sure_answer_has_no_entropy_and_no_gradient():
    cosine = np.array([[1.0, -1.0, -1.0]], "f")
    loss, residual = np.ones(1, "f"), np.ones((1, 3), "f")
    for backend in ("numba", "numpy"):
        kernels.load(backend).entropy(loss, residual, cosine, np.float32(200), np.float32(1))
        assert loss[0] == 0 and (residual == 0).all()


def test_training_depends_on_the_queries_but_not_on_their_labels():
    network, episode = toy_network(), toy_episode()
    other = replace(episode.query, labels=np.roll(episode.query.labels, 1))
    runs = [
        adapt(network, e, Budget(2**22), baselines.TRANSDUCTIVE)
        for e in (episode, replace(episode, query=other), replace(episode, query=episode.query.take([0, 1])))
    ]
    values = [b"".join(s.values.tobytes() for s in r.delta.slices) for r in runs]
    assert values[0] == values[1] != values[2]


def test_with_many_queries_every_step_samples_some_and_all_are_used(monkeypatch):
    seen, keep = [], Trainer.step

    def step(self, number, support, queries, unlabelled, *more):
        seen.append(unlabelled)
        return keep(self, number, support, queries, unlabelled, *more)

    monkeypatch.setattr(Trainer, "step", step)
    episode = toy_episode(queries=6)
    runs = [adapt(toy_network(), episode, Budget(2**22), baselines.TRANSDUCTIVE, seed) for seed in (0, 0, 1)]
    count = runs[0].plan.resources.step_queries
    assert count < len(episode.query) and all(len(set(u)) == len(u) == count for u in seen)
    behind = range(len(episode.support), len(episode.support) + len(episode.query))
    assert {item for u in seen[:40] for item in u} == {(0, i) for i in behind}
    assert seen[:40] == seen[40:80] != seen[80:] and len(set(map(tuple, seen[:40]))) > 30


def test_entropy_and_cross_entropy_are_equally_weighted():
    arguments = toy_network(), None, Budget(), TaskShape(12, 3, 12), 1.0
    ours, full = (p.recipe(*arguments) for p in (baselines.TRANSDUCTIVE, POLICIES["full"]))
    assert ours == replace(full, policy="transductive", options=StepOptions(entropy=1.0))


def test_without_queries_it_is_full_fine_tuning():
    network, episode = toy_network(), toy_episode()
    episode = replace(episode, query=episode.query.take([]))
    plain, ours = (
        adapt(network, episode, Budget(2**22), p, force=True).delta for p in ("full", baselines.TRANSDUCTIVE)
    )
    for a, b in zip(plain.slices, ours.slices, strict=True):
        assert a.values.tobytes() == b.values.tobytes()


def test_unlabelled_images_count_as_backward_macs():
    network = toy("blocks")
    plan = recipe(everything(network), step="both", options=StepOptions(entropy=1.0))
    task, r = TaskShape(9, 3, 30), Resources(0, 1, 9, 9)
    assert n_unlabelled(plan, r, task) == 9
    assert n_unlabelled(replace(plan, options=StepOptions()), r, task) == 0
    assert backward_macs_per_query(network, plan, 9, unlabelled=9) == 3 * image_macs(network, plan.updates)
