import os
import unicodedata

import numpy as np
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError, UsageError
from tinytrain.datasets import folder as folder_module
from tinytrain.datasets.folder import folder_dataset, folder_episode, held_out


def fill(root, **sizes):
    """A folder per class with that many little images of different grey, named 000, 001, ..."""
    for name, count in sizes.items():
        (root / name).mkdir(parents=True)
        for i in range(count):
            kind = ("png", "jpg", "ppm", "bmp")[i % 4]
            Image.new("RGB", (9, 7), (i * 3,) * 3).save(root / name / f"{i:03d}.{kind}")
    return root


def test_classes_are_the_folders_in_the_order_of_their_names(tmp_path):
    made = folder_dataset(fill(tmp_path, zebra=2, apple=3, Milk=4))
    assert made.class_names == ("Milk", "apple", "zebra")
    assert np.bincount(made.labels).tolist() == [4, 3, 2]
    assert made.names[4] == os.path.join("apple", "000.png")
    assert made.provenance.skipped == ()


def test_one_folder_beside_the_classes_is_the_background(tmp_path):
    root, room = fill(tmp_path / "classes", a=2, b=2), fill(tmp_path, room=3) / "room"
    made = folder_dataset(root, background=room)
    assert made.class_names == ("a", "b", "background") and np.bincount(made.labels).tolist() == [2, 2, 3]
    with pytest.raises(InputError, match=f"^folder-layout: '{root}/none' is no folder; give one"):
        folder_dataset(root, background=root / "none")
    fill(root, background=1)
    with pytest.raises(InputError, match=r"^folder-layout: .*has a folder background itself; give one"):
        folder_dataset(root, background=room)


def test_all_four_formats_are_read(tmp_path):
    made = folder_dataset(fill(tmp_path, a=4, b=1))
    for i in range(4):
        assert abs(int(made.read(i, 5)[2, 2, 1]) - 3 * i) <= 1


def test_suffixes_may_be_in_capitals(tmp_path):
    fill(tmp_path, a=1, b=1)
    (tmp_path / "a" / "000.png").rename(tmp_path / "a" / "IMG_1.PNG")
    assert len(folder_dataset(tmp_path)) == 2


def test_hidden_files_and_texts_beside_the_classes_are_passed_over(tmp_path):
    fill(tmp_path, a=1, b=1)
    (tmp_path / ".git").mkdir()
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "a" / ".DS_Store").write_bytes(b"x")
    made = folder_dataset(tmp_path)
    assert len(made) == 2 and made.provenance.skipped == ()


def test_images_beside_the_classes_and_folders_inside_them_are_skipped_and_named(tmp_path):
    fill(tmp_path, a=1, b=1)
    fill(tmp_path / "a", more=2)
    Image.new("L", (4, 4)).save(tmp_path / "stray.png")
    made = folder_dataset(tmp_path)
    skipped = [(os.path.relpath(path, tmp_path), *why) for path, *why in made.provenance.skipped]
    assert len(made) == 2
    assert skipped == [
        ("stray.png", "lies beside the class folders", "beside"),
        (os.path.join("a", "more"), "is a folder inside a class", "inside"),
    ]


def test_broken_files_are_reported_with_a_reason_and_skipped(tmp_path):
    fill(tmp_path, a=3, b=2)
    whole = (tmp_path / "a" / "001.jpg").read_bytes()
    (tmp_path / "a" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a" / "empty.png").write_bytes(b"")
    (tmp_path / "b" / "text.png").write_text("no image")
    (tmp_path / "b" / "notes.txt").write_text("nor this")
    (tmp_path / "b" / "loop.png").symlink_to(tmp_path / "b" / "loop.png")
    os.mkfifo(tmp_path / "b" / "pipe.png")
    made = folder_dataset(tmp_path)
    assert np.bincount(made.labels).tolist() == [3, 2]
    reasons = {os.path.basename(path): reason for path, reason, _ in made.provenance.skipped}
    kinds = {os.path.basename(path): kind for path, _, kind in made.provenance.skipped}
    assert set(reasons) == {"cut.jpg", "empty.png", "text.png", "notes.txt", "loop.png", "pipe.png"}
    assert reasons["text.png"].startswith("is not a JPEG, PNG, ")
    assert reasons["loop.png"].startswith("is not a file")
    assert kinds == dict.fromkeys(("cut.jpg", "empty.png", "text.png"), "damaged") | {
        "notes.txt": "other-kind", "loop.png": "unreadable", "pipe.png": "unreadable"
    }  # fmt: skip
    assert all("/" not in reason and "\n" not in reason for reason in reasons.values())


def test_a_image_that_breaks_after_the_scan_is_a_clean_error_at_read_time(tmp_path):
    made = folder_dataset(fill(tmp_path, a=1, b=1))
    (tmp_path / "a" / "000.png").write_bytes(b"gone bad")
    with pytest.raises(InputError, match=r"a/000\.png") as caught:
        made.read(0, 8)
    assert caught.value.code == "image-unreadable"


@pytest.mark.parametrize(
    "content, text", [({}, "0 usable"), ({"x.png": b"no"}, "1 were skipped, the first: is no")]
)
def test_a_class_left_empty_is_refused_by_name_with_the_reason(tmp_path, content, text):
    fill(tmp_path, a=2, void=0)
    for name, data in content.items():
        (tmp_path / "void" / name).write_bytes(data)
    with pytest.raises(InputError, match=f"'void'.*{text}") as caught:
        folder_dataset(tmp_path)
    assert caught.value.code == "too-few-images"


def test_symlink_loops_and_linked_class_folders_are_no_problem(tmp_path):
    fill(tmp_path / "data", a=1, b=1)
    fill(tmp_path, elsewhere=2)
    (tmp_path / "data" / "a" / "up").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "c").symlink_to(tmp_path / "elsewhere")
    assert np.bincount(folder_dataset(tmp_path / "data").labels).tolist() == [1, 1, 2]


def test_names_with_odd_characters_are_fine(tmp_path):
    odd = ["käse 🧀", "a'b\"c", "-rf", "new\nline", "\u202egnp"]
    fill(tmp_path, **dict.fromkeys(odd, 1))
    latin = tmp_path / os.fsdecode(b"\xff\xfe")
    latin.mkdir()
    Image.new("L", (4, 4)).save(latin / os.fsdecode(b"\xfa.png"))
    made = folder_dataset(tmp_path)
    assert set(made.class_names) == {*odd, "\\xff\\xfe"}
    "".join((*made.class_names, *made.names)).encode()  # all of it can be stored
    assert all(made.read(i, 4).shape == (4, 4, 3) for i in range(len(made)))


def test_a_name_that_another_system_wrote_in_parts_is_the_same_name(tmp_path):
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    made = folder_dataset(fill(tmp_path / "mac", caff=1, **{apart: 1}, cafz=1))
    assert made.class_names == ("caff", "cafz", composed), "in the order of these names"
    with pytest.raises(InputError, match="two folders for class 'café'") as caught:
        folder_dataset(fill(tmp_path / "both", **{apart: 1, composed: 1}))
    assert caught.value.code == "class-names"


def test_shots_are_a_maximum_and_the_rest_are_queries(tmp_path):
    episode = folder_episode(fill(tmp_path, a=8, b=3, c=5), shots=5)
    assert episode.shots.tolist() == [5, 3, 5]
    assert np.bincount(episode.query.labels, minlength=3).tolist() == [3, 0, 0]
    assert episode.class_names == ("a", "b", "c")
    assert not set(episode.support.names) & set(episode.query.names)


def test_without_shots_every_image_is_support_where_they_are_few(tmp_path):
    episode = folder_episode(fill(tmp_path, a=4, b=2))
    assert episode.shots.tolist() == [4, 2] and len(episode.query) == 0
    few = folder_episode(fill(tmp_path / "few", a=200, b=9))
    assert few.shots.tolist() == [200, 9], "a class of 9 images needs them all"
    assert "shots all," in few.source


def test_without_shots_a_fifth_is_held_out_where_images_are_enough(tmp_path):
    fill(tmp_path, a=30, b=70, c=10)
    episode = folder_episode(tmp_path)
    assert episode.shots.tolist() == [24, 56, 8] and np.bincount(episode.query.labels).tolist() == [6, 14, 2]
    assert not set(episode.support.names) & set(episode.query.names)
    assert "shots all but a fifth," in episode.source
    assert len(folder_episode(tmp_path, hold_out=0).query) == 0
    assert folder_episode(tmp_path, shots=5).shots.tolist() == [5, 5, 5]
    assert held_out([1000, 1000]) == [20, 20], "no more than are needed to judge"
    assert held_out([10, 10]) == [0, 0], "4 images would say less than cross-validation of 20"


def test_so_many_of_every_class_are_held_out_as_are_asked_for_but_never_the_last_one(tmp_path):
    episode = folder_episode(fill(tmp_path, a=12, b=3, c=1), hold_out=3)
    assert episode.shots.tolist() == [9, 1, 1] and np.bincount(episode.query.labels).tolist() == [3, 2]
    assert "shots all but 3," in episode.source and not set(episode.support.names) & set(episode.query.names)
    assert folder_episode(tmp_path, shots=2, hold_out=3).shots.tolist() == [2, 2, 1], "shots say it all"


def test_a_name_with_a_zero_byte_is_no_folder():
    with pytest.raises(InputError, match="file-missing"):
        folder_dataset("a\0b")


def test_way_draws_that_many_classes(tmp_path):
    fill(tmp_path, a=1, b=1, c=1, d=1)
    drawn = {folder_episode(tmp_path, way=2, seed=s).class_names for s in range(40)}
    assert len(drawn) == 6  # every pair, each in the order of the names
    assert all(list(names) == sorted(names) for names in drawn)


def test_fewer_classes_than_way_are_refused_with_numbers(tmp_path):
    with pytest.raises(InputError, match="has 2 classes, 5 are needed") as caught:
        folder_episode(fill(tmp_path, a=1, b=1), way=5)
    assert caught.value.code == "too-few-classes"


@each("shots, way", [(0, None), (-1, None), (5, 1), (5, 0)])
def test_shots_and_ways_that_mean_nothing_are_a_usage_error(tmp_path, shots, way):
    with pytest.raises(UsageError):
        folder_episode(fill(tmp_path, a=1, b=1), shots=shots, way=way)


def supports_come_from_the_whole_class(root):
    made = folder_dataset(root)
    drawn = set()
    for seed in range(30):
        drawn.update(folder_episode(made, shots=5, seed=seed).support.names)
    return len(drawn) == len(made)


def test_images_are_shuffled_inside_their_class(tmp_path, monkeypatch):
    fill(tmp_path, a=30, b=30)
    assert supports_come_from_the_whole_class(tmp_path)
    monkeypatch.setattr(folder_module, "shuffled", lambda items, rng: items)
    assert not supports_come_from_the_whole_class(tmp_path)


def test_the_seed_names_the_draw_and_a_new_class_does_not_change_the_others(tmp_path):
    fill(tmp_path, a=20, b=20)
    before = folder_episode(tmp_path, shots=5, seed=3)
    assert folder_episode(tmp_path, shots=5, seed=3).digest == before.digest
    assert folder_episode(tmp_path, shots=5, seed=4).digest != before.digest
    fill(tmp_path, aa=20)
    after = folder_episode(tmp_path, shots=5, seed=3)
    assert set(before.support.names) < set(after.support.names)


def test_flipping_is_only_for_those_who_say_so(tmp_path):
    fill(tmp_path, a=1, b=1)
    assert not folder_episode(tmp_path).may_flip
    assert folder_episode(tmp_path, may_flip=True).may_flip
