"""Renaming keeps every bit but the name; forgetting is, for the head, never to have seen the class."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from toyreplay import stored

import tinytrain
from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode
from tinytrain.cli.main import main
from tinytrain.delta.classes import HEAD, WEIGHTS, forget, rename
from tinytrain.delta.file import decode_delta, encode_delta, load_delta, save_delta
from tinytrain.heads.registry import HEADS
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.head_conformance import fitted
from tinytrain.pipeline.head_tasks import made_up
from tinytrain.pipeline.toy import toy_episode, toy_images, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy
from tinytrain.store import Store

KERNELS = kernel_table.load()


def policy(head: str, trains: bool) -> Policy:
    updates = (Update(6, (1, 4, 7), bias=True),) if trains else ()

    def recipe(*_):
        return Recipe("test", updates, ((1e-2, 1e-2),) * len(updates), steps=4, head=head, views=3)

    return Policy("test", recipe, "none", macs_limited=False)


def adapted(head: str = "lda", trains: bool = True):
    episode = toy_episode(way=4, shots=4, queries=2)
    return adapt(toy_network(), episode, Budget(2**22), policy(head, trains), force=True).delta


@pytest.fixture(scope="module")
def delta():
    return adapted()


def test_renaming_keeps_every_bit_but_the_name(delta):
    old = delta.class_names[1]
    renamed = rename(delta, old, "parsley")
    assert renamed.class_names == (delta.class_names[0], "parsley", *delta.class_names[2:])
    assert stored(renamed) == stored(delta)
    assert old not in json.dumps({**renamed.report, "guard": None})
    assert encode_delta(rename(renamed, "parsley", old)) == encode_delta(delta), "there and back"


def test_the_report_knows_a_renamed_class_by_its_new_name_alone(delta):
    a, b = delta.class_names[:2]
    suspect = {"index": 0, "name": f"{a}/1.jpg", "given": a, "looks_like": b, "reason": "x", "score": 1.0}
    report = delta.report | {"guard": {**delta.report["guard"], "suspects": [suspect]}, "extended": [{a: 3}]}
    told = rename(replace(delta, report=report), a, "new").report
    assert told["guard"]["suspects"] == [{**suspect, "given": "new"}], "the name of the file stays"
    assert told["extended"] == [{"new": 3}] and told["episode"]["classes"][0] == "new"


@pytest.mark.parametrize("new", ["", "toy 1", "\ud800"])
def test_a_name_that_a_delta_cannot_hold_is_refused(delta, new):
    with pytest.raises(InputError, match="class-names"):
        rename(delta, "toy 0", new)


def test_a_class_is_found_in_any_composition_of_its_letters(delta):
    composed = rename(delta, "toy 0", "caf\u00e9")
    assert (
        composed.label_of("cafe\u0301") == 0
        and rename(composed, "cafe\u0301", "toy 0").label_of("toy 0") == 0
    )


def test_an_unknown_class_is_refused_with_those_that_there_are(delta):
    for change in (lambda: rename(delta, "toy 9", "x"), lambda: forget(delta, "toy 9")):
        with pytest.raises(
            InputError, match=r"unknown-class: .*it has 4: toy 0, toy 1, toy 2, toy 3"
        ) as caught:
            change()
        assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", [name for name in HEADS if HEADS[name].separate_classes])
def test_a_head_that_keeps_classes_apart_is_the_one_that_never_saw_the_class(name):
    task = made_up(5, 12, 6)
    others = task.part(np.flatnonzero(task.labels != 2))
    never = replace(others, labels=others.labels - (others.labels > 2), way=4)
    found, expected = (
        fitted(HEADS[name], KERNELS, task).without_class(2, 5),
        fitted(HEADS[name], KERNELS, never),
    )
    for key, values in expected.tensors().items():
        assert found.tensors()[key].tobytes() == values.tobytes(), key


@each("name", HEADS)
def test_without_a_class_the_logits_of_the_others_are_what_they_were(name):
    task = made_up(5, 12, 6)
    head = fitted(HEADS[name], KERNELS, task)
    before = {key: values.copy() for key, values in head.tensors().items()}
    found = head.without_class(1, 5)
    np.testing.assert_array_equal(
        found.logits(task.embeddings), np.delete(head.logits(task.embeddings), 1, axis=1)
    )
    for key, values in head.tensors().items():
        np.testing.assert_array_equal(values, before[key])
        assert not np.shares_memory(values, found.tensors()[key]), "it is a copy"


@each(
    "head, trains, left",
    [
        ("cosine", False, []),
        ("cosine", True, [WEIGHTS]),
        ("lda", False, [HEAD]),
        ("lda", True, [HEAD, WEIGHTS]),
    ],
)
def test_what_still_carries_traces_is_said(head, trains, left):
    forgotten = forget(adapted(head, trains), "toy 1")
    assert forgotten.report["forgotten"] == {"classes": 1, "traces": left}
    assert forgotten.class_names == ("toy 0", "toy 2", "toy 3")
    twice = forget(forgotten, "toy 2")
    assert twice.report["forgotten"] == {"classes": 2, "traces": left}
    again = decode_delta(*decode(encode_delta(twice)))
    assert "toy 1" not in json.dumps(again.report) and again.class_names == ("toy 0", "toy 3")


@pytest.mark.parametrize("head", ["cosine", "lda"])
def test_to_forget_an_added_class_undoes_that_it_was_added(head):
    delta, network = adapted(head), toy_network()
    grown = add_classes(network, delta, toy_images(np.zeros(3, np.int32), seed=9), ("new",))
    back = forget(grown, "new")
    assert back.class_names == delta.class_names
    if head == "lda":  # its covariance has learnt the class, its weights have not
        assert back.report["forgotten"]["traces"] == [HEAD]
    else:
        assert back.report["forgotten"]["traces"] == [] and stored(back) == stored(delta)


def test_nothing_in_the_file_of_a_delta_names_a_forgotten_class(delta):
    """Corrections of it are counted and warnings name files in its folder."""
    old = delta.class_names[1]
    watched = {"corrections": {old: 2, delta.class_names[0]: 1}, "labels": {old: ["ab"]}, "marks": {}}
    report = {
        **delta.report,
        "watched": watched,
        "warnings": [f"skipped photos/{old}/a.png: is cut off", "slow"],
    }
    told = replace(delta, report=report)
    assert old.encode() in encode_delta(told) and old.encode() not in encode_delta(forget(told, old))
    assert forget(told, old).report["warnings"] == ["slow"]
    renamed = rename(told, old, "parsley").report["watched"]
    assert renamed["corrections"]["parsley"] == 2 and renamed["labels"] == {"parsley": ["ab"]}


def test_two_classes_must_remain(delta):
    two = forget(forget(delta, "toy 0"), "toy 1")
    with pytest.raises(
        InputError, match="too-few-classes: the delta has 2 classes, and at least 2 must remain"
    ):
        forget(two, "toy 2")


def test_the_commands_change_a_file_in_place_or_write_another(delta, tmp_path, capsys):
    place, other = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_delta(place, delta)
    assert main(["rename", str(place), "toy 0", "a\x1b[31m", "--out", str(other)]) == 0
    assert "\x1b" not in capsys.readouterr().out and load_delta(place).class_names == delta.class_names
    assert load_delta(other).class_names[0] == "a\x1b[31m"
    assert main(["forget", str(place), "toy 3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["classes"] == ["toy 0", "toy 1", "toy 2"] and result["traces"] == [HEAD, WEIGHTS]
    assert load_delta(place).class_names == ("toy 0", "toy 1", "toy 2")
    before = place.read_bytes()
    assert main(["forget", str(place), "toy 3"]) == 3 and place.read_bytes() == before
    assert "unknown-class" in capsys.readouterr().err


def test_in_a_store_the_changed_delta_is_on_trial(delta, tmp_path, capsys):
    store = Store(tmp_path / "state")
    store.commit(delta)
    store.confirm()
    assert main(["forget", str(tmp_path / "state"), "toy 3"]) == 0
    out = capsys.readouterr().out
    assert "the previous delta in the store still knows the class" in out and "tinytrain confirm" in out
    start = store.peek()
    assert not start.confirmed and start.delta.class_names == ("toy 0", "toy 1", "toy 2")
    assert main(["rename", str(tmp_path / "state"), "toy 0", "zero"]) == 0
    assert store.peek().delta.class_names == ("zero", "toy 1", "toy 2")


def test_python_takes_the_path_of_a_delta(delta, tmp_path):
    save_delta(tmp_path / "a.safetensors", delta)
    assert tinytrain.rename(tmp_path / "a.safetensors", "toy 0", "x").class_names[0] == "x"
    assert tinytrain.forget(tmp_path / "a.safetensors", "toy 0").class_names == delta.class_names[1:]


def test_neurons_of_a_forgotten_class_are_free_and_the_others_are_as_many_as_a_smaller_head_holds():
    task = made_up(5, 12, 40)
    noisy = replace(task, embeddings=np.random.default_rng(0).permutation(task.embeddings))
    head = fitted(HEADS["rce"], KERNELS, noisy)
    found = head.without_class(0, 5)
    assert len(found.patterns) == HEADS["rce"].tensors(4, 12)[0].shape[0] and found.problem() is None
    assert sorted(set(found.neurons.categories[found.neurons.categories > 0] & 0x7FFF)) == [1, 2, 3, 4]
    grown = found.extended(4)
    grown.update(KERNELS, noisy.embeddings[:20], noisy.labels[:20] % 4)
    assert grown.problem() is None
