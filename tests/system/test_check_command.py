"""``tinytrain check`` on folders, and what `adapt` holds out of a folder without being asked."""

import json
import shutil
from dataclasses import replace

import pytest
from toyfiles import write_images, write_network

from tinytrain.cli.main import main
from tinytrain.guard.suspects import Suspect
from tinytrain.pipeline.check import check
from tinytrain.pipeline.networks import Compared
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.report.outlook import render

CLASSES = ("ant", "bee", "cat")
QUESTIONS = ["images", "accuracy", "confused", "suspects", "duplicates", "enough", "next"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("check")
    write_network(place)
    write_images(place / "few", CLASSES, count=6)
    write_images(place / "many", CLASSES, count=40)
    write_images(place / "wrong", CLASSES, count=8)
    shutil.move(place / "wrong/ant/0-3.png", place / "wrong/cat/moved.png")
    return place


@pytest.fixture
def tt(place, capsys):
    """Runs a command on a folder of `place`: exit code, stdout, stderr."""

    def run(command, folder, *more):
        capsys.readouterr()
        arguments = (command, place / folder, "--backbone", place / "toy.safetensors", *more)
        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return run


def test_a_line_answers_each_question_and_nothing_is_written(tt, place):
    before = sorted(place.rglob("*"))
    code, out, err = tt("check", "few")
    assert code == 0 and err == "" and sorted(place.rglob("*")) == before
    assert [line[:12].strip() for line in out.splitlines() if line[0] != " "] == QUESTIONS
    assert "95 % interval" in " ".join(out.split()) and "18 of 3 classes, 6 of each" in out


def test_with_json_the_same_is_one_object(tt):
    code, out, _ = tt("check", "few", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["backbone"] == "toy" and facts["shots"] == [6, 6, 6]
    e, more = facts["estimate"], facts["five_more"]
    assert e["low"] <= e["accuracy"] <= e["high"] and (e["method"], e["n"]) == ("cross-validation", 18)
    assert more["low"] <= more["gain"] <= more["high"] and more["images"] == 5
    assert facts["next_class"]["name"] in CLASSES and facts["duplicates"] == []


def test_an_image_in_the_wrong_folder_is_named_with_both_classes(tt):
    _, out, _ = tt("check", "wrong", "--json")
    suspects = json.loads(out)["suspects"]
    assert ("cat/moved.png", "cat", "ant") in [(s["name"], s["given"], s["looks_like"]) for s in suspects]
    _, text, _ = tt("check", "wrong")
    assert "cat/moved.png looks like ant" in text


def test_every_image_is_looked_at_unless_shots_say_less(tt):
    for more, shots in ((), 40), (("--shots", 4), 4):
        _, out, _ = tt("check", "many", *more, "--json")
        assert json.loads(out)["shots"] == [shots] * 3


def test_the_same_seed_gives_the_same_answer(tt):
    assert tt("check", "few", "--json")[1] == tt("check", "few", "--json", "--threads", 2)[1]


def test_with_adapt_the_estimate_is_that_of_real_adaptations(tt):
    code, out, _ = tt("check", "few", "--adapt", "--policy", "last_layer", "--budget", "4MB", "--json")
    e = json.loads(out)["estimate"]
    assert code == 0 and (e["network"], e["folds"], e["n"]) == ("adapted", 3, 18)


def test_with_adapt_every_image_is_judged_also_one_that_is_there_twice(tt, place):
    shutil.copytree(place / "few", place / "copies")
    for k in range(3):
        shutil.copy(place / f"few/ant/0-{k}.png", place / f"copies/ant/copy-{k}.png")
    code, out, _ = tt("check", "copies", "--adapt", "--policy", "none", "--budget", "4MB", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["estimate"]["n"] == 21 and len(facts["duplicates"]) == 3


@pytest.mark.parametrize(
    "more, what",
    [
        (("--budget", "2MB"), "--budget has no effect without --adapt"),
        (("--policy", "full"), "--policy has no effect without --adapt"),
        (("--queries", 3), "--queries has no effect: "),
        (("--adapt", "--queries", 3), "--queries has no effect: "),
    ],
)
def test_an_option_without_effect_is_a_usage_error(tt, more, what):
    code, out, err = tt("check", "few", *more)
    assert code == 2 and what in err and out == "" and len(err.splitlines()) == 1


def test_single_images_are_not_said_to_be_told_apart(tt, place):
    write_images(place / "single", CLASSES, count=1)
    _, out, _ = tt("check", "single")
    for question in ("confused", "suspects"):
        assert next(line for line in out.splitlines() if line.startswith(question)).split()[1] == "unknown:"


def test_text_stays_short_whatever_was_found():
    found = check(toy_network(), toy_episode(5, 6, 0))
    suspects = tuple(Suspect(k, f"{k}.jpg", "a", "b", "mislabelled", 2.0) for k in range(50))
    pair = {"files": ["a.jpg", "b.jpg"], "classes": ["a", "b"], "where": "several classes"}
    left_out = found.left_out._replace(repeated=0.22)
    found = replace(found, suspects=suspects, duplicates=(pair,) * 30, left_out=left_out)
    assert found.to_json()["repeated"] == 0.22
    text = render(found)
    assert "22% of the images are recognised only because others nearly repeat them" in " ".join(text.split())
    assert len(text.splitlines()) <= 12 and max(map(len, text.splitlines())) <= 100
    assert text.count(" more (--verbose)") == 2
    assert "a.jpg = b.jpg (one label is wrong)" in text
    everything = " ".join(render(found, verbose=True).split())
    assert everything.count("looks like b") == 50 and everything.count("a.jpg = b.jpg") == 30


def test_other_networks_take_two_lines_and_nothing_is_said_of_none():
    found = check(toy_network(), toy_episode(5, 6, 0))
    assert "networks" not in render(found)
    names = ("net", "tinytrain-small-2", "mcunet-5fps")
    rows = [
        Compared(("net",), 0.7, 0.0, 0.05, 1.0),
        Compared(names[1:], 0.8, 0.1, 0.05, 2.0),
        Compared(names[1:2], 0.75, 0.05, 0.05, 1.1),
        Compared(names, 0.79, 0.09, 0.05, 3.0),
    ]
    rows += [Compared((*names[:1], name), 0.7, 0.0, 0.05, 2.0) for name in names[1:]]
    found = replace(found, networks=tuple(rows))
    lines = render(found).splitlines()
    assert len(lines) <= 14 and max(map(len, lines)) <= 100
    text = " ".join(render(found).split())
    best = "small+medium: +10 points (95 % interval +0 to +20) in 2.0 times the time"
    other = "net+small+medium: +9 points (95 % interval -1 to +19) in 3.0 times the time"
    assert text.endswith(f"networks --backbone auto would take {best}; {other}")
    rows[0], rows[2] = replace(rows[2], gain=0), rows[0]
    text = " ".join(render(replace(found, networks=tuple(rows[:1] + rows[2:]))).split())
    assert "--backbone auto would take small as well; net+small+medium: +9" in text


@pytest.mark.parametrize(
    "gain, words",
    [((0.01, -0.02, 0.04), "yes: 5 more images"), ((0.03, -0.02, 0.08), "perhaps: 5 more"),
     ((0.03, 0.01, 0.05), "no: 5 more images of every class would bring +3 points of accuracy (95 % ")],
)  # fmt: skip
def test_what_more_images_bring_is_judged_in_words(gain, words):
    found = check(toy_network(), toy_episode(5, 6, 0))
    mid, low, high = gain
    found = replace(found, gain=replace(found.gain, gain=mid, low=low, high=high))
    text = " ".join(render(found).split())
    assert words in text and ("if you take more, photograph" in text) == words.startswith("yes")


# ---- adapt -------------------------------------------------------------------------------------


def adapted(tt, folder, *more):
    code, out, _ = tt("adapt", folder, "--policy", "last_layer", "--budget", "4MB", *more, "--json")
    assert code == 0
    return json.loads(out)


def test_adapt_holds_out_a_fifth_of_many_images_and_its_estimate_is_their_accuracy(tt):
    facts = adapted(tt, "many", "--force")
    assert facts["episode"]["shots"] == [32] * 3 and facts["episode"]["n_query"] == 24
    assert "all but a fifth" in facts["episode"]["source"]
    e = facts["estimate"]
    assert (e["method"], e["network"], e["n"], e["folds"]) == ("held-out", "adapted", 24, None)
    assert e["accuracy"] == facts["accuracy"]["after"] and e["low"] <= e["accuracy"] <= e["high"]


def test_adapt_holds_out_none_of_few_images_or_if_it_is_told_so(tt):
    for facts in (adapted(tt, "few"), adapted(tt, "many", "--queries", 0)):
        assert facts["episode"]["n_query"] == 0 and facts["estimate"]["method"] == "cross-validation"
        assert facts["estimate"]["n"] == facts["episode"]["n_support"]


def test_a_plan_is_for_the_images_that_adapt_would_take(tt, place):
    plan = place / "plan.json"
    assert tt("plan", "many", "--policy", "last_layer", "--budget", "4MB", "--out", plan)[0] == 0
    code, out, _ = tt("adapt", "many", "--plan", plan, "--json")
    assert code == 0 and json.loads(out)["episode"]["shots"] == [32] * 3
