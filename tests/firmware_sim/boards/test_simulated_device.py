"""A board as a machine: its counts are those of the plan, and no kernel writes outside unseen."""

import numpy as np
import pytest
from cases import each, quick
from toydevices import ONE

from tinytrain.firmware_sim.boards.canaries import (
    MARGIN,
    CanaryError,
    GuardedArena,
    guarded_call,
    with_margins,
)
from tinytrain.firmware_sim.boards.counters import Tally
from tinytrain.firmware_sim.boards.simulate import NETWORK_STAGES
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.program.calls import Bias, View, Weight
from tinytrain.program.memory_planner import check
from tinytrain.report.content import executed_macs
from tinytrain.runtime import bind
from tinytrain.runtime.bind import Binder, WorkingCopy, run

ROOMY = Budget(memory=2**22)


@pytest.fixture(scope="module")
def ran():
    machine = SimulatedDevice(2**22)
    return machine, adapt(toy_network(), toy_episode(), ROOMY, device=machine, force=True)


# ---- counting ------------------------------------------------------------------------------------


@each("memory", [2**22, 60_000], ids=["cached", "nothing cached"])
@pytest.mark.parametrize(
    "policy", quick(["tinytrain", "tinytrain_published", "last_layer", "full", "tinytl", "none"])
)
def test_macs_counted_while_running_are_those_of_the_plan(policy, memory):
    machine = SimulatedDevice(2**22)
    report = adapt(toy_network(), toy_episode(), Budget(memory), policy, device=machine, force=True)
    planned = executed_macs(report.program, report.scores, report.ran)
    counted = {stage: machine.tally.total(stage).network_macs for stage in machine.tally.stages}
    counted["heads"] = counted.pop("head")
    assert {stage: counted.get(stage, 0) for stage in NETWORK_STAGES} == {
        stage: planned[stage] for stage in NETWORK_STAGES
    }


def test_training_that_is_not_run_has_no_macs():
    machine = SimulatedDevice(2**22)
    report = adapt(toy_network(), toy_episode(), ROOMY, device=machine, train=False)
    planned = executed_macs(report.program, report.scores, report.ran)
    counted = {stage: machine.tally.total(stage).network_macs for stage in machine.tally.stages}
    assert planned["training"] == counted.get("training", 0) == 0
    assert planned["heads"] == counted["head"] > 0


def test_loss_and_head_are_counted_apart_because_no_plan_counts_them(ran):
    machine, report = ran
    way, size, n = 3, report.network.embedding_size, len(report.episode.support)
    # The probe compares each image, alone, with every prototype: once for the loss, once for its gradient.
    assert machine.tally.total("probe").other_macs == 2 * n * way * size
    assert machine.tally.total("features").other_macs == 0


def test_bytes_counted_are_those_of_the_arguments_of_the_calls(monkeypatch):
    monkeypatch.setattr(bind, "AFTER", {})  # products do nothing else
    machine = SimulatedDevice(2**22)
    report = adapt(toy_network(), toy_episode(), ROOMY, "tinytrain_published", device=machine, force=True)
    segment = report.program.segments["prefix", 1]
    network = report.network

    def size(arg) -> int:
        if isinstance(arg, View):
            return arg.size * np.dtype(arg.buffer.dtype).itemsize
        if isinstance(arg, Weight):
            return 4 * network.layers[arg.layer].n_weights
        if isinstance(arg, Bias):
            return 4 * network.layers[arg.layer].cout
        return arg.nbytes if isinstance(arg, np.ndarray) else 0

    n, sets = len(report.episode.support), report.plan.resources.sets
    inside = {call.kernel for call in segment.calls}
    counted = sum(c.bytes for k, c in machine.tally.stages["features"].items() if k in inside)
    assert sets > 0
    assert counted == n * sets * sum(size(arg) for call in segment.calls for arg in call.args)


def test_a_simulated_board_changes_no_bit_of_the_result(ran):
    _, report = ran
    plain = adapt(toy_network(), toy_episode(), ROOMY, device=ONE, force=True)
    assert plain.ran.losses == report.ran.losses and len(plain.delta.slices) == len(report.delta.slices) > 0
    for a, b in zip(plain.delta.slices, report.delta.slices, strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(plain.delta.head.weights, report.delta.head.weights)


def test_stages_keep_their_counts_apart():
    tally, x = Tally(), np.zeros((2, 3), "f")
    tally.add("matmul", (np.zeros((2, 4), "f"), x, np.zeros((3, 4), "f")))
    tally.end_stage("first")
    tally.add("copy", (x, x))
    tally.end_stage("second")
    tally.end_stage("first")
    first, second = tally.total("first"), tally.total("second")
    assert (first.network_macs, first.bytes, first.calls) == (24, 32 + 24 + 48, 1)
    assert (second.network_macs, second.bytes, second.calls) == (0, 48, 1)


# ---- canaries ------------------------------------------------------------------------------------


def bound(kernel_name, replacement):
    """The calls of the prefix of a toy program in a guarded arena; `replacement` stands in for one kernel."""
    report = adapt(toy_network(), toy_episode(), ROOMY, "last_layer", device=ONE)
    program = with_margins(report.program)
    machine = SimulatedDevice(2**22)
    table = machine.kernels()
    if kernel_name:
        setattr(table, kernel_name, machine._wrap(kernel_name, replacement))
    bind = Binder(program, GuardedArena(program.nbytes), WorkingCopy(toy_network()), table)
    views = {program.externals["input"]: bind.whole(program.units["fill"][0].augmented)}
    return machine, bind.segment(program.segments["prefix", 1], program.units["fill"][0].workspace, views)[0]


def beyond(array, count):
    """`array` and `count` items more behind it."""
    return np.lib.stride_tricks.as_strided(array, (array.size + count,), (array.itemsize,))


def test_kernels_that_keep_inside_pass_and_every_call_is_checked():
    machine, calls = bound(None, None)
    run(calls)
    assert machine.canaries > 2 * len(calls)


@pytest.mark.parametrize("items", [1, 16], ids=["one float too far", "a cache line too far"])
def test_a_kernel_that_writes_behind_its_output_is_caught(items):
    def overrun(y, *_):
        beyond(y.reshape(-1), items)[-items:] = 7

    _, calls = bound("depthwise_forward", overrun)
    with pytest.raises(CanaryError, match="depthwise_forward wrote outside argument 0"):
        run(calls)


def test_a_kernel_that_writes_before_its_input_is_caught():
    def underrun(y, x, *_):
        first = x.reshape(-1)[:1]
        np.lib.stride_tricks.as_strided(first, (2,), (-first.itemsize,))[1] = 7

    _, calls = bound("depthwise_forward", underrun)
    with pytest.raises(CanaryError, match="argument"):
        run(calls)


def test_margins_keep_live_buffers_apart(ran):
    _, report = ran
    program = with_margins(report.program)
    check(program.layout)
    for segment in program.segments.values():
        check(segment.layout)
        assert all(offset % 64 == 0 and offset >= MARGIN for offset in segment.offsets.values())


def test_what_is_computed_from_a_guarded_array_has_no_canaries():
    array = GuardedArena(1024).view(MARGIN, (8,), "float32")
    assert array[2:4].reshape(2, 1).T.canaries is array.canaries is not None
    assert all(a.canaries is None for a in (array.copy(), array + 1, array.astype("f8"), array[[1, 2]]))
    assert guarded_call("test", lambda *_: None, (array, array[1:], 3)) == 2
