"""What a client does in a round: a task that passes each check is obeyed, and nothing but the answer sent."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted

from tinytrain import federate
from tinytrain.base.errors import InputError, TinytrainError, UsageError
from tinytrain.base.safetensors import decode, encode
from tinytrain.delta.delta import Delta, apply
from tinytrain.delta.file import encode_delta
from tinytrain.federate import task as tasks
from tinytrain.federate.work import Client
from tinytrain.heads.registry import HEADS
from tinytrain.heads.scatter_head import ScatterMethod
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device

NETWORK = toy_network()


@pytest.fixture(scope="module")
def client():
    return Client(NETWORK, toy_episode(), Budget(10**6), Device(threads=1))


@pytest.fixture(scope="module")
def plan(client):
    return Planner(NETWORK, TaskShape.of(client.episode), "bias_only", Budget(10**6)).plan(None)


@pytest.fixture(scope="module")
def asked(plan):
    recipe = tasks.recipe_of(plan, NETWORK, steps=3)
    return tasks.Task(1, 2, NETWORK.digest, "lda", recipe), tasks.arrays_of(NETWORK, recipe)


def test_a_task_arrives_as_it_was_sent(asked):
    found, arrays = tasks.decode_task(tasks.encode_task(*asked), "here")
    assert found == asked[0] and found.recipe.steps == 3
    assert {name: a.tobytes() for name, a in arrays.items()} == {n: a.tobytes() for n, a in asked[1].items()}


@each("seed", range(40))
def test_a_task_that_was_changed_on_its_way_is_refused(asked, seed):
    data = bytearray(tasks.encode_task(*asked))
    data[np.random.default_rng(seed).integers(len(data))] ^= 1 + seed
    with pytest.raises(InputError):
        tasks.decode_task(bytes(data), "here")


@each(
    "facts",
    [
        {"number": 0}, {"head": "cosine"}, {"more": 1}, {"rounds": "2"}, {"recipe": {"policy": "none"}},
        {"backbone": 3},
    ],
)  # fmt: skip
def test_a_task_that_means_nothing_is_refused(facts):
    right = {"number": 1, "rounds": 2, "backbone": "0" * 64, "head": "lda"}
    with pytest.raises(InputError, match="file-damaged"):
        tasks.decode_task(encode({}, {"task": json.dumps({**right, **facts})}), "here")


def test_values_of_layers_as_changes_leave_the_network_as_it_is(plan):
    update = replace(plan.recipe.updates[0], layer=1, channels=(3, 1), inputs=None, bias=True)
    rates = ((0.1, 0.1),)
    recipe = replace(plan.recipe, updates=(update,), rates=rates)
    arrays = tasks.arrays_of(NETWORK, recipe)
    same = apply(NETWORK, tasks.changes_of(NETWORK, recipe, arrays, "here"))
    assert np.array_equal(same.float_weight(1), NETWORK.float_weight(1))
    arrays["1.weight"] = arrays["1.weight"] + 1
    other = apply(NETWORK, tasks.changes_of(NETWORK, recipe, arrays, "here"))
    changed = (other.float_weight(1) != NETWORK.float_weight(1)).all(axis=0)
    assert np.flatnonzero(changed).tolist() == [1, 3]


def test_a_round_of_layers_goes_on_where_the_last_one_ended(client, asked):
    task, arrays = asked
    first, images = tasks.decode_layers(client.answer(task, arrays), arrays, "here")
    assert images == len(client.episode.support)
    assert all((first[name] != arrays[name]).any() for name in arrays)
    again, _ = tasks.decode_layers(client.answer(task, arrays), arrays, "here")
    on, _ = tasks.decode_layers(client.answer(task, first), arrays, "here")
    assert all(again[name].tobytes() == first[name].tobytes() for name in arrays)
    assert any((on[name] != first[name]).any() for name in arrays)


def test_a_round_of_heads_sends_sums_of_the_agreed_layers_and_nothing_else(client, asked):
    task, arrays = replace(asked[0], number=2), {name: a + 0.1 for name, a in asked[1].items()}
    delta = tasks.decode_head(client.answer(task, arrays), task, NETWORK, "here")
    plain = tasks.decode_head(client.answer(task, asked[1]), task, NETWORK, "here")
    assert not delta.is_trained and delta.report == {}
    assert (delta.head.moments.sums != plain.head.moments.sums).any()


@each(
    "changed",
    [
        lambda arrays: {},
        lambda arrays: {**arrays, "0.weight": np.zeros((1, 1), "f")},
        lambda arrays: {name: a[:-1] for name, a in arrays.items()},
        lambda arrays: {name: a.astype("i4") for name, a in arrays.items()},
        lambda arrays: {name: a * np.float32("nan") for name, a in arrays.items()},
    ],
)
def test_arrays_that_are_not_those_of_the_plan_are_refused_on_both_sides(client, asked, changed):
    task, arrays = asked
    with pytest.raises(InputError, match=r"(run-mismatch|delta-not-finite): "):
        client.answer(task, changed(arrays))
    with pytest.raises(InputError, match=r"(run-mismatch|delta-not-finite): "):
        tasks.decode_layers(tasks.encode_layers(changed(arrays), 5), arrays, "here")


@each("images", ["", "0", "-1", "1e3", "9" * 11, "9" * 400, "0" * 11 + "9" * 20])
def test_a_number_of_images_that_is_none_is_refused(asked, images):
    with pytest.raises(InputError, match="file-damaged: here: images must be 1 to"):
        tasks.decode_layers(encode(asked[1], {"images": images}), asked[1], "here")


def test_an_answer_with_another_head_or_with_layers_is_refused(client, asked):
    task = replace(asked[0], number=2)
    other = client.answer(replace(task, head="slda"), asked[1])
    with pytest.raises(InputError, match="run-mismatch: here is no head lda alone"):
        tasks.decode_head(other, task, NETWORK, "here")
    tensors, metadata = decode(client.answer(task, asked[1]))
    tensors = {**tensors, "1.bias.channels": np.array([0], np.int32), "1.bias.values": np.ones(1, "f")}
    with pytest.raises(InputError, match="run-mismatch"):
        tasks.decode_head(encode(tensors, metadata), task, NETWORK, "here")


def test_an_answer_that_cannot_be_merged_is_refused_when_it_comes(client, asked):
    """Otherwise it would end all rounds when all have answered."""
    task = replace(asked[0], number=2)
    delta = tasks.decode_head(client.answer(task, asked[1]), task, NETWORK, "here")
    head = delta.head
    wrong = {
        "has a background": replace(delta, head=head.knowing(0)),
        "times as large": replace(delta, head=replace(head, sums=head.sums * 9)),
        "no head lda alone": replace(delta, report={"merged": {"sums": "", "sources": []}}),
    }
    for text, other in wrong.items():
        with pytest.raises(TinytrainError, match=f"here.* {text}"):
            tasks.decode_head(encode_delta(other), task, NETWORK, "here")


def test_a_client_with_a_background_says_so_before_any_work(client, asked):
    names = ("background", *client.episode.class_names[1:])
    with pytest.raises(UsageError, match="unsupported: there is a background"):
        replace(client, episode=replace(client.episode, class_names=names)).answer(*asked)


def test_a_task_for_another_network_is_refused_before_any_work(client, asked):
    with pytest.raises(InputError, match="backbone-mismatch"):
        client.answer(replace(asked[0], backbone="0" * 64), asked[1])


def test_plans_whose_averages_mean_nothing_are_refused(client, plan):
    task = TaskShape.of(client.episode)
    for recipe, what in (
        (plan.recipe.in_precision("int8"), "layers in int8"),
        (replace(plan.recipe, updates=(), rates=()), "no layers"),
        (Planner(NETWORK, task, "tinytl", Budget(10**6)).plan(None).recipe, "layers that the network"),
    ):
        with pytest.raises(UsageError, match=f"unsupported: the plan trains {what}"):
            tasks.recipe_of(replace(plan, recipe=recipe), NETWORK)
    with pytest.raises(InputError, match="backbone-mismatch"):
        tasks.recipe_of(replace(plan, digest="0" * 64), NETWORK)


def test_heads_that_may_be_asked_for_are_those_of_sums():
    assert set(federate.HEADS) == {n for n, m in HEADS.items() if isinstance(m, ScatterMethod)}


def test_an_answer_with_160_numbers_and_5_classes_is_at_most_60_kilobytes():
    x, labels = embeddings(400, 160, way=5)
    head = fitted(HEADS["lda"], x.astype(np.float32), labels)
    delta = Delta("0" * 64, "small", (), head, tuple(f"class {k}" for k in range(5)), {"many": "x" * 10**4})
    assert len(tasks.encode_head(delta)) <= 60_000
