"""Going on without the old images: what is remembered, what it costs, and that nothing of a class is left."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from programcheck import check_program
from toydevices import ONE
from toyfiles import write_images, write_network
from toyreplay import FLOAT32, INT8, SHOTS, episode, new_images, stored

import tinytrain
from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.cli.main import main
from tinytrain.delta.classes import forget, rename
from tinytrain.delta.file import decode_delta, encode_delta, load_delta, save_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.continual import continued_episode, continued_policy
from tinytrain.pipeline.toy import toy_images
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Update
from tinytrain.program.listing import listing
from tinytrain.runtime.predict import Predictor

BUDGET, NETWORK, RECIPE = FLOAT32.budget, FLOAT32.network, FLOAT32.recipe
policy, adapted, continued = FLOAT32.policy, FLOAT32.adapted, FLOAT32.continued
KINDS = pytest.mark.parametrize("kind", [FLOAT32, INT8], ids=lambda kind: kind.precision)


def stored_again(report):
    return decode_delta(*decode(encode_delta(report.delta)))


@pytest.fixture(scope="module")
def report():
    return adapted()


@pytest.fixture(scope="module")
def delta(report):
    return stored_again(report)


@KINDS
def test_a_replay_memory_takes_the_bytes_that_the_plan_declares(kind):
    report = kind.adapted()
    memory, table = report.delta.replay, {row["name"]: row["bytes"] for row in report.program.table()}
    declared = table["kept features"] + table["kept feature ranges"]
    assert declared == memory.codes.nbytes + memory.ranges.nbytes == report.to_json()["memory"]["replay"]
    assert memory.codes.nbytes == 4 * SHOTS * np.prod(memory.codes.shape[1:]), "a byte for a value"
    assert report.plan.to_json()["task"]["replay"] == SHOTS
    assert report.plan.recipe.precision == kind.precision
    check_program(report.program)
    assert {"float32": "keep_cached", "int8": "keep_codes"}[kind.precision] in listing(report.program)


def test_without_a_replay_memory_nothing_of_it_is_in_a_delta():
    delta = adapted(replay=0).delta
    assert delta.replay is None and not any(name.startswith("replay") for name in stored(delta))
    assert "recipe" not in delta.report and "replay" not in delta.report["memory"]


@KINDS
def test_remembering_changes_nothing_of_the_adaptation_itself(kind):
    plain, kept = stored(kind.adapted(replay=0).delta), stored(kind.adapted().delta)
    assert {name: values for name, values in kept.items() if not name.startswith("replay")} == plain


@pytest.mark.parametrize("replay", [1, 3, 100])
def test_so_many_images_of_each_class_are_remembered_or_all(replay):
    found = adapted(replay=replay).delta.replay
    assert np.bincount(found.labels).tolist() == [min(replay, SHOTS)] * 4
    assert (np.diff(found.labels) >= 0).all() and len(np.unique(found.codes, axis=0)) == len(found)


@KINDS
def test_old_classes_are_known_after_going_on_and_their_features_are_the_same_bits(kind):
    delta = stored_again(kind.adapted())
    result = kind.continued(delta, new_images(4), ("new",))
    check_program(result.program)
    after = result.delta
    assert after.precision == kind.precision
    assert ("recall_codes" in listing(result.program)) == (kind is INT8)
    assert after.class_names == (*delta.class_names, "new") and not after.replay.codes.flags.owndata
    assert np.bincount(after.replay.labels).tolist() == [SHOTS] * 5
    old = after.replay.labels < 4
    assert after.replay.codes[old].tobytes() == delta.replay.codes.tobytes()
    assert after.replay.ranges[old].tobytes() == delta.replay.ranges.tobytes()
    before = {(s.layer, s.part): s.channels.tolist() for s in delta.slices}
    assert {(s.layer, s.part): s.channels.tolist() for s in after.slices} == before, "it trains the same"
    queries = toy_images(np.repeat(np.arange(5), 6), seed=77)
    right = Predictor(kind.network, after).logits(queries).argmax(axis=1) == queries.labels
    naive = Predictor(kind.network, delta).logits(queries).argmax(axis=1) == queries.labels
    assert right[queries.labels == 4].any() and right.mean() > naive.mean() - 0.1


def test_a_new_image_is_read_and_an_old_one_never(delta):
    read = []
    images = new_images(4)
    watched = replace(images, read=lambda i, size: read.append(i) or images.read(i, size))
    found = continued_episode(delta, watched, ("new",))
    adapt(NETWORK, found, BUDGET, continued_policy(delta), device=ONE, force=True)
    assert set(read) == set(range(SHOTS))
    with pytest.raises(InputError, match="file-missing"):
        found.support.image(SHOTS, 16)


def test_images_of_an_old_class_join_it_and_as_many_are_remembered_as_before(delta):
    after = continued(delta, new_images(1, 3), ("toy 1",)).delta
    assert after.class_names == delta.class_names
    assert np.bincount(after.replay.labels).tolist() == [SHOTS] * 4


@KINDS
@each("head", ["lda", "cosine", "mild-lda"])
def test_to_forget_and_adapt_again_is_never_to_have_seen_the_class(kind, head):
    """Bit for bit, in the head and in the trained weights."""
    recipe = replace(kind.recipe, head=head)
    forgotten = kind.continued(forget(kind.adapted(recipe=recipe).delta, "toy 3")).delta
    never = kind.continued(kind.adapted(way=3, recipe=recipe).delta).delta
    assert stored(forgotten) == stored(never) and forgotten.slices
    assert "forgotten" not in forgotten.report and "toy 3" not in json.dumps(forgotten.report)


def test_forgetting_drops_the_features_of_the_class(delta):
    memory = forget(delta, "toy 1").replay
    assert np.bincount(memory.labels).tolist() == [SHOTS] * 3
    expected = delta.replay.codes[delta.replay.labels != 1]
    assert memory.codes.tobytes() == expected.tobytes()
    assert encode_delta(rename(rename(delta, "toy 1", "x"), "x", "toy 1")) == encode_delta(delta)


@KINDS
def test_added_classes_are_remembered_as_an_adaptation_would(kind):
    delta = kind.adapted().delta
    grown = add_classes(kind.network, delta, new_images(4), ("new",))
    assert np.bincount(grown.replay.labels).tolist() == [SHOTS] * 5
    trained = kind.continued(delta, new_images(4), ("new",)).delta
    clean = [d.replay.codes[d.replay.labels == 4] for d in (grown, trained)]
    assert sorted(c.tobytes() for c in clean[0]) == sorted(c.tobytes() for c in clean[1])
    assert kind.continued(grown).delta.class_names == (*delta.class_names, "new")


@pytest.mark.parametrize("sets", [1, 3])
def test_it_also_works_with_few_cached_views_and_small_steps(delta, sets):
    found = continued_episode(delta, new_images(4), ("new",))
    recipe = replace(RECIPE, views=sets)
    result = adapt(NETWORK, found, BUDGET, policy(recipe), device=ONE, force=True)
    check_program(result.program)
    assert result.delta.replay is not None and result.delta.is_finite()


@KINDS
def test_a_head_alone_goes_on_too(kind):
    delta = kind.adapted(recipe=replace(kind.recipe, updates=(), rates=(), steps=0)).delta
    after = kind.continued(delta, new_images(4), ("new",)).delta
    assert not after.slices and len(after.class_names) == 5 and len(after.replay) == 5 * SHOTS


def test_the_replay_memory_is_of_the_bytes_of_the_budget():
    with pytest.raises(
        BudgetError, match=r"or remember less: \d+ of the bytes .* 16 images, 4 of each class"
    ):
        adapt(NETWORK, episode(), Budget(4000), policy(), device=ONE)


def test_training_from_the_image_on_can_remember_only_images():
    recipe = replace(RECIPE, updates=(Update(0, (1,)),), rates=((1e-3, 1e-3),))
    with pytest.raises(UsageError, match="unsupported"):
        adapted(recipe=recipe)


def test_a_delta_that_remembers_nothing_cannot_go_on():
    delta = adapted(replay=0).delta
    with pytest.raises(InputError, match="no-replay: the delta remembers no image of its 4 classes"):
        continued_episode(delta, new_images(4), ("new",))
    with pytest.raises(InputError, match="no-replay"):
        continued_policy(delta)


def test_a_class_that_is_not_remembered_is_named(delta):
    lost = replace(delta, replay=delta.replay.without(3))
    with pytest.raises(InputError, match="no-replay: class 'toy 3' has 0 images in the replay memory"):
        continued_episode(lost)


def test_features_of_another_shape_are_refused(delta):
    memory = delta.replay
    narrow = replace(memory, codes=memory.codes[..., :3])
    for wrong in (narrow, *(replace(memory, layer=layer) for layer in (7, 9, 900))):
        with pytest.raises(InputError, match="file-damaged: the replay memory holds"):
            Predictor(NETWORK, replace(delta, replay=wrong))


def test_a_recipe_in_a_delta_is_checked(delta):
    for facts in ({}, {**delta.report["recipe"], "steps": -1}, []):
        with pytest.raises(InputError, match="file-damaged"):
            continued_policy(replace(delta, report={**delta.report, "recipe": facts}))


SHAPES = r"replay\.\w+ is .*; codes must be"
VALUES = "labels of the replay memory must be 0 to 3, its layer at least 1, and its steps"
REPLAYS = {
    "no labels": (lambda t: t.pop("replay.labels"), "replay.labels is missing"),
    "no layer": (lambda t: t.pop("replay.layer"), "replay.layer is missing"),
    "one tensor more": (lambda t: t.update({"replay.more": t["replay.layer"]}), "is no part of a delta"),
    "codes as floats": (
        lambda t: t.update({"replay.codes": t["replay.codes"].astype("f4")}),
        "replay.codes is float32",
    ),
    "codes in a row": (lambda t: t.update({"replay.codes": t["replay.codes"].reshape(-1)}), SHAPES),
    "no images": (
        lambda t: t.update({f"replay.{n}": t[f"replay.{n}"][:0] for n in ("codes", "ranges", "labels")}),
        SHAPES,
    ),
    "images of no size": (lambda t: t.update({"replay.codes": t["replay.codes"][:, :0].copy()}), SHAPES),
    "one label less": (lambda t: t.update({"replay.labels": t["replay.labels"][1:].copy()}), SHAPES),
    "a label too many": (lambda t: t["replay.labels"].__setitem__(0, 4), VALUES),
    "a label below 0": (lambda t: t["replay.labels"].__setitem__(0, -1), VALUES),
    "labels in two rows": (lambda t: t.update({"replay.labels": t["replay.labels"].reshape(2, -1)}), SHAPES),
    "a step below 0": (lambda t: t["replay.ranges"].__setitem__((0, 1), -1), VALUES),
    "an infinite range": (
        lambda t: t["replay.ranges"].__setitem__((0, 1), np.inf),
        "^delta-not-finite: .*holds NaN or infinity",
    ),
    "the image itself": (lambda t: t["replay.layer"].__setitem__(0, 0), VALUES),
    "two layers": (lambda t: t.update({"replay.layer": np.array([6, 6], np.int32)}), SHAPES),
}


@each("name", REPLAYS)
def test_a_malformed_replay_memory_is_refused_for_what_is_wrong(delta, name):
    damage, said = REPLAYS[name]
    tensors, metadata = decode(encode_delta(delta))
    tensors = {key: array.copy() for key, array in tensors.items()}
    damage(tensors)
    code = "" if said.startswith("^") else "^file-damaged: .*"
    with pytest.raises(InputError, match=code + said):
        decode_delta(tensors, metadata)


def test_a_replay_memory_survives_the_file_bit_for_bit(report, delta):
    for ours, theirs in zip(report.delta.replay.arrays(), delta.replay.arrays(), strict=True):
        assert ours.tobytes() == theirs.tobytes() and ours.shape == theirs.shape
    assert encode_delta(delta) == encode_delta(report.delta)


def test_the_commands_go_on_forget_and_adapt_again(tmp_path, capsys):
    network = write_network(tmp_path)
    write_images(tmp_path / "photos")
    write_images(tmp_path / "more", classes=("dog",), seed=1)
    first, second, third = (tmp_path / f"{k}.safetensors" for k in (1, 2, 3))
    common = ("--backbone", str(network), "--force", "--json", "--quiet")
    photos, more = str(tmp_path / "photos"), str(tmp_path / "more")
    assert main(["adapt", photos, "--queries", "0", "--replay", "3", "--out", str(first), *common]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["replay"] > 0
    assert main(["adapt", "--from", str(first), more, "--out", str(second), *common]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["episode"]["classes"] == ["ant", "bee", "cat", "dog"]
    assert result["episode"]["n_support"] == 3 * 3 + 6
    assert main(["forget", str(second), "bee", "--out", str(third)]) == 0
    assert "'tinytrain adapt --from' does so" in " ".join(capsys.readouterr().out.split())
    page = str(tmp_path / "r.html")
    assert main(["adapt", "--from", str(third), "--out", str(third), "--report", page, *common]) == 0
    assert load_delta(third).class_names == ("ant", "cat", "dog")
    assert load_delta(third).report["forgotten"] == {"classes": 1, "traces": []}
    plain = tmp_path / "plain.safetensors"
    assert main(["adapt", photos, "--out", str(plain), *common]) == 0
    capsys.readouterr()
    before = second.read_bytes()
    assert main(["adapt", "--from", str(plain), more, "--out", str(second), *common[:2]]) == 3
    assert "no-replay" in capsys.readouterr().err and second.read_bytes() == before


def test_python_adapts_again_to_names_and_paths(delta, tmp_path):
    network = write_network(tmp_path)
    save_delta(tmp_path / "d.safetensors", delta)
    report = tinytrain.adapt_again(
        network, tmp_path / "d.safetensors", new_images(4), ("new",), 2**22, force=True
    )
    assert stored(report.delta) == stored(continued(delta, new_images(4), ("new",)).delta)
    again = tinytrain.adapt_again(network, tinytrain.forget(report, "new"), budget="4MB", force=True)
    assert again.delta.report["forgotten"] == {"classes": 1, "traces": []}, "a store removes what was before"
    assert again.with_warnings("slow").delta.report["forgotten"] == again.delta.report["forgotten"]
    assert again.delta.class_names == delta.class_names
    photos = write_images(tmp_path / "photos", classes=("dog",))
    (photos / "dog" / "notes.txt").write_text("hello")
    episode = tinytrain.adapt_again(network, delta, photos).episode
    assert episode.class_names[-1] == "dog" and episode.skipped[0].file.endswith("dog/notes.txt")


def test_a_plan_is_for_what_is_kept(delta):
    plan = adapt(NETWORK, episode(), BUDGET, policy(), device=ONE, force=True).plan
    with pytest.raises(
        InputError, match=r"run-mismatch: .* features of 4 images of each class to keep, here are"
    ):
        adapt(NETWORK, episode(replay=0), BUDGET, plan, device=ONE)
    again = adapt(
        NETWORK, episode(), BUDGET, type(plan).from_json(json.loads(json.dumps(plan.to_json()))), device=ONE
    )
    assert again.plan == plan


def test_an_adaptation_that_the_guard_refuses_still_remembers(delta):
    harmful = replace(RECIPE, rates=((1e3, 1e3),) * 2)
    report = adapt(NETWORK, episode(), BUDGET, policy(harmful), device=ONE)
    assert not report.guard.accepted and not report.delta.slices
    assert report.delta.replay.codes.tobytes() == delta.replay.codes.tobytes()
