"""Emitted C adapts with the bits of Python, on this computer.

Toy networks and few steps by default; ``TINYTRAIN_FIRMWARE=1`` takes published networks with all steps, too.
"""

import os
import re
from dataclasses import replace

import emitted
import int8nets
import numpy as np
import pytest
import toynets
import waves
from cases import quick
from emitted import emit, plan_of
from published import published_network

from tinytrain.backbones.load import open_backbone
from tinytrain.backbones.motion import motion_network
from tinytrain.codegen.device import for_one_core
from tinytrain.delta.file import load_delta
from tinytrain.heads.head import STATES
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import single_pass
from tinytrain.plan.recipe import ROUNDINGS, Arithmetic, Resources, Update
from tinytrain.planner.planner import Planner
from tinytrain.policies.registry import find_policy
from tinytrain.runtime.answers import labels_of

LONG = bool(os.environ.get("TINYTRAIN_FIRMWARE"))
COMPILERS = emitted.compilers()
REASONS = {0: None, 1: "not-finite", 2: "diverged", 3: "labels", 4: "left-out"}
SAME = ("fisher", "channels", "weights", "offsets")

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler is here: install gcc or clang")


def without_cache(plan, network):
    """The same without cached features: every step has views of its own."""
    r = plan.resources
    plan = replace(plan, resources=Resources(0, 1, r.step_support, r.step_queries))
    return for_one_core(plan, network)


def compare(folder, network, plan, compiler, options=(), images=1):
    """Adapt in Python and in C to random images, and compare all that either computes on the way.

    `images` is the seed of the images.
    """
    device = emit(folder, network, plan, seed=3)
    support = emitted.classes_of(network, device.ways, device.shots, images)
    query = emitted.with_strangers(emitted.classes_of(network, device.ways, 4, 2))
    want = emitted.in_python(network, plan, support, query, seed=3)
    got = emitted.in_c(emitted.compiled(folder, compiler, options), support, query)
    for name in (n for n in want if n.startswith(SAME)):
        assert got[name] == [want[name].tobytes()], name
    assert got["embeddings before"][0] == want["embeddings"][0].tobytes()
    assert got["embeddings after"][-1] == want["embeddings"][-1].tobytes()
    assert b"".join(got["loss"]) == want["losses"].tobytes()
    assert got["trained"] == want["trained"]
    assert_verdict(device, want, got)
    assert_delta(folder, network, want, got)
    assert_answers(folder, want, got)
    return device, want, got


def assert_verdict(device, want, got) -> str | None:
    """The guard measures what Python's does and decides alike. The reason for a refusal."""
    for k, (margins, chances) in enumerate(want["left out"]):
        assert got["margins"][k] == (margins.tobytes() if device.shots > 1 else b"")
        assert got["chances"][k] == chances.tobytes()
    reason = REASONS[int.from_bytes(got["result"][0], "little")]
    assert reason == (want["reasons"] or [None])[0]
    return reason


def assert_delta(folder, network, want, got):
    """The delta that C writes is Python's; a damaged one is refused; what is read answers as Python does."""
    labels = np.frombuffer(b"".join(got["label"]), np.int32)
    if "delta" not in got:  # refused: the network as it was answers
        assert labels.tolist() == labels_of(want["answers"][1]).tolist()
        return
    (folder / "delta.safetensors").write_bytes(got["delta"][0])
    delta = load_delta(folder / "delta.safetensors")
    delta.check_backbone(network)
    assert {n: a.tobytes() for n, a in delta.head.tensors().items()} == want["head"]
    assert [(s.layer, s.part, s.channels.tolist(), s.values.tobytes()) for s in delta.slices] == want[
        "slices"
    ]
    assert {int.from_bytes(code, "little", signed=True) for code in got["damaged"]} == {-6}
    assert np.frombuffer(got["loading"][0], np.int32).tolist() == [-7, 0, 0]
    assert got["saved again"] == got["delta"]
    said = re.search(r"TT_DELTA_BYTES (\d+)u", (folder / "src" / "plan.h").read_text())
    assert int(said[1]) == len(got["delta"][0])
    assert labels.tolist() == labels_of(want["answers"][0]).tolist()


def assert_answers(folder, want, got):
    """Of the head that answers, whether the guard kept the adapted one: what is known of it, and verdicts."""
    refused = "delta" not in got
    temperature, left_out, limit = want["facts"][refused]
    expected = temperature, left_out or 0, *(limit or (0, 0))[:2]
    near = 1e-6 * limit.scale if limit else 0
    for facts in map(np.frombuffer, got["facts"]):
        assert facts.tolist() == pytest.approx(expected, rel=1e-6, abs=near)
    if not refused:
        head = load_delta(folder / "delta.safetensors").head
        said = head.temperature, head.left_out or 0, *(head.limit or (0, 0))[:2]
        assert said == pytest.approx(facts, rel=1e-12) and (head.left_out is None) == (left_out is None)
    labels, confidences, states, exponents = zip(*want["verdicts"][refused], strict=True)
    assert np.frombuffer(b"".join(got["state"]), np.int32).tolist() == [*map(STATES.index, states)]
    assert np.frombuffer(b"".join(got["label"]), np.int32).tolist() == [*labels]
    found = np.frombuffer(b"".join(got["confidence"]), np.float32)
    rounding = max(exponents) * 2.0**-22  # of logits, which either adds in an order of its own
    assert found == pytest.approx(confidences, abs=max(1e-5, rounding))


@pytest.mark.parametrize("compiler", quick(COMPILERS))
@pytest.mark.parametrize("passes", quick([1, 2]))
def test_an_adaptation_has_the_bits_of_python(passes, compiler, tmp_path):
    """New or cached views, a part of the images in a step, LDA of many embeddings; with two sanitizers."""
    network = toynets.toy("headed")
    decay = (None if passes == 1 else 1.0, 0.5)
    plan = plan_of(network, 3, 4, "lda", 60_000, 0.24, 0.6, steps=3, decay=decay)
    plan = plan if passes == 1 else emitted.in_two_passes(plan, network)
    device, _, got = compare(tmp_path, network, plan, compiler, emitted.sanitizers(compiler))
    assert single_pass(device.recipe, device.training.resources) == (passes == 1)
    assert device.training.resources.step_queries < device.support and "delta" in got
    assert (device.training.resources.sets == 1) == (passes == 1)


@pytest.mark.slow
@pytest.mark.parametrize(("head", "optimizer", "shots"), [("lda", "adam", 1), ("cosine", "momentum", 3)])
def test_so_it_has_without_a_cache(head, optimizer, shots, tmp_path):
    """Fresh views of all images or a part, LDA of few embeddings or cosine prototypes, all filter sizes."""
    network = toynets.toy("blocks")
    plan = plan_of(network, 2, shots, head, 60_000, shown=0.6, steps=2, optimizer=optimizer, views=1)
    plan = emitted.in_two_passes(plan, network)
    plan, options = without_cache(plan, network), emitted.sanitizers(COMPILERS[0])
    device, _, _ = compare(tmp_path, network, plan, COMPILERS[0], options)
    assert (device.training.resources.step_queries < device.support) == (shots > 1)


@pytest.mark.parametrize(
    ("head", "precision", "shots", "faster", "kept"),
    quick(
        [
            ("cosine", "int8", 1, 1, True),
            ("cosine", "float32", 1, 67, False),
            ("lda", "float32", 1, 1, True),
            ("lda", "float32", 1, 10_000, True),  # cannot tell its classes apart: it has no limit
            ("lda", "int8", 2, 1, True),
            ("cosine", "float32", 12, 1, True),
            ("mild-lda", "float32", 12, 1, True),
            ("cosine", "float32", 12, 10_000, False),
            ("lda", "int8", 12, 10_000, False),
        ],
        (0, 1),
    ),
)
def test_confidence_and_strangers_are_those_of_python(head, precision, shots, faster, kept, tmp_path):
    """Of one image of each class or so many that the limit lies between two; of steps that memorise."""
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("headed")
    plan = plan_of(network, 2, shots, head, 200_000, 0.24, precision=precision, steps=14)
    plan = emitted.faster(plan, faster)
    _, want, got = compare(tmp_path, network, plan, COMPILERS[-1], images=3 if faster == 67 else 1)
    states = {state for _, _, state, _ in want["verdicts"][not kept]}
    assert ("delta" in got) == kept and ("unknown" in states) == (faster < 10_000 or not kept)


@pytest.mark.slow
def test_the_guard_decides_as_python_does(tmp_path):
    """With right labels, and with one or two images of each class in the other one; a loss that rises."""
    found = []
    easy, wrong, hard = ("headed", 0, (0, 1, 2), 1), ("headed", 1, (1,), 1), ("blocks", 0, (0, 2), 1)
    for name, seed, swaps, faster in (easy, wrong, hard, ("headed", 0, (0,), 10_000)):
        network, folder = toynets.toy(name), tmp_path / f"{name} {seed} {faster}"
        plan = plan_of(network, 2, 5, "lda", 60_000, 0.24, steps=4 if faster == 1 else 2)
        plan = emitted.faster(plan, faster)
        device = emit(folder, network, plan, seed=3)
        program, right = emitted.compiled(folder, COMPILERS[0]), emitted.classes_of(network, 2, 5, seed)
        for count in swaps:
            images, places = right.copy(), np.arange(count)
            images[places], images[places + 5] = right[places + 5], right[places]
            want = emitted.in_python(network, plan, images, images, seed=3)
            found.append(assert_verdict(device, want, emitted.in_c(program, images, images)))
    assert set(found) == {None, "labels", "left-out", "diverged"}


@pytest.mark.parametrize("compiler", quick(COMPILERS))
def test_an_adaptation_in_int8_has_the_bits_of_python(compiler, tmp_path):
    """Some columns of three blocks, rows of images, LDA whose scatter is packed; with two sanitizers."""
    network = int8nets.toy8("blocks")
    plan = plan_of(network, 3, 4, "lda", 15_000, 0.9, 0.6, precision="int8", steps=6)
    device, _, got = compare(tmp_path, network, plan, compiler, emitted.sanitizers(compiler))
    trained = [u for u in device.recipe.updates if u.channels]
    assert any(len(u.channels) < network.layers[u.layer].cout for u in trained) and "delta" in got
    assert "head result: products" in device.training.buffers


def test_dense_convolutions_are_trained_in_int8_with_the_bits_of_python(tmp_path):
    """Of both strides, one of them with an addition; gradients go through others that stay as they are."""
    network = int8nets.toy8("dense")
    plan = plan_of(network, 3, 4, "lda", 60_000, 0.9, precision="int8", steps=4)
    device, want, got = compare(tmp_path, network, plan, COMPILERS[0], emitted.sanitizers(COMPILERS[0]))
    trained = {u.layer for u in device.recipe.updates if u.channels}
    assert any(network.layers[i].op == "conv" for i in trained) and "delta" in got and want["slices"]
    calls = (tmp_path / "src" / "adapt.c").read_text()
    assert "tt_unfold_plane_codes(" in calls and "tt_add_patches(" in calls


@pytest.mark.parametrize("policy", quick(["last_layer", "tinytrain"]))
def test_recordings_of_motion_are_learnt_with_the_bits_of_python(policy, tmp_path):
    """Features in noise, which nothing frozen computes; biases alone, or all weights of the one layer."""
    network = motion_network("motion-1")
    plan = plan_of(network, 3, 4, "lda", 60_000, 1.0, policy=policy, steps=4)
    device, _, got = compare(tmp_path, network, plan, COMPILERS[0], emitted.sanitizers(COMPILERS[0]))
    parts = {slot.part for slot in device.slots}
    assert "delta" in got and ("weight" in parts) == (policy == "last_layer")


@pytest.mark.parametrize(("precision", "cached"), quick([("int8", False), ("float32", True)]))
def test_clips_of_sound_are_learnt_with_the_bits_of_python(precision, cached, tmp_path):
    """Spectra that begin sooner or later and are louder or softer, in noise; some are as they were."""
    network = (int8nets.toy8 if precision == "int8" else toynets.toy)("headed", spec=waves.SMALL)
    decay = (1.0 if cached else None, 0.5)
    plan = plan_of(network, 3, 4, "lda", 60_000, 0.9, precision=precision, steps=4, decay=decay)
    options = emitted.sanitizers(COMPILERS[-1])
    _, _, got = compare(tmp_path, network, plan, COMPILERS[-1], options, images=5)
    assert "delta" in got


def for_some_inputs(plan, network):
    """The same for every other input of pointwise layers, in any order, and one output of the first less."""
    first = next(u.layer for u in plan.recipe.updates if u.channels)

    def fewer(update):
        layer = network.layers[update.layer]
        if not update.channels or layer.op != "pointwise":
            return update
        channels = update.channels[update.layer == first :]
        return replace(update, channels=channels, inputs=tuple(range(layer.cin))[::-2])

    recipe = replace(plan.recipe, updates=tuple(map(fewer, plan.recipe.updates)))
    return for_one_core(replace(plan, recipe=recipe), network)


@pytest.mark.parametrize("rounding", quick(["stochastic", "carried", "masters"]))
def test_weights_of_some_inputs_are_trained_in_int8_with_the_bits_of_python(rounding, tmp_path):
    """Of some outputs, too, which the device chooses. SparseUpdate trains them so, of all outputs."""
    network = int8nets.toy8("blocks")
    compiler = COMPILERS[ROUNDINGS.index(rounding) % len(COMPILERS)]
    plan = plan_of(network, 3, 4, "lda", 60_000, 0.9, precision="int8", steps=6)
    options = replace(plan.recipe.options, arithmetic=Arithmetic("int8", rounding))
    plan = for_some_inputs(replace(plan, recipe=replace(plan.recipe, options=options)), network)
    device, _, got = compare(tmp_path, network, plan, compiler, emitted.sanitizers(compiler))
    trained = [u for u in device.recipe.updates if u.inputs]
    assert len(trained) > 1 and any(len(u.channels) < network.layers[u.layer].cout for u in trained)
    assert "delta" in got


def with_filters(plan, network):
    """The same, and weights of half of the channels of the depthwise layer behind each that is trained."""
    updates, rates = [], []
    for update, pair in zip(plan.recipe.updates, plan.recipe.rates, strict=True):
        filtered = update.layer + 1
        assert network.layers[filtered].op == "depthwise"
        some = tuple(range(network.layers[filtered].cout))[::2]
        updates += [update, Update(filtered, some, bias=update.layer % 2 == 0)]
        rates += [pair, pair]
    recipe = replace(plan.recipe, updates=tuple(updates), rates=tuple(rates))
    return for_one_core(replace(plan, recipe=recipe), network)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounding"), [("blocks", "carried"), ("headed", "stochastic")])
def test_filters_are_trained_in_int8_with_the_bits_of_python(name, rounding, tmp_path):
    """Of some channels, which the device chooses, and filters of several sizes and strides."""
    network = int8nets.toy8(name)
    plan = plan_of(network, 3, 4, "lda", 60_000, 0.9, precision="int8", steps=6)
    options = replace(plan.recipe.options, arithmetic=Arithmetic("int8", rounding))
    plan = with_filters(replace(plan, recipe=replace(plan.recipe, options=options)), network)
    device, want, got = compare(tmp_path, network, plan, COMPILERS[0], emitted.sanitizers(COMPILERS[0]))
    trained = {network.layers[u.layer].op for u in device.recipe.updates if u.channels}
    assert trained == {"pointwise", "depthwise"} and ("delta" in got) == (name == "blocks")  # one is refused
    for layer, part, channels, values in want["slices"]:
        if network.layers[layer].op == "depthwise" and part == "weight":
            assert values != network.weights[layer][:, channels].astype(np.int8).tobytes()


def test_training_that_ended_before_its_schedule_has_the_bits_of_python(tmp_path):
    """As the plan of an adaptation that ran out of time says: rates are those of five steps, two are made."""
    network = toynets.toy("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, steps=5)
    options = replace(plan.recipe.options, last_step=2)
    plan = replace(plan, recipe=replace(plan.recipe, options=options))
    _, want, got = compare(tmp_path, network, plan, COMPILERS[0])
    assert len(want["losses"]) == len(got["loss"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_way_to_round_an_update_has_the_bits_of_python(rounding, tmp_path):
    """With each optimizer, cached views and none, and with steps that are not scaled."""
    k = ROUNDINGS.index(rounding)
    network = int8nets.toy8("headed" if k % 2 else "blocks")
    optimizer = ("adam", "momentum", "sgd")[k % 3]
    plan = plan_of(network, 2, 3, "cosine", 60_000, 0.9, precision="int8", steps=4, optimizer=optimizer)
    arithmetic = Arithmetic("int8", rounding, k < 4)
    options = replace(plan.recipe.options, arithmetic=arithmetic)
    plan = replace(plan, recipe=replace(plan.recipe, options=options))
    plan = without_cache(plan, network) if k % 2 else plan
    compiler = COMPILERS[k % len(COMPILERS)]
    compare(tmp_path, network, plan, compiler, emitted.sanitizers(compiler))


@pytest.mark.skipif(not LONG, reason="minutes: TINYTRAIN_FIRMWARE=1")
@pytest.mark.parametrize("ways", [2, 5])
@pytest.mark.parametrize("name", ["small", "mcunet-5fps", "mbv2-w0.35"])
@pytest.mark.parametrize(("precision", "budget"), [("float32", 1_000_000), ("int8", 256_000)])
def test_published_networks_have_the_bits_of_python(name, ways, precision, budget, tmp_path):
    network = open_backbone(name) if name == "small" else published_network(name)
    plan = plan_of(network, ways, 5, "lda", budget, precision=precision)
    for compiler in COMPILERS:
        folder = tmp_path / compiler
        folder.mkdir()
        device, _, _ = compare(folder, network, plan, compiler)
        assert device.arena <= budget


@pytest.mark.skipif(not LONG, reason="a minute: TINYTRAIN_FIRMWARE=1")
def test_a_published_configuration_of_sparse_update_has_the_bits_of_python(tmp_path):
    """The smallest one of mcunet-5fps, which trains weights of some inputs of three layers."""
    network, budget = published_network("mcunet-5fps"), Budget(290_000, precision="int8")
    task, policy = TaskShape(10, 2), find_policy("sparse_update_50kb")
    plan = Planner(network, task, policy, budget).plan(None)
    plan = for_one_core(plan, network)
    device, _, _ = compare(tmp_path, network, plan, COMPILERS[0])
    assert [len(u.inputs) for u in device.recipe.updates if u.inputs] == [12, 24, 24]


def test_the_seed_decides_the_draws(tmp_path):
    network = toynets.toy("headed")
    plan = plan_of(network, 2, 2, "cosine", 60_000, steps=2)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        emit(tmp_path / name, network, plan, seed)
    files = [(tmp_path / name / "src" / "draws.c").read_text() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_an_update_before_the_gradient_of_the_input_is_noticed(tmp_path):
    """The order of the stages is part of the result: here the last update comes before the gradients."""
    network = toynets.toy("headed")
    plan = plan_of(network, 2, 2, "cosine", 60_000, steps=2)
    device = emit(tmp_path, network, plan, seed=3)
    source = tmp_path / "src" / "tinytrain.c"
    calls = "        tt_train_stage_gradients();\n", "        tt_train_stage_update();\n"
    text = source.read_text()
    swapped = text.replace(calls[1], "").replace(calls[0], calls[1] + calls[0])
    assert all(text.count(call) == 1 for call in calls)
    source.write_text(swapped)
    images = toynets.images_of(network.input.shape, device.support, 1)
    want = emitted.in_python(network, plan, images, images, seed=3)
    got = emitted.in_c(emitted.compiled(tmp_path, COMPILERS[0]), images, images)
    assert got["trained"] != want["trained"]
