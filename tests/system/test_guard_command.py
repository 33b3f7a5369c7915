"""``tinytrain adapt`` when the guard refuses: an exit code, nothing written but the report; ``--force``."""

import json
import shutil

import pytest
from toyfiles import write_images, write_network

from tinytrain.cli.main import main
from tinytrain.delta.file import load_delta

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A network, and images of which every third lies in the folder of another class."""
    place = tmp_path_factory.mktemp("guard")
    write_network(place)
    write_images(place / "photos", CLASSES, count=6)
    folders = [place / "photos" / name for name in CLASSES]
    moved = [sorted(folder.iterdir())[:2] for folder in folders]
    for k, images in enumerate(moved):
        for image in images:
            shutil.move(image, folders[(k + 1) % 3] / f"wrong-{image.name}")
    return place


@pytest.fixture
def adapt(place, capsys):
    """Runs it with --json: exit code, its object, stderr."""

    def run(*more):
        capsys.readouterr()
        backbone = ("--backbone", place / "toy.safetensors")
        arguments = ("adapt", place / "photos", "--policy", "last_layer", *backbone, *more, "--json")
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return run


def test_a_refused_delta_is_not_written_and_the_report_is(adapt, tmp_path):
    out, store, report = (tmp_path / name for name in ("d.safetensors", "store", "r.json"))
    for target in ((), ("--out", out), ("--store", store)):
        code, facts, err = adapt(*target, "--report", report)
        assert code == 5 and facts["guard"]["reasons"][0]["code"] == "labels"
        assert err.startswith("tinytrain: labels: ") and "no delta was written" in err and "--force" in err
        assert len([line for line in err.splitlines() if line]) == 1
        assert json.loads(report.read_text()) == facts
        assert not out.exists() and not store.exists()


def test_suspects_are_images_with_their_names_and_what_they_look_like(adapt):
    code, facts, _ = adapt()
    suspects = facts["guard"]["suspects"]
    assert code == 5, "a script can tell a refusal from a success, whatever files were asked for"
    assert any("wrong-" in s["name"] for s in suspects[:3])
    assert {s["given"] for s in suspects} <= set(CLASSES) and {s["looks_like"] for s in suspects} <= set(
        CLASSES
    )
    assert all(s["given"] != s["looks_like"] for s in suspects)


@pytest.fixture
def harm(monkeypatch):
    """Every loss counts as one that rose, and every label as one that fits."""
    monkeypatch.setattr("tinytrain.guard.guard.LEAST_FIT", -99)
    for name in ("RISE_FRACTION", "LEAST_RISE"):
        monkeypatch.setattr(f"tinytrain.guard.guard.{name}", -99)


def test_after_training_that_did_harm_a_new_head_alone_is_written_and_that_is_a_success(
    adapt, harm, tmp_path
):
    out, alone = tmp_path / "d.safetensors", tmp_path / "alone.safetensors"
    code, facts, err = adapt("--out", out)
    assert code == 0 and facts["guard"]["kept"] == "head" and "tinytrain: " not in err
    assert [reason["code"] for reason in facts["guard"]["reasons"]] == ["diverged"]
    code, facts, _ = adapt("--out", alone, "--no-train")
    assert code == 0 and facts["guard"]["reasons"] == [] and facts["losses"] == []
    heads = [load_delta(path) for path in (out, alone)]
    assert all(delta.slices == () for delta in heads)
    assert (heads[0].head.weights == heads[1].head.weights).all()


def test_a_refusal_is_named_by_what_refuses_and_not_by_the_harm_that_training_did_besides(adapt, monkeypatch):
    for name in ("RISE_FRACTION", "LEAST_RISE"):
        monkeypatch.setattr(f"tinytrain.guard.guard.{name}", -99)
    code, facts, err = adapt()
    assert code == 5 and [reason["code"] for reason in facts["guard"]["reasons"]][:2] == [
        "diverged",
        "labels",
    ]
    assert err.splitlines()[-1].startswith("tinytrain: labels: ")


def test_training_that_would_not_help_is_run_only_if_it_is_asked_for(adapt, monkeypatch):
    monkeypatch.setattr("tinytrain.guard.guard.FEW_ERRORS", 1)
    code, facts, _ = adapt()
    assert code == 0 and facts["guard"]["reasons"][0]["code"] == "no-gain" and facts["losses"] == []
    assert adapt("--train")[1]["losses"]


def test_force_keeps_it_and_the_delta_says_so(adapt, tmp_path):
    code, facts, _ = adapt("--out", tmp_path / "d.safetensors", "--force")
    assert code == 0 and facts["guard"]["forced"] and facts["guard"]["reasons"]
    delta = load_delta(tmp_path / "d.safetensors")
    assert delta.slices and delta.report["guard"] == facts["guard"]


def test_a_store_keeps_the_delta_that_it_has_when_a_new_one_is_refused(adapt, tmp_path):
    assert adapt("--store", tmp_path / "store", "--force")[0] == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "store").iterdir()}
    assert adapt("--store", tmp_path / "store")[0] == 5
    assert {p.name: p.read_bytes() for p in (tmp_path / "store").iterdir()} == before
