"""An adaptation within a time, by a clock that is an argument: nothing here depends on the machine."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_seconds
from tinytrain.delta.file import encode_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.registry import find_policy
from tinytrain.runtime.device import Device
from tinytrain.runtime.schedule import rate_factor

NETWORK, EPISODE = toy_network(), toy_episode()
LOOK = 0.001  # seconds between two looks at the clock


class Ticks:
    """A clock that goes on by the same time whenever it is read, and by `jump` once at reading `at`."""

    def __init__(self, each: float = LOOK, at: int = -1, jump: float = 0.0):
        self.each, self.at, self.jump, self.read, self.time = each, at, jump, 0, 0.0

    def __call__(self) -> float:
        self.read += 1
        self.time += self.each + (self.jump if self.read == self.at else 0)
        return self.time


def timed(seconds, clock=None, policy="tinytrain", **limits):
    clock = clock or Ticks()
    device = Device(threads=1, now=clock)
    return adapt(NETWORK, EPISODE, Budget(**limits, seconds=seconds), policy, 3, device, force=True)


def weights(report) -> list[np.ndarray]:
    return [np.array(a) for a in report.delta.arrays()]


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@each("seconds", [0.01, 0.06, 0.08, 10])
def test_the_same_seed_and_clock_give_the_same_bytes(seconds):
    one, other = timed(seconds), timed(seconds)
    assert encode_delta(one.delta) == encode_delta(other.delta) and one.plan == other.plan


def test_without_a_time_the_clock_changes_nothing_and_the_report_has_no_time():
    one = adapt(NETWORK, EPISODE, Budget(), seed=3, device=Device(threads=1, now=Ticks()), force=True)
    other = adapt(NETWORK, EPISODE, Budget(), seed=3, device=Device(threads=1), force=True)
    assert encode_delta(one.delta) == encode_delta(other.delta)
    assert "time" not in one.to_json() and "seconds" not in one.plan.to_json()["budget"]
    assert "last_step" not in one.plan.to_json()["recipe"]["options"]


def test_more_time_gives_more_steps_up_to_those_of_the_policy():
    steps = [timed(seconds).plan.recipe.n_steps for seconds in (0.01, 0.055, 0.065, 0.075, 10)]
    assert steps == sorted(steps) and steps[0] == 0 < steps[-1]
    unlimited = adapt(NETWORK, EPISODE, Budget(macs=0.3), seed=3, device=Device(threads=1), force=True)
    plenty = timed(10)
    assert plenty.plan.recipe == unlimited.plan.recipe and same(plenty, unlimited) and not plenty.warnings


def test_too_little_time_gives_the_head_alone_and_says_so():
    report = timed(1e-4)
    assert not report.plan.recipe.updates and not report.delta.slices
    assert any("only the head was fitted" in line for line in report.warnings)
    assert any("took longer" in line for line in report.warnings)
    assert report.to_json()["time"]["used"] > report.to_json()["time"]["asked"] == 1e-4


def unscored(decay=(1.0, 1.0)):
    """`last_layer`, whose speed is measured by heads alone, with this schedule."""
    policy = find_policy("last_layer")

    def recipe(*arguments) -> Recipe:
        return replace(policy.recipe(*arguments), steps=20, decay=decay)

    return replace(policy, recipe=recipe)


def test_learning_rates_fall_to_the_end_of_the_steps_that_fit(monkeypatch):
    rates = []

    def watched(*arguments):
        rates.append(rate_factor(*arguments))
        return rates[-1]

    monkeypatch.setattr("tinytrain.runtime.adaptation.rate_factor", watched)
    report = timed(0.03, policy=unscored())
    steps = report.plan.recipe.n_steps
    assert 1 < steps < 20 and report.plan.recipe.options.last_step is None
    assert np.allclose(rates, [1 - k / steps for k in range(steps)])


def repeated(report):
    """The adaptation again, by its plan as a file would have it, without any time."""
    plan = Plan.from_json(report.plan.to_json())
    return adapt(NETWORK, EPISODE, None, plan, 3, Device(threads=1), force=True)


@each("seconds", [0.03, 0.1, 10])
@each("decay", [(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_the_plan_of_the_report_repeats_the_adaptation_bit_for_bit(seconds, decay):
    report = timed(seconds, policy=unscored(decay=decay))
    again = repeated(report)
    assert same(report, again) and again.ran.losses == report.ran.losses
    assert len(report.ran.losses) == report.plan.recipe.n_steps


def readings(seconds, policy) -> int:
    clock = Ticks()
    timed(seconds, clock, policy)
    return clock.read


@pytest.mark.slow
def test_if_the_time_is_up_training_ends_after_the_step_it_is_at_and_that_repeats_too():
    policy, ends = unscored(), set()
    for at in range(1, readings(1, policy)):
        report = timed(1, Ticks(at=at, jump=2.0), policy)
        recipe = report.plan.recipe
        assert len(report.ran.losses) == recipe.n_steps
        if recipe.options.last_step is not None:
            ends.add(recipe.n_steps)
            assert same(report, repeated(report))
            text = " ".join(report.warnings)
            assert ("training ended" if recipe.n_steps else "only the head") in text
    assert {0, 2, 5, 19} <= ends


def test_more_macs_are_not_taken_than_allowed():
    assert timed(10, macs=0.15).plan.budget.macs == 0.15
    assert Budget(seconds=1).macs == 0.3 and Budget().macs == 0.15


@each("value", [0, -1, float("nan"), float("inf"), "2"])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(UsageError, match="no time"):
        Budget(seconds=value)


@each("text", ["0", "-1", "abc", "", "1e3", "nan", "2 h"])
def test_what_cannot_be_read_as_seconds_is_refused(text):
    with pytest.raises(UsageError, match="no time"):
        parse_seconds(text)
