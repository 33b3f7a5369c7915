"""One class alone: images that are normal, without any that are not, through every command."""

import json

import numpy as np
import pytest
from commandline import tt
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.episode.episode import NormalEpisode
from tinytrain.heads.head import HeadVerdict
from tinytrain.network.file import load_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.evaluation import Answer, evaluation

BUDGET = ("--budget", "400kB")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A network, normal images, new ones, and others; the delta of the normal ones."""
    root = tmp_path_factory.mktemp("normal")
    write_network(root)
    write_images(root / "normal", ("ant",), count=12)
    write_images(root / "new", ("ant",), count=8, seed=1)
    write_images(root / "defects", ("bee", "cat"), count=5)
    assert adapted(root, "--out", root / "d.safetensors") == 0
    return root


def adapted(root, *more, folder="normal"):
    return tt("adapt", root / folder, *backbone(root), *BUDGET, "--head", "oselm-ae", *more)


def backbone(root):
    return ("--backbone", root / "toy.safetensors")


def test_what_is_normal_is_learnt_from_one_class_and_nothing_is_trained(place, capsys):
    assert adapted(place, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["policy"] == "none+oselm-ae" and result["selection"] == []
    assert result["episode"]["classes"] == ["ant"] and result["episode"]["n_query"] == 0
    assert result["estimate"]["accuracy"] is None and result["guard"]["accepted"]
    normal = result["normal"]
    assert 0.5 <= normal["accepted"] <= 1 and 0 < normal["typical"] < normal["threshold"]
    assert result["memory"]["arena"] <= 400_000
    assert adapted(place) == 0
    text = capsys.readouterr().out
    assert f"{round(12 * normal['accepted'])} of 12 images are taken for normal, each left out once" in text
    assert f"a score above {normal['threshold']:.2f} is unknown" in " ".join(text.split())


def test_an_image_is_normal_or_not_by_a_score_and_its_threshold(place, capsys):
    words = ("predict", place / "d.safetensors", *backbone(place))
    assert tt(*words, place / "new", place / "defects", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    rows, normal = result["images"], load_delta(place / "d.safetensors").head.normal()
    for row in rows:
        assert row["threshold"] == normal.threshold and row["best_guess"] == "ant"
        assert (row["verdict"] == "unknown") == (row["score"] > row["threshold"]) == (row["class"] is None)
        assert (row["confidence"] < 0.5) == (row["score"] > row["threshold"])
    found = [[r["verdict"] == "unknown" for r in rows if ("defects" in r["image"]) == bad] for bad in (0, 1)]
    assert np.mean(found[0]) <= 0.5 and np.mean(found[1]) >= 0.7, "new ones pass, defects do not"
    assert tt(*words, place / "new", place / "defects") == 0
    lines = capsys.readouterr().out.splitlines()
    known = [row for row in rows if row["class"]]
    assert len([x for x in lines if "  ant (score " in x]) == len(known)
    assert len([x for x in lines if "not ant (score " in x and f"above {normal.threshold:.2f})" in x]) == len(
        rows
    ) - len(known)
    assert tt(*words, place / "new", "--reject", "99.99%") == 0
    assert "not surely ant (score" in capsys.readouterr().out


def test_it_is_judged_by_new_images_and_by_strangers(place, capsys):
    words = ("eval", place / "d.safetensors", place / "new", *backbone(place))
    assert tt(*words, "--strangers", place / "defects", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    strangers = result["strangers"]
    assert strangers["n"] == 10 and strangers["refused"] >= 0.7 and 0.5 < strangers["area"] <= 1
    assert tt(*words, "--strangers", place / "defects") == 0
    text = capsys.readouterr().out
    assert "of ant are taken for it" in text and f"ROC curve {strangers['area']:.3f}" in text
    assert "accuracy" not in text
    assert tt(*words) == 0 and "--strangers" in capsys.readouterr().out
    assert tt("eval", place / "d.safetensors", place / "defects", *backbone(place)) == 3
    assert "--strangers" in capsys.readouterr().err


def test_the_area_is_the_probability_that_a_stranger_has_the_higher_score():
    def verdict(score):
        return HeadVerdict(0, 0.5, False, np.ones(1), "unknown" if score > 1 else "identified", score, 1.0)

    answers = [Answer(f"{s}.png", 0, 0, 0.5, "identified", s, 1.0) for s in (0.1, 0.5, 0.9)]
    found = evaluation(("a",), answers, [verdict(s) for s in (0.5, 2.0)])["strangers"]
    assert found == {"n": 2, "refused": 0.5, "area": pytest.approx((1 + 0.5 + 3) / 6)}


def test_another_class_may_be_added_and_forgotten_again(place, tmp_path, capsys):
    two, delta = tmp_path / "two.safetensors", place / "d.safetensors"
    assert tt("adapt", "--from", delta, "--add", place / "defects", "--out", two, *backbone(place)) == 0
    assert load_delta(two).class_names == ("ant", "bee", "cat")
    words = ("predict", two, place / "defects" / "bee", *backbone(place), "--json")
    capsys.readouterr()
    assert tt(*words) == 0
    rows = json.loads(capsys.readouterr().out)["images"]
    assert [row["best_guess"] for row in rows] == ["bee"] * 5 and "score" not in rows[0]
    assert tt("forget", two, "bee") == tt("forget", two, "cat") == 0
    assert "1 class remains" in capsys.readouterr().out
    left, before = load_delta(two).head, load_delta(delta).head
    assert all((left.tensors()[name] == values).all() for name, values in before.tensors().items())
    assert tt("forget", two, "ant") == 3 and "at least 1 must remain" in capsys.readouterr().err


def test_a_camera_is_watched_for_what_is_not_normal(place, tmp_path, capsys):
    store, labels = tmp_path / "store", tmp_path / "labels.csv"
    assert adapted(place, "--store", store) == 0 and tt("confirm", "--store", store) == 0
    capsys.readouterr()
    words = ("watch", store, place / "defects" / "bee", *backbone(place), "--once", "--json")
    assert tt(*words) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    seen = [row for row in rows if "verdict" in row]
    assert len(seen) == 5 and all(row["score"] > 0 and row["threshold"] > 0 for row in seen)
    assert sum(row["class"] is None for row in seen) >= 3
    labels.write_text("".join(f"{row['image']},ant\n" for row in seen))
    assert tt(*words, "--labels", labels) == 0


def test_a_plan_for_one_class_is_made_and_obeyed(place, capsys):
    plan = place / "plan.json"
    assert tt("plan", place / "normal", *backbone(place), *BUDGET, "--head", "oselm-ae", "--out", plan) == 0
    assert tt("adapt", place / "normal", *backbone(place), "--plan", plan, "--json") == 0
    assert '"normal"' in capsys.readouterr().out


def test_the_report_says_what_is_normal(place, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert adapted(place, "--report", page, "--verbose") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 class x 12 = 12" in text and "one class cannot be mistaken for another" in text
    html = page.read_text()
    assert "Normal or not" in html and "one class" in html and "NaN" not in html


@pytest.mark.parametrize("head", [(), ("--head", "lda")])
def test_a_head_that_needs_a_second_class_says_so_and_names_the_one_that_does_not(place, head, capsys):
    assert tt("adapt", place / "normal", *backbone(place), *BUDGET, *head) == 3
    error = capsys.readouterr().err
    assert "too-few-classes: 1 class given; at least 2 are needed" in error and "head oselm-ae" in error


def test_options_that_one_class_cannot_have_are_refused(place, capsys):
    assert adapted(place, "--queries", "3") == 2 and "tinytrain eval" in capsys.readouterr().err
    assert tt("check", place / "normal", *backbone(place)) == 3
    assert tt("check", place / "normal", *backbone(place), "--adapt", "--head", "oselm-ae") == 3
    assert "too-few-classes" in capsys.readouterr().err


def test_a_single_image_has_a_threshold_and_the_result_asks_for_more(place, tmp_path, capsys):
    write_images(tmp_path / "one", ("ant",), count=1)
    assert adapted(tmp_path, "--json", folder="one") == 3  # no network there
    capsys.readouterr()
    words = ("adapt", tmp_path / "one", *backbone(place), *BUDGET, "--head", "oselm-ae")
    assert tt(*words) == 0
    assert "one image does not say how far others lie from it" in " ".join(capsys.readouterr().out.split())


def test_a_delta_of_another_head_must_have_two_classes(place):
    tensors, metadata = decode((place / "d.safetensors").read_bytes())
    assert decode_delta(tensors, metadata).class_names == ("ant",)
    two = adapt(toy_network(), toy_episode(way=2), Budget(2**22), "none").delta
    tensors, metadata = decode(encode_delta(two))
    with pytest.raises(InputError, match=r"file-damaged: .*classes must be a list of 2 to"):
        decode_delta(tensors, metadata | {"classes": '["toy 0"]'})


def test_a_classifier_of_one_class_tells_what_is_not_of_it(place):
    images = [place / "normal" / "ant" / f"0-{k}.png" for k in range(12)]
    model = tinytrain.FewShotClassifier(place / "toy.safetensors", "400kB", head="oselm-ae")
    model.fit(images, ["ant"] * 12)
    assert model.predict(images[:2]).tolist() == ["ant", "ant"]
    network = load_network(place / "toy.safetensors")
    found = tinytrain.Predictor(network, model.delta_)(
        [place / "defects" / "cat" / f"0-{k}.png" for k in range(5)]
    )
    assert sum(p.verdict == "unknown" for p in found) >= 3
    with pytest.raises(InputError, match="too-few-classes"):
        tinytrain.FewShotClassifier(place / "toy.safetensors", "400kB").fit(images, ["ant"] * 12)


def test_a_task_of_one_class_is_refused_for_any_other_head():
    images = toy_episode(way=2, shots=4).support.take([0, 1, 2, 3])
    one = NormalEpisode(images, images.take([]), ("toy 0",))
    assert adapt(toy_network(), one, Budget(2**22), "none+oselm-ae").delta.class_names == ("toy 0",)
    for policy in ("none", "none+lda", "tinytrain"):
        with pytest.raises(InputError, match="too-few-classes"):
            adapt(toy_network(), one, Budget(2**22), policy)


def test_what_is_remembered_of_one_class_is_adapted_to_again(place, tmp_path):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert adapted(place, "--replay", "12", "--out", first) == 0
    assert tt("adapt", "--from", first, place / "new", "--out", second, *backbone(place)) == 0
    assert load_delta(second).head.counts.tolist() == [20]
