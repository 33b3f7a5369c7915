"""What is emitted: passes that equal the float64 oracle, row tiles, and nothing for what is frozen."""

import math
from itertools import pairwise

import numpy as np
import pytest
from cases import each
from segmentcheck import views_of
from toynets import (
    ROWS,
    WIDE,
    everything,
    features_of,
    module_updates,
    modules_of,
    random_updates,
    recipe,
    toy,
)
from toysegments import (
    assert_forward_equals_oracle,
    assert_gradients_equal_oracle,
    backward_case,
    backward_segment,
    bound,
    forward_segment,
    limit_row_tiles,
)

from tinytrain.kernels.dispatch.native_calls import NativeSequence
from tinytrain.network.input_spec import InputSpec
from tinytrain.plan.costs import image_macs
from tinytrain.plan.recipe import Update
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.program.calls import Bias, View, Weight
from tinytrain.program.segments import turns
from tinytrain.program.trained_arrays import slots
from tinytrain.runtime import bind as binding

NETWORKS = each("name", list(ROWS))
CHAINS = pytest.mark.parametrize("name", ["blocks", "headed"])  # what a layer reads is what the last one gave
CANARY = 0xA5


@NETWORKS
@each("tile_bytes", [1, 700, 3000, 56_000])
def test_fused_blocks_equal_the_whole_and_the_oracle(monkeypatch, name, tile_bytes):
    limit_row_tiles(monkeypatch, tile_bytes)
    assert_forward_equals_oracle(toy(name))


@each("name", [*ROWS, WIDE])
@each("n", [1, 3])
def test_what_adds_to_a_number_is_in_one_turn_and_turns_come_in_the_order_of_the_calls(name, n):
    network = toy(name)
    segment, *_, gradients = backward_segment(network, everything(network), n=n)
    found, of = turns(segment, {gradients}), {}
    assert len(found) > 1 and sorted(found, key=lambda turn: turn.start) == found
    assert all(one.stop <= other.start for one, other in pairwise(found))
    for k, call in enumerate(segment.calls):
        at = [t for t, turn in enumerate(found) if k in turn]
        for argument, view in views_of(call):
            if view.buffer is gradients and argument.is_written:
                for number in range(view.start, view.start + view.size):
                    of.setdefault(number, set()).add(*at)
    assert len(of) == gradients.shape[0] and all(len(some) == 1 for some in of.values())
    assert turns(segment, set()) == []


@CHAINS
def test_one_image_streams_and_several_do_not(monkeypatch, name):
    limit_row_tiles(monkeypatch, 700)
    network = toy(name)
    last = len(network.layers)
    depthwise = sum(layer.op == "depthwise" for layer in network.layers)
    fused, whole = (
        sum(c.kernel == "depthwise_forward" for c in forward_segment(network, 0, last, n)[0].calls)
        for n in (1, 2)
    )
    assert fused > whole == depthwise


@CHAINS
def test_smaller_row_tiles_take_less_memory(monkeypatch, name):
    network, sizes = toy(name, size=64), []
    monkeypatch.setattr(Emitter, "streams", lambda *_: 0)  # the first blocks, too, are computed in tiles
    for tile_bytes in (10**9, 10_000, 1):
        limit_row_tiles(monkeypatch, tile_bytes)
        sizes.append(forward_segment(network, 0, len(network.layers), 1)[0].nbytes)
    stem = network.layers[0]
    copied = 4 * math.prod(stem.out_hw) * (stem.fan_in + stem.cout)  # with a copy for each filter that reads
    assert copied > sizes[0] > sizes[1] >= sizes[2] and sizes[2] < copied / 2


@NETWORKS
def test_a_forward_pass_computes_every_row_once(monkeypatch, name):
    limit_row_tiles(monkeypatch, 1)
    network = toy(name)
    segment, _ = forward_segment(network, 0, len(network.layers), 1)
    assert segment.macs("forward") == network.macs


@NETWORKS
@each("key", range(12))
def test_backward_macs_are_those_of_the_plan(name, key):
    network, n = toy(name), 1 + key % 3
    updates = random_updates(network, key)
    segment, *_ = backward_segment(network, updates, n=n)
    assert segment.backward_macs == n * image_macs(network, updates)
    trained = {u.layer for u in updates if u.channels}
    numbers = {s.layer: s.size for s in slots(network, recipe(updates)) if s.part == "weight"}
    weights = sum(network.layers[i].macs * k // network.layers[i].n_weights for i, k in numbers.items())
    assert segment.macs("grad_weight") == n * weights and (weights > 0) == bool(trained)


@NETWORKS
def test_a_frozen_layer_costs_nothing(name):
    """No weight gradient, no bytes and no MACs, whichever layer it is."""
    network = toy(name)
    full, *_ = backward_segment(network, everything(network))
    for frozen, layer in enumerate(network.layers):
        updates = tuple(u for u in everything(network) if u.layer != frozen)
        segment, _, _, gradients = backward_segment(network, updates)
        assert full.macs("grad_weight") - segment.macs("grad_weight") == layer.macs
        assert segment.nbytes <= full.nbytes
        assert gradients.nbytes == 4 * sum(x.n_weights + x.cout for x in network.layers if x is not layer)


@CHAINS
def test_the_input_of_a_frozen_layer_is_not_saved(name):
    network = toy(name)
    full, *_ = backward_segment(network, everything(network))
    for frozen in range(1, len(network.layers)):
        segment, *_ = backward_segment(network, tuple(u for u in everything(network) if u.layer != frozen))
        assert last_use(segment, network.layers[frozen - 1].name) < start_of_backward(segment)
        assert last_use(full, network.layers[frozen - 1].name) > start_of_backward(full)


def start_of_backward(segment):
    return next(k for k, call in enumerate(segment.calls) if call.kernel == "pool_grad")


def last_use(segment, name):
    """Last call that names the buffer `name`, or the part of it that was saved."""
    names = {name, f"{name} saved input"}
    return max(
        k
        for k, call in enumerate(segment.calls)
        if any(isinstance(a, View) and a.buffer.name in names for a in call.args)
    )


@NETWORKS
def test_below_the_cut_nothing_is_saved_and_nothing_is_differentiated(name):
    network = toy(name)
    for cut in range(1, len(network.layers)):
        segment, *_ = backward_segment(network, (Update(cut, bias=True),))
        start = start_of_backward(segment)
        # What excites needs what is squeezed before it.
        lowest = cut - 2 if network.layers[cut].op == "excite" else cut - 1
        below = {layer.name for layer in network.layers[:lowest]}
        for call in segment.calls[start:]:
            used = {a.buffer.name for a in call.args if isinstance(a, View)}
            layers = {a.layer for a in call.args if isinstance(a, Weight)}
            assert not any(n.removesuffix(" mask") in below for n in used)
            assert all(i > cut for i in layers)
        assert segment.macs("grad_weight") == 0


@NETWORKS
def test_no_call_writes_to_weights_or_biases(name):
    segment, *_ = backward_segment(toy(name), everything(toy(name)))
    assert not any(isinstance(call.args[0], Weight | Bias) for call in segment.calls)


@NETWORKS
@each("key", range(4))
def test_gradients_of_one_pass_equal_the_oracle(name, key):
    network, n = toy(name), 1 + key % 2
    updates = everything(network) if key == 0 else random_updates(network, key)
    assert_gradients_equal_oracle(network, updates, n)


@each("dtype", ["uint8", "float32"])
def test_items_of_any_channels_and_of_either_dtype_give_the_outputs_and_gradients_of_the_oracle(dtype):
    spec = InputSpec((12, 5, 6), dtype, (90.5,) * 5 + (120.0,), (0.02,) * 6, kind="sound")
    network = toy("headed", spec=spec)
    assert_forward_equals_oracle(network)
    assert_gradients_equal_oracle(network, everything(network), 2)


KINDS = each("name", [*ROWS, "modules", "wide"])


def made(name):
    if name == "wide":
        return toy(WIDE, size=16)
    return modules_of(toy("blocks")) if name == "modules" else toy(name)


def test_a_segment_is_one_native_sequence():
    pytest.importorskip("numba")
    network = made("modules")
    segment, arrays = backward_case(network, everything(network))
    ((function, _),) = bound(segment, network, arrays, everything(network))[0]
    assert isinstance(function, NativeSequence)


def segments_of_all_kinds(network):
    last = len(network.layers)
    for n in (1, 2):
        segment, source = forward_segment(network, 0, last, n)
        yield segment, {source: features_of(network, 0, n)}, ()
    for key, n in ((0, 1), (1, 2), (2, 1)):
        updates = random_updates(network, key)
        yield *backward_case(network, updates, n=n, row_tile=700), updates
    updates = (*everything(network), *module_updates(network, range(len(network.modules))))
    yield *backward_case(network, updates, n=2, row_tile=700), updates


@KINDS
def test_every_call_writes_only_to_its_own_buffers(monkeypatch, name):
    """The rest of the arena, other live buffers and gaps alike, keeps every bit."""
    limit_row_tiles(monkeypatch, 700)
    monkeypatch.setattr(binding, "join_native", list)
    monkeypatch.setattr(binding, "AFTER", {})
    network = made(name)
    for segment, arrays, updates in segments_of_all_kinds(network):
        calls, _, memory = bound(segment, network, arrays, updates)
        for (kernel, args), call in zip(calls, segment.calls, strict=True):
            mine = np.zeros(len(memory), bool)
            for view in (a for a in call.args if isinstance(a, View) and a.buffer in segment.offsets):
                start = segment.offsets[view.buffer]
                mine[start : start + view.buffer.nbytes] = True
            before = memory.copy()
            kernel(*args)
            assert ((memory == before) | mine).all(), call


@KINDS
def test_what_lies_in_the_arena_before_changes_nothing(monkeypatch, name):
    limit_row_tiles(monkeypatch, 700)
    network = made(name)
    for segment, arrays, updates in segments_of_all_kinds(network):
        results = []
        for fill in (0, CANARY, 0xFF):  # 0xFF in every byte is NaN
            external = {b: a.copy() for b, a in arrays.items()}
            calls, outputs, memory = bound(segment, network, external, updates)
            memory[:] = fill
            for kernel, args in calls:
                kernel(*args)
            results.append([a.tobytes() for a in (*outputs, *external.values())])
        assert results[0] == results[1] == results[2]
