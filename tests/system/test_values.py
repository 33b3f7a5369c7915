"""Numbers that are none, odd episodes, learning rates of all sizes: a finite result or a named refusal.

``TINYTRAIN_VALUES_BACKBONE=mcunet-5fps pytest tests/system/test_values.py`` takes a real backbone.
"""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from cases import each, quick
from toydevices import ONE

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError, TinytrainError, UsageError
from tinytrain.base.extras import install
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_images, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy

BACKBONE = os.environ.get("TINYTRAIN_VALUES_BACKBONE")
BIG = Budget(memory=2**24)

# What replaces a number, or all numbers of an array.
VALUES = {
    "NaN": np.nan, "+Inf": np.inf, "-Inf": -np.inf, "1e38": 1e38, "1e-42": 1e-42,
    "all zero": 0.0, "constant": 0.5, "-0.0": -0.0,
}  # fmt: skip
WHOLE = ("all zero", "constant")
NOT_FINITE = ("NaN", "+Inf", "-Inf")
ODD_IN_8_BITS = tuple(name for name in VALUES if name not in WHOLE)
REASONS = ("not-finite", "diverged", "labels", "left-out")


@pytest.fixture(scope="module")
def network():
    return load_backbone(BACKBONE) if BACKBONE else toy_network()


def episode_of(seed: int = 0, way: int = 3, shots: int = 3, queries: int = 2) -> Episode:
    if BACKBONE:
        return sample_episode(open_dataset("signs"), way, shots, queries, seed)
    return toy_episode(way, shots, queries, seed)


def policy(rate: float = 1e-3, steps: int = 6, optimizer: str = "adam") -> Policy:
    """Trains all of the last layers."""

    def recipe(network, *_):
        last = range(len(network.layers) - 4, len(network.layers))
        updates = tuple(Update(i, tuple(range(network.layers[i].cout)), bias=True) for i in last)
        return Recipe(
            "test", updates, ((rate, rate),) * 4, optimizer, "constant", steps=steps, head="lda", views=3
        )

    return Policy("test", recipe, "none", macs_limited=False)


def outcome(network, episode, rate: float = 1e-3, budget=BIG, **more) -> str:
    """Whether it was kept, the code of the guard's first reason, or of the error; nothing is half-right."""
    try:
        report = adapt(network, episode, budget, policy(rate), device=ONE, **more)
    except TinytrainError as error:
        return error.code
    assert report.delta.is_finite() and encode_delta(report.delta)
    json.dumps(report.to_json(), allow_nan=False)
    assert len(report.answers.after) == len(episode.query)
    if not report.guard.accepted:
        other = report.answers.before if report.guard.kept == "head" else report.answers.before_cosine
        assert report.delta.slices == () and (report.answers.after == other).all()
    return "kept" if report.guard.accepted else report.guard.reasons[0].code


def spoilt(array: np.ndarray, name: str) -> np.ndarray:
    """A copy of `array` in which one number, or all of them, are of that kind."""
    made = np.array(array, np.float32)
    made[... if name in WHOLE else (0,) * made.ndim] = VALUES[name]
    return made


def spoilt_image(images: Images, name: str, whole: bool) -> Images:
    """Image 0 with such a number; where 8 bits hold it, in 8 bits."""

    def read(i, size):
        image = images.read(i, size)
        if i:
            return image
        made = image.astype(np.float32)
        made[... if whole else (0, 0)] = 255 * VALUES[name] if name in WHOLE else VALUES[name]
        return made.astype(np.uint8) if name in WHOLE else made

    return replace(images, read=read)


def spoilt_network(network, name: str, part: str):
    arrays = [network.float_weight(i) for i in range(len(network.layers))]
    arrays = arrays if part == "weights" else list(network.biases)
    middle = len(arrays) // 2
    arrays[middle] = spoilt(arrays[middle], name)
    changed = {part: tuple(arrays)}
    if part == "weights":
        changed["scales"] = (None,) * len(arrays)
    return replace(network, **changed)


def spoilt_labels(episode: Episode, name: str) -> Episode:
    made = spoilt(episode.support.labels, name)
    labels = made.astype(np.int32) if name in WHOLE else made
    return replace(episode, support=replace(episode.support, labels=labels))


def of_norm(tmp_path, name: str):
    """A network from an ONNX model, one of whose variances is of that kind."""
    onnx = pytest.importorskip("onnx", reason=f"reading ONNX models needs {install('onnx')}")
    from onnxmodels import mobile, save

    from tinytrain.backbones.onnx.convert import import_onnx

    maker, output = mobile()
    model = maker.model(maker.node("GlobalAveragePool", output))
    norm = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    variance = next(c for c in model.graph.initializer if c.name == norm.input[4])
    variance.CopyFrom(
        onnx.numpy_helper.from_array(spoilt(onnx.numpy_helper.to_array(variance), name), variance.name)
    )
    return import_onnx(save(model, tmp_path)).network


# Place -> its outcome with each kind of value.
PLACES = {
    "support pixel": lambda n, e, name, t: outcome(
        n, replace(e, support=spoilt_image(e.support, name, whole=False))
    ),
    "support image": lambda n, e, name, t: outcome(
        n, replace(e, support=spoilt_image(e.support, name, whole=True))
    ),
    "query": lambda n, e, name, t: outcome(n, replace(e, query=spoilt_image(e.query, name, whole=True))),
    "weight": lambda n, e, name, t: outcome(spoilt_network(n, name, "weights"), e),
    "bias": lambda n, e, name, t: outcome(spoilt_network(n, name, "biases"), e),
    "variance": lambda n, e, name, t: outcome(of_norm(t, name), toy_episode(3, 3, 2)),
    "learning rate": lambda n, e, name, t: outcome(n, e, rate=VALUES[name]),
    "label": lambda n, e, name, t: outcome(n, spoilt_labels(e, name)),
    "budget": lambda n, e, name, t: outcome(n, e, budget=Budget(VALUES[name])),
}
REFUSED = {
    "support pixel": dict.fromkeys(ODD_IN_8_BITS, "bad-value"),
    "support image": dict.fromkeys(ODD_IN_8_BITS, "bad-value"),
    "query": dict.fromkeys(ODD_IN_8_BITS, "bad-value"),
    "weight": dict.fromkeys(NOT_FINITE, "network-not-finite"),
    "bias": dict.fromkeys(NOT_FINITE, "network-not-finite"),
    "variance": dict.fromkeys(NOT_FINITE, "unsupported"),
    "learning rate": {**dict.fromkeys(NOT_FINITE, "not-finite"), "1e38": "not-finite"},
    "label": {**dict.fromkeys(ODD_IN_8_BITS, "labels"), **dict.fromkeys(WHOLE, "too-few-images")},
    "budget": dict.fromkeys(VALUES, "usage"),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("place", PLACES)
def test_a_number_that_is_none_ends_in_a_finite_result_or_a_named_refusal(network, tmp_path, place, name):
    try:
        found = PLACES[place](network, episode_of(), name, tmp_path)
    except (InputError, UsageError) as error:  # what cannot even be made
        found = error.code
    assert found == REFUSED[place].get(name, found)
    assert name not in REFUSED[place] or found != "kept"
    assert name in REFUSED[place] or found in ("kept", *REASONS), "a usable number ends in a verdict"


RATES = (1e-4, 1e-2, 1.0, 1e2, 1e4)


@pytest.mark.parametrize("rate", quick(RATES, (0, len(RATES) - 1)))
@pytest.mark.parametrize("optimizer", quick(["sgd", "adam"]))
def test_every_learning_rate_ends_in_a_finite_result_or_the_unadapted_network(network, rate, optimizer):
    for seed in range(20):
        episode = episode_of(seed)
        report = adapt(network, episode, BIG, policy(rate, optimizer=optimizer), device=ONE)
        losses, finite = report.ran.losses, np.isfinite(report.ran.losses)
        assert finite[:-1].all(), "training goes on after a loss that is no number"
        assert report.delta.is_finite() and encode_delta(report.delta)
        kept, answers = report.guard.kept, report.answers
        if kept != "adapted":
            other = answers.before if kept == "head" else answers.before_cosine
            assert report.delta.slices == () and (answers.after == other).all()
        assert (kept == "adapted") <= (finite.all() and losses[-1] <= 10 * losses[0] + 1)
        destroyed = {r.code for r in report.guard.reasons} & {"not-finite", "diverged", "left-out"}
        assert destroyed or (rate, optimizer) != (RATES[-1], "sgd"), "a rate that destroys every network"


# ---- odd episodes ------------------------------------------------------------------------------


def of_shots(*shots) -> Episode:
    """An episode with so many support images per class, and no queries."""
    way = len(shots)
    episode = episode_of(way=max(2, way), shots=max(shots), queries=0)
    rank = np.concatenate([np.arange(n) for n in episode.shots])
    chosen = np.flatnonzero(rank < np.array([*shots, 0, 0])[episode.support.labels])
    return replace(episode, support=episode.support.take(chosen), class_names=episode.class_names[:way])


def duplicates_across_classes() -> Episode:
    """Both classes hold the same images."""
    episode = of_shots(4, 4)
    same = replace(episode.support, read=lambda i, size: episode.support.read(i % 4, size))
    return replace(episode, support=same)


ODD = {
    "one class": (lambda: of_shots(5), {"too-few-classes"}),
    "a class without images": (lambda: of_shots(5, 0, 5), {"too-few-images"}),
    "one shot": (lambda: of_shots(1, 1, 1), {"kept", "diverged"}),
    "no queries": (lambda: of_shots(4, 4, 4), {"kept", "labels", "diverged", "left-out"}),
    "from 1 to 50 shots": (lambda: of_shots(1, 50, 7), {"kept", "labels", "diverged", "left-out"}),
    "duplicates across classes": (duplicates_across_classes, {"labels", "diverged", "left-out"}),
}


@each("case", ODD)
def test_an_odd_episode_ends_in_a_finite_result_or_a_named_refusal(network, case):
    make, possible = ODD[case]
    try:
        found = outcome(network, make())
    except InputError as error:
        found = error.code
    assert found in possible


@pytest.mark.slow
def test_a_thousand_classes_are_adapted_to(network):
    many = Episode(
        support=toy_images(np.arange(1000), 0),
        query=toy_images(np.arange(0), 1),
        class_names=tuple(f"class {c}" for c in range(1000)),
    )
    assert outcome(network, many, budget=Budget(2**27)) in ("kept", "diverged")
