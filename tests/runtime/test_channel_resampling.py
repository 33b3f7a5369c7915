"""Channels that are drawn anew in every epoch: other ones, exact gradients, and a delta with all of them."""

import numpy as np
import pytest
from oracle import Oracle, gradients
from toynets import gradient_of, items, recipe, relative, selected, toy, trainer
from toysteps import IMAGES, LABELS, augmentation, augmented

from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import apply
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies import trady
from tinytrain.policies.common import Policy
from tinytrain.runtime.trainer import Trainer

UPDATES = (
    Update(6, tuple(range(18)), True, (1, 4)),
    Update(10, (2, 3, 9)),
    Update(11, (0, 5), inputs=(3, 8, 12)),
)


def made_trainer(network, **how):
    return trainer(network, recipe(UPDATES), IMAGES, LABELS, augmentation=augmentation, **how)


def shape_of(slots):
    return [(s.layer, s.part, s.start, s.shape) for s in slots]


def test_a_draw_has_as_many_other_channels_in_the_same_places():
    network = toy("blocks")
    made = made_trainer(network)
    made.run("start")
    first, seen = made.slots, set()
    for k in range(60):
        made.resample(np.random.default_rng(k))
        assert shape_of(made.slots) == shape_of(first)
        expand, bias, depthwise, project = made.slots
        assert expand.channels == first[0].channels and bias == first[1]
        assert project.channels == (0, 5) and list(project.inputs) == sorted(set(project.inputs))
        seen |= {("in", c) for c in expand.inputs} | {("dw", c) for c in depthwise.channels}
    assert seen == {("in", c) for c in range(8)} | {("dw", c) for c in range(16)}


@pytest.mark.parametrize("micro", [1, 3])
def test_steps_between_draws_equal_those_of_the_oracle(micro):
    network, oracle = toy("blocks"), Oracle(toy("blocks"))
    made = made_trainer(network, micro=micro)
    made.run("start")
    for number in range(1, 5):
        made.resample(np.random.default_rng(number))
        made.compute_gradients(items(len(LABELS)), items(len(LABELS), number))
        _, want = gradients(oracle, IMAGES, LABELS, augmented(number), LABELS, "both")
        for slot in made.slots:
            values, g = {
                "weight": (oracle.weights, want.weights), "bias": (oracle.biases, want.biases),
            }[slot.part]  # fmt: skip
            exact = selected(g[slot.layer], slot)
            assert relative(gradient_of(made, slot.layer, slot.part), exact) < 2e-5
            moved = np.zeros_like(g[slot.layer])
            rows = slice(None) if slot.inputs is None else np.array(slot.inputs)[:, None]
            block = (list(slot.channels),) if slot.part == "bias" else (rows, list(slot.channels))
            moved[block] = (0.02 if slot.part == "bias" else 0.01) * exact
            values[slot.layer] -= moved
        made.update(number)
    for i in range(len(network.layers)):
        assert relative(made.working.weight(i), oracle.weights[i]) < 1e-5
        assert relative(made.working.bias(i), oracle.biases[i]) < 1e-5


def recipe_of(network, *_):
    cout = network.layers[6].cout
    updates = (Update(6, tuple(range(cout)), True, (0, 1)), Update(7, (0, 1, 2)))
    rates = ((0.05, 0.05),) * 2
    options = StepOptions(resample_channels=True)
    return Recipe("redrawn", updates, rates, "adam", options=options, steps=6, head="cosine", views=3)


POLICY = Policy("redrawn", recipe_of, "none", macs_limited=False)


def test_the_delta_holds_every_channel_that_was_ever_drawn_as_the_network_ended_up(monkeypatch):
    captured, original = [], Trainer.update

    def update(self, number):
        original(self, number)
        captured[:] = [self.working.weight(i).copy() for i in range(len(self.program.network.layers))]

    monkeypatch.setattr(Trainer, "update", update)
    network = toy_network()
    report = adapt(network, toy_episode(), Budget(2**22), POLICY, seed=3, force=True)
    delta = decode_delta(*decode(encode_delta(report.delta)))
    sliced = {s.layer: s for s in delta.slices if s.part == "weight"}
    assert len(sliced[6].inputs) > 2 and len(sliced[7].channels) > 3
    adapted = apply(network, delta)
    for got, want in zip(adapted.weights, captured, strict=True):
        if got.dtype == np.float32:
            assert got.tobytes() == want.tobytes()
    untouched = [i for i in range(len(network.layers)) if i not in sliced]
    assert all(captured[i].tobytes() == network.float_weight(i).tobytes() for i in untouched)


def test_draws_follow_the_seed_and_differ_from_epoch_to_epoch(monkeypatch):
    draws, keep = [], Trainer.resample

    def redraw(self, rng):
        keep(self, rng)
        draws.append(tuple((s.channels, s.inputs) for s in self.slots))

    monkeypatch.setattr(Trainer, "resample", redraw)
    runs = [adapt(toy_network(), toy_episode(), Budget(2**22), POLICY, seed=s, force=True) for s in (1, 1, 2)]
    values = [r.delta.slices[0].values.tobytes() for r in runs]
    assert values[0] == values[1] != values[2]
    assert draws[:6] == draws[6:12] != draws[12:] and len(draws) == 18 and len(set(draws[:6])) > 3


def test_the_optimizer_starts_anew_with_every_draw():
    plan = recipe(UPDATES, optimizer="adam")
    made = trainer(toy("blocks"), plan, IMAGES, LABELS, augmentation=augmentation)
    made.run("start")
    made.step(1, items(len(LABELS)), items(len(LABELS), 1))
    states = [made.bind.array(f"optimizer state {k}") for k in range(2)]
    assert all(state.any() for state in states)
    made.resample(np.random.default_rng(0))
    assert not any(state.any() for state in states)


def test_an_epoch_of_several_steps_draws_once(monkeypatch):
    draws, keep = [], Trainer.resample
    monkeypatch.setattr(Trainer, "resample", lambda self, rng: (draws.append(1), keep(self, rng)))
    report = adapt(toy_network(), toy_episode(shots=30), Budget(2**22), POLICY, force=True)
    steps_per_epoch = -(-90 // report.plan.resources.step_support)
    assert steps_per_epoch > 1 and len(draws) == -(-6 // steps_per_epoch)


def test_trady_goes_as_deep_as_every_layer_above_still_gets_an_eighth_of_its_channels():
    network = toy_network()
    full = full_backward_macs(network)
    for macs in (0.05, 0.2, 0.4, 0.7, 1.0):
        updates = trady.select(network, macs * full)
        assert image_macs(network, updates) <= macs * full
        shares = [
            (len(u.channels) if u.inputs is None else len(u.inputs)) / network.layers[u.layer].cin
            for u in updates
        ]
        if len(updates) > 1:
            assert min(shares) >= 1 / 8
        costs = [layer.macs for layer in network.layers]
        for deeper in range(1, updates[0].layer):  # no draw from there on leaves an eighth for each
            left = macs * full - sum(costs[deeper + 1 :])
            assert left < sum(costs[deeper:]) / 8
    assert [u.layer for u in updates] == list(range(1, len(network.layers)))
