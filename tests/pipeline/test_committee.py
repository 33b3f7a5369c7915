"""Several networks side by side: adapted one after another, with one head for the embeddings of all."""

import weakref
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import toynets
from cases import each
from int8nets import toy8

from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.classes import forget
from tinytrain.delta.delta import apply
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.guard.guard import ADAPTED, HEAD, judge
from tinytrain.guard.suspects import find_suspects
from tinytrain.heads import repeats
from tinytrain.heads.head import unit
from tinytrain.network.committee import Committee, joint_digest
from tinytrain.pipeline import committee
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.check import check, left_out_rows
from tinytrain.pipeline.committee import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.planner.committee import CommitteePlanner
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.report.html import render_html
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import Embedder, SideBySide
from tinytrain.runtime.joint import JointFitting
from tinytrain.runtime.predict import Predictor


def recipe(network, *_):
    """The last layer of any network."""
    updates = (Update(len(network.layers) - 1, (0, 1, 2), bias=True),)
    return Recipe("last", updates, ((1e-2, 1e-2),), steps=4, head="lda", views=2)


LAST = Policy("last", recipe, "none", macs_limited=False)
FIRST, SECOND = toy_network(), replace(toynets.toy("headed"), name="second")
PAIR, EPISODE, MEMORY = Committee((FIRST, SECOND)), toy_episode(way=3, shots=4, queries=4), Budget(10**6)


@pytest.fixture(scope="module")
def report():
    return adapt(PAIR, EPISODE, MEMORY, LAST, force=True)


def stored(slices):
    return [(s.layer, s.part, s.channels.tobytes(), s.values.tobytes()) for s in slices]


@each("order", ((0, 1), (1, 0)))
def test_a_member_is_trained_to_the_same_bits_whoever_sits_beside_it(order):
    found = adapt(Committee(tuple((FIRST, SECOND)[k] for k in order)), EPISODE, MEMORY, LAST, force=True)
    for k, part in zip(order, found.delta.members, strict=True):
        alone = adapt((FIRST, SECOND)[k], EPISODE, MEMORY, LAST, force=True)
        assert part.slices and stored(part.slices) == stored(alone.delta.slices)


def test_the_embedding_is_that_of_each_adapted_member_at_length_1(report):
    found = Predictor(PAIR, report.delta).embed(EPISODE.query)
    members = zip(PAIR.members, report.delta.members, strict=True)
    parts = [unit(Embedder(apply(network, part)).embed(EPISODE.query)) for network, part in members]
    np.testing.assert_allclose(found, np.concatenate(parts, axis=1), atol=1e-6)
    assert found.shape[1] == PAIR.embedding_size == FIRST.embedding_size + SECOND.embedding_size


def test_a_stored_delta_answers_what_the_report_says(report):
    data = encode_delta(report.delta)
    delta = decode_delta(*decode(data))
    assert encode_delta(delta) == data
    assert (Predictor(PAIR, delta).logits(EPISODE.query).argmax(axis=1) == report.answers.after).all()


def test_the_same_seed_gives_the_same_bytes(report):
    assert encode_delta(adapt(PAIR, EPISODE, MEMORY, LAST, force=True).delta) == encode_delta(report.delta)


def test_members_take_turns_in_the_memory_and_their_macs_add_up(report):
    facts = report.to_json()
    rows = facts["members"]
    assert facts["memory"]["arena"] <= MEMORY.memory
    assert facts["memory"]["arena"] >= max(row["arena"] for row in rows)
    assert facts["macs"]["total"] >= sum(row["macs"] for row in rows)
    assert [row["backbone"] for row in rows] == [FIRST.name, SECOND.name] and all(
        row["trained"] for row in rows
    )
    assert len(facts["layers"]) == len(FIRST.layers) + len(SECOND.layers)
    selected = {facts["layers"][row["layer"]]["name"] for row in facts["selection"]}
    assert selected == {FIRST.layers[-1].name, SECOND.layers[-1].name}
    assert facts["selection"][-1]["layer"] == len(facts["layers"]) - 1


def test_of_heads_and_embeddings_no_more_is_held_at_once_than_the_arena_counts(monkeypatch):
    copied, made = replace(EPISODE, support=EPISODE.support.take([*range(12), 0, 0])), []
    fit, embed = JointFitting.fit, SideBySide.embed

    def fitted(self, *given):
        assert not any(weights() is not None for weights in made)
        found = fit(self, *given)
        made.append(weakref.ref(found[1].weights))
        return found

    def embedded(self, images, *, out):  # in room that the arena counts
        assert len(out) == len(images) and self.threads * self.arena <= MEMORY.memory
        return embed(self, images, out=out)

    monkeypatch.setattr(JointFitting, "fit", fitted)
    monkeypatch.setattr(SideBySide, "embed", embedded)
    monkeypatch.setattr(repeats, "LEAST_BITS", 1)  # embeddings of toys are short
    monkeypatch.setattr(committee, "vetoed", lambda verdict, *_: replace(verdict, kept=HEAD))
    adapt(PAIR, copied, MEMORY, LAST, force=True)
    assert len(made) == 2 + 1 + 2  # before training with copies and without, after it, and as it was


def test_modules_have_numbers_behind_the_layers_of_all_members():
    facts = adapt(PAIR, EPISODE, Budget(2**23, 10.0), "tinytl", force=True).to_json()
    numbers = [row["layer"] for row in facts["selection"]]
    added = [row["layer"] for row in facts["selection"] if ".lite." in row["name"]]
    assert len(set(numbers)) == len(numbers) and min(added) >= len(facts["layers"])


def test_a_page_says_which_network_is_where(report):
    page = render_html(report.to_json())
    first, second = (f"4 steps of {member.name}" for member in PAIR.members)
    assert f"it begins anew with each: {first}, then {second}." in page
    assert f"The networks are side by side: {FIRST.name}, then {SECOND.name}." in page
    assert page.count("The networks take turns in them; drawn is ") == 1


def test_a_budget_that_holds_no_common_head_is_refused_before_anything_is_trained():
    with pytest.raises(BudgetError, match=r"needs [0-9]+ bytes, the budget is 18000") as caught:
        adapt(PAIR, EPISODE, Budget(18_000), replace(LAST, trains=False, recipe=head_alone))
    adapt(PAIR, EPISODE, Budget(caught.value.smallest), replace(LAST, trains=False, recipe=head_alone))


def head_alone(*_):
    return Recipe("head", (), (), step="constant", steps=0, head="lda", views=1)


def timed(seconds):
    """A report within `seconds` by a clock that goes on by a millisecond whenever it is read."""
    clock = count()
    device = Device(threads=1, now=lambda: next(clock) / 1000)
    return adapt(PAIR, EPISODE, Budget(10**6, seconds=seconds), device=device, force=True)


def test_a_member_gets_its_part_of_the_seconds_that_the_head_and_those_before_it_leave(monkeypatch):
    parts, within = [], Planner.within
    monkeypatch.setattr(Planner, "within", lambda self, part: parts.append(part) or within(self, part))
    first = timed(0.5).members[0]
    for_both = parts[0] * PAIR.macs / FIRST.macs
    assert 0.3 < for_both < 0.5 and parts[1] == pytest.approx(for_both - first.ran.used)


def test_what_the_time_took_away_is_said_once():
    none, some, all_ = (timed(seconds) for seconds in (1e-4, 0.5, 10))
    assert none.warnings == (
        "0.0001 s are too short to train anything: only the head was fitted",
        "the adaptation took longer than 0.0001 s",
    )
    (one,) = some.warnings  # the first has less than half of the time, the second what is left of all
    assert one == f"{FIRST.name}: 0.5 s are too short to train anything: only the head was fitted"
    assert all_.warnings == () and all(row["steps"] for row in all_.to_json()["members"])
    time = some.to_json()["time"]
    assert time["asked"] == 0.5 >= time["used"] > sum(member.ran.used for member in some.members)


def test_wrong_labels_leave_both_members_as_they_were():
    r = np.random.default_rng(0)
    support = replace(EPISODE.support, labels=r.permutation(EPISODE.support.labels))
    found = adapt(PAIR, replace(EPISODE, support=support), MEMORY, LAST)
    assert not found.guard.accepted and found.guard.reasons
    head = found.delta.head
    assert not found.delta.is_trained and head.kind == "cosine"
    assert head.counts.tolist() == np.bincount(support.labels).tolist() and head.views == 1


def test_what_all_members_are_forced_to_is_forced_however_the_joint_head_looks(monkeypatch):
    labels = np.random.default_rng(0).permutation(EPISODE.support.labels)
    wrong = replace(EPISODE, support=replace(EPISODE.support, labels=labels))
    fine = {"kept": ADAPTED, "forced": False, "reasons": ()}
    monkeypatch.setattr(committee, "judge", lambda *given, **more: replace(judge(*given, **more), **fine))
    forced, alone = (adapt(net, wrong, MEMORY, LAST, force=True).guard for net in (PAIR, FIRST))
    assert forced.kept == ADAPTED and forced.forced and forced.reasons == alone.reasons != ()


def test_classes_are_added_and_forgotten_as_with_one_network(report):
    more = toy_episode(way=4, shots=3, queries=0)
    names = (*EPISODE.class_names, "new")
    grown = add_classes(PAIR, report.delta, more.support, names)
    assert grown.class_names == names and grown.members == report.delta.members
    assert Predictor(PAIR, grown).logits(EPISODE.query).shape[1] == 4
    fewer = forget(grown, "new")
    assert fewer.class_names == EPISODE.class_names and stored(fewer.members[0].slices)


def test_images_are_checked_by_all_members_together():
    both = unit(np.concatenate([unit(Embedder(n).embed(EPISODE.support)) for n in PAIR.members], axis=1))
    found, (rows, _) = check(PAIR, EPISODE), left_out_rows(both, EPISODE.support.labels)
    assert found.estimate.n == len(EPISODE.support)
    want = find_suspects(rows, EPISODE.support, EPISODE.class_names)
    assert [s.index for s in found.suspects] == [s.index for s in want] != []
    assert [s.score for s in found.suspects] == pytest.approx([s.score for s in want], rel=1e-4)


@each("precision", ["int8", "noisy:0.1:3"])
def test_members_answer_in_the_backend_that_they_were_adapted_in(precision):
    pair = Committee((toy8(), toy8("headed")))
    found = adapt(pair, EPISODE, Budget(10**6, precision=precision), LAST, force=True)
    assert [part.precision for part in found.delta.members] == [precision, precision]
    delta = decode_delta(*decode(encode_delta(found.delta)))
    assert (Predictor(pair, delta).logits(EPISODE.query).argmax(axis=1) == found.answers.after).all()


WRONG = {
    "one network": ((FIRST,), "one network more than once"),
    "one network twice": ((FIRST, FIRST), "one network more than once"),
    "more than a file can number": (tuple(toynets.toy(seed=k) for k in range(11)), "at most 10"),
    "images of two sizes": ((FIRST, toynets.toy("headed", size=32)), "16 x 16 x 3 and 32 x 32 x 3"),
}


@each("name", WRONG)
def test_no_committee_is_made_of(name):
    members, fact = WRONG[name]
    with pytest.raises(InputError, match=fact):
        Committee(members)


def test_what_takes_one_network_says_so():
    with pytest.raises(UsageError, match=r"--replay takes one network, .* has 2"):
        adapt(PAIR, replace(EPISODE, replay=2), MEMORY, LAST)
    with pytest.raises(UsageError, match=r"learns from queries takes one network, .* has 2"):
        CommitteePlanner(PAIR, TaskShape.of(EPISODE), "transductive", Budget(10**7)).probe()


def test_a_delta_is_refused_by_other_networks_and_by_the_same_in_another_order(report):
    for other in (FIRST, Committee((SECOND, FIRST))):
        with pytest.raises(InputError, match="backbone-mismatch"):
            Predictor(other, report.delta)


DAMAGES = {
    "a single member": lambda m: m.update(members="[]"),
    "a member with another digest": lambda m: m.update(members=m["members"].replace(FIRST.digest, "0" * 64)),
    "the digest of something else": lambda m: m.update(backbone=joint_digest([FIRST.digest])),
    "no members": lambda m: m.pop("members"),
    "members that are no objects": lambda m: m.update(members="[1, 2]"),
    "a name that steers a terminal": lambda m: m.update(members=m["members"].replace("second", "\\u001b[2J")),
}


def test_a_tensor_that_belongs_to_no_member_is_refused(report):
    tensors, metadata = decode(encode_delta(report.delta))
    tensors["3.bias.values"] = np.zeros(1, np.float32)
    with pytest.raises(InputError, match=r"3\.bias\.values.* belongs to no member"):
        decode_delta(tensors, metadata)


@each("name", DAMAGES)
def test_a_damaged_file_is_refused(report, name):
    tensors, metadata = decode(encode_delta(report.delta))
    DAMAGES[name](metadata)
    with pytest.raises(InputError, match="file-damaged"):
        decode_delta(tensors, metadata)
