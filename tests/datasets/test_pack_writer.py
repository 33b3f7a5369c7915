"""A pack that is written is a pack that is read: the same pixels, labels, names and groups."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from targetfolders import omniglot

from tinytrain.base.errors import InputError, StorageError, UsageError
from tinytrain.datasets import open_dataset
from tinytrain.datasets import pack_writer as pack_writer_module
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.pack_sources import open_source
from tinytrain.datasets.pack_table import PACKS
from tinytrain.datasets.pack_writer import PackForm, write_pack
from tinytrain.datasets.packs import load_pack

RAW = PackForm(size=16, raw=True)


def made(groups=None, counts=(5, 3, 4)) -> Dataset:
    """Images of noise; `groups` per image."""
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def read(i, size):
        return np.random.default_rng((i, size)).integers(0, 256, (size, size, 3), dtype=np.uint8)

    names = tuple(f"{i}" for i in range(len(labels)))
    classes = tuple(f"class {c} \U0001f34e" for c in range(len(counts)))
    groups = None if groups is None else np.array(groups, np.int32)
    return Dataset("made", labels, classes, names, read, groups)


def test_raw_pixels_labels_and_names_come_back(tmp_path):
    source = made()
    assert write_pack(source, tmp_path / "x.npz", RAW) == 12
    again = load_pack(tmp_path / "x.npz")
    assert again.class_names == source.class_names and again.groups is None
    assert np.array_equal(again.labels, source.labels)
    assert all(np.array_equal(again.read(i, 16), source.read(i, 16)) for i in range(12))


def test_jpeg_pixels_are_those_of_the_stored_files_and_near_the_source(tmp_path):
    source = replace(made(), read=open_dataset("leaves").read)
    write_pack(source, tmp_path / "x.npz", PackForm(size=84))
    again = load_pack(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        data, offsets = arrays["data"], arrays["offsets"]
    for i in (0, 5, 11):
        with Image.open(io.BytesIO(data[offsets[i] : offsets[i + 1]].tobytes())) as image:
            assert image.format == "JPEG" and image.size == (84, 84)
            assert np.array_equal(again.read(i, 84), np.asarray(image))
        assert np.abs(again.read(i, 84).astype(int) - source.read(i, 84)).mean() < 4


def test_one_channel_is_the_luma(tmp_path):
    write_pack(made(), tmp_path / "x.npz", replace(RAW, grey=True))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        images = arrays["images"]
    assert images.shape == (12, 16, 16, 1)
    assert np.array_equal(images[3, ..., 0], np.asarray(Image.fromarray(made().read(3, 16)).convert("L")))


@pytest.mark.parametrize("groups, key", [
    ([0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 5, 4], "track"), ([0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1], "speaker"),
])  # fmt: skip
def test_groups_come_back_inside_classes_or_across_them(tmp_path, groups, key):
    write_pack(made(groups), tmp_path / "x.npz", RAW)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        assert key in arrays
    again = load_pack(tmp_path / "x.npz").groups
    same = np.equal.outer(np.array(groups), np.array(groups))
    assert np.array_equal(np.equal.outer(again, again), same)


@pytest.mark.parametrize("form", [RAW, PackForm(size=16)])
def test_the_same_images_are_the_same_bytes(tmp_path, form, monkeypatch):
    write_pack(made(), tmp_path / "a.npz", form)
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_pack(made(), tmp_path / "b.npz", form)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_some_of_each_class_are_drawn_by_seed_from_all_groups_in_turn(tmp_path):
    source = made([0] * 18 + [1, 2], counts=(20,))
    kept = set()
    for seed in range(5):
        form = PackForm(size=16, raw=True, per_class=3, seed=seed)
        assert write_pack(source, tmp_path / "x.npz", form) == 3
        again = load_pack(tmp_path / "x.npz")
        rows = [
            i for k in range(3) for i in range(20) if np.array_equal(again.read(k, 16), source.read(i, 16))
        ]
        assert rows == sorted(rows) and {18, 19} < set(rows), "the order of the source, one of each group"
        kept.update(rows)
    assert len(kept) > 3


def test_an_image_that_breaks_is_left_out_and_said_and_a_class_of_such_is_an_error(tmp_path):
    source, told = made(), []

    def read(i, size, broken=(1,)):
        if i in broken:
            raise InputError("image-unreadable", f"'{i}' is cut off")
        return source.read(i, size)

    assert write_pack(replace(source, read=read), tmp_path / "x.npz", RAW, skip=told.append) == 11
    assert told == ["skipped image-unreadable: '1' is cut off"] and len(load_pack(tmp_path / "x.npz")) == 11
    before = (tmp_path / "x.npz").read_bytes()
    broken = replace(source, read=lambda i, size: read(i, size, (5, 6, 7)))
    with pytest.raises(InputError, match=r"class 1 .* has 0 usable images"):
        write_pack(broken, tmp_path / "x.npz", RAW)
    assert (tmp_path / "x.npz").read_bytes() == before, "and the old pack is still there"
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_a_pack_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_writer_module, "MAX_BYTES", 3000)
    with pytest.raises(UsageError, match=r"4 of 12 images .* fewer per class") as caught:
        write_pack(made(), tmp_path / "x.npz", RAW)
    assert caught.value.code == "usage" and not list(tmp_path.iterdir())
    with pytest.raises(StorageError):
        write_pack(made(), tmp_path / "none" / "x.npz", replace(RAW, per_class=1))


def test_omniglot_is_packed_with_both_of_its_parts(tmp_path):
    root = omniglot(tmp_path)
    background = root / "images_background" / "Latin" / "character01"
    background.mkdir(parents=True)
    for drawer in range(1, 4):
        Image.new("1", (105, 105), 1).save(background / f"0001_{drawer:02d}.png")
    source, more = open_source(f"omniglot:{tmp_path}")
    write_pack(source, tmp_path / "omniglot.npz", PackForm(raw=True, grey=True), more)
    evaluation = load_pack("omniglot", tmp_path)
    assert load_pack("omniglot_background", tmp_path).class_names[-1] == "Latin/character01"
    target = open_dataset(f"omniglot:{tmp_path}")
    assert evaluation.class_names == target.class_names and evaluation.groups is None
    assert np.array_equal(np.equal.outer(evaluation.families, evaluation.families),
                          np.equal.outer(target.families, target.families))  # fmt: skip
    i = int(np.flatnonzero(evaluation.labels == 2)[0])
    assert np.array_equal(evaluation.read(i, 84), target.read(int(np.flatnonzero(target.labels == 2)[0]), 84))


def test_every_pack_says_what_it_holds_and_most_how_to_make_them():
    assert all(pack.subset for pack in PACKS.values())
    assert [name for name, pack in PACKS.items() if not pack.command] == ["fsdd_logmel"]
    assert PACKS["gtsrb"].command == "tinytrain data pack gtsrb.npz gtsrb:DIR --per-class 50"
