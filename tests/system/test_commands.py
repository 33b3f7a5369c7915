"""Every command from files to files, as a user runs it; toy networks and images."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from commandline import tt
from PIL import Image
from toyfiles import write_images, write_network

from tinytrain.base.answer import with_old_keys
from tinytrain.delta.delta import apply
from tinytrain.delta.file import load_delta
from tinytrain.network.file import encode_network, load_network


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a network, images to adapt to and to judge by, and an adaptation."""
    place = tmp_path_factory.mktemp("place")
    write_network(place)
    write_images(place / "photos", count=8)
    write_images(place / "held", count=5, seed=50)
    arguments = ["--policy", "last_layer", "--shots", 6, "--out", place / "d.safetensors"]
    assert tt("adapt", place / "photos", *arguments, "--backbone", place / "toy.safetensors") == 0
    return place


def adapt_arguments(place, *more):
    return (
        "adapt",
        place / "photos",
        "--backbone",
        place / "toy.safetensors",
        "--policy",
        "last_layer",
        *more,
    )


def test_adapt_prints_the_report_that_the_delta_carries_and_how_long_it_took(place, answer, tmp_path):
    facts = answer(*adapt_arguments(place, "--shots", 6, "--out", tmp_path / "x.safetensors"))
    assert facts.pop("seconds")["total"] > 0 and facts.pop("threads")["lanes"] >= 1
    assert facts.pop("command")[:2] == ["tinytrain", "adapt"] and facts.pop("versions").keys() >= {"numpy"}
    assert len(facts.pop("queries")) == 6 and len(facts.pop("layers")) > 5
    assert facts.pop("skipped") == facts.pop("duplicates") == []
    assert facts.pop("estimate")["method"] == "held-out"
    assert facts == load_delta(tmp_path / "x.safetensors").report
    assert facts["episode"]["shots"] == [6, 6, 6] and facts["accuracy"]["n_query"] == 6
    assert facts["episode"]["classes"] == ["ant", "bee", "cat"] and facts["warnings"] == []


def test_queries_limits_the_images_to_judge_by(place, answer):
    assert (
        answer(*adapt_arguments(place, "--shots", 3, "--queries", 2, "--force"))["accuracy"]["n_query"] == 6
    )


def test_adapt_to_the_generated_domain_needs_no_files_of_ones_own(place, answer):
    options = ["--way", 2, "--shots", 2, "--queries", 1, "--policy", "none"]
    facts = answer("adapt", "--backbone", place / "toy.safetensors", *options, "--episode", 3)
    assert facts["episode"]["source"] == "meters: 2-way 2-shot, 1 queries, seed 0, episode 3"
    for data, way in ((), "meters: 10-way"), (("--data", "leaves"), "leaves: 5-way"):
        facts = answer("adapt", "--backbone", place / "toy.safetensors", *data, *options[2:])
        assert facts["episode"]["source"] == f"{way} 2-shot, 1 queries, seed 0, episode 0"


def test_report_files_say_what_json_says(place, answer, tmp_path):
    for suffix in ("html", "json", "txt"):
        facts = answer(*adapt_arguments(place, "--shots", 6, "--report", tmp_path / f"r.{suffix}"))
    page = (tmp_path / "r.html").read_text()
    assert page.count("<img") >= 18, "every support image"
    for start in range(page.count("<svg")):
        drawing = page.split("<svg")[start + 1].split("</svg>")[0]
        ElementTree.fromstring(f"<svg{drawing}</svg>")
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["selection"] == facts["selection"] and stored["accuracy"] == facts["accuracy"]
    assert facts["command"][-2:] == [str(tmp_path / "r.txt"), "--json"]
    assert stored["command"][-2:] == [str(tmp_path / "r.json"), "--json"]
    assert f"{facts['memory']['arena']:,}" in (tmp_path / "r.txt").read_text()


def test_plan_announces_what_adapt_then_does(place, answer):
    options = [place / "photos", "--backbone", place / "toy.safetensors", "--policy", "tinytrain_published"]
    plan, report = answer("plan", *options), answer("adapt", *options)
    for key in ("policy", "backbone", "similarity", "selection", "resources"):
        assert plan[key] == report[key], key
    assert plan["memory"]["arena"] == report["memory"]["arena"]
    assert plan["macs"]["backward_per_query"] == report["macs"]["backward_per_query"]
    assert [row["method"] for row in plan["accounting"]] == ["full", "last_layer"]


def test_the_smallest_budget_that_plan_names_has_room_for_the_probe(answer, capsys):
    options = ["--way", 2, "--shots", 1, "--queries", 0, "--macs", "30%", "--precision", "float32"]
    smallest = answer("plan", *options)["memory"]["smallest_budget"]
    assert answer("plan", *options, "--budget", smallest)["memory"]["arena"] <= smallest
    assert tt("plan", *options, "--budget", smallest - 1) == 4
    assert f"give --budget {smallest} or more" in capsys.readouterr().err


def test_a_policy_that_keeps_no_mac_limit_or_another_one_says_so_where_one_was_given(place, answer):
    options = [place / "photos", "--backbone", place / "toy.safetensors", "--macs", "30%", "--policy"]
    for policy, words in (
        ("full", "has no limit of MACs, so --macs had no effect"),
        ("bias_only", "applies --macs to each image"),
    ):
        assert words in " ".join(answer("plan", *options, policy, "--budget", "64MB")["warnings"])
    assert answer("plan", *options, "tinytrain", "--budget", "64MB")["warnings"] == []
    per_image = ["--macs-mode", "sample", "--budget", "64MB"]
    assert answer("plan", *options, "bias_only", *per_image)["warnings"] == []
    assert answer("plan", *options[:3], "--policy", "full", "--budget", "64MB")["warnings"] == []


def test_plan_is_readable(place, capsys):
    assert tt("plan", *adapt_arguments(place)[1:]) == 0
    out = capsys.readouterr().out
    assert out.startswith("float32     1 of 12 layers, ") and len(out.splitlines()) <= 8
    assert "is sensible" in out and "block4.project" not in out
    assert tt("plan", *adapt_arguments(place)[1:], "--verbose") == 0
    details = capsys.readouterr().out
    assert details.startswith(out) and "backward MACs" in details and "block4.project" in details


def test_plan_lists_the_program_with_every_call(place, answer, capsys):
    options = adapt_arguments(place)[1:]
    assert tt("plan", *options, "--program") == 0
    text = capsys.readouterr().out
    assert "ARENA, " in text and "STAGES" in text and "SEGMENT prefix: " in text and "enter(y=" in text
    assert answer("plan", *options, "--program")["program"] == text.rstrip("\n")


def test_predict_names_class_and_confidence(place, answer):
    images = sorted((place / "held").rglob("*.png"))
    result = answer("predict", place / "d.safetensors", *images, "--backbone", place / "toy.safetensors")
    right = sum(row["class"] == path.parent.name for row, path in zip(result["images"], images, strict=True))
    assert right > len(images) / 3
    for row in result["images"]:
        assert row["confidence"] == max(row["probabilities"].values())
        assert sum(row["probabilities"].values()) == pytest.approx(1)


def test_eval_counts_what_predict_answers(place, answer, capsys):
    network = ("--backbone", place / "toy.safetensors")
    result = answer("eval", place / "d.safetensors", place / "held", *network)
    predicted = answer(
        "predict", place / "d.safetensors", *sorted((place / "held" / "bee").iterdir()), *network
    )
    row = result["confusion"][result["classes"].index("bee")]
    answers = [p["class"] for p in predicted["images"]]
    assert row == [answers.count(name) for name in result["classes"]]
    assert result["n"] == 15 == sum(map(sum, result["confusion"]))
    assert result["accuracy"] == sum(result["confusion"][k][k] for k in range(3)) / 15
    assert tt("eval", place / "d.safetensors", place / "held", *network) == 0
    assert f"accuracy {result['accuracy']:.1%}" in capsys.readouterr().out


def test_with_json_what_was_left_out_is_in_the_result_too(place, capsys, tmp_path):
    network = ("--backbone", place / "toy.safetensors")
    good, delta = next((place / "held" / "bee").iterdir()), place / "d.safetensors"
    half = tmp_path / "half.png"
    half.write_bytes(good.read_bytes()[:60])
    assert tt("predict", delta, half, good, tmp_path / "none.png", *network, "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert [row["image"] for row in result["images"]] == [str(good)]
    assert all(row == with_old_keys(row) for row in (result, *result["images"], *result["failed"]))
    assert [(row["image"], row["code"], row["exit_code"]) for row in result["failed"]] == [
        (str(half), "image-unreadable", 3), (str(tmp_path / "none.png"), "file-missing", 3)
    ]  # fmt: skip
    assert all(row["message"] for row in result["failed"])
    write_images(tmp_path / "more", count=2)
    (tmp_path / "more" / "ant" / "half.png").write_bytes(half.read_bytes())
    added = ("--from", delta, "--add", tmp_path / "more", "--out", tmp_path / "e.safetensors")
    assert tt("adapt", *added, *network, "--json") == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.startswith("skipped ") and "half.png" in warning


def test_export_writes_the_adapted_network(place, answer, tmp_path):
    out = tmp_path / "adapted.safetensors"
    network = ("--backbone", place / "toy.safetensors")
    facts = answer("export", place / "d.safetensors", "-o", out, *network)
    adapted = apply(load_network(place / "toy.safetensors"), load_delta(place / "d.safetensors"))
    assert out.read_bytes() == encode_network(adapted) and facts["digest"] == adapted.digest
    assert answer("info", out)["weight_dtypes"] == ["float32", "int8"]


def test_export_writes_one_onnx_file_that_answers_as_predict_does(place, answer, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    out, network = tmp_path / "adapted.onnx", ("--backbone", place / "toy.safetensors")
    facts = answer("export", place / "d.safetensors", "-o", out, "--labels", *network)
    assert facts["bytes"] == out.stat().st_size and facts["input"] == [16, 16, 3]
    images = sorted((place / "held").rglob("*.png"))
    rows = answer("predict", place / "d.safetensors", *images, *network)["images"]
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in images])
    probabilities, labels = session.run(["probabilities", "label"], {"image": pixels})
    assert labels.tolist() == [row["class"] for row in rows]
    expected = [list(row["probabilities"].values()) for row in rows]
    assert np.abs(probabilities - expected).max() < 1e-5


def test_adapt_from_adds_images_and_classes(place, answer, tmp_path):
    write_images(tmp_path / "more", ("bee", "dog"), count=4, seed=70)
    out, network = tmp_path / "more.safetensors", ("--backbone", place / "toy.safetensors")
    command = ("adapt", "--from", place / "d.safetensors", "--add", tmp_path / "more", "--out", out)
    facts = answer(*command, *network)
    assert facts["classes"] == ["ant", "bee", "cat", "dog"] and facts["new_classes"] == ["dog"]
    assert facts["added"] == {"bee": 4, "dog": 4}
    assert answer("eval", out, tmp_path / "more", *network)["per_class"]["dog"] > 1 / 2, (
        "it knows what it was shown"
    )


def test_info_shows_every_layer(place, capsys):
    assert tt("info", place / "toy.safetensors") == 0
    assert "block4.project" in capsys.readouterr().out


def test_odd_class_names_stay_whole_and_in_their_rows(tmp_path, capsys):
    names = ("a long name of a class, one", "a long name of a class, two", "two\nlines")
    write_network(tmp_path)
    write_images(tmp_path / "photos", names, count=3)
    network, delta = ("--backbone", tmp_path / "toy.safetensors"), tmp_path / "d.safetensors"
    store = tmp_path / "store"
    adapt_it = ("adapt", tmp_path / "photos", "--policy", "last_layer", "--store", store, "--out", delta)
    assert tt(*adapt_it, "--force", *network) == 0
    capsys.readouterr()
    assert tt("eval", delta, tmp_path / "photos", *network) == 0
    table = capsys.readouterr().out
    assert all(f"  {name} " in table for name in (*names[:2], "two\\nlines"))
    images = sorted((tmp_path / "photos" / names[2]).iterdir())
    assert tt("predict", delta, *images, *network) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(images)
    assert tt("status", "--store", store) == 0
    assert "two\\nlines" in capsys.readouterr().out


def test_search_writes_what_it_found_and_goes_on_from_its_log(place, answer, tmp_path):
    arguments = ["search", "--backbone", place / "toy.safetensors", "--data", place / "photos", "--first", 10]
    arguments += ["--budget", "1kB", "--episodes", 1, "--way", 3, "--shots", 2, "--queries", 2]
    arguments += ["--ratios", "1,1/2"]
    facts = answer(*arguments, "-o", tmp_path / "found.json")
    written = json.loads((tmp_path / "found.json").read_text())
    assert {k: v for k, v in facts.items() if k not in ("out", "log")} == written
    assert written["found"]["memory"] <= 1000 and len(written["contributions"]) == 5
    log = (tmp_path / "found.json.log").read_bytes()
    assert answer(*arguments, "-o", tmp_path / "found.json") == facts
    assert (tmp_path / "found.json.log").read_bytes() == log
    assert tt(*arguments, "--seed", 1, "-o", tmp_path / "found.json") == 3
    report = answer(
        "adapt", place / "photos", "--backbone", place / "toy.safetensors", "--shots", 6,
        "--policy", tmp_path / "found.json",
    )  # fmt: skip
    assert report["policy"] == "found"
    assert len(report["selection"]) == max(written["found"]["biases"], len(written["found"]["shares"]))


def test_warmup_says_how_many_kernels_are_ready(answer):
    result = answer("warmup")
    assert result["kernels"] in ("numba", "numpy") and (len(result["compiled"]) > 20) == (
        result["kernels"] == "numba"
    )


def test_adapt_obeys_the_plan_that_plan_wrote_and_nothing_else(place, answer, tmp_path, capsys):
    options = [place / "photos", "--backbone", place / "toy.safetensors", "--shots", 4, "--seed", 5]
    file, deltas = tmp_path / "plan.json", [tmp_path / f"{k}.safetensors" for k in range(2)]
    plan = answer("plan", *options, "--budget", "300kB", "--out", file)["plan"]
    assert json.loads(file.read_text()) == plan and plan["budget"]["memory"] == 300_000
    usual = answer("adapt", *options, "--budget", "300kB", "--out", deltas[0], "--force")
    obeyed = answer("adapt", *options, "--plan", file, "--out", deltas[1], "--force")
    for key in ("memory", "resources", "losses", "accuracy", "guard", "arena_table", "policy"):
        assert usual[key] == obeyed[key], key
    first, second = (load_delta(path) for path in deltas)
    assert all((a == b).all() for a, b in zip(first.arrays(), second.arrays(), strict=True))
    assert usual["macs"]["stages"]["probe"] > 0 == obeyed["macs"]["stages"]["probe"]
    need = plan["cost"]["arena"]
    for more, code, words in (
        (["--budget", need - 1], 4, f"budget-too-small: the plan needs {need} bytes"),
        (["--macs", "1%"], 4, "budget-too-small: the plan needs"),
        (["--policy", "last_layer"], 2, "--policy would mean nothing"),
        (["--shots", 3], 3, "run-mismatch: the plan is for"),
        (["--out", file], 2, "would replace"),
    ):
        assert tt("adapt", *options, "--plan", file, *more) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line, line
    assert tt("adapt", "--plan", file, "--way", 2, "--shots", 2) == 3
    assert "backbone-mismatch: the plan is for" in capsys.readouterr().err
    file.write_text(file.read_text()[:-50])
    assert tt("adapt", *options, "--plan", file) == 3
    assert "file-damaged" in capsys.readouterr().err
