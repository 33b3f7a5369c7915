"""Photographs without restrictions: what is taken of each clone, and that nothing else passes for it."""

import hashlib
import re

import numpy as np
import pytest
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.datasets import PACKS, load_pack, open_dataset
from tinytrain.datasets.free_photos import LICENCES, NAME, SOURCES, TARGET_CLASSES, Source
from tinytrain.datasets.pack_writer import PackForm, write_pack

FILES = {
    "things/one/056.dog/056_1.jpg": 1,
    "things/one/001.cup/001_1.jpg": 2,
    "things/two/001.cup/001_1.jpg": 2,
    "things/two/001.cup/001_2.jpg": 3,
    "things/two/001.cup/001_9.jpg": 4,
    "clothes/images/a.jpg": 5,
    "clothes/images/b.jpg": 6,
    "clothes/images/c.jpg": 7,
    "clothes/images/unlisted.jpg": 8,
    "shop/test/Fruit/Apple/1.jpg": 9,
    "shop/train/Fruit/Apple/1.jpg": 10,
}
TABLE = "image,label\na,T-Shirt\nb,Not sure\nc,Skip\ngone,Hat\n"
TAKEN = {
    "things": {"cup/001_1.jpg": 2, "cup/001_2.jpg": 3},
    "clothes": {"t-shirt/a.jpg": 5, "other/b.jpg": 6, "other/c.jpg": 7},
    "shop": {"apple/test_1.jpg": 9, "apple/train_1.jpg": 10},
}


def photograph(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 20), (number * 20, 90, 40)).save(path, quality=95)


def source(folder, name, **settings):
    """A source whose digest is that of the files that should be taken, by the definition of the digest."""
    lines = []
    for listed, number in sorted(TAKEN[name].items()):
        photograph(folder / "oracle.jpg", number)
        content = hashlib.sha256((folder / "oracle.jpg").read_bytes()).hexdigest()
        lines.append(f"{listed} {content}\n")
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    more = {"address": f"https://example.org/{name}", "commit": "c0ffee", "licence": "CC0", "citation": name}
    return Source(images=len(lines), digest=digest, **more, **settings)


@pytest.fixture
def clones(tmp_path, monkeypatch):
    for path, number in FILES.items():
        photograph(tmp_path / path, number)
    (tmp_path / "clothes/images.csv").write_text(TABLE)
    (tmp_path / "things/one/001.cup/empty.jpg").touch()
    dropped = frozenset({"056.dog", "001.cup/001_9.jpg"})
    made = {
        "things": source(tmp_path, "things", parts=(("", "one"), ("", "two")), dropped=dropped),
        "clothes": source(tmp_path, "clothes", parts=(("", "images"),), labels="images.csv"),
        "shop": source(tmp_path, "shop", parts=(("test_", "test"), ("train_", "train"))),
    }
    monkeypatch.setattr("tinytrain.datasets.free_photos.SOURCES", made)
    return tmp_path


def test_classes_are_those_of_folders_and_tables_and_copies_and_dropped_files_are_left_out(clones):
    made = open_dataset(f"free_photos:{clones}")
    expected = {
        f"{name}.{listed}": number for name, files in TAKEN.items() for listed, number in files.items()
    }
    assert made.class_names == ("clothes.other", "clothes.t-shirt", "shop.apple", "things.cup")
    assert list(made.names) == sorted(expected) and made.may_flip
    for i, name in enumerate(made.names):
        assert made.class_names[made.labels[i]] == name.split("/")[0]
        assert abs(int(made.read(i, 8)[..., 0].mean()) - expected[name] * 20) < 6


def test_the_same_clones_make_the_same_pack_which_is_read_like_them(clones, tmp_path):
    made = open_dataset(f"free_photos:{clones}")
    for file in ("a.npz", "b.npz"):
        assert write_pack(made, tmp_path / file, PackForm(size=16)) == 7
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = load_pack(tmp_path / "a.npz")
    assert again.class_names == made.class_names and np.array_equal(again.labels, made.labels)


def test_what_is_not_there_is_named_with_the_commands_that_get_it(clones, tmp_path):
    with pytest.raises(InputError) as caught:
        open_dataset(f"free_photos:{tmp_path / 'nowhere'}")
    assert caught.value.code == "file-missing"
    for name in TAKEN:
        command = f"git clone https://example.org/{name} && git -C {name} checkout c0ffee"
        assert command in str(caught.value)


@pytest.mark.parametrize(
    "change, what",
    [
        (lambda root: (root / "shop/test/Fruit/Apple/1.jpg").unlink(), "has 1 of 2 images"),
        (lambda root: photograph(root / "shop/test/Fruit/Apple/2.jpg", 3), "has 3 of 2 images"),
        (lambda root: photograph(root / "shop/test/Fruit/Apple/1.jpg", 3), "has other images"),
        (lambda root: (root / "clothes/images.csv").unlink(), "has no table images.csv"),
        (lambda root: (root / "clothes/images.csv").write_text("a,b\n1,2\n"), "has no table images.csv"),
        (lambda root: (root / "clothes/images.csv").write_bytes(b"image,label\n\xff,\xfe\n"), "has no table"),
        (lambda root: (root / "clothes/images.csv").write_text("image,label\na\n"), "has no table"),
    ],
)
def test_other_files_than_those_that_were_listed_are_refused(clones, change, what):
    change(clones)
    with pytest.raises(InputError, match=what) as caught:
        open_dataset(f"free_photos:{clones}")
    assert caught.value.code == "file-damaged" and "git clone" in str(caught.value)


def test_every_source_is_pinned_and_free_and_the_pack_counts_all_of_them():
    for pinned in SOURCES.values():
        assert re.fullmatch("[0-9a-f]{40}", pinned.commit) and re.fullmatch("[0-9a-f]{64}", pinned.digest)
        assert pinned.licence in LICENCES.split(", ")
    assert f"all {sum(s.images for s in SOURCES.values()):,};" in PACKS[NAME].subset
    assert SOURCES["caltech256"].dropped > TARGET_CLASSES
