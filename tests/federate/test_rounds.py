"""Rounds of a server and its clients end as they should, whoever is late, killed or lies."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import each
from toyrounds import CLIENTS, NAMES, NETWORK, answers_of, asked_for, held, keys_in, recipe_for_all, run

from tinytrain import kernels
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode, read_file
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.delta.merge import merge, without
from tinytrain.federate import grid
from tinytrain.federate import task as tasks


@pytest.fixture(scope="module")
def recipe():
    return recipe_for_all()


@pytest.fixture(scope="module")
def one_round(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    return folder, *run(asked_for(), folder)


@pytest.fixture(scope="module")
def three_rounds(tmp_path_factory, recipe):
    folder = tmp_path_factory.mktemp("layers")
    return folder, *run(asked_for(recipe, 2), folder)


def heads_alone():
    """The deltas that the clients make without any server."""
    task = tasks.Task(1, 1, NETWORK.digest, "lda")
    return [decode_delta(*decode(c.answer(task, {}))) for c in CLIENTS.values()]


def test_one_round_of_heads_gives_every_client_what_merge_makes_of_files(one_round):
    _, merged, ran, fleet = one_round
    alone = merge(kernels.load(), heads_alone(), NAMES).delta
    assert encode_delta(merged) == encode_delta(alone)
    assert fleet.ended == dict.fromkeys(NAMES, encode_delta(merged))
    assert [row.name for row in ran] == ["round 1 of 1, heads"] and ran[0].answered == NAMES


def test_rounds_of_layers_average_by_images_and_the_last_one_fits_heads_to_them(three_rounds, recipe):
    folder, merged, ran, _ = three_rounds
    assert [row.name.split(", ")[1] for row in ran] == ["layers", "layers", "heads"]
    begin = tasks.arrays_of(NETWORK, recipe)
    answers = [tasks.decode_layers(p.read_bytes(), begin, "") for p in sorted((folder / "round-1").iterdir())]
    first, _ = read_file(folder / "layers-1.safetensors")
    total = sum(images for _, images in answers)
    for name in begin:
        mean = sum(arrays[name].astype(float) * images for arrays, images in answers) / total
        assert np.allclose(first[name], mean, atol=1e-6) and (first[name] != begin[name]).any()
    second, _ = read_file(folder / "layers-2.safetensors")
    assert {f"{s.layer}.{s.part}": s.values.tobytes() for s in merged.slices} == {
        name: values.tobytes() for name, values in second.items()
    }
    merged.check_backbone(NETWORK)


@each("rounds_of", ["one_round", "three_rounds"])
def test_a_client_is_taken_out_again_by_the_answer_that_the_server_keeps(request, rounds_of):
    folder, merged, ran, _ = request.getfixturevalue(rounds_of)
    kept = {name: load_delta(folder / f"round-{len(ran)}" / f"{name}.safetensors") for name in NAMES}
    rest = without(kernels.load(), merged, kept.pop("cyd"), ("all", "cyd"))
    others = [replace(delta, slices=merged.slices) for delta in kept.values()]
    assert encode_delta(rest) == encode_delta(merge(kernels.load(), others, [*kept]).delta)


def test_bytes_of_rounds_are_those_that_came_and_went(three_rounds, recipe):
    folder, _, ran, _ = three_rounds
    asked = asked_for(recipe, 2)
    layers = [asked.begin(), *(read_file(folder / f"layers-{k}.safetensors")[0] for k in (1, 2))]
    for number, (row, arrays) in enumerate(zip(ran, layers, strict=True), 1):
        sizes = [p.stat().st_size for p in (folder / f"round-{number}").iterdir()]
        assert row.bytes_in == sum(sizes)
        assert row.bytes_out == 5 * len(tasks.encode_task(asked.task(number), arrays))


def test_a_server_that_was_stopped_goes_on_and_asks_nobody_again(three_rounds, recipe, tmp_path):
    """It was killed in the second round, when two answers to it had come."""
    folder, merged, _, _ = three_rounds
    answers_of(folder, 2, NAMES[:2], tmp_path)
    for name in ("layers-1.safetensors", "rounds.json"):
        shutil.copy(folder / name, tmp_path)
    again, ran, fleet = run(asked_for(recipe, 2), tmp_path)
    assert encode_delta(again) == encode_delta(merged)
    assert [row.name for row in ran] == ["round 2 of 3, layers", "round 3 of 3, heads"]
    assert len([line for line in fleet.said if line.startswith("round 2")]) == 3


def test_a_folder_of_other_rounds_is_refused(one_round, recipe):
    with pytest.raises(InputError, match=r"run-mismatch: .* other options; name a"):
        run(asked_for(recipe, 2), one_round[0])


def test_who_never_comes_is_waited_for_until_the_deadline_and_then_left_out(one_round, tmp_path):
    answers_of(one_round[0], 1, NAMES[:3], tmp_path)
    merged, ran, _ = run(asked_for(least=3, deadline=0.01), tmp_path, ())
    assert len(merged.class_names) == 6 and ran[0].answered == NAMES[:3]


def test_too_few_answers_end_in_one_line_and_are_kept_for_the_next_start(one_round, tmp_path):
    answers_of(one_round[0], 1, NAMES[:2], tmp_path)
    with pytest.raises(InputError, match=r"round 1 of 1, heads: 2 answers came within 0.01 s, 3"):
        run(asked_for(least=3, deadline=0.01), tmp_path, ())
    merged, _, fleet = run(asked_for(), tmp_path, NAMES[1:])
    assert encode_delta(merged) == encode_delta(one_round[1])
    assert fleet.ended["bob"] == encode_delta(merged), "bob came back, and ann did not"


@each("strategy", ["median", "trimmed", "krum"])
def test_one_liar_of_five_moves_the_average_and_not_a_robust_strategy(three_rounds, recipe, strategy):
    def moved(strategy):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            answers_of(three_rounds[0], 1, NAMES, folder)
            asked = asked_for(recipe, 1, strategy=strategy)
            lie = tasks.encode_layers({name: a + 1000 for name, a in asked.begin().items()}, 12)
            (folder / "round-1" / "bob.safetensors").write_bytes(lie)
            found = asked.run_layers(held(asked, folder), 1, asked.begin())
            return max(float(np.abs(found[name] - a).max()) for name, a in asked.begin().items())

    assert moved(strategy) < 1 < 100 < moved("average")


def test_the_order_in_which_answers_come_changes_no_bit(three_rounds, recipe, tmp_path):
    class Backwards(grid.HttpGrid):
        def pull_messages(self, message_ids):
            return super().pull_messages(message_ids)[::-1]

    asked, rng = asked_for(recipe, 1), np.random.default_rng(0)
    (tmp_path / "round-1").mkdir()
    for name in NAMES:
        arrays = {k: rng.standard_normal(a.shape).astype("f") for k, a in asked.begin().items()}
        (tmp_path / "round-1" / f"{name}.safetensors").write_bytes(tasks.encode_layers(arrays, 7))
    found = [
        asked.run_layers(held(asked, tmp_path, kind=kind), 1, asked.begin())
        for kind in (grid.HttpGrid, Backwards)
    ]
    assert all(found[0][name].tobytes() == found[1][name].tobytes() for name in found[0])


def test_signed_rounds_end_as_others_and_what_was_kept_is_checked_again(three_rounds, recipe, tmp_path):
    (keys, known), asked = keys_in(tmp_path), asked_for(recipe, 2)
    merged, _, fleet = run(asked, tmp_path, keys=keys, known=known)
    assert encode_delta(merged) == encode_delta(three_rounds[1]) and len(fleet.said) == 15
    again, *_ = run(asked, tmp_path, (), known=known)
    assert encode_delta(again) == encode_delta(merged), "all answers were there"
    shutil.copy(tmp_path / "round-3/ann.safetensors", tmp_path / "round-3/bob.safetensors")
    with pytest.raises(
        InputError, match="file-damaged: bob: the answer to round 3 of 3, heads is signed by none"
    ):
        run(asked, tmp_path, (), known=known)
    (tmp_path / "round-3/bob.safetensors.sig").unlink()
    with pytest.raises(InputError, match=r"file-missing: .*bob\.safetensors\.sig"):
        run(asked, tmp_path, (), known=known)
