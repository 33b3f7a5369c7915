"""Going on in int8: what is remembered are the codes of the layer where training begins."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from commandline import tt
from int8nets import toy8
from integernet import Integers
from programcheck import check_program
from toydevices import ONE
from toyfiles import write_images
from toyreplay import SHOTS, episode, new_images, stored

from tinytrain.base.errors import BudgetError
from tinytrain.base.safetensors import decode
from tinytrain.delta.classes import forget
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.network.file import save_network
from tinytrain.network.quantisation import Codes
from tinytrain.network.replay import int8_codes, range_of, remembered_codes
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.continual import continued_episode, continued_policy
from tinytrain.pipeline.toy import toy_images
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy
from tinytrain.program.listing import listing
from tinytrain.runtime.predict import Predictor

NETWORK, CUT = toy8(), 6
INT8, FLOAT32 = (Budget(2**22, precision=precision) for precision in ("int8", "float32"))
UPDATES = (Update(6, (0, 2, 3), bias=True), Update(14, (1, 2, 5), bias=True))
RECIPE = Recipe("test", UPDATES, ((1e-2, 1e-2),) * 2, steps=4, head="lda", views=3)


def policy(recipe: Recipe = RECIPE) -> Policy:
    return Policy("test", lambda *_: recipe, "none", macs_limited=False, shrinks=False)


def adapted(way: int = 4, replay: int = SHOTS, recipe: Recipe = RECIPE, budget: Budget = INT8):
    return adapt(NETWORK, episode(way, replay), budget, policy(recipe), device=ONE, force=True)


def continued(delta, *more, budget: Budget = INT8):
    found = continued_episode(delta, *more)
    return adapt(NETWORK, found, budget, continued_policy(delta), device=ONE, force=True)


@pytest.fixture(scope="module")
def report():
    return adapted()


@pytest.fixture(scope="module")
def delta(report):
    return decode_delta(*decode(encode_delta(report.delta)))


def test_what_is_remembered_are_the_codes_of_an_oracle_in_whole_numbers(delta):
    memory, oracle, support = delta.replay, Integers(NETWORK), episode().support
    images = [support.image(i, NETWORK.input.shape) for i in range(len(support))]
    found = {oracle.run(oracle.pixels(image), 0, CUT - 1)[-1].astype(np.int8).tobytes() for image in images}
    assert memory.layer == CUT and len(memory) == len(found) == 4 * SHOTS
    assert {(code ^ 128).tobytes() for code in memory.codes} == found
    codes = NETWORK.quantisation.given(CUT - 1)
    values = memory.ranges[:, :1] + memory.ranges[:, 1:] * memory.codes.reshape(len(memory), -1)
    meant = codes.scale * ((memory.codes ^ 128).view(np.int8).reshape(len(memory), -1) - float(codes.zero))
    np.testing.assert_allclose(values, meant, atol=1e-5)


def test_a_replay_memory_takes_the_bytes_that_the_plan_declares(report):
    memory, table = report.delta.replay, {row["name"]: row["bytes"] for row in report.program.table()}
    declared = table["kept features"] + table["kept feature ranges"]
    assert declared == memory.codes.nbytes + memory.ranges.nbytes == report.to_json()["memory"]["replay"]
    assert memory.codes.nbytes == 4 * SHOTS * np.prod(memory.codes.shape[1:]), "a byte for a value"
    assert "remembered feature ranges" not in table and report.plan.recipe.precision == "int8"
    check_program(report.program)
    assert "keep_codes" in listing(report.program)


def test_a_small_budget_holds_a_replay_memory_or_says_what_it_takes():
    with pytest.raises(BudgetError, match=r"or remember less: \d+ of the bytes .* 16 images") as caught:
        adapted(budget=Budget(4000, precision="int8"))
    least = Budget(caught.value.smallest, precision="int8")
    report = adapted(budget=least)
    assert report.program.nbytes <= least.memory and len(report.delta.replay) == 4 * SHOTS
    check_program(report.program)


def test_remembering_changes_nothing_of_the_adaptation_itself(delta):
    plain = stored(adapted(replay=0).delta)
    assert {name: values for name, values in stored(delta).items() if not name.startswith("replay")} == plain


def test_old_classes_are_known_after_going_on_and_their_features_are_the_same_bits(delta):
    result = continued(delta, new_images(4), ("new",))
    check_program(result.program)
    after = result.delta
    assert after.precision == "int8" and "recall_codes" in listing(result.program)
    assert np.bincount(after.replay.labels).tolist() == [SHOTS] * 5
    old = after.replay.labels < 4
    assert after.replay.codes[old].tobytes() == delta.replay.codes.tobytes()
    assert after.replay.ranges[old].tobytes() == delta.replay.ranges.tobytes()
    queries = toy_images(np.repeat(np.arange(5), 6), seed=77)
    right = Predictor(NETWORK, after).logits(queries).argmax(axis=1) == queries.labels
    naive = Predictor(NETWORK, delta).logits(queries).argmax(axis=1) == queries.labels
    assert right[queries.labels == 4].any() and right.mean() > naive.mean() - 0.1


def test_it_trains_on_what_is_remembered_without_an_image(delta):
    result = continued(delta)
    assert result.delta.slices and np.isfinite(result.ran.losses).all() and len(result.ran.losses) == 4
    assert result.delta.replay.codes.tobytes() == delta.replay.codes.tobytes()


@pytest.mark.parametrize("head", ["lda", "cosine"])
def test_to_forget_and_adapt_again_is_never_to_have_seen_the_class(head):
    recipe = replace(RECIPE, head=head)
    forgotten = continued(forget(adapted(recipe=recipe).delta, "toy 3")).delta
    never = continued(adapted(way=3, recipe=recipe).delta).delta
    assert stored(forgotten) == stored(never) and forgotten.slices


def test_added_classes_are_remembered_as_an_adaptation_would(delta):
    grown = add_classes(NETWORK, delta, new_images(4), ("new",))
    assert np.bincount(grown.replay.labels).tolist() == [SHOTS] * 5
    trained = continued(delta, new_images(4), ("new",)).delta
    clean = [d.replay.codes[d.replay.labels == 4] for d in (grown, trained)]
    assert sorted(c.tobytes() for c in clean[0]) == sorted(c.tobytes() for c in clean[1])
    assert grown.replay.ranges.tobytes() == trained.replay.ranges.tobytes()
    assert continued(grown).delta.class_names == (*delta.class_names, "new")


def test_a_head_alone_goes_on_too():
    delta = adapted(recipe=replace(RECIPE, updates=(), rates=(), steps=0)).delta
    after = continued(delta, new_images(4), ("new",)).delta
    assert not after.slices and len(after.class_names) == 5 and len(after.replay) == 5 * SHOTS


def test_a_memory_of_either_precision_goes_on_in_the_other(delta):
    after = continued(delta, new_images(4), ("new",), budget=FLOAT32).delta
    assert after.precision == "float32"
    old = after.replay.labels < 4
    assert after.replay.codes[old].tobytes() == delta.replay.codes.tobytes(), "nothing is rounded"
    wide = adapted(budget=FLOAT32).delta
    after = continued(wide, new_images(4), ("new",)).delta
    assert after.precision == "int8" and after.replay.codes.tobytes() != wide.replay.codes.tobytes()
    codes, old = NETWORK.quantisation.given(CUT - 1), after.replay.labels < 4
    meant, kept = (
        r.ranges[:, 0, None, None, None] + r.ranges[:, 1, None, None, None] * r.codes
        for r in (wide.replay, after.replay)
    )
    low, high = (codes.scale * (end - codes.zero) for end in (-128, 127))
    assert np.abs(np.clip(meant, low, high) - kept[old]).max() <= 0.501 * codes.scale


def test_the_commands_go_on_in_the_precision_that_is_asked_for(tmp_path, capsys):
    save_network(NETWORK, tmp_path / "net.safetensors")
    photos = write_images(tmp_path / "photos")
    more = write_images(tmp_path / "more", classes=("dog",), seed=1)
    first, second, third = (tmp_path / f"{k}.safetensors" for k in (1, 2, 3))
    common = ("--backbone", tmp_path / "net.safetensors", "--force", "--precision", "int8")
    assert tt("adapt", photos, "--queries", 0, "--replay", 3, "--out", first, *common) == 0
    assert tt("adapt", "--from", first, more, "--out", second, *common) == 0
    out = capsys.readouterr().out
    assert out.count("; trained in int8") == 2 and out.count("remembered") == 2
    assert tt("adapt", "--from", second, "--out", third, *common[:-1], "float32") == 0
    after = [load_delta(path) for path in (first, second, third)]
    assert [delta.precision for delta in after] == ["int8", "int8", "float32"]
    assert after[2].class_names == ("ant", "bee", "cat", "dog")
    assert np.array_equal(after[2].replay.codes, after[1].replay.codes)


@each("scale", [1e-11, 0.0234, 1.0, 3.7e11])
@each("zero", [-128, -3, 127])
def test_codes_come_back_as_they_were(scale, zero):
    codes = Codes(scale, zero)
    given = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)
    kept, again = np.empty_like(given, np.uint8), np.empty_like(given)
    remembered_codes(kept, given)
    int8_codes(again, kept, np.array(range_of(codes), np.float32), codes)
    assert np.array_equal(again, given)
