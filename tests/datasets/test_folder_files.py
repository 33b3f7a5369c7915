"""Files of a folder that are no images or twice the same image, and folders that are laid out otherwise."""

import os
import re
import shutil
import time
from itertools import product

import numpy as np
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.cli.commands.inputs import files_below
from tinytrain.datasets.duplicates import duplicate, merged, same_files, same_pixels, without_copies
from tinytrain.datasets.folder import folder_dataset, folder_episode
from tinytrain.episode.episode import Images
from tinytrain.episode.input_facts import Duplicate, Skipped, duplicate_lines, skipped_lines
from tinytrain.episode.kinds import IMAGES


def images(folder, count=3, start=0):
    """Little images of noise that all differ, also between folders."""
    folder.mkdir(parents=True, exist_ok=True)
    seed = sum(map(ord, str(folder)))
    for i in range(start, start + count):
        pixels = np.random.default_rng((seed, i)).integers(0, 256, (9, 7, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:03d}.png")
    return folder


def two_classes(root):
    images(root / "apple")
    images(root / "pear")
    return root


def refused(folder, code):
    with pytest.raises(InputError) as caught:
        folder_dataset(folder)
    assert caught.value.code == code
    return caught.value.message


@pytest.mark.parametrize(
    "name", ["Thumbs.db", "desktop.ini", ".DS_Store", "._000.png", "Icon\r", "ehthumbs.db"]
)
def test_what_systems_leave_in_folders_is_no_news(tmp_path, name):
    two_classes(tmp_path)
    for folder in (tmp_path, tmp_path / "apple"):
        (folder / name).write_bytes(b"x")
    for litter in ("__MACOSX", "@eaDir"):
        images(tmp_path / litter)
        images(tmp_path / "apple" / litter)
    made = folder_dataset(tmp_path)
    assert made.class_names == ("apple", "pear") and made.provenance.skipped == ()


@pytest.mark.parametrize(
    "name", ["#recycle", "@Recycle", "#snapshot", "@Recently-Snapshot", "~snapshot", "$Bin"]
)
def test_a_bin_of_a_network_drive_is_no_class_and_is_said_once(tmp_path, name):
    two_classes(tmp_path)
    images(tmp_path / name)
    (tmp_path / "apple" / "#1.png").write_bytes((tmp_path / "pear" / "000.png").read_bytes())
    made = folder_dataset(tmp_path)
    assert made.class_names == ("apple", "pear") and "apple/#1.png" in made.names
    (skipped,) = made.provenance.skipped
    assert (os.path.basename(skipped.file), skipped.kind) == (name, "bin")
    assert "a class needs another name" in skipped.reason
    found = []
    assert not any(name in path for path in files_below(str(tmp_path), found, IMAGES)) and found == [skipped]


def test_a_folder_of_names_that_bins_have_says_what_classes_need(tmp_path):
    images(tmp_path / "#1")
    assert "#1 is taken for a bin" in refused(tmp_path, "folder-layout")


@pytest.mark.parametrize("name, content, kind, words", [
    ("x.mp4", b"", "other-kind", "take stills"), ("x.NEF", b"", "other-kind", "raw image"),
    ("x.pdf", b"%PDF", "other-kind", "export its pages"), ("x.svg", b"<svg", "other-kind", "SVG drawing"),
    ("notes.txt", b"hi", "other-kind", r"no image by its name \(.txt\)"),
    ("x", b"", "other-kind", "no suffix"),
    ("x.jpg", b"<!DOCTYPE html>", "damaged", "HTML page"), ("x.png", b"", "damaged", "0 bytes"),
    (".x.jpg.icloud", b"bplist00", "placeholder", "download the image first"),
])  # fmt: skip
def test_each_file_that_is_left_out_has_a_kind_and_a_reason(tmp_path, name, content, kind, words):
    two_classes(tmp_path)
    (tmp_path / "pear" / name).write_bytes(content)
    (skipped,) = folder_dataset(tmp_path).provenance.skipped
    assert os.path.basename(skipped.file) == name and skipped.kind == kind
    assert re.search(words, skipped.reason)
    assert folder_episode(tmp_path).skipped == (skipped,)


def test_a_file_that_may_not_be_read_is_unreadable(tmp_path, monkeypatch):
    two_classes(tmp_path)

    def closed(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tinytrain.episode.decode.regular_file", closed)
    with pytest.raises(InputError, match=r"Permission denied"):
        folder_dataset(tmp_path)


def test_lines_name_every_damaged_file_and_count_the_others():
    damaged = [Skipped(f"{k}.jpg", "is cut off", "damaged") for k in range(30)]
    notes = [Skipped(f"{k}.txt", "is no image by its name (.txt)", "other-kind") for k in range(12)]
    alone = Skipped("a/b", "is a folder inside a class", "inside")
    lines = skipped_lines([alone, *notes, *damaged])
    assert lines[:30] == [f"skipped {k}.jpg: is cut off" for k in range(30)]
    assert lines[30:] == [
        "skipped a/b: is a folder inside a class",
        "skipped 12 files, each is no image by its name (.txt): 0.txt, 1.txt, 2.txt and 9 more",
    ]
    assert skipped_lines([]) == []


def test_a_file_name_of_two_lines_is_said_in_one():
    twice = Duplicate(("a/x\ny.png", "a/z.png"), ("a", "a"), "one class")
    files = [Skipped("p\nq.jpg", "is cut off", kind) for kind in ("damaged", "other-kind")]
    said = [*skipped_lines(files), *skipped_lines(2 * files[1:]), *duplicate_lines([twice])]
    assert not any("\n" in line for line in said) and "a/x\\ny.png" in said[-1]


@pytest.mark.parametrize("train, other", [("train", "val"), ("Training", "testing"), ("train", "valid")])
def test_a_folder_of_training_and_validation_images_gets_the_right_commands(tmp_path, train, other):
    root = tmp_path / "my photos"
    two_classes(root / train)
    two_classes(root / other)
    message = refused(root, "folder-layout")
    assert f"tinytrain adapt '{root / train}' --out mine.safetensors" in message
    assert f"tinytrain eval mine.safetensors '{root / other}'" in message


def test_folders_without_images_beside_train_and_val_hide_no_split(tmp_path):
    two_classes(tmp_path / "train")
    two_classes(tmp_path / "val")
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "all.txt").write_text("x")
    assert "has train/, val/ and no classes" in refused(tmp_path, "folder-layout")
    images(tmp_path / "annotations")
    assert "'train' has 0 usable images" in refused(tmp_path, "too-few-images")


def test_held_out_images_without_classes_are_to_be_predicted(tmp_path):
    two_classes(tmp_path / "train")
    images(tmp_path / "test")
    assert f"'tinytrain predict mine.safetensors {tmp_path / 'test'}'" in refused(tmp_path, "folder-layout")


def test_classes_called_train_and_test_are_classes_if_they_hold_images(tmp_path):
    images(tmp_path / "train")
    images(tmp_path / "test")
    assert folder_dataset(tmp_path).class_names == ("test", "train")
    two_classes(tmp_path / "more" / "train")
    assert "one level deeper" in refused(tmp_path / "more", "folder-layout")


def test_classes_one_level_deeper_are_found(tmp_path):
    two_classes(tmp_path / "fruit" / "fruit")
    message = refused(tmp_path / "fruit", "folder-layout")
    assert f"give {str(tmp_path / 'fruit' / 'fruit')!r}" in message
    images(tmp_path / "fruit" / "bread")
    assert "'fruit' has 0 usable images" in refused(tmp_path / "fruit", "too-few-images")


def test_a_folder_of_images_only_says_how_to_sort_them(tmp_path):
    images(tmp_path, count=5)
    assert "0 class folders and 5 images; make one folder per class" in refused(tmp_path, "folder-layout")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "photos.zip").write_bytes(b"PK")
    assert "unpack it" in refused(tmp_path / "photos.zip", "file-missing")
    assert "is a file" in refused(images(tmp_path) / "000.png", "file-missing")


def test_one_class_alone_says_what_to_add(tmp_path):
    images(tmp_path / "apple")
    with pytest.raises(InputError, match="add another class") as caught:
        folder_episode(tmp_path)
    assert caught.value.code == "too-few-classes"


def test_files_of_the_same_bytes_are_found_in_one_class_and_in_two(tmp_path):
    two_classes(tmp_path)
    shutil.copy(tmp_path / "apple" / "001.png", tmp_path / "apple" / "copy.png")
    shutil.copy(tmp_path / "apple" / "002.png", tmp_path / "pear" / "other.png")
    made = folder_dataset(tmp_path)
    assert made.provenance.duplicates == (
        Duplicate(("apple/001.png", "apple/copy.png"), ("apple", "apple"), "one class"),
        Duplicate(("apple/002.png", "pear/other.png"), ("apple", "pear"), "several classes"),
    )
    assert len(made) == 8, "none is left out"
    inside, across = duplicate_lines(made.provenance.duplicates)
    assert "2 times, in class 'apple': apple/001.png, apple/copy.png" in inside and "keep one" in inside
    assert "in classes 'apple', 'pear'" in across and "one label must be wrong" in across
    assert folder_episode(made).duplicates == made.provenance.duplicates


def test_a_folder_without_copies_has_no_groups_and_draws_as_before(tmp_path):
    two_classes(tmp_path)
    made = folder_dataset(tmp_path)
    assert made.groups is None and made.provenance.duplicates == ()
    shutil.copy(tmp_path / "apple" / "002.png", tmp_path / "pear" / "other.png")
    assert folder_dataset(tmp_path).groups is None, "copies in two classes bind nothing"


def test_copies_never_lie_on_both_sides_of_a_split(tmp_path):
    images(tmp_path / "apple", count=6)
    images(tmp_path / "pear", count=6)
    for i in range(6):
        shutil.copy(tmp_path / "apple" / f"{i:03d}.png", tmp_path / "apple" / f"copy{i}.png")
    content = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.glob("*/*.png")}
    met = 0
    for seed in range(20):
        episode = folder_episode(tmp_path, shots=4, seed=seed)
        support, query = ({content[name] for name in side.names} for side in (episode.support, episode.query))
        assert episode.shots.tolist() == [4, 4] and not support & query
        met += len(episode.query)
    assert met > 20 * 2, "and there are held-out images"


@each("of_each, shots, hold_out, support, held", [
    (3, None, 2, [12, 12], [2, 2]),  # six different images in three files each
    (3, None, 9, [3, 3], [5, 5]),  # never the last one
    (3, None, 0, [18, 18], [0, 0]),
    (3, 4, None, [4, 4], [2, 2]),
    (3, 5, 3, [5, 5], [1, 1]),
    (3, 7, 1, [7, 7], [0, 0]),
    (1, 7, 1, [6, 6], [0, 0]),
    (1, 4, 1, [4, 4], [1, 1]),
])  # fmt: skip
def test_copies_count_as_one_image_when_images_are_held_out(
    tmp_path, of_each, shots, hold_out, support, held
):
    for name in ("apple", "pear"):
        images(tmp_path / name, count=6)
        for copy, i in product(range(1, of_each), range(6)):
            shutil.copy(tmp_path / name / f"{i:03d}.png", tmp_path / name / f"{i:03d}-{copy}.png")
    for seed in range(20):
        episode = folder_episode(tmp_path, shots, seed=seed, hold_out=hold_out)
        assert episode.shots.tolist() == support
        assert np.bincount(episode.query.labels, minlength=2).tolist() == held
        sides = episode.support, episode.query
        known, asked = ({name[:-4].split("-")[0] for name in side.names} for side in sides)
        assert not known & asked and len(asked) == len(episode.query)
        assert shots is None or len(known) == 2 * min(shots, 6), "different images come first"


def test_a_class_of_copies_of_one_image_is_all_support(tmp_path):
    two_classes(tmp_path)
    for i in range(1, 4):
        shutil.copy(tmp_path / "apple" / "000.png", tmp_path / "apple" / f"{i:03d}.png")
    episode = folder_episode(tmp_path, hold_out=1)
    assert episode.class_names[0] == "apple" and episode.shots[0] == 4 and 0 not in episode.query.labels


def test_only_files_of_equal_length_are_read(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in "abc"]
    for k, path in enumerate(paths):
        path.write_bytes(b"x" * (k + 1))
    monkeypatch.setattr("tinytrain.datasets.duplicates._digest", lambda path: pytest.fail(f"{path} was read"))
    assert same_files(paths) is None and same_files([*paths, tmp_path / "gone"]) is None


def side(names, pixels, labels):
    return Images(np.array(labels, np.int32), tuple(names), lambda i, _size: pixels[i])


def test_copies_that_were_saved_in_another_kind_are_taken_out_of_the_held_out_images(tmp_path):
    one, two, three = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    support = side("ab", [one, two], [0, 1])
    query = side("cdef", [one, three, two, three], [0, 0, 0, 1])
    left, found = without_copies(support, query, (8, 8, 3), ("apple", "pear"))
    assert left.names == ("d", "e", "f"), "e is a copy with another label, which counts as wrong"
    assert found == [
        Duplicate(("a", "c"), ("apple", "apple"), "both sides"),
        Duplicate(("b", "e"), ("pear", "apple"), "several classes"),
        Duplicate(("d", "f"), ("apple", "pear"), "several classes"),
    ]
    assert same_pixels([support], (8, 8, 3)) == []
    same, none = without_copies(support, query.take([1]), (8, 8, 3), ("apple", "pear"))
    assert none == [] and same.names == ("d",)
    assert "taken out of the held-out images" in duplicate_lines(found)[0]


def test_copies_among_the_held_out_images_count_once():
    one, two = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    support, query = side("a", [one], [0]), side("bcde", [two, two, two, one], [1, 1, 0, 1])
    left, found = without_copies(support, query, (8, 8, 3), ("apple", "pear"))
    assert left.names == ("b", "d", "e"), "c is b; the others have other labels"
    assert [d.where for d in found] == ["several classes", "several classes"]
    left, (same,) = without_copies(support, query.take([0, 1]), (8, 8, 3), ("apple", "pear"))
    assert left.names == ("b",) and same.where == "one class"


def test_of_many_copies_some_are_named_and_the_others_counted():
    kinds = [(("a", "a"), "one class"), (("a", "b"), "several classes")]
    many = [Duplicate((f"{k}.png", f"{k}-2.png"), classes, w) for classes, w in kinds for k in range(2_000)]
    lines = duplicate_lines(many)
    assert len(lines) == 2 * (5 + 1) and lines[4].startswith("the same image 2 times, in class 'a': 4.png")
    assert lines[5].startswith("1,995 more such images, each in one class") and "several" in lines[11]
    assert len(duplicate_lines(many[:5])) == 5


def test_copies_by_the_thousands_are_joined_at_once():
    first = [Duplicate((f"{k}a", f"{k}b"), ("a", "a"), "one class") for k in range(20_000)]
    more = [Duplicate((f"{k}a", f"{k}b", f"{k}c"), ("a",) * 3, "both sides") for k in range(0, 20_000, 2)]
    start = time.process_time()
    assert merged(first, more) == (*first[1::2], *more)
    assert time.process_time() - start < 5


def test_copies_that_both_ways_of_looking_find_are_one_duplicate():
    files = duplicate(("a", "b", "c"), ("x", "x", "x"))
    pixels = duplicate(("a", "b"), ("x", "x"))
    other = duplicate(("d", "e"), ("x", "y"))
    assert merged([files], [pixels, other]) == (files, other), "c was left out of the split"
    assert merged([pixels, other], [files]) == (other, files)
    assert merged([files], [files]) == (files,)
