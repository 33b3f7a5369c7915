"""Folders of images as people have them, from files to files."""

import json
import shutil

import pytest
from commandline import tt
from PIL import Image
from toyfiles import write_images, write_network

from tinytrain.base.answer import with_old_keys
from tinytrain.datasets.packs import load_pack
from tinytrain.delta.file import load_delta


@pytest.fixture
def place(tmp_path):
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=6)
    return tmp_path


def adapted(place, capsys, *more):
    """The report of an adaptation and its lines on stderr."""
    options = ("--backbone", place / "toy.safetensors", "--policy", "last_layer", "--force")
    assert tt("adapt", place / "photos", *options, *more, "--json") == 0
    out, err = capsys.readouterr()
    return json.loads(out), err.splitlines()


def test_what_is_left_out_and_met_twice_is_in_the_report_but_not_in_the_delta(place, capsys):
    adapted(place, capsys, "--shots", 4, "--out", place / "clean.safetensors")
    photos = place / "photos"
    (photos / "ant" / "notes.txt").write_text("x")
    (photos / "bee" / "Thumbs.db").write_bytes(b"x")
    (photos / "bee" / "page.jpg").write_bytes(b"<!DOCTYPE html>")
    report, _ = adapted(place, capsys, "--shots", 4, "--out", place / "with.safetensors")
    assert {(s["file"], s["kind"]) for s in report["skipped"]} == {
        (str(photos / "ant" / "notes.txt"), "other-kind"), (str(photos / "bee" / "page.jpg"), "damaged")
    }  # fmt: skip
    assert report["duplicates"] == [] and report["warnings"] == []
    assert (place / "with.safetensors").read_bytes() == (place / "clean.safetensors").read_bytes()
    carried = load_delta(place / "with.safetensors").report
    assert "skipped" not in carried and "duplicates" not in carried


def test_a_copy_in_another_format_is_found_when_it_is_decoded(place, capsys):
    photos = place / "photos"
    shutil.copy(photos / "ant" / "0-1.png", photos / "cat" / "copy.png")
    for i in range(6):
        with Image.open(photos / "bee" / f"0-{i}.png") as image:
            image.save(photos / "bee" / f"again{i}.webp", lossless=True)
    report, _ = adapted(place, capsys, "--shots", 6)
    found = {d["where"]: d for d in report["duplicates"]}
    assert found["several classes"]["files"] == ["ant/0-1.png", "cat/copy.png"]
    assert found["several classes"]["classes"] == ["ant", "cat"] and "both sides" in found
    twins = [d["files"] for d in report["duplicates"] if d["where"] != "several classes"]
    assert all(len({name.split("/")[0] for name in files}) == 1 and len(files) == 2 for files in twins)
    assert report["episode"]["shots"] == [6, 6, 6]
    # Of 12 bees, 6 different ones, 6 are in the support. Held out are a cat, and once each other bee.
    both_sides = sum(d["where"] == "both sides" for d in report["duplicates"])
    seen = both_sides + (6 - both_sides) // 2
    assert both_sides >= 1 and report["accuracy"]["n_query"] == 1 + 6 - seen


def test_the_lines_of_other_commands_name_damaged_files_and_count_the_rest(place, capsys):
    for i in range(4):
        (place / "photos" / "ant" / f"{i}.txt").write_text("x")
    (place / "photos" / "ant" / "x.png").write_bytes(b"")
    assert (
        tt("plan", place / "photos", "--backbone", place / "toy.safetensors", "--policy", "none", "--json")
        == 0
    )
    err = capsys.readouterr().err
    assert "ant/x.png: has 0 bytes" in err and "skipped 4 files, each is no image by its name (.txt)" in err


def test_a_folder_with_train_and_val_is_answered_by_commands_that_work(tmp_path, capsys):
    write_network(tmp_path)
    for part, seed in (("train", 0), ("val", 9)):
        write_images(tmp_path / "set" / part, count=4, seed=seed)
    assert tt("adapt", tmp_path / "set", "--backbone", tmp_path / "toy.safetensors") == 3
    line = capsys.readouterr().err
    train, val = (str(tmp_path / "set" / part) for part in ("train", "val"))
    assert f"'tinytrain adapt {train} --out mine.safetensors'" in line
    assert f"'tinytrain eval mine.safetensors {val}'" in line


def test_images_are_packed_and_the_pack_is_adapted_to(place, capsys):
    assert tt("data", "pack", place / "mine.npz", place / "photos", "--raw", "--size", 24, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result == with_old_keys({
        "out": str(place / "mine.npz"), "images": 18, "classes": 3,
        "bytes": (place / "mine.npz").stat().st_size,
    })  # fmt: skip
    assert load_pack(place / "mine.npz").class_names == ("ant", "bee", "cat")
    options = (
        "--backbone",
        place / "toy.safetensors",
        "--policy",
        "none",
        "--way",
        3,
        "--shots",
        2,
        "--queries",
        1,
    )
    assert tt("adapt", "--data", place / "mine.npz", *options) == 0
    capsys.readouterr()
    assert tt("data", "pack", place / "mine.zip", place / "photos") == 2
    assert "must end in .npz" in capsys.readouterr().err
