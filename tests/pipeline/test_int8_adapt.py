"""An adaptation in int8, from the images to predictions with the delta that was saved."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from int8nets import toy8
from programcheck import check_program
from toydevices import ONE

from tinytrain.base.errors import BudgetError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import apply
from tinytrain.delta.file import decode_delta, encode_delta, load_delta, save_delta
from tinytrain.network.quantisation import int8_weights
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import ROUNDINGS, Recipe, Update
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

MEMORY = 80_000
INT8 = Budget(MEMORY, precision="int8")
NETWORK = toy8()


def policy(rounding: str = "carried", scaled: bool = True) -> Policy:
    """Trains whole layers of every kind, and of one of them some inputs alone."""
    layers = NETWORK.layers
    updates = (
        Update(6, tuple(range(layers[6].cout)), bias=True),
        Update(7, (1, 4, 5)),
        Update(12, (0, 3), inputs=(1, 2)),
        Update(14, tuple(range(layers[14].cout)), bias=True),
    )
    found = Recipe("test", updates, ((3e-2, 3e-2),) * len(updates), steps=6, head="lda", views=3)
    found = found.in_precision("int8", rounding, scaled)
    return Policy("test", lambda *_: found, "none", macs_limited=False, shrinks=False)


def in_float32() -> Policy:
    found = replace(policy().recipe().in_precision("float32"), optimizer="sgd")
    return replace(policy(), recipe=lambda *_: found)


def forced(chosen: Policy | str, device: Device = ONE, seed: int = 0):
    """The report of an adaptation in int8 whose changes are kept, however good they are."""
    return adapt(NETWORK, toy_episode(), INT8, chosen, seed, device, force=True)


@each(
    "chosen",
    [policy(), "tinytrain", "tinytrain_published", "last_layer", "bias_only", "trady"],
    ids=lambda chosen: getattr(chosen, "name", chosen),
)
def test_it_takes_the_bytes_of_its_plan_and_no_more_than_the_budget(chosen):
    report = forced(chosen)
    assert report.plan.recipe.precision == "int8"
    assert report.program.nbytes == report.plan.cost.arena <= MEMORY
    assert report.to_json()["memory"]["precision"] == "int8"
    assert all(np.isfinite(report.ran.losses)) and report.ran.losses


@each("chosen", ["tinytrain", "full"])
def test_dense_convolutions_behind_the_first_layer_are_trained_and_predicted_from_a_file(chosen):
    network, budget = toy8("dense"), Budget(200_000, precision="int8")
    report = adapt(network, toy_episode(), budget, chosen, device=ONE, force=True)
    check_program(report.program)
    trained = {s.layer for s in report.delta.slices if s.part == "weight" and s.layer}
    assert any(network.layers[i].op == "conv" for i in trained)
    again = decode_delta(*decode(encode_delta(report.delta)))
    probabilities = Predictor(network, again).probabilities(report.episode.query)
    assert np.array_equal(probabilities.argmax(axis=1), report.answers.after)


@each("rounding", ROUNDINGS)
@each("scaled", [True, False])
def test_every_rule_of_rounding_changes_weights_that_stay_int8(rounding, scaled):
    delta = forced(policy(rounding, scaled)).delta
    changed = 0
    for s in delta.slices:
        assert s.values.dtype == (np.int8 if s.part == "weight" else np.float32)
        if s.part == "weight":
            before = int8_weights(NETWORK, s.layer)[0]
            rows = slice(None) if s.inputs is None else s.inputs[:, None]
            changed += int((before[rows, s.channels] != s.values).sum())
    assert [(s.layer, s.part) for s in delta.slices] == [
        (6, "weight"), (6, "bias"), (7, "weight"), (12, "weight"), (14, "weight"), (14, "bias"),
    ]  # fmt: skip
    # Unscaled steps are those of codes: far below one, so that most rules lose them all.
    assert changed or not scaled


def test_the_rules_of_rounding_differ_in_what_they_give():
    kept = {encode_delta(replace(forced(policy(r)).delta, report={})) for r in ROUNDINGS}
    assert len(kept) == len(ROUNDINGS)


@pytest.mark.parametrize("chosen", [policy("stochastic"), "tinytrain"], ids=["stochastic", "tinytrain"])
def test_one_thread_and_two_give_the_same_bytes(chosen):
    one, again, two = (encode_delta(forced(chosen, Device(threads=n)).delta) for n in (1, 1, 2))
    assert one == again == two


def test_another_seed_rounds_at_random_in_another_way():
    first, other = (forced(policy("stochastic"), seed=seed).delta for seed in (0, 1))
    assert any((a.values != b.values).any() for a, b in zip(first.slices, other.slices, strict=True))


@pytest.mark.parametrize("chosen", [policy(), "tinytrain"], ids=["test", "tinytrain"])
def test_a_saved_delta_predicts_as_the_session_did(chosen, tmp_path):
    report = forced(chosen)
    save_delta(tmp_path / "delta.safetensors", report.delta)
    again = load_delta(tmp_path / "delta.safetensors")
    assert again.precision == "int8" and again.codes == NETWORK.quantisation
    probabilities = Predictor(NETWORK, again).probabilities(report.episode.query)
    assert np.array_equal(probabilities.argmax(axis=1), report.answers.after)
    # The head of a delta is solved again, as in float32.
    assert probabilities.max(axis=1) == pytest.approx(report.answers.confidence, abs=1e-4)
    # The codes are those of the delta: the network that it is applied to needs none.
    bare = replace(NETWORK, quantisation=None)
    assert np.array_equal(Predictor(bare, again).probabilities(report.episode.query), probabilities)
    assert {w.dtype for w in apply(bare, again).weights} == {np.dtype(np.int8)}


def test_what_the_guard_refuses_predicts_in_int8_without_changes():
    diverging = replace(policy().recipe(), rates=((30.0, 30.0),) * 4)
    report = adapt(NETWORK, toy_episode(), INT8, replace(policy(), recipe=lambda *_: diverging), device=ONE)
    assert not report.guard.accepted and not report.delta.slices
    found = Predictor(NETWORK, load_again(report.delta)).probabilities(report.episode.query)
    assert np.array_equal(found.argmax(axis=1), report.answers.after)


def load_again(delta):
    return decode_delta(*decode(encode_delta(delta)))


def test_int8_needs_codes_and_says_how_to_make_them():
    with pytest.raises(UsageError, match=r"unsupported: .*no codes.*tinytrain calibrate"):
        adapt(replace(NETWORK, quantisation=None), toy_episode(), INT8, device=ONE)


def test_what_int8_cannot_train_is_refused_and_auto_trains_it_in_float32():
    with pytest.raises(UsageError, match=r"unsupported: .*lite residual"):
        adapt(NETWORK, toy_episode(), INT8, "tinytl", device=ONE)
    shape = TaskShape.of(toy_episode())
    assert Planner(NETWORK, shape, "tinytl", Budget(1000)).precision == "float32"


def test_the_first_layer_is_trained_too_and_the_delta_predicts_so():
    updates = tuple(Update(i, tuple(range(NETWORK.layers[i].cout)), bias=True) for i in (0, 6))
    recipe = replace(policy().recipe(), updates=updates, rates=((3e-2, 3e-2),) * 2)
    report = forced(replace(policy(), recipe=lambda *_: recipe))
    first = report.delta.slices[0]
    assert (first.layer, first.part, first.values.dtype) == (0, "weight", np.int8)
    assert (first.values != int8_weights(NETWORK, 0)[0]).any()
    found = Predictor(NETWORK, load_again(report.delta)).probabilities(report.episode.query)
    assert np.array_equal(found.argmax(axis=1), report.answers.after)


@pytest.mark.parametrize("chosen", ["full", "transductive"])
def test_policies_that_train_everything_do_so_in_int8(chosen):
    report = adapt(NETWORK, toy_episode(), Budget(10**6, precision="int8"), chosen, device=ONE, force=True)
    assert {u.layer for u in report.plan.recipe.updates} == set(range(len(NETWORK.layers)))
    assert report.delta.precision == "int8" and np.isfinite(report.ran.losses).all()


def test_the_first_layer_is_measured_where_the_policy_asks_for_it():
    planner = Planner(NETWORK, TaskShape.of(toy_episode()), "tinytrain_published", INT8)
    report = forced("tinytrain_published")
    assert planner.wanted[0] == 0 and report.scores.fisher.keys() == set(planner.wanted)
    assert report.scores.fisher[0].any()


def test_a_plan_for_int8_is_refused_where_the_network_has_no_codes():
    plan = forced(policy()).plan
    with pytest.raises(UsageError, match="unsupported"):
        adapt(replace(NETWORK, quantisation=None), toy_episode(), policy=plan, device=ONE)


def smallest(precision: str, network=NETWORK) -> int:
    """Bytes of the smallest arena of the policy, all of whose layers are trained."""
    planner = Planner(network, TaskShape.of(toy_episode()), in_float32(), Budget(2**22, precision=precision))
    return planner.smallest_budget(None)


def test_auto_takes_int8_only_where_float32_does_not_fit():
    least, shape = smallest("float32"), TaskShape.of(toy_episode())
    for memory, expected in ((2**22, "float32"), (least, "float32"), (least - 1, "int8")):
        assert Planner(NETWORK, shape, in_float32(), Budget(memory)).precision == expected
    report = adapt(NETWORK, toy_episode(), Budget(least - 1), in_float32(), device=ONE)
    assert report.plan.recipe.precision == report.delta.precision == "int8"
    assert adapt(NETWORK, toy_episode(), Budget(least), in_float32(), device=ONE).delta.codes is None


def test_without_codes_auto_stays_in_float32_and_refuses_what_does_not_fit():
    bare, shape = replace(NETWORK, quantisation=None), TaskShape.of(toy_episode())
    budget = Budget(smallest("float32") - 1)
    assert Planner(bare, shape, in_float32(), budget).precision == "float32"
    with pytest.raises(BudgetError, match="budget-too-small"):
        adapt(bare, toy_episode(), budget, in_float32(), device=ONE)


def test_int8_takes_fewer_bytes_than_float32():
    network = toy8(size=64)
    assert smallest("int8", network) < 0.8 * smallest("float32", network)
