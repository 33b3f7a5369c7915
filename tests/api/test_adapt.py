"""Names and paths in Python: the same result as with the values that they stand for."""

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import each
from toydevices import ONE
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.base.errors import BudgetError, InputError, TinytrainError, UsageError
from tinytrain.datasets import folder_dataset, folder_episode, open_dataset
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Images
from tinytrain.episode.holding import HELD_BYTES
from tinytrain.pipeline import adapt as pipeline
from tinytrain.pipeline import add_classes as pipeline_add
from tinytrain.pipeline.toy import toy_episode, toy_network


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("api")
    write_network(root)
    write_images(root / "photos")
    return root


@pytest.fixture(scope="module")
def report(place):
    network, episode = toy_network(), folder_episode(place / "photos")
    return pipeline.adapt(network, episode, tinytrain.Budget(400_000), device=ONE)


@pytest.mark.parametrize("budget", ["400kB", 400_000, np.int64(400_000), tinytrain.Budget(400_000)])
@pytest.mark.parametrize("kind", [str, Path, folder_dataset, folder_episode])
def test_a_folder_a_dataset_and_an_episode_give_the_same_bytes(place, report, kind, budget):
    photos = kind(place / "photos")
    network = str(place / "toy.safetensors") if kind is str else toy_network()
    again = tinytrain.adapt(network, photos, budget, device=ONE)
    assert encode_delta(again.delta) == encode_delta(report.delta)


@pytest.mark.parametrize("most, reads", [(HELD_BYTES, 1), (0, 2)])
def test_images_of_an_episode_are_decoded_once_unless_they_take_too_much_memory(most, reads, monkeypatch):
    episode, seen = toy_episode(), []

    def noted(images):
        return replace(images, read=lambda i, asked: seen.append(images.names[i]) or images.read(i, asked))

    monkeypatch.setattr("tinytrain.episode.holding.HELD_BYTES", most)
    given = replace(episode, support=noted(episode.support), query=noted(episode.query))
    found = tinytrain.adapt(toy_network(), given, 400_000, device=ONE)
    counts = Counter(seen).values()
    assert len(counts) == len(episode.support) + len(episode.query)
    assert set(counts) == {1} if reads == 1 else min(counts) >= reads
    assert encode_delta(found.delta) == encode_delta(
        pipeline.adapt(toy_network(), episode, tinytrain.Budget(400_000), device=ONE).delta
    )


def test_a_report_can_be_pickled_with_its_images_its_plan_and_its_delta(place, report):
    again = pickle.loads(pickle.dumps(report))
    assert again.to_json() == report.to_json() and again._repr_html_() == report._repr_html_()
    assert encode_delta(again.delta) == encode_delta(report.delta)
    one, other = (tinytrain.Predictor(r.network, r) for r in (report, again))
    photo = str(place / "photos" / "ant" / "0-0.png")
    assert one(photo) == other(photo)


def test_what_is_handed_to_other_processes_can_be_pickled(place, report, tmp_path):
    episode = open_dataset(place / "photos").images([[0], [6]])
    for value in (report.plan, report.network, report.delta, tinytrain.Store(tmp_path), episode):
        assert isinstance(pickle.loads(pickle.dumps(value)), type(value))
    (found,) = tinytrain.Predictor(report.network, report)([pickle.loads(pickle.dumps(episode)).image(0, 16)])
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(TypeError, match="open another one in that process"):
        pickle.dumps(tinytrain.Watcher(report, report.network))


@pytest.mark.parametrize("name", [None, SHIPPED.name])
def test_the_shipped_network_has_a_name_and_is_the_default(place, name):
    assert tinytrain.adapt(name, place / "photos", policy="none").network.digest == SHIPPED.digest


@pytest.mark.parametrize("same_names", [False, True])
def test_queries_of_an_episode_that_repeat_its_support_are_left_out_and_named(same_names):
    made = toy_episode(3, 4, 4)
    n, support, query = len(made.query), made.support, made.query
    repeats = support if same_names else replace(support, names=tuple(f"again {k}" for k in support.names))
    both = Images(
        np.r_[query.labels, repeats.labels],
        (*query.names, *repeats.names),
        lambda i, size: query.read(i, size) if i < n else repeats.read(i - n, size),
    )
    report = tinytrain.adapt(toy_network(), replace(made, query=both), 400_000, "none", device=ONE)
    assert report.estimate.n == n and len(report.answers.after) == n
    assert {d.where for d in report.episode.duplicates} == {"both sides"}
    assert sorted(d.files[0] for d in report.episode.duplicates) == sorted(support.names)


def test_a_folder_is_read_without_its_damaged_images_and_says_which(tmp_path):
    photos = write_images(tmp_path / "photos")
    (photos / "ant" / "0-0.png").write_bytes((photos / "ant" / "0-0.png").read_bytes()[:100])
    (photos / "bee" / "notes.txt").write_text("hello")
    dataset = folder_dataset(photos)

    def read(i, size):
        if i == len(dataset) - 1:
            raise InputError("image-unreadable", "'cat/0-5.png' looked whole")
        return dataset.read(i, size)

    report = tinytrain.adapt(toy_network(), replace(dataset, read=read), 400_000, "none", device=ONE)
    assert report.episode.shots.tolist() == [5, 6, 5]
    skipped = report.to_json()["skipped"]
    assert [row["kind"] for row in skipped] == ["damaged", "other-kind", "damaged"]
    for row, words in zip(skipped, ("ant/0-0.png", "bee/notes.txt", "cat/"), strict=True):
        assert words in row["file"]
    assert skipped[-1]["reason"].endswith("looked whole") and report.warnings == ()


@each(
    "arguments,words",
    [
        ((3, "photos"), "network is a value of type int; give a Network, a path, or a name"),
        ((None, 3), "episode is a value of type int; give an Episode, a Dataset, or the path of a folder"),
        ((None, toy_episode(), None, 3), "policy is a value of type int; give the name of a policy"),
        ((None, toy_episode(), None, "none", 0, "numpy"), "device is a value of type str; give a Device"),
        ((None, toy_episode(), 1e6), "budget is a value of type float; give a Budget"),
        ((None, toy_episode(), True), "budget is a value of type bool; give a Budget"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_its_name(arguments, words):
    with pytest.raises(InputError, match=words):
        tinytrain.adapt(*arguments)
    for budget, wrong in (("1 bag", "'1 bag' is not a size"), (10**400, "more than any memory has")):
        with pytest.raises(UsageError, match=wrong):
            tinytrain.adapt(None, toy_episode(), budget)


def test_a_hopeless_budget_is_refused_before_any_image_is_decoded(place, monkeypatch):
    monkeypatch.setattr("tinytrain.api.opening.decoded", lambda *_: pytest.fail("images were decoded"))
    for call in (tinytrain.adapt, tinytrain.make_plan):
        with pytest.raises(BudgetError):
            call(toy_network(), place / "photos", 1000)


def test_a_folder_is_checked_as_its_images_are_and_without_its_damaged_ones(tmp_path):
    write_images(tmp_path, count=6)
    (tmp_path / "ant" / "cut.png").write_bytes((tmp_path / "ant" / "0-0.png").read_bytes()[:60])
    with pytest.warns(UserWarning, match=r"cut\.png"):
        found = tinytrain.check(toy_network(), tmp_path, device=ONE)
    (tmp_path / "ant" / "cut.png").unlink()
    whole = folder_episode(tmp_path, hold_out=0)
    again = tinytrain.check(toy_network(), whole, device=ONE)
    assert found.estimate == again.estimate and found.estimate.n == 18 and found.shots == (6, 6, 6)
    assert {s.name for s in found.suspects} == {s.name for s in again.suspects}


def test_a_predictor_takes_a_path_a_delta_or_a_report(place, report):
    path = place / "d.safetensors"
    tinytrain.save_delta(path, report.delta)
    image = next((place / "photos" / "ant").iterdir())
    network = toy_network()
    answers = [tinytrain.Predictor(network, x)(image) for x in (path, str(path), report.delta, report)]
    answers.append(tinytrain.Predictor(place / "toy.safetensors", path)(image))
    assert all(answer == answers[0] for answer in answers)


def test_a_predictor_finds_the_shipped_backbone_by_the_digest_of_its_delta(place):
    report = tinytrain.adapt(None, place / "photos", policy="none")
    predictor = tinytrain.Predictor(delta=report.delta)
    assert predictor.network.digest == SHIPPED.digest
    assert predictor(next((place / "photos" / "bee").iterdir())).name in report.delta.class_names


@each(
    "given,words",
    [
        ({}, r"no delta given; write Predictor\(delta='fruit.safetensors'\)"),
        ({"network": "mine.safetensors"}, r"no delta given; write Predictor\(delta='mine.safetensors'\)"),
        ({"delta": 3}, "delta is a value of type int; give a Delta, a Report, or the path"),
        ({"delta": "."}, r"'.' is a folder; a store gives its delta in use as Store\(...\).start\(\).delta"),
        ({"network": SHIPPED.name, "delta": "toy"}, "backbone-mismatch"),
        ({"delta": "of nothing here"}, r"backbone-not-here: .* digest 000000000000"),
    ],
)
def test_a_predictor_says_what_is_wrong_with_a_delta(report, given, words):
    deltas = {"toy": report.delta, "of nothing here": replace(report.delta, backbone="0" * 64)}
    given = {name: deltas.get(value, value) for name, value in given.items()}
    with pytest.raises(InputError, match=words):
        tinytrain.Predictor(**given)


def test_classes_are_added_from_a_folder_as_from_its_images(place, report, tmp_path):
    photos = write_images(tmp_path / "more", ("bee", "dog"), count=3, seed=70)
    dataset = folder_dataset(photos)
    images, names = dataset.images(dataset.by_class), dataset.class_names
    expected = pipeline_add.add_classes(toy_network(), report.delta, images, names)
    assert expected.class_names == ("ant", "bee", "cat", "dog")
    for given in ((photos,), (dataset,), (images, list(names))):
        grown = tinytrain.add_classes(place / "toy.safetensors", report, *given)
        assert encode_delta(grown) == encode_delta(expected)
    (photos / "dog" / "notes.txt").write_text("hello")
    with pytest.warns(UserWarning, match=r"skipped .*notes.txt") as caught:
        tinytrain.add_classes(toy_network(), report, photos)
    assert caught[0].filename == __file__
    for wrong, words in (
        ((images,), "give class_names, one for each"),
        ((photos, ["a", "b"]), "give them with Images only"),
        ((3,), "images is a value of type int; give a Dataset, or the path of a folder"),
    ):
        with pytest.raises(InputError, match=words):
            tinytrain.add_classes(toy_network(), report, *wrong)


def test_values_are_one_short_line_each(report):
    dataset = open_dataset("leaves")
    values = [report, report.episode, report.episode.support, report.network, report.delta, report.plan]
    for value in [*values, report.program, dataset, tinytrain.Budget(), tinytrain.FewShotClassifier()]:
        line = repr(value)
        name = "Report" if value is report else type(value).__name__
        assert name in line, line
        assert 10 < len(line) < 200 and line.isprintable(), line
    assert "3 classes" in repr(report) and "toy" in repr(report)


def test_every_error_of_the_front_is_one_of_ours():
    for wrong in ("missing.safetensors", "no such name"):
        with pytest.raises(TinytrainError):
            tinytrain.adapt(wrong, toy_episode())
