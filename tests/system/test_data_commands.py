"""``tinytrain data``, and target sets in their original layouts as the images of an adaptation."""

import json

import pytest
from commandline import tt
from PIL import Image
from targetfolders import FOLDERS, plain
from toyfiles import write_images, write_network

from tinytrain.datasets import open_target
from tinytrain.datasets.meta_dataset.classes import TEST_CLASSES


def test_data_is_listed_shown_and_exported(answer, tmp_path, monkeypatch):
    monkeypatch.delenv("TINYTRAIN_DATA", raising=False)
    rows = {row["name"]: row for row in answer("data", "list")["data"]}
    assert rows["signs"]["here"] and not rows["gtsrb"]["here"]
    assert rows["drawn-flags"]["here"] and not rows["photos-edges"]["here"]
    assert rows["photos-edges"]["licence"] == rows["caltech101"]["licence"]
    assert rows["fungi:DIR"]["size"] == "13 GB" and rows["fungi:DIR"]["address"].startswith("https://")
    options = ["--classes", 2, "--per-class", 3, "--size", 16]
    assert answer("data", "preview", "signs", "-o", tmp_path / "s.png", *options)["width"] > 48
    with Image.open(tmp_path / "s.png") as sheet:
        assert sheet.format == "PNG"
    assert answer("data", "export", "signs", tmp_path / "signs", *options)["images"] == 6
    assert len(list((tmp_path / "signs").iterdir())) == 2


def test_preview_and_export_name_what_they_leave_out(tmp_path, capsys):
    write_images(tmp_path / "photos", ("ant", "bee"), count=3)
    (tmp_path / "photos" / "ant" / "notes.txt").write_text("hello")
    with Image.open(tmp_path / "photos" / "bee" / "0-0.png") as image:
        image.save(tmp_path / "photos" / "bee" / "x.jpg")
    whole = (tmp_path / "photos" / "bee" / "x.jpg").read_bytes()
    (tmp_path / "photos" / "bee" / "x.jpg").write_bytes(whole[: len(whole) // 3] + whole[-20:])
    for command in (
        ("preview", tmp_path / "photos", "-o", tmp_path / "s.png"),
        ("export", tmp_path / "photos", tmp_path / "out"),
    ):
        assert tt("data", *command, "--size", 16) == 0
        err = capsys.readouterr().err
        assert "notes.txt" in err and "x.jpg" in err


def test_fewer_than_asked_for_is_said_and_a_size_of_what_has_none_is_refused(tmp_path, capsys):
    write_images(tmp_path / "photos", ("ant", "bee"), count=3)
    for command in (
        ("preview", tmp_path / "photos", "-o", tmp_path / "s.png"),
        ("export", tmp_path / "photos", tmp_path / "out"),
        ("pack", tmp_path / "p.npz", tmp_path / "photos"),
    ):
        assert tt("data", *command, "--classes", 3, "--size", 16) == 0
        err = capsys.readouterr().err
        assert "--classes 3: " in err and "has 2, all of which are taken" in err
        assert ("fewer images, 6 are there in all" in err) == (command[0] == "export")
    assert tt("data", "export", "shakes", tmp_path / "more", "--classes", 7, "--per-class", 1) == 0
    assert "--classes 7: shakes has 6" in capsys.readouterr().err
    assert tt("data", "export", "shakes", tmp_path / "none", "--size", 64) == 2
    assert "--size is that of images, and shakes has recordings" in capsys.readouterr().err


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    """A whole set and a part of one, in their original layouts."""
    root = tmp_path_factory.mktemp("downloads")
    FOLDERS["cub"](root / "CUB_200_2011")
    (root / "dtd" / "labels").mkdir(parents=True)
    (root / "dtd" / "labels" / "labels_joint_anno.txt").touch()
    plain(root / "one.jpg", "one")
    for name in TEST_CLASSES["dtd"]:
        (root / "dtd" / "images" / name).mkdir(parents=True)
        for k in range(120):
            (root / "dtd" / "images" / name / f"{k}.jpg").hardlink_to(root / "one.jpg")
    return root


def test_data_check_ends_with_0_only_where_all_that_is_asked_for_is_whole(downloads, answer, capsys):
    whole = answer("data", "check", downloads, "--set", "dtd")
    assert whole["complete"] and whole["sets"][0]["images"] == 840
    assert tt("data", "check", downloads, "--set", "cub") == 3
    out, err = capsys.readouterr()
    assert "5 of 30 test classes, 20 of 1,770 images" in out and "CUB_200_2011.tgz (1.15 GB) from" in out
    assert err == ""
    assert tt("data", "check", downloads, "--json") == 3
    states = [facts["state"] for facts in json.loads(capsys.readouterr().out)["sets"]]
    assert states == [*["absent"] * 4, "incomplete", "complete", *["absent"] * 3]


def test_adapt_takes_a_target_set_from_its_folder(tmp_path, downloads, answer):
    options = ["--data", f"cub:{downloads}", "--shots", 2, "--queries", 2, "--policy", "none"]
    facts = answer("adapt", "--backbone", write_network(tmp_path), *options)
    assert facts["episode"]["source"] == "cub: 5-way 2-shot, 2 queries, seed 0, episode 0"
    assert set(facts["episode"]["classes"]) == set(open_target("cub", downloads).class_names)
    assert facts["warnings"] == []


def test_adapt_names_listed_images_of_a_target_set_that_are_not_there(tmp_path, answer):
    root = FOLDERS["cub"](tmp_path / "cub")
    next((root / "images" / "103.Sayornis").iterdir()).unlink()
    options = ["--data", f"cub:{root}", "--shots", 1, "--queries", 1, "--policy", "none"]
    facts = answer("adapt", "--backbone", write_network(tmp_path), *options)
    (skipped,) = facts["skipped"]
    assert skipped["file"].startswith("images/103.Sayornis/") and skipped["reason"] == "is missing"
    assert facts["warnings"] == []
