"""``tinytrain merge``: a stick of deltas becomes one, local images judge it, what fails writes nothing."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import each
from commandline import tt
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.base.errors import AdaptationRefusedError, InputError, UsageError
from tinytrain.base.files import write_bytes
from tinytrain.store import Entry, Store

CLASSES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def stick(tmp_path_factory):
    """Deltas of two devices with two classes each, of three with all, one with wrong labels; and images."""
    root = tmp_path_factory.mktemp("stick")
    write_network(root)
    write_images(root / "all", CLASSES, count=6)
    write_images(root / "others", CLASSES, count=12, seed=9)
    write_images(root / "held-out", CLASSES, count=8, seed=5)
    for name, classes in {"one": CLASSES[:2], "two": CLASSES[2:], "wrong": CLASSES, "more": CLASSES}.items():
        (root / name).mkdir()
        for k, label in enumerate(classes):
            images = root / ("all" if len(classes) == 2 else "others") / classes[(k + (name == "wrong")) % 4]
            (root / name / label).symlink_to(images)
    for name in ("all", "one", "two", "wrong", "more", "held-out"):
        words = (
            root / name,
            "--backbone",
            root / "toy.safetensors",
            "--policy",
            "none+slda",
            "--force",
            "-q",
        )
        assert tt("adapt", *words, "--out", root / f"{name}.delta.safetensors") == 0
    return root


def deltas(stick, *names):
    return [stick / f"{name}.delta.safetensors" for name in names]


def test_two_devices_make_the_delta_of_both(stick, tmp_path, capsys):
    out = tmp_path / "both.safetensors"
    assert tt("merge", *deltas(stick, "one", "two"), "-o", out, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["classes"] == dict.fromkeys(CLASSES, 6) and result["layers"]["how"] == "untrained"
    assert [row["images"] for row in result["merged"]] == [12, 12] and result["right"] is None
    assert tt("merge", *deltas(stick, "two", "one"), "-o", tmp_path / "again.safetensors", "-q") == 0
    assert (tmp_path / "again.safetensors").read_bytes() == out.read_bytes()
    image = next((stick / "all" / "dog").iterdir())
    assert tt("predict", out, image) == 0 and "dog" in capsys.readouterr().out


def test_local_images_are_tried_with_each_delta_and_with_all_of_them(stick, tmp_path, capsys):
    words = *deltas(stick, "one", "two"), "-o", tmp_path / "both.safetensors", "--check", stick / "held-out"
    assert tt("merge", *words, "--json") == 0
    right = json.loads(capsys.readouterr().out)["right"]
    assert right["n"] == 32 and right["merged"] > max(right["each"])
    assert tt("merge", *words, "--verbose") == 0
    out = capsys.readouterr().out
    assert out.startswith("checked") and f"{right['merged']} of 32 images recognised" in out
    assert "ant: 6; bee: 6; cat: 6; dog: 6" in out and "none was trained" in out


def test_what_is_proved_to_be_worse_is_refused_and_not_written(stick, tmp_path, capsys):
    """Labels of one device are wrong; the best of the deltas is better than both together."""
    out = tmp_path / "poisoned.safetensors"
    wrong = deltas(stick, "wrong")[0]
    words = *deltas(stick, "all"), wrong, "-o", out
    assert tt("merge", *words, "--check", stick / "held-out") == 5
    err = capsys.readouterr().err
    assert "left-out: merged it is" in err and "worse than the best of the deltas on 32 images" in err
    assert not out.exists()
    assert tt("merge", *words, "--verbose") == 0
    assert "looks like two things in" in capsys.readouterr().out, "and without images the names say so"
    with pytest.raises(AdaptationRefusedError):
        tinytrain.merge(words[:2], stick / "held-out")


def test_a_store_says_what_a_delta_was_merged_of_also_when_it_has_learnt_and_a_part_is_taken_out(
    stick, tmp_path, capsys
):
    one, two = deltas(stick, "one", "two")
    whole, state, rest = (str(tmp_path / name) for name in ("all.safetensors", "state", "rest.safetensors"))
    assert tt("merge", one, two, "-o", whole, "-q") == 0
    assert tt("merge", whole, "--without", two, "-o", rest) == 0
    assert "2 classes, of 1 delta with 12 images" in capsys.readouterr().out
    a, b = tinytrain.load_delta(rest).head.moments, tinytrain.load_delta(one).head.moments
    assert all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))
    store = Store(state)
    store.commit_file(whole)
    store.confirm()
    start = store.peek()
    learnt = Entry("learn", "ant", start.delta.head.means[0], mark="x")
    store.append(start.place, learnt, lambda _: None)
    store.fold(store.peek().place, store.peek().delta)
    assert tt("status", state) == 0
    assert "made of 2 deltas with 24 images" in capsys.readouterr().out
    assert [row["images"] for row in store.status()["current"]["merged_of"]] == [12, 12]
    assert tt("merge", state, "--without", two, "-o", rest) == 0
    assert tinytrain.load_delta(rest).head.counts.tolist() == [7, 6]
    for words in ((whole, whole), (whole, "--robust")):
        assert tt("merge", *words, "--without", two, "-o", tmp_path / "x") == 2
    assert tt("merge", whole, "--without", whole, "-o", tmp_path / "x") == 3
    assert not (tmp_path / "x").exists()


@pytest.mark.slow  # two processes
def test_the_documented_commands_collect_all_devices_and_pass_over_one_that_is_off(stick, tmp_path):
    text = (Path(__file__).parents[2] / "docs/merge.md").read_text()
    commands = text[(start := text.index("mkdir -p collected")) : text.index("```", start)]
    (tmp_path / "bin").mkdir()
    for name, body in (
        ("rsync", 'case "$2" in off:*) exit 255 ;; esac; cp -r "$(echo "$2" | tr : /)" "$3"'),
        ("tinytrain", f'exec "{sys.executable}" -m tinytrain "$@"'),
    ):
        write_bytes(tmp_path / "bin" / name, f"#!/bin/sh\n{body}\n".encode(), 0o700)
    for name in ("one", "two"):
        (tmp_path / name / "box").mkdir(parents=True)
        Store(tmp_path / name / "box/state").commit_file(*deltas(stick, name))
    (tmp_path / "hosts").write_text("one\noff\ntwo\n")
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    said = subprocess.run(["sh", "-c", commands], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert said.returncode == 0 and said.stderr.startswith("off: not reached\n")
    found = tinytrain.load_delta(tmp_path / "all.safetensors")
    assert dict(zip(found.class_names, found.head.counts, strict=True)) == dict.fromkeys(CLASSES, 6)


def test_a_device_that_most_others_contradict_is_left_out_on_request(stick, tmp_path, capsys):
    out, liar = tmp_path / "robust.safetensors", tinytrain.load_delta(deltas(stick, "held-out")[0])
    liar = replace(liar, head=replace(liar.head, sums=-liar.head.sums))
    tinytrain.save_delta(tmp_path / "liar.safetensors", liar)
    given = [*deltas(stick, "all", "more"), tmp_path / "liar.safetensors"]
    assert tt("merge", *given, "-o", out, "--robust", "-v") == 0
    shown = capsys.readouterr().out
    assert "outvoted" in shown and "liar.safetensors: most others call something else so" in shown
    assert tt("merge", *deltas(stick, "all", "more"), "-o", tmp_path / "two.safetensors") == 0
    assert (tmp_path / "two.safetensors").read_bytes() == out.read_bytes()
    assert tinytrain.merge(given, robust=True).to_json()["outvoted"] == [str(given[-1])]
    assert tt("merge", *deltas(stick, "one", "two"), "-o", tmp_path / "none.safetensors", "--robust") == 3
    err = capsys.readouterr().err
    assert "class 'ant' is held by 1 of 2 deltas, and nobody can vouch for it unless 3 hold it" in err
    assert err.count("\n") == 1 and not (tmp_path / "none.safetensors").exists()


@each(
    "words, code, text",
    [
        (["one"], 2, "of two or more deltas to merge 1 is given"),
        (["one", "missing"], 3, "file-missing"),
        (["one", "two", "--check", "nowhere"], 3, "file-missing"),
        (["one", "two", "-o", "one.delta.safetensors"], 2, "would replace"),
        (["one", "two", "-o", "no/folder/x.safetensors"], 6, "create the folder first"),
    ],
)
def test_what_cannot_be_merged_is_one_line(stick, tmp_path, monkeypatch, capsys, words, code, text):
    monkeypatch.chdir(stick)
    before = sorted(stick.iterdir())
    given = [f"{word}.delta.safetensors" if word in ("one", "two", "missing") else word for word in words]
    out = () if "-o" in words else ("-o", tmp_path / "x.safetensors")
    assert tt("merge", *given, *out) == code
    err = capsys.readouterr().err
    assert text in err and err.count("\n") == 1
    assert sorted(stick.iterdir()) == before and not (tmp_path / "x.safetensors").exists()


def test_images_of_a_class_that_nobody_learnt_are_refused(stick, tmp_path):
    write_images(tmp_path / "new", ("ant", "emu"), count=2)
    with pytest.raises(InputError, match="unknown-class"):
        tinytrain.merge(deltas(stick, "one", "two"), tmp_path / "new")
    with pytest.raises(UsageError, match="to merge 1 is given"):
        tinytrain.merge(deltas(stick, "one"))
