"""An adaptation that begins at the layers of another one is a delta for the network itself."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from commandline import tt
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.base.errors import InputError, UsageError
from tinytrain.delta.delta import Slice, apply
from tinytrain.delta.rebase import begun, rebased
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy

NETWORK, BUDGET = toy_network(), Budget(2**22)


def policy(*updates):
    rates = ((1e-2, 1e-2),) * len(updates)

    def recipe(network, *_):
        return Recipe("test", updates, rates, "adam", "constant", head="lda", views=3)

    return Policy("test", recipe, "none", macs_limited=False)


FIRST = policy(Update(6, (1, 4, 7), bias=True))
SECOND = policy(Update(6, (4, 5), bias=True), Update(9, (0, 3), bias=True))


@pytest.fixture(scope="module")
def start():
    return tinytrain.adapt(NETWORK, toy_episode(), BUDGET, FIRST, force=True, train=True).delta


def bits(network):
    weights = (network.float_weight(i) for i in range(len(network.layers)))
    return [a.tobytes() for a in (*weights, *network.biases)]


def test_training_goes_on_where_it_ended(start):
    options = {"force": True, "train": True, "start": start}
    report = tinytrain.adapt(NETWORK, toy_episode(seed=1), BUDGET, SECOND, **options)
    (first,) = (s for s in start.slices if s.part == "weight")
    values = {(s.layer, s.part): s for s in report.delta.slices}
    both = values[6, "weight"]
    assert both.channels.tolist() == [1, 4, 5, 7] and values[9, "weight"].channels.tolist() == [0, 3]
    for channel, ours in ((1, 0), (7, 3)):  # those that only the first one has trained
        assert (both.values[:, ours] == first.values[:, first.channels.tolist().index(channel)]).all()
    assert not np.array_equal(both.values[:, 1], first.values[:, 1]), "and this one goes on"
    assert report.delta.backbone == NETWORK.digest
    answers = tinytrain.Predictor(NETWORK, report.delta).probabilities(report.episode.query).argmax(axis=1)
    assert answers.tolist() == report.answers.after.tolist()


def test_modules_that_were_added_go_on_as_well():
    options = {"force": True, "train": True}
    first = tinytrain.adapt(NETWORK, toy_episode(), BUDGET, "tinytl", **options).delta
    assert any(s.layer >= len(NETWORK.layers) for s in first.slices)
    report = tinytrain.adapt(NETWORK, toy_episode(seed=1), BUDGET, "tinytl", start=first, **options)
    found = tinytrain.Predictor(NETWORK, report.delta).probabilities(report.episode.query)
    assert found.argmax(axis=1).tolist() == report.answers.after.tolist()


def test_a_head_alone_is_for_the_layers_that_it_began_at(start):
    report = tinytrain.adapt(NETWORK, toy_episode(seed=1), BUDGET, "none+lda", force=True, start=start)
    assert [s.values.tobytes() for s in report.delta.slices] == [s.values.tobytes() for s in start.slices]
    assert bits(apply(NETWORK, report.delta)) == bits(apply(NETWORK, start))


SIZE = NETWORK.layers[6].fan_in


def test_heads_alone_on_the_layers_of_one_delta_add_as_if_none_was_trained(start):
    parts = [
        tinytrain.adapt(NETWORK, toy_episode(seed=k), BUDGET, "none+slda", force=True, start=start).delta
        for k in (1, 2)
    ]
    found = tinytrain.merge(parts)
    assert found.merged.layers == "same" and bits(apply(NETWORK, found.delta)) == bits(apply(NETWORK, start))
    total = parts[0].head.moments + parts[1].head.moments
    assert np.array_equal(found.delta.head.products, total.products)


@each(
    "later",
    [
        (),
        (Slice(6, "weight", np.array([0, 4], np.int32), np.ones((SIZE, 2), "f")),),
        (Slice(6, "bias", np.array([2, 7], np.int32), np.ones(2, "f")),),
        (Slice(9, "bias", np.array([2], np.int32), np.ones(1, "f")),),
        (Slice(9, "weight", np.array([4], np.int32), np.ones((1, 1), "f"), np.array([2], np.int32)),),
    ],
    ids=str,
)
def test_both_together_are_one_after_the_other(start, later):
    """Whatever of the same layer they have: other channels, the same ones, or some inputs of them."""
    network = begun(NETWORK, start)
    assert network.layers[9].op == "pointwise", "whose inputs are chosen"
    delta = replace(start, backbone=network.digest, slices=later)
    assert bits(apply(NETWORK, rebased(NETWORK, start, delta))) == bits(apply(network, delta))


def test_what_cannot_go_on_is_refused(start):
    with pytest.raises(InputError, match="backbone-mismatch"):
        tinytrain.adapt(toy_network(seed=1), toy_episode(), BUDGET, FIRST, start=start)
    with pytest.raises(UsageError, match="unsupported: the delta is for int8"):
        begun(NETWORK, replace(start, codes=object()))
    with pytest.raises(
        UsageError, match=r"unsupported: the delta is for noisy:0\.1:3, which nothing goes on"
    ):
        begun(NETWORK, replace(start, arithmetic="noisy:0.1:3"))
    budget = replace(BUDGET, precision="noisy:0.1:3")
    with pytest.raises(UsageError, match=r"in noisy:0\.1:3 training begins at the network; give --precision"):
        tinytrain.adapt(NETWORK, toy_episode(), budget, FIRST, start=start)
    with pytest.raises(UsageError, match="--replay is for training that begins at the network"):
        tinytrain.adapt(NETWORK, replace(toy_episode(), replay=2), BUDGET, "last_layer", start=start)


def test_the_command_begins_at_a_delta_and_its_result_is_for_the_network(tmp_path, capsys):
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=5)
    write_images(tmp_path / "own", count=5, seed=3)
    network = "--backbone", tmp_path / "toy.safetensors"
    first, then = tmp_path / "first.safetensors", tmp_path / "then.safetensors"
    options = "--budget", "400kB", "--force", "-q"
    assert tt("adapt", tmp_path / "photos", *network, *options, "--out", first) == 0
    words = "adapt", tmp_path / "own", *options, "--start", first, "--out", then
    assert tt(*words) == 0
    image = next((tmp_path / "own").rglob("*.png"))
    assert tt("predict", then, image, *network) == 0
    assert tt(*words, "--from", first) == 2
    assert "--start DELTA begins at its layers" in capsys.readouterr().err
