"""Meta-training behind the device's own adaptation, and the rates that it learns."""

from pathlib import Path

import numpy as np
import pytest
import toyruns

from tinytrain.meta.training.adapted import episode_of, with_factors
from tinytrain.network.file import load_network, save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget

BUDGET = {"memory": 200_000, "macs": 0.5}
EPISODE = {"way": 3, "shots": 3, "queries": 2}


def task_of(tmp_path, fraction=1.0, **changes):
    adaptation = {"fraction": fraction, **BUDGET}
    made, _ = toyruns.task(
        tmp_path, network=toyruns.STUDENT, episode=EPISODE, adaptation=adaptation, **changes
    )
    return made


def test_the_adapted_weights_are_those_that_the_device_computes(tmp_path):
    task = task_of(tmp_path)
    batch, ones = task.batch(3), np.ones(len(task.network.layers))
    found = task.adaptation(task.first[: task.size], ones, batch)
    report = adapt(task.network, episode_of(batch), Budget(**BUDGET), seed=batch.number, force=True)
    adapted = report.delta.slices
    assert adapted
    for changed in adapted:
        slot = task.adaptation.places[changed.layer, changed.part]
        part = found[slot.start : slot.start + slot.size].reshape(slot.shape)
        rows = part if changed.inputs is None else part[changed.inputs]
        np.testing.assert_array_equal(rows[..., changed.channels], changed.values)
    named = {(s.layer, s.part) for s in adapted}
    for slot in (s for s in task.adaptation.slots if (s.layer, s.part) not in named):
        at = slice(slot.start, slot.start + slot.size)
        np.testing.assert_array_equal(found[at], task.first[at])


def test_the_gradient_in_a_factor_is_that_of_a_longer_step_of_its_layer(tmp_path, monkeypatch):
    """Changes of a layer scaled by e^x: central differences in x. A path of images decides on episodes."""
    monkeypatch.chdir(tmp_path)
    task = task_of(Path("."), head="lda")
    batch, first = task.batch(1), task.first[: task.size]
    adapted = task.adaptation(first, np.ones(len(task.network.layers)), batch)
    found = task.step(task.first, batch)[2][task.size : -1]
    layer = int(np.abs(found).argmax())
    here = np.zeros(task.size, bool)
    for slot in (s for s in task.adaptation.slots if s.layer == layer):
        here[slot.start : slot.start + slot.size] = True
    ends = [
        task._loss(first + (adapted - first) * np.where(here, np.exp(x), 1), batch, task.first[-1])[0].value
        for x in (0.005, -0.005)
    ]
    assert found[layer] == pytest.approx((ends[0] - ends[1]) / 0.01, rel=0.05)


def test_only_the_asked_fraction_of_the_episodes_is_adapted_to(tmp_path):
    task, asked = task_of(tmp_path, fraction=0.5), []
    adaptation = task.adaptation

    class Counted:
        def __call__(self, *arguments):
            asked.append(1)
            return adaptation(*arguments)

        in_factors = staticmethod(adaptation.in_factors)

    task.adaptation = Counted()
    for number in range(12):
        task.step(task.first, task.batch(number))
    assert 2 < len(asked) < 10


def test_a_network_carries_its_factors_and_the_policy_multiplies_its_rates_by_them(tmp_path):
    adaptation = {"fraction": 1.0, "rate": 0.3, **BUDGET}
    run = toyruns.run(tmp_path, network=toyruns.STUDENT, episode=EPISODE, adaptation=adaptation)
    run()
    save_network(run.task.result(run.state.values), tmp_path / "learned.safetensors")
    learned = load_network(tmp_path / "learned.safetensors")
    assert len({layer.rate for layer in learned.layers}) > 1
    plain = with_factors(learned, np.ones(len(learned.layers)))
    assert plain.digest != learned.digest
    episode = episode_of(run.task.batch(0))
    plans = [adapt(network, episode, Budget(**BUDGET), force=True).plan for network in (plain, learned)]
    first, second = (plan.recipe for plan in plans)
    assert first.updates == second.updates
    for update, before, after in zip(first.updates, first.rates, second.rates, strict=True):
        factor = learned.layers[update.layer].rate
        assert after == pytest.approx([factor * rate for rate in before])
